"""Hanging up ends a run, unless it was told to go on; a log can be read again from anywhere."""

import threading
import time

import pytest

import caller as calls
import lines
from model import Silence
from scripts import shell
from waiting import wait_until


def left_within(caller, seconds: float) -> float:
    began = time.monotonic()
    assert wait_until(lambda: caller.sandboxes() == [], seconds), caller.sandboxes()
    return time.monotonic() - began


def test_a_caller_that_hangs_up_ends_the_run_and_its_sandbox_within_a_second(caller, workspace):
    session = workspace(shell("mkdir assets; echo x > assets/x; sleep 60"))
    stream = caller.dispatch(session.body())
    stream.until(type="step", status="running")
    assert len(caller.sandboxes()) == 1
    time.sleep(0.3)
    stream.hang_up()
    assert left_within(caller, 5) < 1.0
    assert session.asked("results") == [], "what was being made is not written back"
    assert not session.otps["upload"].used, "the token is left to expire"
    log = lines.raw(caller.follow(stream.run_id).rest())
    assert log[-1]["code"] == "cancelled"
    assert wait_until(lambda: caller.json(f"/runs/{stream.run_id}")["ended_at"], 2)
    run = caller.json(f"/runs/{stream.run_id}")
    assert run["state"] == "failed" and run["code"] == "cancelled"


def test_hanging_up_before_the_first_callback_is_answered_redeems_nothing_more(caller, workspace):
    session = workspace()
    session.troubles["env"] = session.never
    stream = caller.dispatch(session.body())
    assert wait_until(lambda: session.order() == ["env"])
    stream.hang_up()
    assert left_within(caller, 5) < 1.0
    assert session.order() == ["env"] and not session.otps["run"].used


def test_hanging_up_while_the_model_thinks_hangs_up_on_the_model(caller, workspace, model):
    gone = threading.Event()
    thinker = model("anthropic", Silence())
    play = thinker.play

    def watched(exchange, entry, place):
        play(exchange, entry, place)
        gone.set()

    thinker.play = watched
    stream = caller.dispatch(workspace({"model": thinker.config()}).body())
    assert wait_until(lambda: len(thinker.asked) == 1)
    stream.hang_up()
    assert gone.wait(3), "the provider still sees a caller"
    assert left_within(caller, 5) < 1.0


def test_cancelling_by_the_api_ends_the_run_for_everybody_who_reads(caller, workspace):
    session = workspace(shell("sleep 60"))
    stream = caller.dispatch(session.body(on_disconnect="continue"))
    stream.until(type="step", status="running")
    assert caller.post(f"/runs/{stream.run_id}/cancel")[0] == 200
    assert lines.envelope(stream.rest())[-1]["code"] == "cancelled"
    assert caller.sandboxes() == []
    # A second time changes nothing.
    assert caller.post(f"/runs/{stream.run_id}/cancel")[0] == 200


def test_a_run_that_continues_goes_on_without_its_caller(caller, workspace):
    session = workspace(shell("sleep 2", "mkdir assets; echo x > assets/x", text="went on"))
    stream = caller.dispatch(session.body(on_disconnect="continue"), calls.RAW)
    stream.until(type="step_started")
    seen = lines.raw(bytes(stream.body), whole=False)
    stream.hang_up()
    rest = caller.follow(stream.run_id, after=len(seen))
    resumed = lines.raw(rest.rest(), first=len(seen) + 1)
    whole = lines.raw(caller.follow(stream.run_id).rest())
    assert seen + resumed == whole
    assert whole[-1]["message"] == "went on"
    assert [file.name for file in session.stored] == ["x"]


def test_a_log_can_be_read_again_from_every_place_in_both_projections(caller, workspace):
    log = caller.run_raw(workspace(shell("echo a", "echo b")).body())
    run = log[0]["run_id"]
    for after in range(len(log) + 2):
        body = caller.follow(run, after).rest()
        assert (lines.objects(body) if body else []) == log[after:]
        header = caller.follow(run, Last_Event_ID=str(after)).rest()
        assert header == body
    whole = caller.follow(run, accept=calls.ENVELOPE).rest()
    lines.envelope(whole)
    # A step whose beginning was before keeps its name.
    place = next(i for i, entry in enumerate(log) if entry["type"] == "step_started") + 1
    part = lines.objects(caller.follow(run, place, accept=calls.ENVELOPE).rest())
    assert part == lines.objects(whole)[-len(part) :]
    ended = next(line for line in part if line.get("status") == "succeeded")
    assert ended["name"] == "shell"


def test_many_readers_follow_one_run_while_it_goes_on(caller, workspace):
    session = workspace(shell(*["sleep 0.2; seq 100"] * 5))
    stream = caller.dispatch(session.body(), calls.RAW)
    first = stream.line()
    bodies: list[bytes] = []

    def follow() -> None:
        bodies.append(caller.follow(first["run_id"]).rest())

    readers = [threading.Thread(target=follow) for _ in range(10)]
    for reader in readers:
        reader.start()
    whole = stream.rest()
    for reader in readers:
        reader.join()
    lines.raw(whole)
    assert bodies == [whole] * 10


def test_a_reader_that_comes_and_goes_does_not_end_the_run(caller, workspace):
    session = workspace(shell("sleep 2", text="not disturbed"))
    stream = caller.dispatch(session.body())
    stream.until(type="step", status="running")
    for _ in range(5):
        reader = caller.follow(stream.run_id)
        reader.line()
        reader.hang_up()
    assert lines.envelope(stream.rest())[-1]["message"] == "not disturbed"


def test_a_caller_that_does_not_read_does_not_slow_the_run(caller, workspace):
    # Far more than sockets hold: whoever waited for the reader would still be at it.
    command = "head -c 500000 /dev/urandom | base64 -w0"
    session = workspace(shell(*[command] * 10, max_rounds=20))
    stream = caller.dispatch(session.body(on_disconnect="continue"))
    run = stream.run_id
    assert wait_until(lambda: caller.json(f"/runs/{run}")["ended_at"], 60), "it waits for its reader"
    found = lines.envelope(stream.rest())
    assert found[-1]["type"] == "result"
    assert len([line for line in found if line.get("status") == "succeeded"]) == 10


@pytest.mark.parametrize("after", ["-1", "x", "1.", "1.2.3", "99999999999999999999999"])
def test_a_place_that_is_none_is_refused(caller, workspace, after):
    run = caller.run(workspace().body()).run_id
    assert caller.get(f"/runs/{run}/stream?after={after}")[0] == 400

"""Many runs at once, and a server that dies among them: every log is whole, nothing is left."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import caller as calls
import census
import lines
from dialects import Turn
from scripts import shell
from serving import Server
from waiting import wait_until

CROWD = 100
DOOMED = 20


@pytest.fixture
def own_server():
    """A server of the test's own, since it is killed or crowded."""
    server = Server("--max-sandboxes", str(CROWD + 20))
    yield server
    server.stop()


def test_a_hundred_runs_at_once_all_end_with_whole_and_ordered_logs(own_server, workspace):
    caller = own_server.caller()

    def run(number: int) -> None:
        command = f"mkdir -p assets; for i in $(seq 20); do echo {number}-$i; done; echo {number} > assets/n"
        session = workspace(shell(command, "sleep 0.5", f"echo last {number}", text=f"I am {number}"))
        stream = caller.dispatch(session.body(f"Number {number}"), calls.RAW)
        body = stream.rest()
        assert stream.status == 200, body
        log = lines.raw(body)
        assert log[-1].get("message") == f"I am {number}", log[-1]
        steps = [entry for entry in log if entry["type"] == "step_ended"]
        assert len(steps) == 4
        assert steps[0]["result"]["stdout"].split() == [f"{number}-{i}" for i in range(1, 21)]
        assert session.order() == ["env", "config", "results"]
        assert session.stored[0].content == f"{number}\n".encode()
        assert caller.follow(log[0]["run_id"]).rest() == body

    with ThreadPoolExecutor(CROWD) as pool:
        list(pool.map(run, range(CROWD)))
    assert {run["state"] for run in caller.runs()} == {"succeeded"}
    assert len(caller.runs()) == CROWD
    assert own_server.left() == {}


def test_a_server_that_is_killed_loses_no_log_and_leaves_nothing(own_server, workspace, walled):
    """Half of the runs are to go on without the server, half are not."""
    caller = own_server.caller()
    commands = [f"for i in $(seq 20); do echo {n}; sleep 0.1; done; echo x > mark" for n in range(3)]
    runs: dict[str, str] = {}
    sessions, streams = {}, []
    for number in range(DOOMED):
        fate = "continue" if number % 2 else "cancel"
        config = shell(*commands, "mkdir assets; echo x > assets/x", text=f"end {number}")
        session = workspace(config)
        stream = caller.dispatch(session.body(on_disconnect=fate), calls.RAW)
        stream.line()
        streams.append(stream)
        runs[stream.run_id], sessions[stream.run_id] = fate, session
    assert wait_until(lambda: all(s.order() == ["env", "config"] for s in sessions.values()), 30)
    time.sleep(1)
    ids = own_server.first_ids()
    before = {run: caller.get(f"/runs/{run}/files/stream.jsonl")[1] for run in runs}
    own_server.kill()
    time.sleep(1)
    own_server.start()
    caller = own_server.caller()
    assert wait_until(lambda: all(caller.json(f"/runs/{run}")["ended_at"] for run in runs), 60)
    for run, fate in runs.items():
        body = caller.follow(run).rest()
        log = lines.raw(body)
        assert body.startswith(before[run]), "what was read once stays as it was"
        lines.envelope(caller.follow(run, accept=calls.ENVELOPE).rest())
        session = sessions[run]
        if fate == "continue":
            assert log[-1]["type"] == "result", log[-1]
            steps = [entry for entry in log if entry["type"] == "step_ended"]
            assert [step["status"] for step in steps] == ["succeeded"] * 5
            assert steps[1]["result"]["stdout"] == "1\n" * 20, "no output is lost or told twice"
            assert session.order() == ["env", "config", "results"]
        else:
            assert log[-1]["code"] in ("sandbox_lost", "cancelled"), log[-1]
            assert session.order() == ["env", "config"]
        assert caller.json(f"/runs/{run}/files/result.json")["end"]["type"] == log[-1]["type"]
    assert own_server.left(ids) == {}


def test_a_model_is_found_again_by_the_next_server(own_server, workspace, model, walled):
    """What the link knows, keys included, outlives the server; what it counts does too."""
    caller = own_server.caller()
    turns = [Turn(calls=[("shell", {"command": "sleep 3"})], tokens=(10, 1)), Turn("found", tokens=(20, 2))]
    thinker = model("anthropic", *turns)
    session = workspace({"model": thinker.config()})
    stream = caller.dispatch(session.body(on_disconnect="continue"), calls.RAW)
    stream.until(type="step_started")
    own_server.kill()
    own_server.start()
    caller = own_server.caller()
    log = lines.raw(caller.follow(stream.run_id).rest())
    assert log[-1].get("message") == "found", log[-1]
    assert len(thinker.asked) == 2
    usage = caller.json(f"/runs/{stream.run_id}")["usage"]
    assert usage == {"input_tokens": 30, "output_tokens": 3}


def test_a_full_server_says_so_before_it_starts_anything(workspace):
    server = Server("--max-sandboxes", "1")
    try:
        caller = server.caller()
        stream = caller.dispatch(workspace(shell("sleep 30")).body())
        stream.until(type="step", status="running")
        session = workspace()
        status, answer = caller.refusal(session.body())
        assert status in (429, 503) and "1" in answer["message"]
        assert session.requests == []
        stream.hang_up()
        assert wait_until(lambda: caller.sandboxes() == [], 3)
    finally:
        server.stop()


def test_a_server_that_is_asked_to_stop_ends_its_runs_and_leaves_nothing(workspace):
    server = Server()
    stream = server.caller().dispatch(workspace(shell("sleep 60")).body())
    stream.until(type="step", status="running")
    ids, names = server.first_ids(), server.names()
    began = time.monotonic()
    assert server.end() == 0
    assert time.monotonic() - began < 15
    assert not census.processes_naming(str(server.data))
    assert not {pid for first in ids for pid in census.processes_with_ids(first)}
    assert not {group for group in census.cgroups() if group.rsplit("/", 1)[1] in names}
    server.forget()

"""What the chat makes of a runner's lines, with a runner that is played by the test."""

import pytest

from api import steps_of, text_of
from caller import ENVELOPE
from runner import Runner
from serving import Server
from sse import folded
from teams import team
from waiting import wait_until


def test_the_dispatch_is_the_seeds(player, runner):
    chat = player.conversation()
    stream = player.say("Do it", chat)
    dispatch = runner.latest()
    body = dispatch.body
    assert body["prompt"] == "Do it" and body["chat_id"] == chat
    assert "/api/assistant/sandbox/ses_" in body["agent_url"]
    assert all(body[name].startswith("otp_") for name in ("otp_setup", "otp_run", "otp_upload"))
    assert len({body[name] for name in ("otp_setup", "otp_run", "otp_upload")}) == 3
    assert dispatch.headers["x-api-key"] == "the key at the runner" or dispatch.headers.get(
        "authorization"
    ) == "Bearer the key at the runner"
    dispatch.result("done it")
    assert text_of(stream.whole()["message"]) == "done it"


def test_the_message_is_stored_before_the_end_is_told(player, runner):
    """Whoever hears the end and asks at once finds what was said."""
    for number in range(20):
        stream = player.say("Say it")
        chat = stream.until("turn").data["chatId"]
        runner.of_chat(chat).result(f"answer {number}")
        stream.until("done")
        assert text_of(player.messages(chat)[-1]) == f"answer {number}"
        stream.hang_up()


def test_deltas_of_one_message_add_up(player, runner):
    stream = player.say("Speak")
    dispatch = runner.latest()
    for word in ("one ", "two ", "drei ", "四"):
        dispatch.say(word)
    dispatch.event("step_started", id="step_1", name="shell", args={"command": "ls"})
    outcome = {"status": "succeeded", "result": {"stdout": ""}}
    dispatch.event("step_ended", id="step_1", duration_ms=5, **outcome)
    dispatch.event("text", message_id="last", delta="five")
    dispatch.result("five")
    done = stream.whole()
    content = done["message"]["content"]
    assert [block["type"] for block in content] == ["text", "step", "text"], content
    assert content[0]["text"] == "one two drei 四" and content[2]["text"] == "five"
    assert folded(stream.seen) == content


BROKEN = {
    "an unknown type": b'{"seq":2,"ts":1800000000000,"type":"surprise"}\n',
    "no JSON": b"hello\n",
    "no object": b"[1, 2]\n",
    "a missing field": b'{"seq":2,"ts":1800000000000,"type":"text","delta":"x"}\n',
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN.keys())
def test_a_line_that_is_off_ends_the_turn_and_hangs_up(player, runner, line):
    stream = player.say("Go on")
    dispatch = runner.latest()
    dispatch.line(line)
    done = stream.whole()
    assert done["status"] == "failed" and done["error"], done
    assert dispatch.hung_up.wait(5), "the runner is told"
    chat = stream.seen[0].data["chatId"]
    assert player.messages(chat)[-1] == done["message"]


@pytest.mark.parametrize("last", [b"", b'{"seq":2,"ts":18000'], ids=["between lines", "within a line"])
@pytest.mark.parametrize("broken", [True, False], ids=["cut", "ended"])
def test_a_runner_that_goes_away_ends_the_turn(player, runner, last, broken):
    stream = player.say("Go on")
    dispatch = runner.latest()
    stream.until("turn")
    if last:
        dispatch.line(last)
    dispatch.finish(broken)
    done = stream.whole()
    assert done["status"] == "failed" and done["code"] in ("sandbox_lost", "internal"), done


def test_an_error_of_the_run_is_the_turns(player, runner):
    stream = player.say("Go on")
    dispatch = runner.latest()
    dispatch.event("error", code="max_rounds", message="ten rounds are enough")
    dispatch.finish()
    done = stream.whole()
    assert (done["code"], done["error"]) == ("max_rounds", "ten rounds are enough")


def test_a_turn_whose_listener_stays_away_hangs_up_on_the_runner(player, runner):
    stream = player.say("Go on")
    dispatch = runner.latest()
    stream.until("turn")
    stream.hang_up()
    assert dispatch.hung_up.wait(20) or dispatch.cancelled.is_set()


def test_a_runner_that_speaks_only_the_envelope_is_enough(host):
    runner = Runner(host, ENVELOPE)
    server = Server(ASSISTANT_SANDBOX_URL=runner.url)
    try:
        api = team(server)
        stream = api.say("Speak plainly")
        dispatch = runner.latest()
        dispatch.event("log", level="info", message="a log")
        step = {"id": "step_1", "name": "shell", "args": {"command": "ls"}}
        dispatch.event("step", status="running", **step)
        ended = {"id": "step_1", "name": "shell", "result": {"stdout": "x"}, "durationMs": 3}
        dispatch.event("step", status="succeeded", **ended)
        dispatch.result("plainly")
        done = stream.whole()
        assert text_of(done["message"]) == "plainly"
        assert steps_of(done["message"])[0]["result"] == {"stdout": "x"}
    finally:
        runner.release()
        server.stop()


def test_a_runner_that_is_not_there_is_named_with_what_to_do(host):
    server = Server(SANDBOX_URL="http://127.0.0.1:9")
    try:
        api = team(server)
        stream = api.say("Is anybody there?")
        done = stream.whole()
        assert done["status"] == "failed"
        assert "SANDBOX_URL" in done["error"] or "127.0.0.1:9" in done["error"], done["error"]
        assert api.messages(stream.seen[0].data["chatId"])[-1] == done["message"]
    finally:
        server.stop()


@pytest.mark.parametrize("address", ["ftp://runner", "not an address", "http://"])
def test_a_server_with_a_wrong_runner_does_not_start_and_says_why(address):
    with pytest.raises(RuntimeError, match="SANDBOX_URL|sandbox-url|sandbox_url"):
        Server(SANDBOX_URL=address).stop()


def test_a_turn_ends_while_its_runner_says_nothing(player, runner):
    """Cancelling does not wait for a line."""
    stream = player.say("Hush")
    turn = stream.until("turn").data["turnId"]
    dispatch = runner.latest()
    player.cancel(turn).expect(200, 202, 204)
    assert stream.whole()["code"] == "cancelled"
    assert wait_until(lambda: dispatch.hung_up.is_set() or dispatch.cancelled.is_set(), 5)

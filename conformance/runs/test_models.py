"""Real wire formats of three providers: what reaches the model, and what comes back."""

import json

import pytest

from dialects import DIALECTS, Asked, Turn
from model import Broken, Mute, Refusal, Silence, Slow

PROVIDERS = list(DIALECTS)
each_provider = pytest.mark.parametrize("provider", PROVIDERS)


def call(command: str) -> tuple[str, dict]:
    return "shell", {"command": command}


@each_provider
def test_system_prompt_history_and_prompt_reach_the_model_in_order(caller, workspace, model, provider):
    thinker = model(provider, Turn("All of it is here."))
    history = [
        {"role": "user", "content": "Who are you?"},
        {"role": "assistant", "content": [{"type": "text", "text": "A test."}]},
    ]
    config = {"model": thinker.config(), "messages": history, "system_prompt": "Be brief."}
    outcome = caller.run(workspace(config).body("What now?"))
    assert outcome.message == "All of it is here."
    (asked,) = thinker.asked
    assert asked.system.startswith("Be brief.")
    expected = [("user", "Who are you?"), ("assistant", "A test."), ("user", "What now?")]
    assert asked.said == expected
    tools = {"shell", "read_file", "write_file", "edit_file", "list_files", "search_files"}
    assert tools <= asked.tools.keys()
    assert asked.tools["shell"]["required"] == ["command"]


@each_provider
def test_parallel_calls_are_run_and_their_results_reach_the_model(caller, workspace, model, provider):
    def second(asked: Asked) -> Turn:
        results = [json.loads(result) for result in asked.results.values()]
        return Turn("I saw " + " and ".join(result["stdout"].strip() for result in results) + ".")

    calls = [call("echo red"), call("sleep 0.3; echo green")]
    thinker = model(provider, Turn("Let me look.", calls), second)
    outcome = caller.run(workspace({"model": thinker.config()}).body())
    assert outcome.message == "I saw red and green."
    assert [step["name"] for step in outcome.steps()] == ["shell", "shell"]
    assert ("assistant", "Let me look.") in thinker.asked[1].said


@each_provider
def test_a_tools_failure_is_told_to_the_model_and_not_the_end(caller, workspace, model, provider):
    plan = [Turn(calls=[call("echo why >&2; exit 9"), ("no_such_tool", {}), ("shell", {})])]
    thinker = model(provider, *plan, Turn("I see."))
    outcome = caller.run(workspace({"model": thinker.config()}).body())
    assert outcome.message == "I see."
    assert [step["status"] for step in outcome.steps()] == ["failed"] * 3
    told = "".join(thinker.asked[1].results.values())
    assert "why" in told and "no_such_tool" in told and "command" in told


@each_provider
def test_arguments_that_are_no_json_are_told_to_the_model(caller, workspace, model, provider):
    spoiled = Turn(calls=[call("")], spoiled='{"command": "echo')
    thinker = model(provider, spoiled, Turn("Sorry."))
    outcome = caller.run(workspace({"model": thinker.config()}).body())
    assert outcome.message == "Sorry." and outcome.step("shell")["status"] == "failed"


@each_provider
def test_words_and_thoughts_stream_while_the_model_speaks(caller, workspace, model, provider):
    turn = Turn("A rather long answer that comes in pieces.", reasoning="Let me think about it.")
    thinker = model(provider, Slow(turn, 0.05))
    log = caller.run_raw(workspace({"model": thinker.config()}).body())
    text = [entry for entry in log if entry["type"] == "text"]
    thought = [entry for entry in log if entry["type"] == "reasoning"]
    assert "".join(entry["delta"] for entry in text) == turn.text
    assert "".join(entry["delta"] for entry in thought) == turn.reasoning
    assert text[-1]["ts"] - text[0]["ts"] >= 150
    assert log[-1]["message"] == turn.text


@each_provider
def test_thoughts_go_back_as_the_provider_wants_them(caller, workspace, model, provider):
    thinker = model(provider, Turn("Hm.", [call("true")], reasoning="First look."), Turn("Good."))
    assert caller.run(workspace({"model": thinker.config()}).body()).message == "Good."
    second = json.dumps(thinker.asked[1].body)
    if provider == "anthropic":
        assert '"signature": "signed"' in second
    if provider == "openai-responses":
        assert '"encrypted_content": "sealed"' in second


@each_provider
def test_usage_is_counted_and_shown(caller, workspace, model, provider):
    plan = [Turn(calls=[call("true")], tokens=(100, 10)), Turn("Done.", tokens=(150, 5))]
    thinker = model(provider, *plan)
    log = caller.run_raw(workspace({"model": thinker.config()}).body())
    usage = [entry for entry in log if entry["type"] == "usage"]
    assert [(entry["input_tokens"], entry["output_tokens"]) for entry in usage] == [(100, 10), (150, 5)]
    shown = caller.json(f"/runs/{log[0]['run_id']}")["usage"]
    assert shown == {"input_tokens": 250, "output_tokens": 15}


@each_provider
def test_a_provider_that_is_busy_is_asked_again(caller, workspace, model, provider):
    plan = [Refusal(429, "slow down", retry_after="1"), Refusal(529), Refusal(503), Turn("At last.")]
    thinker = model(provider, *plan)
    outcome = caller.run(workspace({"model": thinker.config()}).body())
    assert outcome.message == "At last."
    assert thinker.times[1] - thinker.times[0] >= 1, "the wait that was asked for"
    assert any("429" in line for line in outcome.logs())


@each_provider
def test_a_provider_that_stays_down_is_a_model_error_with_its_words(caller, workspace, model, provider):
    thinker = model(provider, *[Refusal(500, "the disk is full")] * 9)
    message = caller.run(workspace({"model": thinker.config()}).body()).error("model_error")
    assert "500" in message and "the disk is full" in message
    assert 2 <= len(thinker.asked) <= 6


@each_provider
def test_a_refusal_that_is_final_is_not_repeated(caller, workspace, model, provider):
    thinker = model(provider, Refusal(404, "no such model"))
    message = caller.run(workspace({"model": thinker.config()}).body()).error("model_error")
    assert "no such model" in message and len(thinker.asked) == 1


@each_provider
def test_a_stream_that_is_cut_or_malformed_is_a_model_error(caller, workspace, model, provider):
    turn = Turn("This will not be heard to its end.")
    for broken in (Broken(turn, 5), Broken(turn, 5, b"data: {not json\n\n"), Broken(turn, 5, b": end\n\n")):
        thinker = model(provider, broken, Turn("A second answer."))
        outcome = caller.run(workspace({"model": thinker.config()}).body())
        # What was read already is not said again by another answer.
        outcome.error("model_error")
        assert len(thinker.asked) == 1


@each_provider
def test_an_answer_that_breaks_off_before_its_first_word_is_asked_for_again(
    caller, workspace, model, provider
):
    thinker = model(provider, Broken(Turn("x"), 0), Turn("Here."))
    assert caller.run(workspace({"model": thinker.config()}).body()).message == "Here."


@each_provider
def test_silence_is_a_model_timeout_that_names_its_limit(caller, workspace, model, provider):
    for quiet in (Silence(), Mute()):
        thinker = model(provider, quiet)
        session = workspace({"model": thinker.config()})
        outcome = caller.run(session.body(limits={"model_timeout_sec": 2}))
        assert outcome.error("model_timeout") == "Provider timed out after 2s"


def test_an_answer_may_take_longer_than_the_limit_as_long_as_it_is_not_silent(caller, workspace, model):
    thinker = model("anthropic", Slow(Turn("word " * 20), 0.2))
    session = workspace({"model": thinker.config()})
    outcome = caller.run(session.body(limits={"model_timeout_sec": 1}))
    assert outcome.message == "word " * 20


@each_provider
def test_a_huge_answer_is_bounded(caller, workspace, model, provider):
    def endless(asked: Asked) -> Turn:
        return Turn("x" * (12 << 20))

    thinker = model(provider, endless)
    outcome = caller.run(workspace({"model": thinker.config()}).body())
    outcome.error("model_error")


def test_a_large_answer_is_whole(caller, workspace, model):
    text = "0123456789abcdef" * 20_000
    thinker = model("openai", Turn(text))
    log = caller.run_raw(workspace({"model": thinker.config()}).body())
    assert log[-1]["message"] == text
    assert "".join(entry["delta"] for entry in log if entry["type"] == "text") == text


def test_a_model_that_is_not_there_is_a_model_error(caller, workspace):
    config = {"model": {"provider": "openai", "name": "x", "base_url": "http://127.0.0.1:1/v1"}}
    caller.run(workspace(config).body()).error("model_error")


@each_provider
def test_what_is_no_event_stream_is_a_model_error(caller, workspace, host, provider):
    def page(exchange):
        exchange.answer(200, b"<html>captive portal</html>", Content_Type="text/html")

    config = {"model": {"provider": provider, "name": "x", "base_url": host.lodge(page)}}
    caller.run(workspace(config).body()).error("model_error")

"""What an agent says and thinks, the session it says it in, and a model that fails it."""

import secrets

import pytest

import logs
from agents import AGENTS
from dialects import Turn
from model import Mute, Refusal, Slow

# Every agent with every wire format that it can speak.
PAIRS = [(agent, provider) for agent in AGENTS for provider in agent.providers]
TEXT = "Hello from the model: said in small pieces, one after the other."
THOUGHT = "First I think about it for a while."


@pytest.mark.parametrize("agent, provider", PAIRS, ids=[f"{a}-{p}" for a, p in PAIRS])
def test_text_and_thoughts_come_in_pieces_as_the_model_says_them(
    caller, mind, dispatch, install, agent, provider
):
    install(agent)
    thinker = mind(agent, Slow(Turn(TEXT, reasoning=THOUGHT), 0.1), provider=provider)
    config = {
        "system_prompt": "Mind the pelican.",
        "messages": [{"role": "user", "content": "I like otters."}, {"role": "assistant", "content": "Noted."}],
    }
    log = caller.run_raw(dispatch(agent, thinker, "What do I like?", config))
    assert logs.message(log) == TEXT
    assert logs.said(log) == TEXT
    texts = logs.of(log, "text")
    assert len(texts) >= 4 and len({entry["message_id"] for entry in texts}) == 1
    assert texts[-1]["ts"] - texts[0]["ts"] > 100, "they come when they are said"
    assert logs.said(log, "reasoning").strip() == THOUGHT
    logs.session(log, agent)
    loud = [entry["message"] for entry in logs.of(log, "log") if entry["level"] in ("warn", "error")]
    # Codex says so of every model that its release does not know by name.
    assert [message for message in loud if not message.startswith("Model metadata")] == []
    assert log[0]["harness"] == agent.name
    for words in ("Mind the pelican.", "I like otters.", "Noted.", "What do I like?"):
        assert thinker.heard(words), words
    assert len(thinker.bodies) == 1
    assert logs.steps(log) == [] and logs.files(log) == []
    usage = caller.json(f"/runs/{log[0]['run_id']}")["usage"]
    # The title that some ask for is paid for too.
    assert usage["input_tokens"] >= 11 and usage["output_tokens"] >= 7


def test_a_second_run_in_a_fresh_sandbox_remembers_the_first(caller, mind, dispatch, agent):
    word = secrets.token_hex(8)
    first = mind(agent, Turn("I keep it.", calls=[agent.run(f"echo tool-{word}")]), Turn("Kept."))
    log = caller.run_raw(dispatch(agent, first, f"My word is {word}."))
    assert logs.message(log) == "Kept."
    session = logs.session(log, agent)

    second = mind(agent, Turn("It was that word."))
    resumed = dispatch(agent, second, "Which word was it?", modelOptions={"sessionId": session})
    again = caller.run_raw(resumed)
    assert logs.session(again, agent) == session, "told again, and the same"
    assert logs.said(again) == "It was that word.", "what was said before is not said again"
    assert logs.steps(again) == []
    assert again[0]["sandbox_id"] != log[0]["sandbox_id"]
    for words in (f"My word is {word}.", f"tool-{word}", "Kept.", "Which word was it?"):
        assert second.heard(words), words

    third = mind(agent, Turn("Still that word."))
    resumed = dispatch(agent, third, "And now?", modelOptions={"sessionId": session})
    assert logs.message(caller.run_raw(resumed)) == "Still that word."
    assert third.heard(f"My word is {word}.") and third.heard("Which word was it?")


def test_a_session_goes_on_with_another_model_and_other_instructions(caller, mind, dispatch, agent):
    first = mind(agent, Turn("Noted."))
    log = caller.run_raw(dispatch(agent, first, "Hello", {"system_prompt": "Mind the pelican."}))
    options = {"modelOptions": {"sessionId": logs.session(log, agent)}}
    second = mind(agent, Turn("From another."))
    config = {"model": second.config(name="other-model"), "system_prompt": "Mind the otter."}
    again = caller.run_raw(dispatch(agent, second, "Go on", config, **options))
    assert logs.message(again) == "From another."
    assert second.bodies[-1]["model"] == "other-model"
    assert second.heard("Mind the otter.") and second.heard("Noted.")
    third = mind(agent, Turn("Back again."))
    assert logs.message(caller.run_raw(dispatch(agent, third, "And now?", **options))) == "Back again."
    assert third.bodies[-1]["model"] == "test-model" and third.heard("From another.")


@pytest.mark.parametrize("prompt", ["/etc/hosts: what is in it?", "/compact"])
def test_a_prompt_is_no_command_of_the_agents_own(caller, mind, dispatch, agent, prompt):
    thinker = mind(agent, Turn("I was asked."))
    assert logs.message(caller.run_raw(dispatch(agent, thinker, prompt))) == "I was asked."
    assert thinker.heard(prompt)


def test_a_model_that_falls_silent_is_given_up(caller, mind, dispatch, agent):
    body = dispatch(agent, mind(agent, always=Mute()), limits={"model_timeout_sec": 2})
    caller.run(body).error("model_timeout")


def test_a_session_that_nobody_knows_is_refused_before_the_model_is_asked(caller, mind, dispatch, agent):
    unknown = "ses_0123456789abcdefABCDEFGHIJ" if agent.name == "opencode" else "01234567-89ab-4def-8123-456789abcdef"
    thinker = mind(agent)
    outcome = caller.run(dispatch(agent, thinker, modelOptions={"sessionId": unknown}))
    assert unknown in outcome.error("bad_request")
    assert thinker.bodies == []


def test_sessions_of_another_team_are_not_known(server, caller, mind, dispatch, install):
    agent = AGENTS[0]
    install(agent)
    log = caller.run_raw(dispatch(agent, mind(agent)))
    body = dispatch(agent, mind(agent), modelOptions={"sessionId": logs.session(log, agent)})
    server.other_team().run(body).error("bad_request")


@pytest.mark.parametrize("status", [400, 500])
def test_a_failing_model_ends_the_run_with_the_providers_words(caller, mind, dispatch, agent, status):
    words = f"the provider is out of {secrets.token_hex(3)}"
    thinker = mind(agent, always=Refusal(status, words))
    outcome = caller.run(dispatch(agent, thinker))
    told = outcome.error("model_error")
    # Codex has words of its own for what is wrong with a server.
    assert words in told or (agent.name, status) == ("codex", 500)
    assert 1 <= len(thinker.bodies) <= 8, "it does not go on asking for long"


def test_a_budget_that_is_used_up_is_told_whatever_the_agent_makes_of_it(caller, mind, dispatch, agent):
    thinker = mind(agent, always=Turn(calls=[agent.run("echo x >> kept.txt")], tokens=(400, 100)))
    outcome = caller.run(dispatch(agent, thinker, limits={"tokens": 900}))
    assert "budget of 900" in outcome.error("token_budget")
    assert 2 <= len(thinker.bodies) <= 3


def test_a_model_that_fails_later_leaves_what_was_done(caller, mind, dispatch, agent):
    thinker = mind(agent, Turn(calls=[agent.run("echo x > kept.txt")]), always=Refusal(400, "enough of it"))
    log = caller.run_raw(dispatch(agent, thinker))
    assert (log[-1]["type"], log[-1]["code"]) == ("error", "model_error")
    assert "enough of it" in log[-1]["message"]
    assert ("create", "kept.txt") in logs.files(log)
    session = logs.session(log, agent)
    again = mind(agent, Turn("Went on."))
    resumed = dispatch(agent, again, "Go on", modelOptions={"sessionId": session})
    assert logs.message(caller.run_raw(resumed)) == "Went on."
    assert again.heard("kept.txt"), "a session is kept although its run failed"


WRONG = [("claude-code", "openai"), ("codex", "openai"), ("codex", "anthropic")]


@pytest.mark.parametrize("name, provider", WRONG)
def test_a_model_that_the_agent_does_not_speak_to_is_refused(caller, mind, dispatch, name, provider):
    (agent,) = [agent for agent in AGENTS if agent.name == name]
    status, answer = caller.refusal(dispatch(agent, mind(provider=provider)))
    assert status == 400
    assert name in answer["message"] and agent.providers[0] in answer["message"]


@pytest.mark.parametrize("agent", AGENTS, ids=str)
def test_no_agent_thinks_without_a_model(caller, agent):
    status, answer = caller.refusal({"prompt": "Go", "harness": agent.name, "config": {}})
    assert status == 400 and agent.name in answer["message"]

"""How a run begins: callbacks in the seed's order, tokens redeemed once, bad hosts survived."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import workspace as trouble
from caller import Outcome
from dialects import Turn
from scripts import saying, shell
from zips import pack, skill


def test_callbacks_come_in_the_seeds_order_and_each_token_is_used_once(caller, workspace):
    version, packed = skill({})
    session = workspace(
        shell("mkdir -p assets; echo x > assets/x"),
        skills={("editor", version): packed},
        bag=pack({"in.txt": "in"}),
    )
    assert caller.run(session.body()).message
    assert session.order() == ["env", "config", "skill", "bag", "results"]
    assert all(otp.used for otp in session.otps.values())


def test_a_token_is_sent_as_it_is_without_a_scheme(caller, workspace):
    session = workspace(shell("mkdir -p assets; echo x > assets/x"))
    caller.run(session.body())
    kinds = {"env": "setup", "config": "run", "results": "upload"}
    for name, kind in kinds.items():
        (request,) = session.asked(name)
        assert request.headers["authorization"] == session.tokens[kind]


def test_the_runners_own_key_reaches_nobody(server, caller, workspace, model):
    thinker = model("anthropic")
    session = workspace({"model": thinker.config()})
    caller.run(session.body())
    for request in session.requests:
        assert server.key not in str(request.headers)
        assert "cookie" not in request.headers and "x-api-key" not in request.headers


def test_without_an_upload_token_nothing_is_written_back(caller, workspace):
    session = workspace(shell("mkdir -p assets; echo x > assets/x"), with_upload=False)
    assert caller.run(session.body()).message
    assert session.order() == ["env", "config"]


def test_a_fresh_sandbox_for_each_dispatch(caller, workspace):
    config = shell("cat ~/mark 2>&1; echo x > ~/mark", "cat ~/mark")
    first, second = (caller.run(workspace(config).body()) for _ in range(2))
    assert first.run_id != second.run_id
    for outcome in (first, second):
        before, after = (step["result"]["stdout"] for step in outcome.steps("shell"))
        assert "No such file" in before and after == "x\n"
    boxes = {run["id"]: run["sandbox_id"] for run in caller.runs()}
    assert boxes[first.run_id] != boxes[second.run_id]
    assert caller.sandboxes() == []


def test_the_working_directory_is_the_seeds(caller, workspace, walled):
    outcome = caller.run(workspace(shell("pwd; echo $HOME $WORKSPACE_DIR; id -u")).body())
    told = outcome.step("shell")["result"]["stdout"].split()
    assert told == ["/root/workspace", "/root", "/root/workspace", "0"]


@pytest.mark.parametrize("name", ["env", "config"])
@pytest.mark.parametrize("code", [401, 403])
def test_a_refused_token_is_otp_rejected_with_its_reason(caller, workspace, name, code):
    session = workspace(troubles={name: trouble.status(code, "otp_expired")})
    assert "otp_expired" in caller.run(session.body()).error("otp_rejected")
    assert len(session.asked(name)) == 1, "a token is not tried twice"


@pytest.mark.parametrize("name", ["env", "config"])
@pytest.mark.parametrize(
    "answer",
    [
        trouble.status(500),
        trouble.status(404),
        trouble.garbage,
        trouble.cut,
        trouble.endless,
        lambda exchange: exchange.answer(200, b"[]", Content_Type="application/json"),
        lambda exchange: exchange.answer(200, b"", Content_Type="application/json"),
    ],
    ids=["500", "404", "garbage", "cut", "endless", "list", "empty"],
)
def test_a_bad_answer_is_bootstrap_failed_and_names_its_path(caller, workspace, name, answer):
    session = workspace(troubles={name: answer})
    began = time.monotonic()
    assert f"/{name}" in caller.run(session.body()).error("bootstrap_failed")
    assert time.monotonic() - began < 40
    assert len(session.asked(name)) == 1


def test_a_workspace_that_never_answers_or_drips_is_given_up(caller, workspace):
    version, packed = skill({})
    files = shell("mkdir -p assets; echo x > assets/x", text="all the same")

    def bad(name: str, drips: bool) -> tuple[str, Outcome]:
        session = workspace(files, skills={("editor", version): packed}, bag=pack({"a": "b"}))
        session.troubles[name] = session.drip if drips else session.never
        return name, caller.run(session.body())

    names = ["env", "config", "skill", "bag", "results"]
    began = time.monotonic()
    with ThreadPoolExecutor(2 * len(names)) as pool:
        ended = list(pool.map(bad, names * 2, [True] * len(names) + [False] * len(names)))
    assert 25 < time.monotonic() - began < 45
    for name, outcome in ended:
        if name == "results":
            assert outcome.step("writeback")["status"] == "failed"
            assert outcome.message == "all the same"
        else:
            outcome.error("bootstrap_failed")


def test_a_second_dispatch_with_the_same_tokens_is_rejected(caller, workspace):
    session = workspace(saying())
    assert caller.run(session.body()).message == "done"
    assert "otp_used" in caller.run(session.body()).error("otp_rejected")
    assert session.complaints == ["setup: otp_used"]
    session.complaints.clear()


def test_every_letter_of_a_prompt_reaches_the_model(caller, workspace, model):
    prompt = "ä\r\n\u2028\U0001f9ea \"\\ </script> " + "x" * 900_000 + " end"
    thinker = model("openai", Turn("Read."))
    assert caller.run(workspace({"model": thinker.config()}).body(prompt)).message == "Read."
    assert thinker.asked[0].said == [("user", prompt)]


def test_a_slow_workspace_is_waited_for(caller, workspace):
    session = workspace(saying("patient"))
    session.troubles["config"] = trouble.slow(3, session.give_config)
    assert caller.run(session.body()).message == "patient"


def test_a_workspace_that_is_not_there_is_bootstrap_failed(caller, workspace):
    session = workspace()
    caller.run(session.body(agent_url="http://127.0.0.1:1/x")).error("bootstrap_failed")


def test_a_redirect_is_not_followed(caller, workspace, host):
    seen = []
    elsewhere = host.lodge(lambda exchange: (seen.append(exchange.request), exchange.answer(200, b"{}")))
    for name in ("env", "config"):
        session = workspace(troubles={name: trouble.redirect(elsewhere)})
        caller.run(session.body()).error("bootstrap_failed")
    assert seen == []


@pytest.mark.parametrize(
    ("field", "config"),
    [
        ("max_rounds", {"max_rounds": "ten"}),
        ("messages", {"messages": [{"role": "user"}]}),
        ("provider", {"model": {"provider": "no-such", "name": "x"}}),
        ("base_url", {"model": {"provider": "openai", "name": "x", "base_url": "file:///etc"}}),
        ("version", {"skills": [{"id": "a", "name": "a", "version": "1", "url": ""}]}),
        ("transport", {"mcp_servers": [{"name": "x", "transport": "pigeon"}]}),
        ("assets.url", {"assets": {"url": "ftp://x/y"}}),
    ],
)
def test_a_config_that_cannot_be_used_names_its_field(caller, workspace, field, config):
    message = caller.run(workspace(config).body()).error("bootstrap_failed")
    assert field in message


def test_what_a_config_has_beyond_our_knowledge_is_passed_over(caller, workspace):
    config = saying("fine", colour="green", caller=None, skills=None, mcp_servers=None)
    assert caller.run(workspace(config).body()).message == "fine"


def test_the_assistant_has_a_conversation_and_an_agents_block_has_none(caller, workspace):
    assistant = saying(caller="assistant", chat_id="c1")
    assert caller.run(workspace(assistant, chat_id="c1").body()).message == "done"
    assert caller.run(workspace(saying(caller="agents")).body()).message == "done"
    caller.run(workspace(saying(caller="assistant")).body()).error("bad_request")
    caller.run(workspace(saying(caller="agents"), chat_id="c1").body()).error("bad_request")


def test_a_dispatch_may_carry_its_configuration_itself(caller):
    config = shell('echo "$A"', text="inline") | {"system_prompt": "x"}
    env = {"variables": {"A": "from the dispatch"}, "setup_script": "echo ready"}
    outcome = caller.run({"prompt": "Do it.", "config": config, "env": env})
    assert outcome.message == "inline" and "ready" in outcome.logs()
    assert outcome.step("shell")["result"]["stdout"] == "from the dispatch\n"


def test_without_a_model_the_scripted_provider_runs_the_prompts_blocks_and_says_so(caller):
    prompt = "Look:\n```sh\necho $((40 + 2))\n```\n"
    outcome = caller.run({"prompt": prompt, "config": {}})
    assert outcome.step("shell")["result"]["stdout"] == "42\n"
    assert "scripted provider" in outcome.message and "42" in outcome.message

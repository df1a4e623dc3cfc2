"""Caps: time, rounds, tokens, memory. Each ends in its own code, or does not end the run."""

import time
from datetime import datetime

import pytest

import lines
from dialects import Turn
from scripts import calling, shell
from serving import Server
from waiting import wait_until


def test_a_run_over_its_time_ends_in_runtime_exceeded(caller, workspace):
    session = workspace(shell("sleep 60"))
    began = time.monotonic()
    outcome = caller.run(session.body(limits={"max_runtime_sec": 2}))
    assert "2" in outcome.error("runtime_exceeded")
    assert 1.5 < time.monotonic() - began < 8
    assert outcome.step("shell")["status"] == "failed"
    assert wait_until(lambda: caller.sandboxes() == [], 2)


def test_the_cap_of_the_server_holds_for_runs_that_ask_for_more(host, workspace):
    server = Server(ASSISTANT_SANDBOX_MAX_RUNTIME_SEC="2")
    try:
        caller = server.caller()
        for limits in ({}, {"limits": {"max_runtime_sec": 3600}}):
            outcome = caller.run(workspace(shell("sleep 60")).body(**limits))
            outcome.error("runtime_exceeded")
    finally:
        server.stop()


def test_a_config_can_lower_the_cap(caller, workspace):
    session = workspace(shell("sleep 60", max_runtime_sec=1))
    assert "1 s" in caller.run(session.body()).error("runtime_exceeded")
    inline = {"prompt": "go", "config": shell("sleep 60", max_runtime_sec=1)}
    assert "1 s" in caller.run(inline).error("runtime_exceeded")


def test_the_standard_cap_is_eight_hours(caller, workspace):
    run = caller.json("/runs/" + caller.run(workspace().body()).run_id)
    started, deadline = (datetime.fromisoformat(run[name]) for name in ("started_at", "deadline"))
    assert (deadline - started).total_seconds() == 28_800


def test_a_model_that_never_stops_calling_ends_in_max_rounds(caller, workspace, model):
    thinker = model("anthropic", *[Turn(calls=[("shell", {"command": "echo again"})])] * 20)
    outcome = caller.run(workspace({"model": thinker.config()}).body())
    assert "10" in outcome.error("max_rounds")
    assert len(outcome.steps("shell")) == 10


def test_rounds_can_be_set(caller, workspace, model):
    thinker = model("openai", *[Turn(calls=[("shell", {"command": "true"})])] * 9)
    session = workspace({"model": thinker.config(), "max_rounds": 3})
    outcome = caller.run(session.body())
    assert "3" in outcome.error("max_rounds") and len(outcome.steps("shell")) == 3


@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai-responses"])
def test_a_token_budget_that_is_used_up_ends_the_run(caller, workspace, model, provider):
    turn = Turn(calls=[("shell", {"command": "true"})], tokens=(400, 100))
    thinker = model(provider, *[turn] * 9)
    session = workspace({"model": thinker.config()})
    outcome = caller.run(session.body(limits={"tokens": 900}))
    assert "900" in outcome.error("token_budget")
    assert len(thinker.asked) == 2


def test_a_tool_that_eats_all_memory_does_not_end_the_run(caller, workspace, walled):
    hog = "python3 -c 'x = []\nwhile True: x.append(bytearray(1 << 24))'"
    outcome = caller.run(workspace(shell(hog, "echo still here", text="survived")).body())
    eaten, after = outcome.steps("shell")
    assert eaten["status"] == "failed"
    assert after["result"]["stdout"] == "still here\n"
    assert outcome.message == "survived"


def test_a_fork_bomb_in_a_tool_does_not_end_the_run(caller, workspace, walled):
    bomb = "timeout -s KILL 3 bash -c 'f() { f | f & }; f; sleep 2' 2>/dev/null; pkill -9 -f 'f()'; true"
    session = workspace(shell(bomb, text="survived"))
    outcome = caller.run(session.body(limits={"max_runtime_sec": 60}))
    assert outcome.last["type"] in ("result", "error")
    assert wait_until(lambda: caller.sandboxes() == [], 10)


def test_a_tool_over_its_own_time_is_a_failed_step(caller, workspace):
    config = calling([("shell", {"command": "sleep 60 & sleep 60", "timeout_ms": 500})])
    outcome = caller.run(workspace(config).body())
    assert "500" in outcome.step("shell")["error"] and outcome.message == "done"


KILL_AGENT = """
for p in /proc/[0-9]*; do
  if [ "$(cat $p/comm 2>/dev/null)" = agent ] || grep -q mayfly-agent $p/comm 2>/dev/null; then
    kill -9 ${p#/proc/}
  fi
done
sleep 5
"""


def test_an_agent_that_is_killed_from_inside_is_an_error_and_never_silence(caller, workspace, walled):
    session = workspace(shell(KILL_AGENT))
    began = time.monotonic()
    outcome = caller.run(session.body())
    assert outcome.last["type"] == "error" and outcome.last["code"] in ("internal", "sandbox_lost")
    assert "kill" in outcome.last["message"]
    assert time.monotonic() - began < 10
    assert outcome.step("shell")["status"] == "failed"
    assert session.asked("results") == []


def test_a_sandbox_that_is_killed_from_outside_is_sandbox_lost(caller, workspace):
    stream = caller.dispatch(workspace(shell("sleep 60")).body())
    stream.until(type="step", status="running")
    (box,) = caller.sandboxes()
    assert caller.call("DELETE", f"/sandboxes/{box}")[0] == 204
    assert lines.envelope(stream.rest())[-1]["code"] == "sandbox_lost"


def test_an_agent_that_is_stopped_still_ends_by_the_cap(caller, workspace, walled):
    stop = KILL_AGENT.replace("kill -9", "kill -STOP")
    outcome = caller.run(workspace(shell(stop)).body(limits={"max_runtime_sec": 3}))
    outcome.error("runtime_exceeded")


def test_everything_inside_is_gone_after_a_run(server, caller, workspace, walled):
    stream = caller.dispatch(workspace(shell("(setsid sleep 300 &) ; sleep 1; echo x")).body())
    stream.until(type="step", status="running")
    ids = server.first_ids()
    stream.rest()
    assert len(ids) == 1 and server.left(ids) == {}

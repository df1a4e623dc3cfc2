"""What an agent does: tools that change files, tools of the caller's, what it may not do."""

import json
import threading
import time

import pytest

import logs
from dialects import Turn
from model import Silence
from waiting import wait_until


def test_a_tool_that_changes_files_is_told_step_by_step(caller, mind, dispatch, agent):
    command = "mkdir -p sub && printf 'one\\ntwo\\n' > sub/made.txt && echo from-tool"
    change = "printf 'three\\n' >> sub/made.txt; echo again; exit 3"
    thinker = mind(
        agent,
        Turn("I write.", calls=[agent.run(command)]),
        Turn("I fail.", calls=[agent.run(change)]),
        Turn("Written."),
    )
    log = caller.run_raw(dispatch(agent, thinker))
    assert logs.message(log) == "Written."
    assert logs.said(log) == "I write.I fail.Written."
    assert len({entry["message_id"] for entry in logs.of(log, "text")}) == 3
    (start, end), (bad, failed) = logs.steps(log)
    assert "sub/made.txt" in logs.written(start["args"]) and start["name"]
    assert end["status"] == "succeeded" and "from-tool" in logs.written(end["result"])
    assert "again" in logs.written(failed), failed
    assert "3" in logs.written(failed), "the model is told, and so is the reader"
    assert thinker.heard("from-tool", 1) and thinker.heard("again", 2)
    created = logs.files(log).index(("create", "sub/made.txt"))
    assert ("change", "sub/made.txt") in logs.files(log)[created:]
    assert logs.paths(log) == {"sub/made.txt"}, "agents leave nothing of their own"
    diff = logs.diff(log)
    assert "sub/made.txt" in diff and "+one\n+two\n+three\n" in diff


def test_a_tool_of_the_callers_is_an_ordinary_step_at_once(caller, host, mind, dispatch, agent):
    started, requests = threading.Event(), []

    def tool(exchange):
        requests.append((exchange.request.headers, json.loads(exchange.request.body)))
        exchange.begin(200, Content_Type="application/x-ndjson")
        exchange.piece(b'{"type":"custom","name":"lookup.progress","value":{"at":1}}\n')
        # The caller has seen the step and its event before there is a result.
        assert started.wait(20)
        exchange.piece(b'{"type":"custom","name":"lookup.progress","value":{"at":2}}\n')
        exchange.piece(b'{"type":"result","value":{"meaning":"sea-otter-42"}}\n')
        exchange.end()

    parameters = {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]}
    given = {"name": "lookup", "description": "Looks a word up", "parameters": parameters}
    given |= {"url": host.lodge(tool), "headers": {"X-Tool-Key": "s3cret"}}
    thinker = mind(agent, Turn("I look.", calls=[agent.call("lookup", {"word": "otter"})]), Turn("Found."))
    stream = caller.dispatch(dispatch(agent, thinker, tools=[given]), "application/vnd.mayfly.run+ndjson")
    begun = stream.until(type="step_started")
    assert (begun["name"], begun["args"]) == ("lookup", {"word": "otter"})
    assert stream.until(type="custom", name="lookup.progress")["value"] == {"at": 1}
    started.set()
    log = [json.loads(line) for line in stream.rest().splitlines()]
    assert logs.message(log) == "Found."
    ((start, end),) = logs.steps(log)
    assert end["status"] == "succeeded" and end["result"] == {"meaning": "sea-otter-42"}
    kinds = [(entry["type"], entry.get("value")) for entry in log]
    order = [("step_started", None), ("custom", {"at": 1}), ("custom", {"at": 2}), ("step_ended", None)]
    assert [kind for kind in kinds if kind in order] == order
    assert thinker.heard("sea-otter-42"), "the model is told"
    ((headers, asked),) = requests
    assert headers["x-tool-key"] == "s3cret"
    assert (asked["name"], asked["arguments"]) == ("lookup", {"word": "otter"})
    assert asked["run_id"] == log[0]["run_id"] and asked["call_id"]
    assert "s3cret" not in logs.written(log) and not thinker.heard("s3cret")


POLICY = {"default": "allow", "commands": {"deny": ["*forbidden*"], "ask": ["*careful*"]}}


def test_what_a_policy_denies_is_not_done_and_what_it_asks_for_is_done_once_allowed(
    caller, mind, dispatch, agent
):
    plan = [
        Turn(calls=[agent.run("echo x > forbidden.txt")]),
        Turn(calls=[agent.run("echo x > careful.txt")]),
        Turn(calls=[agent.run("echo x > free.txt")]),
        Turn("I did what I may."),
    ]
    thinker = mind(agent, *plan)
    log = caller.run_raw(dispatch(agent, thinker, policy=POLICY))
    assert logs.message(log) == "I did what I may."
    assert len(thinker.bodies) == 4, "the agent goes on without what is denied"
    ends = [(logs.written(start["args"]), end["status"]) for start, end in logs.steps(log)]
    assert [status for args, status in ends if "free.txt" not in args].count("succeeded") == 0, ends
    assert logs.paths(log) == {"free.txt"}
    (asked,) = logs.customs(log, "approval-requested")
    assert "careful" in asked["title"] and asked["approvalId"].startswith(f"{agent}:")

    allowed = POLICY | {"approvals": {asked["approvalId"]: "allow"}}
    log = caller.run_raw(dispatch(agent, mind(agent, *plan), policy=allowed))
    assert logs.message(log) == "I did what I may."
    assert logs.paths(log) == {"careful.txt", "free.txt"}
    assert logs.customs(log, "approval-requested") == []


@pytest.mark.parametrize("moment", ["while a tool runs", "while the model thinks"])
def test_a_cancelled_run_leaves_no_process_and_no_sandbox(server, caller, mind, dispatch, agent, moment):
    entry = Silence() if moment == "while the model thinks" else Turn(calls=[agent.run("sleep 300")])
    thinker = mind(agent, entry)
    body = dispatch(agent, thinker, on_disconnect="continue")
    stream = caller.dispatch(body, "application/vnd.mayfly.run+ndjson")
    if moment == "while a tool runs":
        stream.until(type="step_started")
    assert thinker.asking.wait(30)
    ids = server.first_ids()
    began = time.monotonic()
    assert caller.post(f"/runs/{stream.run_id}/cancel")[0] == 200
    log = [json.loads(line) for line in stream.rest().splitlines()]
    assert log[-1]["code"] == "cancelled", log[-1]
    assert wait_until(lambda: caller.sandboxes() == [], 5)
    assert time.monotonic() - began < 5
    assert server.left(ids) == {}

"""Tools of the caller: a server of its own executes them while the agent waits inside."""

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import caller as calls
import lines
from dialects import Turn
from scripts import calling, shell
from waiting import wait_until

NDJSON = "application/x-ndjson"


class Tool:
    """A tool on the test's own host. What it answers is the test's to say."""

    def __init__(self, host, answer, name: str = "look", **more: object) -> None:
        self.asked: list[dict] = []
        self.headers: list[dict[str, str]] = []
        self.released = threading.Event()

        def exchange(e) -> None:
            self.asked.append(json.loads(e.request.body))
            self.headers.append(e.request.headers)
            answer(e, self)

        self.given = {"name": name, "description": "Looks.", "url": host.lodge(exchange)} | more


def returning(value: object):
    return lambda e, _: e.answer(200, json.dumps(value).encode(), Content_Type="application/json")


def body(config: dict, *tools: Tool, **more: object) -> dict:
    return {"prompt": "go", "config": config, "tools": [tool.given for tool in tools]} | more


def of(log: list[dict], kind: str) -> list[dict]:
    return [entry for entry in log if entry["type"] == kind]


def test_a_tool_is_called_with_what_the_model_gave_and_its_result_is_a_step(caller, host, model):
    tool = Tool(host, returning({"sun": True}), headers={"X-Key": "sesame"})
    thinker = model("anthropic", Turn(calls=[("look", {"city": "Bern"})]), Turn("sunny"))
    log = caller.run_raw(body({"model": thinker.config()}, tool))
    assert log[-1]["message"] == "sunny"
    (started,), (ended,) = of(log, "step_started"), of(log, "step_ended")
    assert (started["name"], started["args"]) == ("look", {"city": "Bern"})
    assert (ended["status"], ended["result"]) == ("succeeded", {"sun": True})
    (asked,) = tool.asked
    assert asked["name"] == "look" and asked["arguments"] == {"city": "Bern"}
    assert asked["run_id"] == log[0]["run_id"] and asked["call_id"] == started["id"]
    assert tool.headers[0]["x-key"] == "sesame"
    assert "sesame" not in json.dumps(log)


def test_events_of_a_tool_are_on_the_stream_while_it_executes(caller, host):
    def answer(e, tool) -> None:
        e.begin(200, Content_Type=NDJSON)
        e.piece(b'{"type":"custom","name":"progress","value":{"part":1}}\n')
        tool.released.wait(20)
        e.piece(b'{"type":"custom","name":"progress","value":null}\n{"type":"result",')
        e.piece(b'"value":"done"}\n')
        e.end()

    tool = Tool(host, answer)
    stream = caller.dispatch(body(calling([("look", {})]), tool), calls.RAW)
    assert stream.until(type="custom")["value"] == {"part": 1}
    # The tool has not returned yet.
    tool.released.set()
    log = lines.raw(stream.rest())
    kinds = [entry["type"] for entry in log if entry["type"] in ("step_started", "custom", "step_ended")]
    assert kinds == ["step_started", "custom", "custom", "step_ended"]
    assert of(log, "step_ended")[0]["result"] == "done"


def test_a_tool_that_fails_is_a_failed_step_and_the_run_goes_on(caller, host):
    bad = {
        "status": lambda e, _: e.answer(422, b"no such city"),
        "html": lambda e, _: e.answer(200, b"<p>", Content_Type="text/html"),
        "half": lambda e, _: e.answer(200, b'{"a":', Content_Type="application/json"),
        "deep": lambda e, _: e.answer(200, b"[" * 200_000, Content_Type="application/json"),
        "large": lambda e, _: e.answer(200, b'"' + b"x" * (1 << 20) + b'"', Content_Type="application/json"),
        "moved": lambda e, _: e.answer(302, b"", Location="http://169.254.169.254/"),
        "said": lambda e, _: e.answer(200, b'{"type":"error","message":"no luck"}\n', Content_Type=NDJSON),
        "unended": lambda e, _: e.answer(200, b'{"type":"custom","name":"a"}\n', Content_Type=NDJSON),
        "unknown": lambda e, _: e.answer(200, b'{"type":"step_ended","id":"step_tool_1"}\n', Content_Type=NDJSON),
        "binary": lambda e, _: e.answer(200, bytes(range(256)), Content_Type=NDJSON),
        "cut": lambda e, _: (e.begin(200, Content_Type="application/json"), e.piece(b"{"), e.cut()),
    }
    tools = [Tool(host, answer, name) for name, answer in bad.items()]
    outcome = caller.run(body(calling(*[[(name, {})] for name in bad], max_rounds=20), *tools))
    assert outcome.message == "done"
    errors = {step["name"]: step["error"] for step in outcome.steps()}
    assert errors.keys() == bad.keys()
    assert "422" in errors["status"] and "no such city" in errors["status"]
    assert "no luck" in errors["said"]
    assert "more than" in errors["large"]
    assert "127.0.0.1" not in json.dumps(errors)


def test_a_tool_that_hangs_has_its_time(caller, host):
    tool = Tool(host, lambda e, tool: e.wait(tool.released), timeout_ms=300)
    began = time.monotonic()
    outcome = caller.run(body(calling([("look", {})]), tool))
    assert outcome.message == "done"
    assert outcome.step("look")["error"] == "timed out after 300 ms"
    assert time.monotonic() - began < 20


def test_a_run_that_is_cancelled_hangs_up_on_its_tools(caller, host):
    gone = threading.Event()
    tool = Tool(host, lambda e, tool: (e.wait(tool.released), gone.set()))
    stream = caller.dispatch(body(calling([("look", {})]), tool))
    stream.until(type="step", status="running")
    assert wait_until(lambda: tool.asked, 5)
    stream.hang_up()
    assert gone.wait(10)


def test_a_tool_without_an_address_is_the_callers_to_execute(caller):
    config = calling([("ask", {"x": 1})], text="never said") | {"tools": [{"name": "ask"}]}
    log = caller.run_raw({"prompt": "go", "config": config})
    assert [entry["status"] for entry in of(log, "step_ended")] == ["deferred"]
    assert log[-1] | {"message": ""} == log[-1], log[-1]


def test_many_calls_at_once_are_each_a_step_of_their_own(caller, host):
    tool = Tool(host, lambda e, _: (time.sleep(0.05), returning(json.loads(e.request.body)["arguments"])(e, _)))
    config = calling(*[[("look", {"n": 10 * row + n}) for n in range(10)] for row in range(5)])

    def run(_: int) -> None:
        log = caller.run_raw(body(config, tool))
        started = {entry["id"]: entry["args"] for entry in of(log, "step_started")}
        ended = {entry["id"]: entry["result"] for entry in of(log, "step_ended")}
        assert len(started) == 50 and started == ended

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(run, range(4)))
    assert len(tool.asked) == 200


CURL = """L=${AGENT_URL%%/agent}
ask() { curl -s -o /dev/null -w '%%{http_code}\\n' --max-time 10 "$@" $L/tools; }
call='{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look"}}'
ask -d "$call"
ask -d "$call" -H 'Authorization: Bearer %s'
ask -d "$call" -H 'Authorization: Bearer'
ask
ask -X DELETE"""


def test_nobody_inside_calls_a_tool_without_the_bearer(caller, host):
    tool = Tool(host, returning(1))
    outcome = caller.run(body(shell(CURL % ("0" * 48)), tool))
    assert outcome.step("shell")["result"]["stdout"].split() == ["401"] * 5
    assert tool.asked == []
    found = shell("cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -cE '^[0-9a-f]{48}$'")
    assert caller.run(body(found, tool)).step("shell")["error"]


def test_where_a_tool_is_stays_outside(caller, host, workspace):
    tool = Tool(host, returning(1), headers={"X-Key": "sesame"})
    session = workspace(calling([("look", {})], tools=[tool.given]))
    outcome = caller.run(session.body())
    assert outcome.message == "done" and outcome.step("look")["result"] == 1
    assert tool.headers[0]["x-key"] == "sesame"


def test_addresses_that_are_closed_are_refused_at_the_door(caller):
    given = {"name": "look", "url": "http://169.254.169.254/latest"}
    status, answer = caller.refusal({"prompt": "go", "config": calling(), "tools": [given]})
    assert status == 400 and "tools" in answer["message"]


def test_a_call_through_a_killed_server_is_interrupted_and_the_run_goes_on(own_server, host, walled):
    answers = [lambda e, tool: e.wait(tool.released), returning("again")]
    tool = Tool(host, lambda e, tool: answers[len(tool.asked) - 1](e, tool))
    config = calling([("look", {"n": 1})], [("look", {"n": 2})], text="survived")
    stream = own_server.caller().dispatch(body(config, tool, on_disconnect="continue"), calls.RAW)
    stream.until(type="step_started")
    assert wait_until(lambda: tool.asked, 5)
    own_server.kill()
    own_server.start()
    log = lines.raw(own_server.caller().follow(stream.run_id).rest())
    assert log[-1].get("message") == "survived", log[-1]
    steps = [(entry["id"], entry.get("status")) for entry in log if entry["type"].startswith("step")]
    first, second = of(log, "step_started")
    assert steps == [
        (first["id"], None),
        (first["id"], "failed"),
        (second["id"], None),
        (second["id"], "succeeded"),
    ]
    assert of(log, "step_ended")[0]["error"] == "interrupted"
    tool.released.set()

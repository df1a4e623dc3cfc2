"""Runs as AG-UI: what front ends read, where they go on, and what they ask for."""

import json

import events
import pytest
from caller import Caller, Stream
from dialects import Turn
from scripts import calling, shell
from serving import Server

SSE = "text/event-stream"
NDJSON = "application/vnd.ag-ui.event+ndjson"
BINARY = "application/vnd.ag-ui.event+proto"
ASK = {"name": "ask", "description": "asks the user", "parameters": {"type": "object"}}


def asking(text: str = "hello", **fields: object) -> dict:
    """A `RunAgentInput` as a front end sends it."""
    said = [{"id": "1", "role": "user", "content": text}]
    base = {"threadId": "thread", "runId": "front", "state": {}, "messages": said}
    return base | {"tools": [], "context": [], "forwardedProps": {}} | fields


def post(caller: Caller, body: dict, accept: str = SSE, **headers: str) -> Stream:
    content = json.dumps(body).encode()
    return Stream(caller.url, caller.key, "POST", "/agui", content, Accept=accept, **headers)


def whole(stream: Stream) -> list[dict]:
    """A run to its end, held to the rules."""
    body = stream.answer.read()
    stream.connection.close()
    assert stream.status == 200, body
    found = [event for _, event in events.server_sent(body)]
    events.check(found)
    return found


def of_type(found: list[dict], kind: str) -> list[dict]:
    return [event for event in found if event["type"] == kind]


def test_a_front_end_reads_a_whole_run(caller):
    config = shell("echo hello > made.txt", text="All done.")
    config["model"]["script"][0] |= {"reasoning": "Let me see.", "text": "I make it."}
    stream = post(caller, asking(forwardedProps={"config": config}))
    assert stream.headers["content-type"] == SSE and stream.run_id.startswith("run_")
    found = whole(stream)
    first, last = found[0], found[-1]
    assert (first["threadId"], first["runId"]) == ("thread", "front")
    assert first["metadata"]["mayfly"]["runId"] == stream.run_id
    (call,) = of_type(found, "TOOL_CALL_START")
    (args,) = of_type(found, "TOOL_CALL_ARGS")
    assert call["toolCallName"] == "shell" and "made.txt" in args["delta"]
    said = "".join(event["delta"] for event in of_type(found, "TEXT_MESSAGE_CONTENT"))
    assert said == "I make it.All done."
    thought = "".join(event["delta"] for event in of_type(found, "REASONING_MESSAGE_CONTENT"))
    assert thought == "Let me see."
    assert last["result"] == {"message": "All done."} and last["outcome"] == {"type": "success"}
    assert last["metadata"]["tanstack"]["finishReason"] == "stop"


def test_a_run_that_fails_ends_with_its_code(caller):
    config = calling([("shell", {"command": "true"})]) | {"max_rounds": 0}
    found = whole(post(caller, asking(forwardedProps={"config": config})))
    assert found[-1]["type"] == "RUN_ERROR" and found[-1]["code"] == "max_rounds"


def test_all_encodings_say_the_same_from_any_place_on(caller):
    config = shell("echo one", "echo two; exit 3", text="Both are done.")
    stream = caller.dispatch({"prompt": "x", "config": config}, SSE)
    body = stream.answer.read()
    found = events.server_sent(body)
    events.check([event for _, event in found])
    places = ["0", *[place for place, _ in found]]
    assert len(set(places)) == len(places)
    sizes = set()
    for index, place in enumerate(places):
        rest = found[index:]
        again = caller.follow(stream.run_id, accept=SSE, Last_Event_ID=place)
        seen = again.answer.read()
        # Whoever has it all is told not to come back.
        assert again.status == (200 if rest else 204), place
        assert (events.server_sent(seen) if rest else []) == rest, place
        lines = caller.follow(stream.run_id, place, NDJSON).answer.read().decode().splitlines()
        assert [json.loads(line) for line in lines] == [event for _, event in rest], place
        binary = events.messages(caller.follow(stream.run_id, place, BINARY).answer.read())
        sizes.add(len(binary) - len(rest))
    # The binary form may carry less than the others, and never more or different ones.
    assert max(sizes) == 0


@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai-responses"])
def test_a_clients_tool_is_the_clients_to_execute(caller, model, provider):
    thinks = model(provider, Turn("One moment.", [("ask", {"q": "colour"})]), Turn("Blue it is."))
    props = {"model": thinks.config()}
    found = whole(post(caller, asking(tools=[ASK], forwardedProps=props)))
    (call,) = of_type(found, "TOOL_CALL_START")
    assert call["toolCallName"] == "ask" and not of_type(found, "TOOL_CALL_RESULT")
    assert found[-1]["outcome"]["pendingToolCallIds"] == [call["toolCallId"]]
    assert len(thinks.asked) == 1, "the model was asked again without the result"

    arguments = of_type(found, "TOOL_CALL_ARGS")[0]["delta"]
    function = {"name": "ask", "arguments": arguments}
    made = {"id": call["toolCallId"], "type": "function", "function": function}
    history = [
        {"id": "1", "role": "user", "content": "hello"},
        {"id": "2", "role": "assistant", "content": "One moment."},
        {"id": "3", "role": "assistant", "toolCalls": [made]},
        {"id": "4", "role": "tool", "toolCallId": call["toolCallId"], "content": "blue"},
    ]
    more = asking(runId="front-2", messages=history, tools=[ASK], forwardedProps=props)
    found = whole(post(caller, more))
    assert found[-1]["result"] == {"message": "Blue it is."}
    second = thinks.asked[1]
    assert list(second.results.values()) == ["blue"]
    assert "ask" in second.tools


def test_what_the_front_end_knows_reaches_the_model(caller, model):
    thinks = model("openai", Turn("yes"))
    body = asking(
        messages=[
            {"id": "1", "role": "system", "content": "Be brief."},
            {"id": "2", "role": "user", "content": "first"},
            {"id": "3", "role": "assistant", "content": "answer"},
            {"id": "4", "role": "user", "content": [{"type": "text", "text": "second"}]},
        ],
        context=[{"description": "open page", "value": "settings"}],
        forwardedProps={"config": {"model": thinks.config(), "system_prompt": "You help."}},
    )
    whole(post(caller, body))
    (asked,) = thinks.asked
    for text in ("You help.", "Be brief.", "open page: settings"):
        assert text in asked.system
    assert asked.said == [("user", "first"), ("assistant", "answer"), ("user", "second")]


def test_a_front_end_without_a_model_gets_the_servers(model):
    thinks = model("openai", Turn("from the server's model"), Turn("by another name"))
    arguments = ["--model-provider", "openai", "--model-name", "usual"]
    arguments += ["--model-base-url", thinks.url]
    server = Server(*arguments, MAYFLY_MODEL_API_KEY=thinks.key)
    try:
        found = whole(post(server.caller(), asking()))
        assert found[-1]["result"] == {"message": "from the server's model"}
        whole(post(server.caller(), asking(forwardedProps={"model": "other"})))
        assert [asked.body["model"] for asked in thinks.asked] == ["usual", "other"]
    finally:
        server.stop()


def test_pages_of_an_origin_may_call_once_it_is_named():
    server = Server("--cors-origin", "http://localhost:5173")
    caller = server.caller()

    def allowed(method: str, origin: str, **headers: str) -> str | None:
        body = json.dumps(asking()).encode()
        stream = Stream(caller.url, caller.key, method, "/agui", body, Origin=origin, **headers)
        stream.answer.read()
        assert stream.status == 200
        return stream.headers.get("access-control-allow-origin")

    try:
        asks = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "x-api-key"}
        assert allowed("OPTIONS", "http://localhost:5173", **asks) == "http://localhost:5173"
        assert allowed("POST", "http://localhost:5173") == "http://localhost:5173"
        assert allowed("OPTIONS", "http://elsewhere.test", **asks) is None
    finally:
        server.stop()


def test_hanging_up_ends_the_run(caller):
    config = shell("sleep 60")
    stream = post(caller, asking(forwardedProps={"config": config}))
    while b"TOOL_CALL_START" not in stream.answer.readline():
        pass
    stream.hang_up()
    again = caller.follow(stream.run_id, accept=SSE)
    found = [event for _, event in events.server_sent(again.answer.read())]
    events.check(found)
    assert (found[-1]["type"], found[-1]["code"]) == ("RUN_ERROR", "cancelled")
    (result,) = of_type(found, "TOOL_CALL_RESULT")
    assert json.loads(result["content"]) == {"status": "interrupted"}


def test_a_front_end_that_was_cut_off_asks_again_and_goes_on_with_its_run(caller):
    props = {"config": shell("sleep 1; echo late"), "on_disconnect": "continue"}
    body = asking(forwardedProps=props, runId="cut off")
    stream = post(caller, body)
    read = b""
    while b"TOOL_CALL_END" not in read:
        read += stream.answer.readline()
    read += stream.answer.readline()
    stream.hang_up()
    before = events.server_sent(read)
    again = post(caller, body, Last_Event_ID=before[-1][0])
    assert (again.status, again.run_id) == (200, stream.run_id)
    rest = events.server_sent(again.answer.read())
    found = [event for _, event in before + rest]
    events.check(found)
    assert found[-1]["type"] == "RUN_FINISHED"
    # Whoever has all of it is told so, and a run that never was is not begun.
    assert post(caller, body, Last_Event_ID=rest[-1][0]).status == 204
    other = post(caller, body | {"runId": "never"}, Last_Event_ID="7")
    assert other.status == 404 and "`never`" in json.loads(other.answer.read())["message"]
    assert len([run for run in caller.runs() if run["id"] == stream.run_id]) == 1


def test_a_run_is_found_by_its_callers_name_behind_a_restart(own_server):
    body = asking(forwardedProps={"config": shell("echo told")}, runId="kept")
    stream = post(own_server.caller(), body)
    whole = events.server_sent(stream.answer.read())
    own_server.kill()
    own_server.start()
    half = len(whole) // 2
    again = post(own_server.caller(), body, Last_Event_ID=whole[half][0])
    assert (again.status, again.run_id) == (200, stream.run_id)
    assert events.server_sent(again.answer.read()) == whole[half + 1 :]


WRONG = [
    ("threadId", {"threadId": None}),
    ("messages", {"messages": []}),
    ("messages[0].content", {"messages": [{"id": "1", "role": "user", "content": 7}]}),
    ("tools[0].name", {"tools": [ASK | {"name": "a b"}]}),
    ("tools", {"tools": [ASK, ASK]}),
    ("forwardedProps.harness", {"forwardedProps": {"harness": "gemini"}}),
    ("forwardedProps.limits.tokens", {"forwardedProps": {"limits": {"tokens": -1}}}),
    ("forwardedProps.policy.commands.deny", {"forwardedProps": {"policy": {"commands": {"deny": 1}}}}),
]


@pytest.mark.parametrize("field, changes", WRONG)
def test_a_mistake_is_told_by_the_name_of_its_field(caller, field, changes):
    before = len(caller.runs())
    stream = post(caller, asking() | changes)
    refusal = json.loads(stream.answer.read())
    assert stream.status == 400 and refusal["code"] == 400
    assert f"`{field}`" in refusal["message"], refusal
    assert len(caller.runs()) == before


def test_a_harness_without_its_template_says_how_to_make_one(caller):
    model = {"provider": "anthropic", "name": "m", "api_key": "k"}
    stream = post(caller, asking(forwardedProps={"harness": "claude-code", "model": model}))
    refusal = json.loads(stream.answer.read())
    assert stream.status == 400
    assert "mayfly template add-harness claude-code" in refusal["message"]

"""What a workspace attaches to an agent: an environment, MCP servers, a place for results."""

import json

import logs
from caller import RAW
from dialects import Turn
from waiting import wait_until

SCHEMA = {"type": "object", "properties": {"about": {"type": "string"}}, "required": ["about"]}
TOOL = {"name": "fact", "description": "Tells a fact", "inputSchema": SCHEMA}


def facts(seen: list):
    """A small MCP server: no sessions, answers in JSON."""

    def answer(exchange) -> None:
        if exchange.request.method != "POST":
            exchange.answer(405)
            return
        asked = json.loads(exchange.request.body)
        seen.append((asked["method"], exchange.request.headers.get("authorization")))
        if "id" not in asked:
            exchange.answer(202)
            return
        match asked["method"]:
            case "initialize":
                version = asked["params"]["protocolVersion"]
                about = {"name": "facts", "version": "1"}
                result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
            case "tools/list":
                result = {"tools": [TOOL]}
            case "tools/call":
                text = f"otters hold hands ({asked['params']['arguments']['about']})"
                result = {"content": [{"type": "text", "text": text}], "isError": False}
            case _:
                error = {"code": -32601, "message": "no such method"}
                reply(exchange, {"jsonrpc": "2.0", "id": asked["id"], "error": error})
                return
        reply(exchange, {"jsonrpc": "2.0", "id": asked["id"], "result": result})

    return answer


def reply(exchange, value: dict) -> None:
    exchange.answer(200, json.dumps(value).encode(), Content_Type="application/json")


def test_a_workspace_gives_an_agent_all_that_it_gives_our_own(caller, host, mind, workspace, agent):
    seen: list = []
    server = {"name": "facts", "transport": "http", "url": host.lodge(facts(seen)) + "/mcp"}
    server["headers"] = {"Authorization": "Bearer for-the-host-only"}
    write = 'mkdir -p assets && echo "$GREETING, $(cat prepared.txt)" > assets/made.txt'

    def ask(_: dict) -> Turn:
        # No real model is as fast as this one: agents look for tools while they ask it first.
        assert wait_until(lambda: any(method == "tools/list" for method, _ in seen), 10)
        return Turn("I ask.", calls=[agent.call("fact", {"about": "sleep"}, server="facts")])

    thinker = mind(
        agent,
        ask,
        Turn("I write.", calls=[agent.run(write)]),
        Turn("All done."),
    )
    config = {"model": thinker.config(), "mcp_servers": [server], "harness": {"kind": agent.name}}
    session = workspace(config, {"GREETING": "bonjour"}, "echo ready > prepared.txt")
    stream = caller.dispatch(session.body("Go", harness=agent.name), RAW)
    content = stream.rest()
    assert stream.status == 200, content
    log = [json.loads(line) for line in content.splitlines()]
    assert logs.message(log) == "All done."
    (asked, told), (_, wrote), (writeback, _) = logs.steps(log)
    assert (asked["name"], asked["args"]) == ("mcp__facts__fact", {"about": "sleep"})
    assert told["status"] == "succeeded", logs.written(told)
    assert "hold hands (sleep)" in logs.written(told["result"])
    assert wrote["status"] == "succeeded" and writeback["name"] == "writeback"
    assert thinker.heard("hold hands (sleep)", 1)
    assert ("tools/call", "Bearer for-the-host-only") in seen
    assert "for-the-host-only" not in content.decode()
    assert [(stored.name, stored.content) for stored in session.stored] == [("made.txt", b"bonjour, ready\n")]
    assert session.order()[-1] == "results"

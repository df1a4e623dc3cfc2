"""Code mode: every agent finds the tools that run programs, and programs find the caller's tools."""

import json
import time

import logs
from dialects import Turn

PROGRAMS = {
    "execute_typescript": (
        "typescriptCode",
        "const found = await external_lookup({ word: 'otter' }) as { meaning: string }\n"
        "console.log(found.meaning)\nreturn found.meaning.length",
    ),
    "execute_python": (
        "pythonCode",
        "found = external_lookup(word='otter')\nprint(found['meaning'])\nreturn len(found['meaning'])",
    ),
}


def test_an_agent_runs_programs_that_call_the_callers_tools(caller, host, mind, dispatch, agent):
    asked: list[dict] = []

    def tool(exchange) -> None:
        asked.append(json.loads(exchange.request.body))
        exchange.answer(200, b'{"meaning": "sea-otter-42"}', Content_Type="application/json")

    def first(tool: str, args: dict):
        def turn(_: object) -> Turn:
            # No real model is as fast as this one: agents look for tools while they ask it first.
            time.sleep(2)
            return Turn("I run.", calls=[agent.call(tool, args, server="code")])

        return turn

    given = {"name": "lookup", "description": "Looks a word up", "url": host.lodge(tool)}
    for name, (field, code) in PROGRAMS.items():
        thinker = mind(agent, first(name, {field: code}), Turn("Ran."))
        log = caller.run_raw(dispatch(agent, thinker, tools=[given], codeMode=True))
        assert logs.message(log) == "Ran."
        # Under load an agent tells its own call after the host has told the one inside.
        steps = {start["name"]: (start, end) for start, end in logs.steps(log)}
        (outer, ended), (_, booked) = steps[f"mcp__code__{name}"], steps["lookup"]
        assert len(steps) == 2 and outer["args"] == {field: code}
        assert ended["status"] == "succeeded", logs.written(ended)
        assert booked["result"] == {"meaning": "sea-otter-42"}
        assert asked.pop()["arguments"] == {"word": "otter"} and not asked
        (printed,) = logs.customs(log, "code_mode:console")
        assert printed["message"] == "sea-otter-42"
        (called,) = logs.customs(log, "code_mode:external_result")
        assert called["result"] == {"meaning": "sea-otter-42"}
        (finished,) = logs.customs(log, "code_mode:execution_finished")
        assert finished["success"] and finished["phase"] == "execute"
        assert thinker.heard("sea-otter-42"), "the model is told"

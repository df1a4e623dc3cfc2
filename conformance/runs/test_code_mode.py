"""Code mode: the model's programs, in both languages, with the caller's tools as functions."""

import json
import threading
import time

import pytest

import caller as calls
import lines
from dialects import Turn
from scripts import calling
from test_tools import Tool, body, of, returning

LANGUAGES = [("execute_typescript", "typescriptCode"), ("execute_python", "pythonCode")]
TYPESCRIPT, PYTHON = LANGUAGES


def program(language: tuple[str, str], code: str, **more: object) -> dict:
    """A configuration that runs one program."""
    tool, field = language
    return calling([(tool, {field: code})], **more)


def customs(log: list[dict], name: str) -> list:
    return [entry["value"] for entry in of(log, "custom") if entry["name"] == f"code_mode:{name}"]


def run(caller, language: tuple[str, str], code: str, *tools: Tool, **more: object) -> tuple[list[dict], dict]:
    """The log of a run of one program, and how its step ended."""
    log = caller.run_raw(body(program(language, code), *tools, codeMode=True) | more)
    assert log[-1]["type"] == "result", log[-1]
    ids = [entry["id"] for entry in of(log, "step_started") if entry["name"] == language[0]]
    (ended,) = [entry for entry in of(log, "step_ended") if entry["id"] in ids]
    return log, ended


@pytest.mark.parametrize(
    ("language", "code"),
    [
        (TYPESCRIPT, "console.log('first'); await external_look({}); console.log('last'); return 1"),
        (PYTHON, "print('first')\nexternal_look()\nprint('last')\nreturn 1"),
    ],
)
def test_a_console_is_live(caller, host, language, code):
    tool = Tool(host, lambda e, tool: (tool.released.wait(20), returning(None)(e, tool)))
    stream = caller.dispatch(body(program(language, code), tool, codeMode=True), calls.RAW)
    first = stream.until(type="custom", name="code_mode:console")["value"]
    assert (first["level"], first["message"]) == ("log", "first")
    # The program is still waiting for its tool.
    assert not tool.released.is_set()
    tool.released.set()
    log = lines.raw(stream.rest())
    assert [one["message"] for one in customs(log, "console")] == ["first", "last"]
    assert of(log, "step_ended")[-1]["result"] == {"success": True, "result": 1, "logs": ["first", "last"]}


@pytest.mark.parametrize(
    ("language", "code"),
    [
        (
            TYPESCRIPT,
            """interface Sky { sun: boolean }
            const skies: Sky[] = await Promise.all(["Bern", "Oslo"].map((city) => external_look_up({ city })))
            try { await external_broken({ x: 1 }) } catch (e) { console.error((e as Error).message) }
            return skies.map((sky) => sky.sun)""",
        ),
        (
            PYTHON,
            """import sys
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor() as pool:
    skies = list(pool.map(lambda city: external_look_up({"city": city}), ["Bern", "Oslo"]))
try:
    external_broken(x=1)
except ExternalError as error:
    print(error, file=sys.stderr)
return [sky["sun"] for sky in skies]""",
        ),
    ],
)
def test_tools_are_functions_and_each_call_is_told(caller, host, language, code):
    def sky(e, _) -> None:
        city = json.loads(e.request.body)["arguments"]["city"]
        returning({"sun": city == "Bern"})(e, _)

    look = Tool(host, sky, "look-up")
    broken = Tool(host, lambda e, _: e.answer(500, b"out of order"), "broken")
    log, ended = run(caller, language, code, look, broken)
    assert ended["result"]["result"] == [True, False], ended
    assert sorted(asked["arguments"]["city"] for asked in look.asked) == ["Bern", "Oslo"]
    told = customs(log, "external_call")
    assert [one["function"] for one in told] == ["external_look_up"] * 2 + ["external_broken"]
    assert told[-1]["args"] == {"x": 1} and type(told[-1]["timestamp"]) is int
    results = customs(log, "external_result")
    assert sorted(one["result"]["sun"] for one in results) == [False, True]
    assert all(type(one["duration"]) is int for one in results)
    (error,) = customs(log, "external_error")
    assert error["function"] == "external_broken" and "out of order" in error["error"]
    (printed,) = customs(log, "console")
    assert printed["level"] == "error" and "out of order" in printed["message"]
    # The host books the calls as well, within the program's step.
    names = {entry["id"]: entry["name"] for entry in of(log, "step_started")}
    order = [names[entry["id"]] for entry in of(log, "step_ended")]
    assert sorted(order[:3]) == ["broken", "look-up", "look-up"] and order[3:] == [language[0]]
    (started,), (finished,) = customs(log, "execution_started"), customs(log, "execution_finished")
    assert started["codeLength"] == len(code)
    assert finished["success"] and finished["phase"] == "execute" and finished["logCount"] == 1
    assert "error" not in finished and finished["durationMs"] >= 0


@pytest.mark.parametrize(
    ("language", "code", "line"),
    [(TYPESCRIPT, "const a: number = 1\nconst b = ;\n", 2), (PYTHON, "a = 1\n\nb = )\n", 3)],
)
def test_a_syntax_error_has_its_line(caller, language, code, line):
    log, ended = run(caller, language, code)
    error = ended["result"]["error"]
    assert ended["status"] == "failed" and ended["result"]["success"] is False
    assert (error["name"], error["line"]) == ("SyntaxError", line)
    assert f"(line {line}, column" in ended["error"]
    (finished,) = customs(log, "execution_finished")
    assert finished["phase"] == "transpile" and finished["success"] is False and finished["error"] == error


@pytest.mark.parametrize(
    ("language", "code", "name", "line"),
    [
        (TYPESCRIPT, "type A = 1\n\nthrow new RangeError('too far')", "RangeError", 3),
        (PYTHON, "def f():\n  raise KeyError('too far')\nf()", "KeyError", 2),
    ],
)
def test_an_exception_has_its_name_and_its_line(caller, language, code, name, line):
    _, ended = run(caller, language, code)
    error = ended["result"]["error"]
    assert (error["name"], error["line"]) == (name, line) and "too far" in error["message"]


@pytest.mark.parametrize(
    ("language", "code"),
    [
        (
            TYPESCRIPT,
            "require('child_process').spawn('sh', ['-c', 'touch early; sleep 3; touch late'], "
            "{ detached: true, stdio: 'ignore' }).unref()\n"
            "while (!require('fs').existsSync('early')) await new Promise((done) => setTimeout(done, 10))",
        ),
        (
            PYTHON,
            "import os, subprocess, time\n"
            "subprocess.Popen(['sh', '-c', 'touch early; sleep 3; touch late'], start_new_session=True)\n"
            "while not os.path.exists('early'): time.sleep(0.01)",
        ),
    ],
)
def test_a_program_ends_with_all_that_it_started(caller, language, code):
    tool, field = language
    config = calling([(tool, {field: code})], [("shell", {"command": "sleep 4; ls"})])
    log = caller.run_raw({"prompt": "go", "config": config, "codeMode": True})
    ended, listed = of(log, "step_ended")
    assert ended["result"] == {"success": True}
    names = listed["result"]["stdout"].split()
    assert "early" in names and "late" not in names


@pytest.mark.parametrize(
    ("language", "code"),
    [
        (TYPESCRIPT, "for (let i = 0; i < 1e5; i++) console.log('x'.repeat(200)); return 'end'"),
        (PYTHON, "for i in range(100_000): print('x' * 200)\nreturn 'end'"),
        (PYTHON, "import os\nos.system('yes | head -c 20000000')\nreturn 'end'"),
    ],
)
def test_endless_output_is_told_in_part(caller, language, code):
    log, ended = run(caller, language, code)
    assert ended["result"]["result"] == "end"
    printed = customs(log, "console")
    assert len(printed) <= 1000 and "the rest is left out" in printed[-1]["message"]
    assert len(json.dumps(log)) < 2 << 20


def test_what_is_no_message_ends_the_program_and_not_the_run(caller):
    code = "import os, time\nos.write(4, b'\\xff{[\\n' * 1000)\ntime.sleep(60)"
    began = time.monotonic()
    _, ended = run(caller, PYTHON, code)
    assert ended["status"] == "failed" and "no message" in ended["error"]
    assert time.monotonic() - began < 30


def test_a_cancelled_run_hangs_up_on_the_tools_of_its_program(caller, host):
    gone = threading.Event()
    tool = Tool(host, lambda e, tool: (e.wait(tool.released), gone.set()))
    config = program(PYTHON, "return external_look()")
    stream = caller.dispatch(body(config, tool, codeMode=True), calls.RAW)
    stream.until(type="step_started", name="look")
    stream.hang_up()
    assert gone.wait(10)


def test_without_code_mode_there_are_no_such_tools(caller):
    outcome = caller.run({"prompt": "go", "config": program(PYTHON, "return 1")})
    assert outcome.step("execute_python")["error"] == "there is no tool `execute_python`"


def test_the_model_reads_the_signatures(caller, host, model):
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    tool = Tool(host, returning(1), parameters=parameters)
    thinker = model("anthropic", Turn("done"))
    caller.run_raw(body({"model": thinker.config()}, tool, codeMode=True))
    offered = {one["name"]: one for one in thinker.asked[0].body["tools"]}
    assert "external_look(args: { city: string }): Promise<any>" in offered["execute_typescript"]["description"]
    assert "external_look(args: { city: string })" in offered["execute_python"]["description"]

"""A command that memory runs out for: it alone ends, and its end says why."""

import os

import pytest
from e2b import CommandExitException

from test_alias import run
from test_metrics import series

HOG = "python3 -c 'b\"x\" * (int(\"4\") << 30)'"

pytestmark = pytest.mark.skipif(
    os.environ.get("MAYFLY_TEST_TIER") != "native",
    reason="only the native tier limits the memory of commands apart from their daemon",
)


@pytest.mark.parametrize(
    ("line", "code"),
    [(f"exec {HOG}", -1), (f"{HOG}; exit $?", 137)],
    ids=["the command itself", "a program of its shell"],
)
def test_the_end_event_says_that_memory_ran_out(sandbox, line, code):
    with pytest.raises(CommandExitException) as ended:
        sandbox.commands.run(line)
    assert (ended.value.exit_code, ended.value.error) == (code, "out_of_memory")
    # The others do not suffer for it.
    assert sandbox.commands.run("echo on").stdout == "on\n"


def test_the_last_line_and_the_metrics_say_it_too(sandbox, api):
    before = series(api)["mayfly_commands_out_of_memory_total"]
    lines = run(api, f"exec {HOG}", sandbox_id=sandbox.sandbox_id)
    assert lines[-1] == {"type": "end", "exit_code": -1, "reason": "out_of_memory"}
    assert series(api)["mayfly_commands_out_of_memory_total"] == before + 1


def test_a_kill_that_was_not_for_memory_is_not_called_so(sandbox):
    bystander = sandbox.commands.run("sleep 1000", background=True)
    with pytest.raises(CommandExitException):
        sandbox.commands.run(f"exec {HOG}")
    sandbox.commands.run(f"kill -9 {bystander.pid}")
    with pytest.raises(CommandExitException) as ended:
        bystander.wait()
    assert (ended.value.exit_code, ended.value.error) == (-1, "signal: killed")

"""`commands.run` in the foreground: output, exit codes, environment, limits."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from e2b import (
    AuthenticationException,
    CommandExitException,
    InvalidArgumentException,
    TimeoutException,
)

from waiting import wait_until


def test_output_and_exit_code_come_back(shared):
    result = shared.commands.run("echo out; echo err >&2")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 0)
    assert not result.error


@pytest.mark.parametrize("code", [1, 2, 42, 127, 255])
def test_another_exit_code_raises(shared, code):
    with pytest.raises(CommandExitException) as raised:
        shared.commands.run(f"echo before; echo why >&2; exit {code}")
    assert raised.value.exit_code == code
    assert raised.value.stdout == "before\n"
    assert raised.value.stderr == "why\n"
    assert raised.value.error == f"exit status {code}"


def test_a_signal_of_its_own_is_exit_code_minus_one(shared):
    with pytest.raises(CommandExitException) as raised:
        shared.commands.run("kill -SEGV $$")
    assert raised.value.exit_code == -1
    assert raised.value.error.startswith("signal: segmentation fault")


def test_a_program_that_does_not_exist_is_named(shared):
    with pytest.raises(CommandExitException) as raised:
        shared.commands.run("no-such-program")
    assert raised.value.exit_code == 127
    assert "no-such-program" in raised.value.stderr


def test_variables_of_a_call_reach_the_command(shared):
    result = shared.commands.run('echo "$GREETING"', envs={"GREETING": "good \"day\" $HOME\n"})
    assert result.stdout == 'good "day" $HOME\n\n'


def test_nothing_of_the_servers_environment_leaks(shared):
    names = shared.commands.run("env | cut -d= -f1").stdout.split()
    assert not [name for name in names if name.startswith(("MAYFLY", "E2B", "CARGO"))]
    assert {"PATH", "HOME", "USER", "LOGNAME"} <= set(names)


def test_a_working_directory_can_be_chosen(shared):
    assert shared.commands.run("pwd", cwd="/usr/lib").stdout == "/usr/lib\n"
    home = shared.commands.run("pwd").stdout
    assert home == shared.commands.run("echo $HOME").stdout
    shared.commands.run("mkdir -p a/b")
    assert shared.commands.run("pwd", cwd="a/b").stdout == home.strip() + "/a/b\n"


def test_a_missing_working_directory_is_named(shared):
    with pytest.raises(InvalidArgumentException, match="cwd '/no/such/place' does not exist"):
        shared.commands.run("pwd", cwd="/no/such/place")


def test_a_command_can_run_as_root(shared):
    if shared.commands.run("id -u").stdout != "0\n":
        pytest.skip("the sandbox's daemon is not root here")
    assert shared.commands.run("id -un", user="root").stdout == "root\n"


def test_an_unknown_user_is_refused(shared):
    with pytest.raises(AuthenticationException, match="invalid username: 'nobody-here'"):
        shared.commands.run("id", user="nobody-here")


def test_a_character_split_between_reads_arrives_whole(shared):
    result = shared.commands.run(r"printf 'a\303'; sleep 0.2; printf '\244b\n'")
    assert result.stdout == "aäb\n"


def test_bytes_that_are_not_text_do_not_break_the_stream(shared):
    result = shared.commands.run(r"printf '\377\376ok\n'")
    assert result.stdout.endswith("ok\n") and "\ufffd" in result.stdout


def test_a_line_of_a_megabyte_arrives_whole(shared):
    result = shared.commands.run("head -c 1048576 /dev/zero | tr '\\0' x; echo")
    assert result.stdout == "x" * 1048576 + "\n"


def test_a_hundred_thousand_lines_arrive_in_order(shared):
    result = shared.commands.run("seq 1 100000")
    assert result.stdout == "".join(f"{number}\n" for number in range(1, 100001))


def test_callbacks_see_lines_in_order_while_the_command_runs(shared):
    seen = []
    line = "for i in 1 2 3; do echo $i; sleep 0.2; done"
    shared.commands.run(line, on_stdout=lambda text: seen.append((text, time.monotonic())))
    assert [text for text, _ in seen] == ["1\n", "2\n", "3\n"]
    assert seen[2][1] - seen[0][1] > 0.3


def test_a_prompt_without_a_newline_appears_at_once(shared):
    seen = []
    start = time.monotonic()
    line = "printf 'name? '; sleep 1; echo done"
    shared.commands.run(line, on_stdout=lambda text: seen.append((text, time.monotonic() - start)))
    assert seen[0][0] == "name? " and seen[0][1] < 0.8
    assert "".join(text for text, _ in seen) == "name? done\n"


def test_an_unterminated_last_line_is_delivered(shared):
    assert shared.commands.run("printf 'one\\ntwo'").stdout == "one\ntwo"


def test_both_pipes_keep_their_own_order(shared):
    out, err = [], []
    shared.commands.run(
        "for i in $(seq 100); do echo o$i; echo e$i >&2; done",
        on_stdout=out.append,
        on_stderr=err.append,
    )
    assert "".join(out).split() == [f"o{i}" for i in range(1, 101)]
    assert "".join(err).split() == [f"e{i}" for i in range(1, 101)]


def test_a_timeout_raises_and_the_process_is_really_dead(shared):
    with pytest.raises(TimeoutException):
        shared.commands.run("echo $$ > timed-out; sleep 1000", timeout=1)
    pid = shared.commands.run("cat timed-out").stdout.strip()
    gone = f"kill -0 {pid} 2>/dev/null && echo alive || echo dead"
    assert wait_until(lambda: shared.commands.run(gone).stdout == "dead\n", 5)
    assert int(pid) not in [process.pid for process in shared.commands.list()]


def test_a_grandchild_in_the_background_does_not_hold_up_the_end(shared):
    start = time.monotonic()
    assert shared.commands.run("sleep 30 & echo started").stdout == "started\n"
    assert time.monotonic() - start < 10


def test_standard_input_is_empty_unless_asked_for(shared):
    assert shared.commands.run("cat; echo end").stdout == "end\n"


def test_fifty_commands_at_once_do_not_mix(shared):
    def run(number: int) -> str:
        return shared.commands.run(f"for i in $(seq 50); do echo {number}-$i; done").stdout

    with ThreadPoolExecutor(50) as pool:
        for number, output in enumerate(pool.map(run, range(50))):
            assert output.split() == [f"{number}-{i}" for i in range(1, 51)]

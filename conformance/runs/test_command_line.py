"""`mayfly run` and `mayfly runs`: a caller at a terminal, and in a pipe."""

import json
import os
import pty
import signal
import subprocess

import pytest

import lines
from serving import PROGRAMS
from waiting import wait_until

BLOCK = "Do it:\n```sh\n{}\n```\n"


@pytest.fixture
def command(server):
    """The program with its arguments, and the environment it runs in."""
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm", "MAYFLY_API_KEY": server.key}
    environment["MAYFLY_URL"] = server.url

    def make(*arguments: str) -> dict:
        return {"args": [str(PROGRAMS / "mayfly"), *arguments], "env": environment}

    return make


def output(made: dict, status: int = 0, **more: object) -> str:
    done = subprocess.run(**made, capture_output=True, text=True, timeout=60, **more)
    assert done.returncode == status, (done.stdout, done.stderr)
    return done.stdout


def at_terminal(made: dict, until: str | None = None, **more: object) -> tuple[str, int]:
    """Runs it at a terminal; Ctrl-C comes after `until` was seen."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(**made, stdin=follower, stdout=follower, stderr=follower, **more)
    os.close(follower)
    seen = b""
    try:
        while piece := os.read(leader, 65536):
            seen += piece
            if until and until.encode() in seen:
                process.send_signal(signal.SIGINT)
                until = None
    except OSError:
        pass  # The end of a terminal without users reads as an error.
    os.close(leader)
    return seen.decode(), process.wait(timeout=30)


def test_in_a_pipe_the_stream_is_the_envelope(command):
    text = output(command("run", BLOCK.format("echo hi")))
    assert lines.envelope(text.encode())[-1]["type"] == "result"


def test_raw_prints_the_log_as_it_is(command):
    text = output(command("run", "--raw", BLOCK.format("echo hi")))
    assert lines.raw(text.encode())[0]["type"] == "started"


def test_a_prompt_comes_from_standard_input(command):
    text = output(command("run", "-"), input=BLOCK.format("echo from stdin"))
    assert "from stdin" in text


def test_an_error_is_the_exit_status(command):
    text = output(command("run", "--max-runtime-sec", "1", BLOCK.format("sleep 60")), status=1)
    assert lines.envelope(text.encode())[-1]["code"] == "runtime_exceeded"


def test_files_are_put_where_they_are_wanted(command, tmp_path):
    prompt = BLOCK.format("echo three > assets/three.txt")
    text = output(command("run", "--output", str(tmp_path / "out"), prompt))
    assert (tmp_path / "out" / "three.txt").read_text() == "three\n"
    run = next(line for line in map(json.loads, text.splitlines()[:1]))["message"].split()[1]
    output(command("runs", "files", run, "--output", str(tmp_path / "again")))
    assert (tmp_path / "again" / "three.txt").read_text() == "three\n"


def test_a_terminal_shows_steps_and_the_words_once(command):
    seen, status = at_terminal(command("run", BLOCK.format("true") + BLOCK.format("exit 3")))
    assert status == 0
    assert "✓" in seen and "✗" in seen and "exit status 3" in seen
    assert seen.count("The scripted provider") == 1


def test_what_a_sandbox_prints_does_not_reach_the_terminal_as_control(command):
    seen, _ = at_terminal(command("run", BLOCK.format(r"printf '\033]0;owned\007\033[2J'")))
    assert "\x1b]0;owned" not in seen and "\x1b[2J" not in seen


def test_control_c_cancels_the_run(command, caller):
    seen, status = at_terminal(command("run", BLOCK.format("sleep 60")), until="sleep 60")
    assert status == 130
    assert "cancelled" in seen
    assert wait_until(lambda: caller.runs()[0]["code"] == "cancelled")


def test_a_run_that_is_left_alone_goes_on_and_can_be_followed(command, caller):
    run = output(command("run", "--detach", BLOCK.format("sleep 1; echo late"))).strip()
    assert run.startswith("run_")
    text = output(command("runs", "follow", run))
    assert lines.raw(text.encode())[-1]["type"] == "result" and "late" in text
    after = output(command("runs", "follow", run, "--after", "3"))
    assert text.endswith(after) and len(after) < len(text)


def test_runs_are_listed_and_cancelled(command):
    run = output(command("run", "--detach", BLOCK.format("sleep 60"))).strip()
    first = output(command("runs")).splitlines()[1]
    assert run in first and "Do it:" in first
    output(command("runs", "cancel", run))
    listed = json.loads(output(command("runs", "--json")))["runs"][0]
    assert (listed["id"], listed["code"]) == (run, "cancelled")


def test_without_a_server_it_says_what_to_do(command):
    made = command("run", "hello", "--url", "http://127.0.0.1:1")
    done = subprocess.run(**made, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "mayfly serve" in done.stderr


def test_with_a_wrong_key_it_says_so(command):
    made = command("run", "hello")
    made["env"] = made["env"] | {"MAYFLY_API_KEY": "e2b_" + "0" * 40}
    done = subprocess.run(**made, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "MAYFLY_API_KEY" in done.stderr

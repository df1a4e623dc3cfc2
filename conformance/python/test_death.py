"""What clients see when a sandbox ends under them."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from e2b import PtySize, Sandbox, SandboxNotFoundException, SandboxNotRunningException

from waiting import wait_until



def test_calls_after_a_kill_say_that_the_sandbox_is_gone(server):
    sandbox = Sandbox.create()
    handle = sandbox.commands.run("sleep 1000", background=True)
    sandbox.kill()
    calls = [
        lambda: sandbox.commands.run("true"),
        lambda: sandbox.commands.list(),
        lambda: sandbox.commands.connect(handle.pid),
        lambda: sandbox.commands.send_stdin(handle.pid, "x"),
        lambda: sandbox.commands.kill(handle.pid),
        lambda: sandbox.pty.create(PtySize(rows=10, cols=10)),
    ]
    for call in calls:
        with pytest.raises(SandboxNotRunningException, match="was not found"):
            call()
    with pytest.raises(SandboxNotFoundException):
        sandbox.set_timeout(10)
    with pytest.raises(SandboxNotFoundException):
        Sandbox.connect(sandbox.sandbox_id)


def test_a_sandbox_killed_mid_stream_ends_its_streams(server):
    sandbox = Sandbox.create()
    busy = "while :; do echo tick; sleep 0.05; done"
    handle = sandbox.commands.run(busy, background=True, timeout=0)
    next(iter(handle))
    threading.Timer(0.3, sandbox.kill).start()
    start = time.monotonic()
    with pytest.raises(SandboxNotRunningException):
        handle.wait()
    assert time.monotonic() - start < 10


def test_a_silent_stream_ends_too_when_its_sandbox_is_killed(server):
    sandbox = Sandbox.create()
    handle = sandbox.commands.run("sleep 1000", background=True, timeout=0)
    threading.Timer(0.3, sandbox.kill).start()
    with pytest.raises(SandboxNotRunningException):
        handle.wait()


def test_a_stream_ends_when_the_sandbox_reaches_its_deadline(server):
    sandbox = Sandbox.create(timeout=2)
    start = time.monotonic()
    with pytest.raises(SandboxNotRunningException):
        sandbox.commands.run("sleep 1000", timeout=0)
    assert 0.5 < time.monotonic() - start < 10


def test_a_client_killed_mid_stream_leaves_its_command_and_no_stuck_task(server, sandbox, api):
    client = subprocess.Popen(
        [sys.executable, "-c", "import sys, e2b\n"
         "box = e2b.Sandbox.connect(sys.argv[1])\n"
         "box.commands.run('echo $$; while :; do echo tick; sleep 0.01; done',"
         " on_stdout=lambda line: print(line, end='', flush=True), timeout=0)",
         sandbox.sandbox_id],
        env=os.environ | server.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    pid = int(client.stdout.readline())
    before = open_files(server.pid)
    os.kill(client.pid, signal.SIGKILL)
    client.wait()
    client.stdout.close()
    # The command lives on: only its reader is gone, and the connection with it.
    assert wait_until(lambda: open_files(server.pid) < before, 5)
    assert pid in [process.pid for process in sandbox.commands.list()]
    assert sandbox.commands.kill(pid) is True
    assert wait_until(lambda: not sandbox.commands.list(), 5)


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))

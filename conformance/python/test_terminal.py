"""Pseudo-terminals through the SDK."""

import threading

import pytest
from e2b import CommandExitException, NotFoundException, PtySize, SandboxException

from waiting import wait_until


SIZE = PtySize(rows=24, cols=80)


class Screen:
    """Collects what a terminal shows until it ends."""

    def __init__(self, handle) -> None:
        self.handle = handle
        self.shown = b""
        self.failure: Exception | None = None
        self.thread = threading.Thread(target=self._read)
        self.thread.start()

    def _read(self) -> None:
        try:
            self.handle.wait(on_pty=self._show)
        except Exception as failure:
            self.failure = failure

    def _show(self, data: bytes) -> None:
        self.shown += data

    def waits_for(self, text: bytes) -> bool:
        return wait_until(lambda: text in self.shown, 10)


def test_a_terminal_runs_what_is_typed(shared):
    handle = shared.pty.create(SIZE, envs={"WORD": "lantern"}, cwd="/usr")
    screen = Screen(handle)
    shared.pty.send_stdin(handle.pid, b"echo [$WORD] $TERM; pwd; tty\n")
    assert screen.waits_for(b"[lantern] xterm-256color\r\n/usr\r\n/dev/pts/"), screen.shown
    shared.pty.send_stdin(handle.pid, b"exit\n")
    screen.thread.join(10)
    assert screen.failure is None and not screen.thread.is_alive()


def test_a_terminal_has_the_size_it_was_given_and_is_resized(shared):
    handle = shared.pty.create(SIZE)
    screen = Screen(handle)
    shared.pty.send_stdin(handle.pid, b"stty size\n")
    assert screen.waits_for(b"24 80"), screen.shown
    shared.pty.resize(handle.pid, PtySize(rows=40, cols=132))
    shared.pty.send_stdin(handle.pid, b"stty size\n")
    assert screen.waits_for(b"40 132"), screen.shown
    shared.pty.kill(handle.pid)
    screen.thread.join(10)


def test_an_interrupt_reaches_the_foreground_job(shared):
    handle = shared.pty.create(SIZE)
    screen = Screen(handle)
    # The job itself says that it is there: between two commands of a list the foreground is the
    # shell's, and the key would meet a job that is only being forked. gVisor takes its time for that.
    shared.pty.send_stdin(handle.pid, b"sh -c 'echo ready; exec sleep 1000'\n")
    assert screen.waits_for(b"ready\r\n")
    shared.pty.send_stdin(handle.pid, b"\x03")
    shared.pty.send_stdin(handle.pid, b"echo back-$((40+2))\n")
    assert screen.waits_for(b"back-42"), screen.shown
    shared.pty.kill(handle.pid)
    screen.thread.join(10)


def test_a_killed_terminal_ends_its_stream(shared):
    handle = shared.pty.create(SIZE)
    screen = Screen(handle)
    assert shared.pty.kill(handle.pid) is True
    screen.thread.join(10)
    assert isinstance(screen.failure, CommandExitException)
    assert screen.failure.exit_code == -1
    assert shared.pty.kill(999999) is False


def test_a_second_client_joins_a_terminal(shared):
    handle = shared.pty.create(SIZE)
    first, second = Screen(handle), Screen(shared.pty.connect(handle.pid))
    shared.pty.send_stdin(handle.pid, b"echo both-$((1+1))\n")
    assert first.waits_for(b"both-2") and second.waits_for(b"both-2")
    shared.pty.send_stdin(handle.pid, b"\x04")
    first.thread.join(10)
    second.thread.join(10)
    assert not first.thread.is_alive() and not second.thread.is_alive()


def test_input_can_be_streamed_to_a_terminal(shared):
    handle = shared.pty.create(SIZE)
    screen = Screen(handle)
    shared.pty.stream_input(handle.pid, ["echo str", "eam", "ed-$((3*3))\n"])
    assert screen.waits_for(b"streamed-9"), screen.shown
    shared.pty.kill(handle.pid)
    screen.thread.join(10)


def test_a_terminal_is_listed_like_a_command(shared):
    handle = shared.pty.create(SIZE)
    (process,) = [process for process in shared.commands.list() if process.pid == handle.pid]
    assert process.args == ["-i", "-l"]
    shared.pty.kill(handle.pid)
    handle.disconnect()


def test_a_terminals_input_cannot_be_closed(shared):
    handle = shared.pty.create(SIZE)
    with pytest.raises(SandboxException):
        shared.commands.close_stdin(handle.pid)
    shared.pty.kill(handle.pid)
    handle.disconnect()


def test_an_unknown_terminal_is_not_found(shared):
    with pytest.raises(NotFoundException):
        shared.pty.send_stdin(999999, b"x")
    with pytest.raises(NotFoundException):
        shared.pty.resize(999999, SIZE)

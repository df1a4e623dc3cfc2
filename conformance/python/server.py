"""A real server for the tests: started once, stopped at the end, and nothing may be left of it."""

import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
from pathlib import Path

from waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "target" / "release" / "mayfly"
BANNER = re.compile(r"listening on (http://127\.0\.0\.1:\d+)")


class Server:
    """`mayfly serve` on a free port with a private store."""

    def __init__(self, *arguments: str, tier: str | None = None) -> None:
        if not PROGRAM.exists():
            raise RuntimeError(f"{PROGRAM} is missing: run `cargo xtask build` first")
        # A short path: Unix sockets below it have at most 107 bytes for theirs.
        self.data = Path(tempfile.mkdtemp(prefix="mayfly-", dir="/tmp"))
        self.key = "e2b_" + secrets.token_hex(20)
        self.output: list[str] = []
        tier = tier or os.environ.get("MAYFLY_TEST_TIER", "process")
        command = [str(PROGRAM), "serve", "--listen", "127.0.0.1:0"]
        command += ["--data", str(self.data), "--tier", tier, *arguments]
        environment = {"PATH": os.environ["PATH"], "MAYFLY_API_KEY": self.key, "MAYFLY_LOG": "warn"}
        self.errors = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self._listening = threading.Event()
        self.url = ""
        threading.Thread(target=self._read_output, daemon=True).start()
        # The reader sets the event on the banner and at the end of output.
        self._listening.wait(timeout=30)
        if not self.url:
            self.process.kill()
            self.process.wait()
            shutil.rmtree(self.data)
            raise RuntimeError(f"the server did not start\n{self.output}\n{self.log()}")

    def _read_output(self) -> None:
        for line in self.process.stdout:
            self.output.append(line)
            if found := BANNER.search(line):
                self.url = found[1]
                self._listening.set()
        self._listening.set()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    @property
    def environment(self) -> dict[str, str]:
        """What an SDK needs to find this server."""
        return {
            "E2B_API_URL": self.url,
            "E2B_SANDBOX_URL": self.url,
            "E2B_API_KEY": self.key,
        }

    def log(self) -> str:
        self.errors.seek(0)
        return self.errors.read()

    def stop(self) -> None:
        """Asks the server to end and removes its directory. Raises when something was left behind."""
        # Ctrl-C: SIGTERM would leave sandboxes to their keepers, for the next server.
        self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            code = "a SIGKILL, because SIGINT did not end it within 30 s"
        left = wait_until(lambda: not processes_of(self.data), 5) or processes_of(self.data)
        sandboxes = self.data / "sandboxes"
        # The server keeps blank disks in a directory that no sandbox is named like.
        directories = sorted(path.name for path in sandboxes.glob("[!.]*"))
        log = self.log()
        self.errors.close()
        shutil.rmtree(self.data)
        assert code == 0, f"the server ended with {code}\n{log}"
        assert left is True, f"processes left behind: {left}"
        assert not directories, f"sandbox directories left behind: {directories}"
        assert "panicked" not in log, log


def processes_of(directory: Path) -> dict[int, str]:
    """Processes that name the directory in their arguments, environment or working directory."""
    found = {}
    mark = str(directory).encode()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            places = [command, (entry / "environ").read_bytes(), os.fsencode(os.readlink(entry / "cwd"))]
        except OSError:
            continue  # It ended while we looked, or is not ours to see.
        if any(mark in place for place in places):
            found[int(entry.name)] = command.replace(b"\0", b" ").decode(errors="replace")
    return found


def daemon_of(directory: Path) -> int:
    """The pid of the daemon inside a sandbox: a child of its keeper, or on its own."""
    for pid, command in processes_of(directory).items():
        if "mayfly-envd" in command:
            return pid
        if "mayfly-keeper" in command:
            return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    raise AssertionError(f"no daemon in {directory}")


def resident_bytes(pid: int) -> int:
    """Memory of one process that is in RAM now."""
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

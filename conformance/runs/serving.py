"""`mayfly serve` on a data directory that outlives it, and the proof that nothing is left."""

import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import census
from caller import Caller

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / "target" / "release"
BANNER = re.compile(r"listening on (http://127\.0\.0\.1:\d+)")
# Disks that a server makes ahead of time.
READY = 3


def tier() -> str:
    """Walls where there can be walls."""
    return os.environ.get("MAYFLY_TEST_TIER") or ("native" if os.geteuid() == 0 else "process")


class Server:
    """One data directory, and the server on it; it can be killed and started again."""

    def __init__(self, *arguments: str, listen: str = "127.0.0.1:0", **variables: str) -> None:
        assert (PROGRAMS / "mayfly").exists(), "run `cargo xtask build` first"
        # A short path: Unix sockets below it have at most 107 bytes for theirs.
        self.data = Path(tempfile.mkdtemp(prefix="runs-", dir="/tmp"))
        self.key = "e2b_" + secrets.token_hex(20)
        self.arguments, self.variables, self.listen = arguments, variables, listen
        self.errors = open(self.data.with_suffix(".log"), "w+")
        self.process: subprocess.Popen | None = None
        try:
            self.start()
        except RuntimeError:
            self.forget()
            raise

    def start(self) -> None:
        command = [str(PROGRAMS / "mayfly"), "serve", "--listen", self.listen]
        command += ["--data", str(self.data), "--tier", tier(), *self.arguments]
        environment = {"PATH": os.environ["PATH"], "MAYFLY_API_KEY": self.key}
        environment |= {"MAYFLY_LOG": "warn"} | self.variables
        self.process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )
        self.url = ""
        self.listening = threading.Event()
        threading.Thread(target=self.read_output, args=[self.process], daemon=True).start()
        self.listening.wait(timeout=60)
        if not self.url:
            self.process.kill()
            self.process.wait()
            raise RuntimeError(f"the server did not start\n{self.log()}")

    def read_output(self, process: subprocess.Popen) -> None:
        for line in process.stdout:
            if found := BANNER.search(line):
                self.url = found[1]
                self.listening.set()
        self.listening.set()

    def kill(self) -> None:
        """As a crash would."""
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """Ctrl-C: SIGTERM would leave sandboxes to their keepers, for the next server."""
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.kill()
            return -1

    def caller(self) -> Caller:
        return Caller(self.url, self.key)

    def other_team(self) -> Caller:
        """A caller of a team that is not ours."""
        command = [str(PROGRAMS / "mayfly"), "keys", "create", "--team", "others", "--json"]
        made = subprocess.run(
            [*command, "--data", str(self.data)], capture_output=True, check=True, text=True
        )
        return Caller(self.url, json.loads(made.stdout)["key"])

    def log(self) -> str:
        self.errors.seek(0)
        return self.errors.read()

    def first_ids(self) -> set[int]:
        """First of the ids that each living sandbox has on the host."""
        specs = (self.data / "sandboxes").glob("*/spec.json")
        return {json.loads(spec.read_text())["first_id"] for spec in specs}

    def names(self) -> set[str]:
        """Every sandbox that a run of ours ever had."""
        found, cursor = set(), ""
        while cursor is not None:
            page = self.caller().json(f"/runs?limit=200&cursor={cursor}")
            found |= {run["sandbox_id"] for run in page["runs"]}
            cursor = page["next_cursor"]
        return found

    def left(self, ids: set[int] = frozenset()) -> dict[str, object]:
        """What is there of sandboxes, as soon as it does not change any more."""
        left, names = {}, self.names()
        for _ in range(100):
            found = {
                "processes": census.processes_naming(str(self.data / "sandboxes")),
                "owned": {pid for first in ids for pid in census.processes_with_ids(first)},
                "mounts": census.mounts(f"{self.data}/"),
                "cgroups": {group for group in census.cgroups() if Path(group).name in names},
                "images": census.images(str(self.data))[READY:],
                "directories": list((self.data / "sandboxes").glob("[!.]*")),
            }
            left = {kind: things for kind, things in found.items() if things}
            if not left:
                break
            time.sleep(0.1)
        return left

    def stop(self) -> None:
        """Ends the server and removes its directory. Raises when something was left behind."""
        try:
            left = self.left()
        finally:
            code = self.end()
            processes = census.processes_naming(str(self.data))
            log = self.log()
            self.forget()
        assert code == 0, f"the server ended with {code}\n{log}"
        assert not left, f"left behind while it served: {left}"
        assert not processes, f"processes left behind: {processes}"
        assert "panicked" not in log, log

    def forget(self) -> None:
        self.errors.close()
        self.data.with_suffix(".log").unlink()
        shutil.rmtree(self.data, ignore_errors=True)


"""A real PostgreSQL of the session's own, in a directory that goes with it."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from pathlib import Path

from waiting import wait_until


def programs() -> Path | None:
    """Where the newest version's programs are: Debian keeps them off the path."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return versions[-1].parent if versions else None


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Postgres:
    @staticmethod
    def missing() -> str | None:
        """Why there can be none here."""
        return None if programs() else "PostgreSQL is not installed"

    def __init__(self) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        self.port = free_port()
        # It refuses to run as root.
        self.account = {}
        if os.geteuid() == 0:
            self.account = {"user": "postgres", "group": "postgres", "extra_groups": []}
            shutil.chown(self.place, "postgres", "postgres")
        self.log = open(self.place / "log", "w+")
        self.run("initdb", "-A", "trust", "-N", "-U", "postgres", "-D", str(self.place / "data"))
        command = [str(programs() / "postgres"), "-D", str(self.place / "data")]
        command += ["-p", str(self.port), "-k", str(self.place)]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"]
        self.process = subprocess.Popen(
            command, stdout=self.log, stderr=self.log, cwd=self.place, **self.account
        )
        assert wait_until(self.answers, 20), self.said()

    def run(self, program: str, *arguments: str) -> str:
        command = [str(programs() / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.place, **self.account)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def at(self) -> list[str]:
        return ["-h", "127.0.0.1", "-p", str(self.port), "-U", "postgres"]

    def answers(self) -> bool:
        command = [str(programs() / "pg_isready"), *self.at()]
        return subprocess.run(command, capture_output=True).returncode == 0

    def database(self, name: str) -> str:
        """A new database's address."""
        self.run("createdb", *self.at(), name)
        return f"postgres://postgres@127.0.0.1:{self.port}/{name}"

    def dump(self, name: str) -> str:
        """Everything in a database, as text."""
        return self.run("pg_dump", *self.at(), "--inserts", name)

    def said(self) -> str:
        self.log.seek(0)
        return self.log.read()

    def stop(self) -> None:
        # Ends sessions and stops in order, at once.
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(timeout=20)
        finally:
            self.process.kill()
            self.process.wait()
            self.log.close()
            shutil.rmtree(self.place)

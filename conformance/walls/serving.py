"""`mayfly serve --tier native` on a data directory that outlives it."""

import json
import os
import re
import secrets
import signal
import subprocess
import threading
import urllib.error
import urllib.request
from pathlib import Path

from box import AS_ORDINARY, PROGRAMS

BANNER = re.compile(r"listening on (http://127\.0\.0\.1:\d+)")
KEY = "e2b_" + secrets.token_hex(20)


class Server:
    """One run of the server. Leaving the context ends it in order."""

    def __init__(self, data: Path, *arguments: str, privilege: str = "root") -> None:
        command = [str(PROGRAMS / "mayfly"), "serve", "--tier", "native", "--listen", "127.0.0.1:0"]
        environment = {"PATH": os.environ["PATH"], "MAYFLY_API_KEY": KEY, "MAYFLY_LOG": "warn"}
        # Networks are for tests that bring a host of their own.
        environment["MAYFLY_NETWORK"] = "none"
        self.log = open(data / "log", "a+")
        self.process = subprocess.Popen(
            [*command, "--data", str(data), *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            **(AS_ORDINARY if privilege == "user" else {}),
        )
        self.url = ""
        self.listening = threading.Event()
        threading.Thread(target=self.read_output, daemon=True).start()
        self.listening.wait(timeout=60)
        if not self.url:
            self.process.kill()
            self.process.wait()
            self.log.seek(0)
            raise RuntimeError(f"the server did not start\n{self.log.read()}")

    def read_output(self) -> None:
        for line in self.process.stdout:
            if found := BANNER.search(line):
                self.url = found[1]
                self.listening.set()
        self.listening.set()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=60)
        self.log.close()

    def kill(self) -> None:
        """As a crash would."""
        self.process.kill()
        self.process.wait()

    def create(self) -> str:
        return self.call("POST", "/sandboxes", {"templateID": "base", "timeout": 600})["sandboxID"]

    def list(self) -> list[str]:
        return [sandbox["sandboxID"] for sandbox in self.call("GET", "/sandboxes")]

    def remove(self, sandbox: str) -> None:
        self.call("DELETE", f"/sandboxes/{sandbox}")

    def call(self, method: str, path: str, body: dict | None = None):
        data = json.dumps(body).encode() if body is not None else None
        headers = {"X-API-Key": KEY, "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                text = answer.read()
        except urllib.error.HTTPError as failure:
            raise RuntimeError(f"{method} {path}: {failure.code} {failure.read()!r}") from failure
        return json.loads(text) if text else None

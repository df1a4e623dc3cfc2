"""A caller of runs: it posts a dispatch, reads lines as they come, and can hang up."""

import http.client
import json
import socket
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import lines

ENVELOPE = "application/x-ndjson"
RAW = "application/vnd.mayfly.run+ndjson"


class Stream:
    """An answer that is being read."""

    def __init__(self, url: str, key: str, method: str, path: str, body: bytes, **headers: str) -> None:
        place = urlsplit(url)
        self.connection = http.client.HTTPConnection(place.hostname, place.port, timeout=120)
        given = {"X-API-Key": key, "Content-Type": "application/json"}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        self.began = time.monotonic()
        self.connection.request(method, path, body, given)
        self.answer = self.connection.getresponse()
        self.status = self.answer.status
        self.headers = {name.lower(): value for name, value in self.answer.getheaders()}
        self.body = bytearray()
        # When each line came, by our clock.
        self.times: list[float] = []

    @property
    def run_id(self) -> str:
        return self.headers["x-mayfly-run-id"]

    def line(self) -> dict | None:
        """The next line, or nothing at the end."""
        read = self.answer.readline()
        if not read:
            return None
        self.body += read
        self.times.append(time.monotonic())
        return json.loads(read)

    def until(self, **wanted: object) -> dict:
        """Reads up to a line with these fields."""
        while line := self.line():
            if wanted.items() <= line.items():
                return line
        raise AssertionError(f"no line with {wanted} in {self.body.decode()}")

    def rest(self) -> bytes:
        """Reads to the end; everything that came."""
        while self.line():
            pass
        self.connection.close()
        return bytes(self.body)

    def tail(self) -> bytes:
        """Reads to the end, and keeps only the last of it."""
        last = b""
        while piece := self.answer.read1(1 << 20):
            last = (last + piece)[-4096:]
        self.connection.close()
        return last

    def hang_up(self) -> None:
        self.connection.sock and self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.answer.close()
        self.connection.close()


@dataclass
class Outcome:
    """A run that has ended, its lines checked."""

    status: int
    headers: dict[str, str]
    lines: list[dict]
    times: list[float] = field(default_factory=list)

    @property
    def run_id(self) -> str:
        return self.headers["x-mayfly-run-id"]

    @property
    def last(self) -> dict:
        return self.lines[-1]

    @property
    def message(self) -> str:
        """The final message; a run without one fails the test."""
        assert self.last["type"] == "result", self.lines
        return self.last["message"]

    def error(self, code: str) -> str:
        """The message of the error that ended the run."""
        assert self.last.get("code") == code, self.lines
        return self.last["message"]

    def steps(self, name: str | None = None) -> list[dict]:
        """Last lines of steps, in the order in which they ended."""
        ended = [line for line in self.lines if line.get("status") in ("succeeded", "failed")]
        return [line for line in ended if name in (None, line["name"])]

    def step(self, name: str) -> dict:
        (step,) = self.steps(name)
        return step

    def started(self) -> list[dict]:
        return [line for line in self.lines if line.get("status") == "running"]

    def logs(self) -> list[str]:
        return [line["message"] for line in self.lines if line["type"] == "log"]


class Caller:
    """A team's key at a server."""

    def __init__(self, url: str, key: str) -> None:
        self.url, self.key = url, key

    def dispatch(self, body: dict | bytes, accept: str | None = None) -> Stream:
        """Starts a run; the answer is read by the test."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Accept": accept} if accept else {}
        return Stream(self.url, self.key, "POST", "/stream", content, **headers)

    def run(self, body: dict) -> Outcome:
        """A whole run by the envelope, held to the seed's rules."""
        stream = self.dispatch(body)
        content = stream.rest()
        assert stream.status == 200, content
        return Outcome(stream.status, stream.headers, lines.envelope(content), stream.times)

    def run_raw(self, body: dict) -> list[dict]:
        """A whole run as its log."""
        stream = self.dispatch(body, RAW)
        content = stream.rest()
        assert stream.status == 200, content
        return lines.raw(content)

    def refusal(self, body: dict | bytes) -> tuple[int, dict]:
        """The status and the body of a dispatch that is refused."""
        stream = self.dispatch(body)
        content = stream.rest()
        assert stream.status != 200, f"{body!r} was not refused: {content!r}"
        return stream.status, json.loads(content)

    def follow(self, run: str, after: int | None = None, accept: str = RAW, **headers: str) -> Stream:
        query = "" if after is None else f"?after={after}"
        path = f"/runs/{run}/stream{query}"
        return Stream(self.url, self.key, "GET", path, b"", Accept=accept, **headers)

    def get(self, path: str) -> tuple[int, bytes]:
        return self.call("GET", path)

    def post(self, path: str) -> tuple[int, bytes]:
        return self.call("POST", path)

    def json(self, path: str) -> dict | list:
        status, body = self.get(path)
        assert status == 200, (status, body)
        return json.loads(body)

    def call(self, method: str, path: str) -> tuple[int, bytes]:
        stream = Stream(self.url, self.key, method, path, b"")
        body = stream.answer.read()
        stream.connection.close()
        return stream.status, body

    def sandboxes(self) -> list[str]:
        return [sandbox["sandboxID"] for sandbox in self.json("/sandboxes")]

    def runs(self) -> list[dict]:
        return self.json("/runs?limit=200")["runs"]

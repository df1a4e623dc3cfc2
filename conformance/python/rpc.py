"""Connect by hand: frames, streams and errors without an SDK in between."""

import base64
import json
import struct

import httpx

GZIP = 0x01
END = 0x02


def frame(payload: bytes | dict, flags: int = 0) -> bytes:
    """One envelope: a flag byte, four length bytes, the payload."""
    if isinstance(payload, dict):
        payload = json.dumps(payload).encode()
    return struct.pack(">BI", flags, len(payload)) + payload


def frames(data: bytes) -> list[tuple[int, bytes]]:
    """Cuts a whole body into envelopes; bytes that are left over are an error."""
    found = []
    while data:
        assert len(data) >= 5, f"half an envelope header at the end: {data!r}"
        flags, length = struct.unpack(">BI", data[:5])
        assert len(data) >= 5 + length, "an envelope is cut off"
        found.append((flags, data[5 : 5 + length]))
        data = data[5 + length :]
    return found


class Stream:
    """A whole answer of `Start` or `Connect`, JSON codec."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "application/connect+json"
        *messages, (last_flags, last) = frames(response.content)
        assert last_flags == END, "the stream ends without its end-of-stream frame"
        assert all(flags == 0 for flags, _ in messages)
        self.events = [json.loads(payload)["event"] for _, payload in messages]
        self.trailer = json.loads(last)

    @property
    def error(self) -> dict:
        return self.trailer["error"]

    @property
    def pid(self) -> int:
        return self.events[0]["start"]["pid"]

    @property
    def end(self) -> dict:
        return self.events[-1]["end"]

    def data(self, name: str = "stdout") -> list[bytes]:
        """The data events of one pipe, each as the bytes it carries."""
        found = (event["data"] for event in self.events if "data" in event)
        return [base64.b64decode(data[name]) for data in found if name in data]


class Rpc:
    """Raw calls to one sandbox's daemon."""

    def __init__(self, url: str, sandbox_id: str, token: str | None) -> None:
        self.headers = {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": "49983"}
        if token:
            self.headers["X-Access-Token"] = token
        self.http = httpx.Client(base_url=url, headers=self.headers, timeout=60)

    def __enter__(self) -> "Rpc":
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def unary(self, method: str, body: dict | bytes, **headers: str) -> httpx.Response:
        content = json.dumps(body).encode() if isinstance(body, dict) else body
        headers = {"Content-Type": "application/json"} | named(headers)
        return self.http.post(f"/process.Process/{method}", content=content, headers=headers)

    def raw_stream(self, method: str, body, **headers: str) -> httpx.Response:
        headers = {"Content-Type": "application/connect+json"} | named(headers)
        return self.http.post(f"/process.Process/{method}", content=body, headers=headers)

    def stream(self, method: str, message: dict, **headers: str) -> Stream:
        return Stream(self.raw_stream(method, frame(message), **headers))

    def shell(self, line: str, stdin: bool = False, **headers: str) -> Stream:
        return self.stream("Start", shell(line, stdin=stdin), **headers)

    def open(self, method: str, message: dict, **headers: str):
        """A stream that is read while it goes on; use as a context manager."""
        headers = {"Content-Type": "application/connect+json"} | named(headers)
        path = f"/process.Process/{method}"
        return self.http.stream("POST", path, content=frame(message), headers=headers)


def shell(line: str, stdin: bool = False) -> dict:
    """A `StartRequest` for a shell line."""
    return {"process": {"cmd": "/bin/sh", "args": ["-c", line]}, "stdin": stdin}


def live_events(response: httpx.Response):
    """The events of an open stream as they come; the last item is the trailer."""
    assert response.status_code == 200
    buffer = b""
    for piece in response.iter_raw():
        buffer += piece
        while len(buffer) >= 5:
            flags, length = struct.unpack(">BI", buffer[:5])
            if len(buffer) < 5 + length:
                break
            payload, buffer = json.loads(buffer[5 : 5 + length]), buffer[5 + length :]
            yield payload if flags == END else payload["event"]


def named(headers: dict[str, str]) -> dict[str, str]:
    """Header names from keyword arguments."""
    return {name.replace("_", "-"): value for name, value in headers.items()}

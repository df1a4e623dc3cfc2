"""Runs commands through a sandbox's daemon, over the socket that the host handed it."""

import base64
import http.client
import json
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

END_OF_STREAM = 0x02


@dataclass
class Outcome:
    """What a command printed, both streams together, and how it ended."""

    output: str
    code: int
    status: str


class Door(http.client.HTTPConnection):
    """One HTTP connection to the daemon."""

    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("sandbox", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


def init(path: Path, timeout: float = 10) -> None:
    """The host's first call. It returns when the daemon serves."""
    door = Door(path, timeout)
    try:
        door.request("POST", "/init", body="{}")
        answer = door.getresponse()
        assert answer.status == 204, (answer.status, answer.read())
    finally:
        door.close()


def start(
    path: Path, command: list[str], user: str, directory: str | None, timeout: float
) -> Outcome:
    """Runs a command to its end, as the daemon itself where no user is named."""
    process = {"cmd": command[0], "args": command[1:]}
    if directory:
        process["cwd"] = directory
    body = json.dumps({"process": process, "stdin": False}).encode()
    headers = {"Content-Type": "application/connect+json"}
    if user:
        credentials = base64.b64encode(f"{user}:".encode()).decode()
        headers["Authorization"] = f"Basic {credentials}"
    door = Door(path, timeout)
    try:
        frame = struct.pack(">BI", 0, len(body)) + body
        door.request("POST", "/process.Process/Start", body=frame, headers=headers)
        return read(door.getresponse().read())
    except http.client.HTTPException as broken:
        raise CommandError("the stream broke off") from broken
    finally:
        door.close()


def read(data: bytes) -> Outcome:
    """The whole stream of one command."""
    output, end = b"", None
    while data:
        flags, length = struct.unpack(">BI", data[:5])
        message, data = json.loads(data[5 : 5 + length]), data[5 + length :]
        if flags == END_OF_STREAM:
            if "error" in message:
                raise CommandError(message["error"].get("message", str(message)))
            continue
        event = message["event"]
        for chunk in event.get("data", {}).values():
            output += base64.b64decode(chunk)
        end = event.get("end", end)
    if end is None:
        raise CommandError("the stream broke off")
    return Outcome(output.decode(errors="replace"), end.get("exitCode", 0), end.get("status", ""))


class CommandError(Exception):
    """The daemon did not run the command, or lost it."""

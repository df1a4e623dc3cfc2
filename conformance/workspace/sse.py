"""Server-sent events by the letter of the standard, and by the rules of a chat's stream.

A field that browsers pass over in silence is an error here: nobody would miss it until
somebody did. Names of events are the contract; `error` and `log` are never sent.
"""

import http.client
import json
import socket
import time
from dataclasses import dataclass

PATIENCE = 60
NAMES = {"turn", "step", "text", "reasoning", "files", "file", "usage", "done"}


class Broken(Exception):
    """A rule is broken; the line is in the message."""


@dataclass
class Event:
    """One event; its data is always an object."""

    id: int
    name: str
    data: dict


class Events:
    """A stream that is being read."""

    def __init__(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> None:
        self.connection, self.answer = connection, answer
        self.status = answer.status
        self.headers = {name.lower(): value for name, value in answer.getheaders()}
        # What came, in order.
        self.seen: list[Event] = []
        self.comments = 0

    def next(self) -> Event | None:
        """The next event, or nothing at the end. Comments are counted only."""
        fields: dict[str, str] = {}
        asked = time.monotonic()
        while True:
            line = self.answer.readline()
            if not line:
                if fields:
                    raise Broken(f"the stream ends within an event: {fields}")
                return None
            if not line.endswith(b"\n") or b"\r" in line:
                raise Broken(f"not a line: {line[:200]!r}")
            text = line[:-1].decode("utf-8")
            if text == "":
                if event := self.event(fields):
                    return event
                fields = {}
            elif text.startswith(":"):
                self.comments += 1
                if time.monotonic() - asked > PATIENCE:
                    raise Broken(f"nothing but comments for {PATIENCE} s behind {self.seen[-3:]}")
            else:
                self.field(fields, text)

    def field(self, fields: dict[str, str], line: str) -> None:
        name, colon, value = line.partition(":")
        if not colon or name not in ("id", "event", "data", "retry"):
            raise Broken(f"unknown field: {line[:200]!r}")
        if name in fields:
            raise Broken(f"`{name}` comes twice in one event: {line[:200]!r}")
        fields[name] = value.removeprefix(" ")

    def event(self, fields: dict[str, str]) -> Event | None:
        """What the fields before an empty line are."""
        if not fields or fields.keys() == {"retry"}:
            return None
        if fields.keys() - {"retry"} != {"id", "event", "data"}:
            raise Broken(f"an event has id, event and data: {fields}")
        event = Event(int(fields["id"]), fields["event"], json.loads(fields["data"]))
        if event.name not in NAMES:
            raise Broken(f"no event is called {event.name!r}")
        if self.seen and event.id <= self.seen[-1].id:
            raise Broken(f"{event.id} comes behind {self.seen[-1].id}")
        if self.seen and self.seen[-1].name == "done":
            raise Broken(f"something comes behind the end: {event}")
        self.seen.append(event)
        return event

    def until(self, name: str, **wanted: object) -> Event:
        """Reads up to an event with this name and these fields."""
        while event := self.next():
            if event.name == name and wanted.items() <= event.data.items():
                return event
        raise AssertionError(f"no {name} with {wanted} in {self.seen}")

    def rest(self) -> list[Event]:
        """Reads to the end; everything that came."""
        while self.next():
            pass
        self.connection.close()
        return self.seen

    def whole(self) -> dict:
        """Reads a stream that has to end with `done`; what it says."""
        self.rest()
        assert self.seen and self.seen[-1].name == "done", self.seen[-3:]
        return self.seen[-1].data

    def hang_up(self) -> None:
        if self.connection.sock:
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.answer.close()
        self.connection.close()


def folded(events: list[Event]) -> list[dict]:
    """What a page that followed the events shows: the blocks of the assistant's message."""
    blocks: list[dict] = []
    steps: dict[str, dict] = {}
    speaking = None
    for event in events:
        if event.name == "text":
            if not (blocks and blocks[-1]["type"] == "text" and speaking == event.data["messageId"]):
                blocks.append({"type": "text", "text": ""})
            speaking = event.data["messageId"]
            blocks[-1]["text"] += event.data["delta"]
        elif event.name == "step":
            block = {name: value for name, value in event.data.items() if name != "ts"}
            if known := steps.get(block["id"]):
                known.update(block, type="step")
            else:
                steps[block["id"]] = block | {"type": "step"}
                blocks.append(steps[block["id"]])
        elif event.name == "files":
            blocks.append({"type": "files", "files": event.data["files"]})
        elif event.name == "done" and event.data["status"] == "failed":
            for step in steps.values():
                if step["status"] == "running":
                    step |= {"status": "failed", "error": "the turn ended before this step did"}
            error = {"type": "error", "code": event.data["code"], "message": event.data["error"]}
            blocks.append(error)
    return blocks

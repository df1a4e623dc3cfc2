"""The rules of AG-UI for a whole stream, written from its public schema and not from the
server, and readers for two of its encodings.
"""

import json
import re

POSITION = re.compile(r"\d+(\.\d+)?")
OPENS = {
    "TEXT_MESSAGE_START": ("TEXT_MESSAGE_END", "messageId"),
    "TOOL_CALL_START": ("TOOL_CALL_END", "toolCallId"),
    "REASONING_START": ("REASONING_END", "messageId"),
    "REASONING_MESSAGE_START": ("REASONING_MESSAGE_END", "messageId"),
}
INSIDE = {
    "TEXT_MESSAGE_CONTENT": "TEXT_MESSAGE_END",
    "TOOL_CALL_ARGS": "TOOL_CALL_END",
    "REASONING_MESSAGE_CONTENT": "REASONING_MESSAGE_END",
}
CLOSES = {close: field for close, field in OPENS.values()}
OTHERS = {"RUN_STARTED", "RUN_FINISHED", "RUN_ERROR", "TOOL_CALL_RESULT", "CUSTOM"}


class Broken(Exception):
    """A rule is broken; the event is in the message."""


def server_sent(body: bytes) -> list[tuple[str, dict]]:
    """Events with their ids; comments are passed over."""
    assert body.endswith(b"\n\n"), body[-100:]
    events = []
    for block in body.decode().split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
        if fields:
            assert set(fields) == {"id", "data"} and POSITION.fullmatch(fields["id"]), block
            events.append((fields["id"], json.loads(fields["data"])))
    return events


def messages(body: bytes) -> list[bytes]:
    """What is behind the lengths of a binary stream."""
    found = []
    while body:
        length = int.from_bytes(body[:4], "big")
        assert len(body) >= 4 + length, "the last message is cut off"
        found.append(body[4 : 4 + length])
        body = body[4 + length :]
    return found


def check(events: list[dict]) -> list[str]:
    """Holds a whole stream to the rules; the types of its events."""
    still_open: set[tuple[str, str]] = set()
    calls, answered = [], set()
    for place, event in enumerate(events):
        kind = event["type"]
        if (kind == "RUN_STARTED") != (place == 0):
            raise Broken(f"a run starts once, and first: {event}")
        if (kind in ("RUN_FINISHED", "RUN_ERROR")) != (place == len(events) - 1):
            raise Broken(f"a run ends once, and last: {event}")
        if type(event["timestamp"]) is not int or event.get("metadata", {}) is None:
            raise Broken(f"the schema has no such value: {event}")
        if kind in OPENS:
            close, field = OPENS[kind]
            if (close, event[field]) in still_open:
                raise Broken(f"it is open: {event}")
            still_open.add((close, event[field]))
        elif kind in INSIDE:
            close = INSIDE[kind]
            if (close, event[CLOSES[close]]) not in still_open:
                raise Broken(f"it is not open: {event}")
        elif kind in CLOSES:
            if (kind, event[CLOSES[kind]]) not in still_open:
                raise Broken(f"it is not open: {event}")
            still_open.remove((kind, event[CLOSES[kind]]))
        elif kind not in OTHERS:
            raise Broken(f"nobody knows it: {event}")
        if kind == "TOOL_CALL_START":
            calls.append(event["toolCallId"])
        if kind == "TOOL_CALL_RESULT":
            assert type(event["content"]) is str and event["toolCallId"] in calls, event
            answered.add(event["toolCallId"])
        if kind == "CUSTOM" and not {"name", "value"} <= set(event):
            raise Broken(f"it has no name or no value: {event}")
    if still_open:
        raise Broken(f"left open: {still_open}")
    last = events[-1]
    pending = last.get("outcome", {}).get("pendingToolCallIds", [])
    if last["type"] == "RUN_FINISHED" and set(calls) - answered != set(pending):
        raise Broken(f"calls without a result: {set(calls) - answered}")
    return [event["type"] for event in events]

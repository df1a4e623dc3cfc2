"""The rules of seed 000 for a whole stream, written from the seed and not from the server.

`envelope` checks the lines that callers read, `raw` the log as it is. Both take bytes as
they came and return what is in them; whatever is off is a `Broken` with the line.
"""

import json
import re

STEP_ID = re.compile(r"step_[A-Za-z0-9_-]+")
LEVELS = {"debug", "info", "warn", "error"}
# 2020 to 2100: milliseconds, not seconds and not microseconds.
EARLIEST, LATEST = 1_577_836_800_000, 4_102_444_800_000
FIELDS = {
    "log": ({"type", "level", "message"}, {"ts"}),
    "running": ({"type", "id", "name", "status", "args"}, {"ts"}),
    # The seed leaves the truncation of long results to clients; the design marks its own.
    "succeeded": ({"type", "id", "name", "status", "result", "durationMs"}, {"ts", "truncated"}),
    "failed": ({"type", "id", "name", "status", "error", "durationMs"}, {"ts"}),
    "result": ({"type", "message"}, {"ts"}),
    "error": ({"type", "code", "message"}, {"ts"}),
}
TERMINAL = {"result", "error"}


class Broken(Exception):
    """A rule is broken; the line is in the message."""


def envelope(body: bytes) -> list[dict]:
    """Checks a whole stream of the envelope."""
    lines = objects(body)
    steps: dict[str, dict] = {}
    for number, line in enumerate(lines):
        check_line(line)
        last = number == len(lines) - 1
        if (line["type"] in TERMINAL) != last:
            raise Broken(f"the one terminal line comes last: {line}")
        if line["type"] == "step":
            follow_step(steps, line)
    open_steps = [id for id, step in steps.items() if step["status"] == "running"]
    if open_steps:
        raise Broken(f"steps without an end: {open_steps}")
    return lines


def raw(body: bytes, first: int = 1, whole: bool = True) -> list[dict]:
    """Checks a log from one of its entries on: numbers without gaps, time, steps, the end."""
    entries = objects(body)
    before, running = 0, set()
    for place, entry in enumerate(entries):
        if entry.get("seq") != first + place:
            raise Broken(f"entry {first + place} is {entry}")
        if type(entry.get("ts")) is not int or entry["ts"] < before:
            raise Broken(f"time goes back: {entry}")
        before = entry["ts"]
        kind = entry.get("type")
        if (kind == "started") != (entry["seq"] == 1):
            raise Broken(f"`started` is the first and only there: {entry}")
        last = place == len(entries) - 1
        if kind in TERMINAL and not last or whole and last and kind not in TERMINAL:
            raise Broken(f"the one terminal entry comes last: {entry}")
        if kind == "step_started":
            if entry["id"] in running:
                raise Broken(f"a step starts twice: {entry}")
            running.add(entry["id"])
        if kind == "step_ended":
            # One that started before the first entry that was read is not known.
            if entry["id"] not in running and first == 1:
                raise Broken(f"a step ends that does not run: {entry}")
            running.discard(entry["id"])
    if whole and running:
        raise Broken(f"steps without an end: {running}")
    return entries


def objects(body: bytes) -> list[dict]:
    """One JSON object on each line, and nothing between them."""
    if not body.endswith(b"\n"):
        raise Broken(f"the stream ends within a line: {body[-200:]!r}")
    found = []
    for line in body[:-1].split(b"\n"):
        if line.startswith((b"data:", b"event:", b"id:", b":")) or b"\r" in line:
            raise Broken(f"framing on the wire: {line[:200]!r}")
        try:
            value = json.loads(line.decode("utf-8"), object_pairs_hook=unique, parse_constant=no)
        except ValueError as reason:
            raise Broken(f"not JSON ({reason}): {line[:200]!r}") from reason
        if not isinstance(value, dict):
            raise Broken(f"not an object: {line[:200]!r}")
        found.append(value)
    return found


def check_line(line: dict) -> None:
    kind = line.get("type")
    if kind not in ("log", "step", "result", "error"):
        raise Broken(f"unknown type: {line}")
    shape = line.get("status") if kind == "step" else kind
    if shape not in FIELDS:
        raise Broken(f"unknown status: {line}")
    required, optional = FIELDS[shape]
    if missing := required - line.keys():
        raise Broken(f"{missing} missing: {line}")
    if unknown := line.keys() - required - optional:
        raise Broken(f"{unknown} unknown: {line}")
    if "ts" in line and not (type(line["ts"]) is int and EARLIEST < line["ts"] < LATEST):
        raise Broken(f"`ts` is not in Unix milliseconds: {line}")
    for name in ("message", "code", "name", "error"):
        if name in line and not isinstance(line[name], str):
            raise Broken(f"`{name}` is not a text: {line}")
    if kind == "log" and line["level"] not in LEVELS:
        raise Broken(f"unknown level: {line}")
    if kind == "step" and not STEP_ID.fullmatch(line["id"]):
        raise Broken(f"not a step id: {line}")
    if "durationMs" in line and not (type(line["durationMs"]) is int and line["durationMs"] >= 0):
        raise Broken(f"not a duration: {line}")


def follow_step(steps: dict[str, dict], line: dict) -> None:
    known = steps.get(line["id"])
    if known is None and line["status"] != "running":
        raise Broken(f"a step ends that never ran: {line}")
    if known is not None and known["status"] != "running":
        raise Broken(f"a line of a step that has ended: {line}")
    if known is not None and known["name"] != line["name"]:
        raise Broken(f"a step changes its name from {known['name']!r}: {line}")
    steps[line["id"]] = line


def unique(pairs: list[tuple[str, object]]) -> dict:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a name comes twice")
    return fields


def no(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")

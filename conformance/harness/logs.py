"""What is in the log of a run."""

import json


def of(log: list[dict], kind: str) -> list[dict]:
    return [entry for entry in log if entry["type"] == kind]


def said(log: list[dict], kind: str = "text") -> str:
    return "".join(entry["delta"] for entry in of(log, kind))


def customs(log: list[dict], name: str) -> list:
    return [entry["value"] for entry in of(log, "custom") if entry["name"] == name]


def session(log: list[dict], agent: object) -> str:
    """The session's id: told exactly once, before anything is said or done."""
    (value,) = customs(log, f"{agent}.session-id")
    kinds = [entry.get("name") if entry["type"] == "custom" else entry["type"] for entry in log]
    told = kinds.index(f"{agent}.session-id")
    busy = [at for at, kind in enumerate(kinds) if kind in ("text", "reasoning", "step_started")]
    assert all(told < at for at in busy), kinds
    assert isinstance(value["sessionId"], str) and value["sessionId"]
    return value["sessionId"]


def message(log: list[dict]) -> str:
    assert log[-1]["type"] == "result", log[-3:]
    return log[-1]["message"]


def steps(log: list[dict]) -> list[tuple[dict, dict]]:
    """Starts and ends of steps, in the order in which they started."""
    ends = {entry["id"]: entry for entry in of(log, "step_ended")}
    return [(start, ends[start["id"]]) for start in of(log, "step_started")]


def written(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def files(log: list[dict]) -> list[tuple[str, str]]:
    return [(entry["change"], entry["path"]) for entry in of(log, "file")]


def paths(log: list[dict]) -> set[str]:
    return {path for _, path in files(log)}


def diff(log: list[dict]) -> str:
    """The change of the whole working tree: told once, when the agent is done."""
    (value,) = customs(log, "file.changed")
    assert value["path"] == "."
    kinds = [entry.get("name") if entry["type"] == "custom" else entry["type"] for entry in log]
    assert set(kinds[kinds.index("file.changed") :]) <= {"file.changed", "result", "log", "usage", "uploaded"}
    return value["diff"]

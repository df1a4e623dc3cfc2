"""Runs as the API shows them: lists, one run, its files; and nothing to another team."""

import json

import lines
from scripts import shell

ID = "run_" + "0" * 24


def test_a_run_is_listed_and_shown_while_it_goes_on_and_when_it_has_ended(caller, workspace):
    session = workspace(shell("sleep 1"))
    stream = caller.dispatch(session.body("A prompt to know it by."))
    stream.until(type="step", status="running")
    going = caller.json(f"/runs/{stream.run_id}")
    assert going["state"] == "running" and going["ended_at"] is None and going["last_seq"] > 0
    assert going["prompt"] == "A prompt to know it by."
    assert going["sandbox_id"] in caller.sandboxes()
    stream.rest()
    ended = caller.json(f"/runs/{stream.run_id}")
    assert ended["state"] == "succeeded" and ended["code"] is None
    assert ended["ended_at"] > ended["started_at"]
    assert caller.runs()[0] == ended, "newest first"


def test_pages_of_the_list_are_whole_and_do_not_overlap(caller, workspace):
    made = [caller.run(workspace().body()).run_id for _ in range(5)]
    found, cursor = [], ""
    while cursor is not None:
        page = caller.json(f"/runs?limit=2&cursor={cursor}")
        assert len(page["runs"]) <= 2
        found += [run["id"] for run in page["runs"]]
        cursor = page["next_cursor"]
    assert found[:5] == made[::-1]
    assert len(found) == len(set(found))
    for query in ("limit=0", "limit=201", "limit=x", "cursor=x"):
        assert caller.get(f"/runs?{query}")[0] == 400, query


def test_the_archive_has_the_log_the_steps_and_the_end(caller, workspace):
    session = workspace(shell("echo a", "exit 2", "mkdir assets; echo x > assets/x", text="the end"))
    log = caller.run_raw(session.body())
    run = log[0]["run_id"]
    assert lines.raw(caller.get(f"/runs/{run}/files/stream.jsonl")[1]) == log
    steps = caller.json(f"/runs/{run}/files/steps.json")
    assert [(step["name"], step["status"]) for step in steps] == [
        ("shell", "succeeded"),
        ("shell", "failed"),
        ("shell", "succeeded"),
        ("writeback", "succeeded"),
    ]
    assert steps[0]["args"] == {"command": "echo a"} and steps[0]["result"]["stdout"] == "a\n"
    result = caller.json(f"/runs/{run}/files/result.json")
    assert result["end"] == {"type": "result", "message": "the end"}
    assert result["lastSeq"] == log[-1]["seq"] and result["steps"] == 4


def test_there_are_no_other_files(caller, workspace):
    run = caller.run(workspace().body()).run_id
    for name in ("link.sealed", "..%2f..%2fmayfly.db", "../../mayfly.db", "", "x", "stream.jsonl%00"):
        assert caller.get(f"/runs/{run}/files/{name}")[0] in (400, 404), name


def test_what_is_no_run_is_not_found(caller):
    for name in (ID, "x", "..%2f..", "run_" + "i" * 24):
        for path in (f"/runs/{name}", f"/runs/{name}/stream", f"/runs/{name}/files/result.json"):
            status, body = caller.get(path)
            assert status == 404, path
            assert json.loads(body)["message"]


def test_another_teams_key_sees_nothing(server, caller, workspace):
    session = workspace(shell("sleep 2"))
    stream = caller.dispatch(session.body())
    stream.until(type="step", status="running")
    run, other = stream.run_id, server.other_team()
    assert other.runs() == [] and other.sandboxes() == []
    unknown = other.get(f"/runs/{ID}")[0]
    for path in ("", "/stream", "/files/stream.jsonl", "/files/result.json"):
        assert other.get(f"/runs/{run}{path}")[0] == unknown == 404, path
    assert other.post(f"/runs/{run}/cancel")[0] == 404
    assert lines.envelope(stream.rest())[-1]["type"] == "result", "and could not end it"
    assert other.get(f"/runs/{run}")[0] == 404


def test_a_run_is_counted_where_operators_look(caller, workspace):
    before = metrics(caller)
    caller.run(workspace().body())
    after = metrics(caller)
    changed = {name for name in after if after[name] != before.get(name) and "run" in name}
    assert changed, sorted(after)


def metrics(caller) -> dict[str, str]:
    text = caller.get("/metrics")[1].decode()
    pairs = [line.rsplit(" ", 1) for line in text.splitlines() if line and line[0] != "#"]
    return {name: value for name, value in pairs}

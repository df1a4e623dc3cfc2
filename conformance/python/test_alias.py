"""The NDJSON alias: `/commands` for curl and shell scripts."""

import json
import time

import httpx

from server import processes_of
from waiting import wait_until


def lines(response: httpx.Response) -> list[dict]:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/x-ndjson"
    assert response.text.endswith("\n")
    return [json.loads(line) for line in response.text.splitlines()]


def run(api, cmd: str, **fields) -> list[dict]:
    return lines(api.post("/commands", json={"cmd": cmd} | fields))


def test_the_lines_are_exactly_those_of_the_seed(api, shared):
    response = api.post("/commands", json={"cmd": "seq 1 5", "sandbox_id": shared.sandbox_id})
    start, *rest = response.text.splitlines()
    first = json.loads(start)
    assert first == {"type": "start", "pid": first["pid"], "sandbox_id": shared.sandbox_id}
    assert start.startswith('{"type":"start","pid":')
    assert rest == [
        '{"type":"stdout","data":"1\\n"}',
        '{"type":"stdout","data":"2\\n"}',
        '{"type":"stdout","data":"3\\n"}',
        '{"type":"stdout","data":"4\\n"}',
        '{"type":"stdout","data":"5\\n"}',
        '{"type":"end","exit_code":0}',
    ]


def test_standard_error_and_exit_codes_are_told(api, shared):
    _, *rest = run(api, "echo bad >&2; exit 3", sandbox_id=shared.sandbox_id)
    assert rest == [{"type": "stderr", "data": "bad\n"}, {"type": "end", "exit_code": 3}]


def test_a_command_may_have_arguments_variables_and_a_directory(api, shared):
    _, *rest = run(
        api, "printenv", args=["COLOUR", "PWD"], envs={"COLOUR": "$red"}, cwd="/usr",
        sandbox_id=shared.sandbox_id,
    )
    assert rest[0] == {"type": "stdout", "data": "$red\n"}
    assert run(api, "pwd", cwd="/usr", sandbox_id=shared.sandbox_id)[1]["data"] == "/usr\n"


def test_lines_arrive_while_the_command_runs(api, shared):
    body = {"cmd": "for i in 1 2 3; do echo $i; sleep 0.3; done", "sandbox_id": shared.sandbox_id}
    with api.stream("POST", "/commands", json=body) as response:
        times = [time.monotonic() for _ in response.iter_lines()]
    assert times[3] - times[1] > 0.4


def test_output_that_is_not_text_is_still_json(api, shared):
    _, *rest = run(api, "printf '\\377\\0\"\\\\\\n'", sandbox_id=shared.sandbox_id)
    assert rest[0]["data"] == '\ufffd\0"\\\n'
    assert rest[-1] == {"type": "end", "exit_code": 0}


def test_without_a_sandbox_an_ephemeral_one_is_made_and_destroyed(server, api):
    start, *rest = run(api, "pwd; ls -A | wc -l")
    assert rest[-1] == {"type": "end", "exit_code": 0}
    assert start["sandbox_id"]
    gone = lambda: api.get(f"/sandboxes/{start['sandbox_id']}").status_code == 404
    assert wait_until(gone, 5)
    place = server.data / "sandboxes" / start["sandbox_id"]
    assert wait_until(lambda: not place.exists(), 5)
    assert not processes_of(place)


def test_an_ephemeral_sandbox_ends_when_its_client_leaves(server, api):
    body = {"cmd": "echo here; sleep 1000", "timeout_ms": 0}
    with api.stream("POST", "/commands", json=body) as response:
        start = json.loads(next(response.iter_lines()))
    gone = lambda: api.get(f"/sandboxes/{start['sandbox_id']}").status_code == 404
    assert wait_until(gone, 10)
    place = server.data / "sandboxes" / start["sandbox_id"]
    assert wait_until(lambda: not processes_of(place) and not place.exists(), 10)


def test_an_integer_timeout_kills_and_ends_with_minus_one(api, shared):
    begin = time.monotonic()
    start, *rest = run(api, "echo on; sleep 1000", timeout_ms=500, sandbox_id=shared.sandbox_id)
    assert rest == [{"type": "stdout", "data": "on\n"}, {"type": "end", "exit_code": -1}]
    assert 0.4 < time.monotonic() - begin < 5
    dead = run(api, f"kill -0 {start['pid']} 2>/dev/null || echo dead", sandbox_id=shared.sandbox_id)
    assert dead[1]["data"] == "dead\n"
    info = api.get(f"/commands/{start['pid']}", params={"sandbox_id": shared.sandbox_id})
    assert info.json()["state"] == "killed"


def test_a_timeout_of_zero_is_no_timeout(api, shared):
    # Zero milliseconds as a limit would end this before it says anything.
    _, *rest = run(api, "sleep 1; echo done", timeout_ms=0, sandbox_id=shared.sandbox_id)
    assert rest == [{"type": "stdout", "data": "done\n"}, {"type": "end", "exit_code": 0}]


def test_an_omitted_timeout_is_a_minute(api, shared):
    begin = time.monotonic()
    body = {"cmd": "sleep 1000", "sandbox_id": shared.sandbox_id}
    response = api.post("/commands", json=body, timeout=90)
    assert lines(response)[-1] == {"type": "end", "exit_code": -1}
    assert 59 < time.monotonic() - begin < 65


def test_running_commands_are_listed_and_killed(api, shared):
    body = {"cmd": "echo on; sleep 1000", "sandbox_id": shared.sandbox_id}
    with api.stream("POST", "/commands", json=body) as response:
        events = (json.loads(line) for line in response.iter_lines())
        pid = next(events)["pid"]
        assert next(events) == {"type": "stdout", "data": "on\n"}
        (entry,) = [entry for entry in api.get("/commands").json() if entry["pid"] == pid]
        assert entry["sandbox_id"] == shared.sandbox_id
        assert entry["state"] == "running"
        assert "sleep 1000" in " ".join([entry["cmd"], *entry["args"]])
        info = api.get(f"/commands/{pid}", params={"sandbox_id": shared.sandbox_id})
        assert info.json() == entry
        killed = api.post(f"/commands/{pid}/kill", params={"sandbox_id": shared.sandbox_id})
        assert killed.is_success
        assert list(events) == [{"type": "end", "exit_code": -1}]
    assert pid not in [entry["pid"] for entry in api.get("/commands").json()]


def test_commands_of_the_sdk_are_listed_too(api, shared):
    handle = shared.commands.run("sleep 1000", background=True)
    assert handle.pid in [entry["pid"] for entry in api.get("/commands").json()]
    assert api.post(f"/commands/{handle.pid}/kill").is_success
    assert wait_until(lambda: handle.pid not in [entry["pid"] for entry in api.get("/commands").json()])


def test_a_late_reader_gets_what_it_missed_by_number(api, shared):
    # Each `read` waits for us: two pipes have no order of their own.
    handle = shared.commands.run(
        "seq 1 5; read x; echo no >&2; read x; echo last", background=True, stdin=True
    )
    assert wait_until(lambda: "5\n" in peek(api, handle.pid, 0), 5)
    with api.stream("GET", f"/commands/{handle.pid}", params={"after": 3}) as response:
        assert response.headers["content-type"] == "application/x-ndjson"
        events = (json.loads(line) for line in response.iter_lines())
        assert next(events) == {"type": "start", "pid": handle.pid, "sandbox_id": shared.sandbox_id}
        assert next(events) == {"type": "stdout", "data": "4\n", "seq": 4}
        assert next(events) == {"type": "stdout", "data": "5\n", "seq": 5}
        handle.send_stdin("\n")
        assert next(events) == {"type": "stderr", "data": "no\n", "seq": 6}
        handle.send_stdin("\n")
        assert next(events) == {"type": "stdout", "data": "last\n", "seq": 7}
        assert list(events) == [{"type": "end", "exit_code": 0}]


def test_a_finished_command_can_still_be_read_by_number(api, shared):
    handle = shared.commands.run("seq 1 3; exit 4", background=True)
    handle.disconnect()
    # The stream follows until the end, so no waiting is needed here.
    response = api.get(f"/commands/{handle.pid}", params={"after": 0})
    start, *rest = lines(response)
    assert start["pid"] == handle.pid
    assert [(line["seq"], line["data"]) for line in rest[:-1]] == [(1, "1\n"), (2, "2\n"), (3, "3\n")]
    assert rest[-1] == {"type": "end", "exit_code": 4}


def test_a_command_that_cannot_start_says_why(api, shared):
    body = {"cmd": "/no/such/program", "args": [], "sandbox_id": shared.sandbox_id}
    response = api.post("/commands", json=body)
    assert "/no/such/program" in response.text
    assert response.status_code == 400 or '"type":"error"' in response.text


def test_a_sandbox_killed_mid_stream_ends_the_lines(api, sandbox):
    body = {"cmd": "echo on; sleep 1000", "timeout_ms": 0, "sandbox_id": sandbox.sandbox_id}
    with api.stream("POST", "/commands", json=body) as response:
        events = (json.loads(line) for line in response.iter_lines())
        assert next(events)["type"] == "start"
        assert next(events)["type"] == "stdout"
        sandbox.kill()
        last = list(events)[-1]
    assert last["type"] in ("error", "end"), last


def test_the_log_of_a_sandbox_has_every_line_with_its_stream(api, sandbox):
    sandbox.commands.run("echo said; echo warned >&2")
    run(api, "echo by alias", sandbox_id=sandbox.sandbox_id)

    def entries() -> list[tuple]:
        logs = api.get(f"/sandboxes/{sandbox.sandbox_id}/logs").json()
        assert [line["line"] for line in logs["logs"]] == [e["message"] for e in logs["logEntries"]]
        return [(e["message"], e["level"], e["fields"]["stream"]) for e in logs["logEntries"]]

    expected = {
        ("said", "info", "stdout"),
        ("warned", "error", "stderr"),
        ("by alias", "info", "stdout"),
    }
    assert wait_until(lambda: expected <= set(entries()), 5), entries()


def test_the_log_keeps_the_last_lines_only(api, sandbox):
    sandbox.commands.run("seq 1 5000")
    sandbox.commands.run("echo the end")
    read = lambda: api.get(f"/sandboxes/{sandbox.sandbox_id}/logs").json()
    assert wait_until(lambda: read()["logs"] and read()["logs"][-1]["line"] == "the end", 5)
    logs = read()
    assert len(logs["logs"]) <= 1024 and logs["truncated"] is True


def peek(api, pid: int, after: int) -> str:
    """What is kept of a command's output now; the stream is left at the last kept line."""
    found = ""
    with api.stream("GET", f"/commands/{pid}", params={"after": after}, timeout=0.5) as response:
        try:
            for line in response.iter_lines():
                found += json.loads(line).get("data", "")
        except httpx.ReadTimeout:
            pass
    return found

"""Prometheus series: every started command is counted once, and once again when it ends."""

import http.client
import json
import random
import re
import struct
from concurrent.futures import ThreadPoolExecutor

from rpc import frame, shell
from waiting import wait_until

COMMANDS = 2000
AT_ONCE = 200
KINDS = ["ok", "error", "killed", "late", "alias", "race", "left"]


def series(api) -> dict[str, float]:
    response = api.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain")
    found = re.findall(r"^([a-z_]+(?:\{[^}]*\})?) ([0-9.e+]+)$", response.text, re.MULTILINE)
    return {name: float(value) for name, value in found}


def counts(api) -> dict[str, float]:
    now = series(api)
    finished = {
        status: now.get(f'coppice_commands_finished_total{{status="{status}"}}', 0)
        for status in ("ok", "error", "killed")
    }
    started = now.get("coppice_commands_started_total", 0)
    return finished | {"started": started, "active": now.get("coppice_commands_active", 0)}


def difference(after: dict, before: dict) -> dict:
    return {name: after[name] - before[name] for name in after}


def test_the_three_series_of_the_seed_are_typed_and_labelled(api, shared):
    shared.commands.run("true")
    text = api.get("/metrics").text
    assert "# TYPE coppice_commands_started_total counter" in text
    assert "# TYPE coppice_commands_finished_total counter" in text
    assert "# TYPE coppice_commands_active gauge" in text
    for status in ("ok", "error", "killed"):
        assert f'coppice_commands_finished_total{{status="{status}"}}' in text
    assert re.search(r"^mayfly_[a-z_]+", text, re.MULTILINE)


def test_an_answer_is_counted_before_its_client_can_look(api, shared):
    before = counts(api)
    shared.commands.run("true")
    assert difference(counts(api), before) == {
        "started": 1, "ok": 1, "error": 0, "killed": 0, "active": 0
    }


def test_the_gauge_follows_what_runs(api, sandbox):
    before = counts(api)
    handles = [sandbox.commands.run("sleep 1000", background=True) for _ in range(3)]
    assert difference(counts(api), before)["active"] == 3
    handles[0].kill()
    now = difference(counts(api), before)
    assert (now["active"], now["killed"]) == (2, 1)
    sandbox.kill()
    assert wait_until(lambda: difference(counts(api), before)["active"] == 0, 5)
    assert difference(counts(api), before) == {
        "started": 3, "ok": 0, "error": 0, "killed": 3, "active": 0
    }


def test_a_signal_and_an_exit_are_not_both_counted(api, shared):
    before = counts(api)
    handle = shared.commands.run("trap 'exit 0' TERM; sleep 1000 & wait", background=True)
    assert handle.kill() is True
    shared.commands.kill(handle.pid)
    assert wait_until(lambda: difference(counts(api), before)["active"] == 0, 5)
    assert difference(counts(api), before) == {
        "started": 1, "ok": 0, "error": 0, "killed": 1, "active": 0
    }


class Caller:
    """One client among many, with connections of its own."""

    def __init__(self, server, sandbox) -> None:
        self.server, self.sandbox = server, sandbox
        self.headers = {
            "E2b-Sandbox-Id": sandbox.sandbox_id,
            "E2b-Sandbox-Port": "49983",
            "X-Access-Token": sandbox._envd_access_token,
            "Content-Type": "application/connect+json",
        }

    def run(self, kind: str) -> None:
        match kind:
            case "ok":
                self.start("exit 0").read()
            case "error":
                self.start("exit 3").read()
            case "killed":
                self.start_and_kill("sleep 1000")
            case "late":
                self.start("sleep 1000", **{"Connect-Timeout-Ms": "50"}).read()
            case "race":
                # Ends by itself at about the time the signals arrive.
                self.start_and_kill(f"sleep 0.00{random.randint(0, 9)}")
            case "left":
                self.start("sleep 0.1").close()
            case "alias":
                body = {"cmd": "sleep 1000", "timeout_ms": 50, "sandbox_id": self.sandbox.sandbox_id}
                key = {"X-API-Key": self.server.key, "Content-Type": "application/json"}
                answer = self.post("/commands", json.dumps(body).encode(), key)
                assert b'"exit_code":-1' in answer.read()

    def start(self, line: str, **extra: str) -> http.client.HTTPResponse:
        answer = self.post("/process.Process/Start", frame(shell(line)), self.headers | extra)
        assert answer.status == 200
        return answer

    def start_and_kill(self, line: str) -> None:
        answer = self.start(line)
        _, length = struct.unpack(">BI", answer.read(5))
        pid = json.loads(answer.read(length))["event"]["start"]["pid"]
        for _ in range(2):
            body = {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"}
            headers = self.headers | {"Content-Type": "application/json"}
            signalled = self.post("/process.Process/SendSignal", json.dumps(body).encode(), headers)
            assert signalled.status in (200, 404)
            signalled.read()
        answer.read()

    def post(self, path: str, body: bytes, headers: dict) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=120)
        connection.request("POST", path, body, headers | {"Connection": "close"})
        return connection.getresponse()


def test_two_thousand_commands_are_booked_once_each(server, api, shared):
    before = counts(api)
    caller = Caller(server, shared)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        # Going through the results raises what went wrong in a thread.
        list(pool.map(caller.run, (KINDS[number % len(KINDS)] for number in range(COMMANDS))))
    assert wait_until(lambda: difference(counts(api), before)["active"] == 0, 10)
    booked = difference(counts(api), before)
    assert booked["started"] == COMMANDS
    assert booked["ok"] + booked["error"] + booked["killed"] == COMMANDS
    share = COMMANDS // len(KINDS)
    assert booked["ok"] >= share and booked["error"] >= share and booked["killed"] >= 3 * share
    assert shared.commands.list() == []

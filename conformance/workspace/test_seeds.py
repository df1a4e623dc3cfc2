"""What the seeds ask of the caller and no other file here shows: rows, order, caps, ends."""

import hashlib
import io
import sqlite3
import time
import zipfile
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from api import Api, fetch, shell, steps_of
from runner import Dispatch, Runner
from serving import Server
from teams import team
from test_browser import page
from test_workflows import START, Run, agents, chain, make, respond
from waiting import wait_until

MINUTE = 60_000
LIVES = {"setup": 10 * MINUTE, "run": 10 * MINUTE, "upload": 60 * MINUTE}
# How long the caller waits for a run that is over its time.
GRACE = 60


def rows(server: Server, query: str, *values: object) -> list[dict]:
    """What the server's database says."""
    database = sqlite3.connect(f"file:{server.data / 'mayfly.db'}?mode=ro", uri=True, timeout=10)
    database.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in database.execute(query, values)]
    finally:
        database.close()


def session_of(dispatch: Dispatch) -> str:
    return dispatch.agent_url.rsplit("/", 1)[1]


def execute(api: Api, workflow: str) -> str:
    path = f"/api/workspace/workflows/{workflow}/execute"
    body = {"input": {}, "onDisconnect": "continue"}
    return api.call("POST", path, body, Accept="application/json").expect(202).json()["executionId"]


def one_agent(api: Api, prompt: str = "go") -> str:
    agent = api.make("/api/agents", name="worker", systemPrompt="Work.")["id"]
    return make(api, chain(START, agents("work", agent, prompt), respond("{{work.response}}")))


class Caller:
    """A dispatch of either kind, and what its session is to be scoped to."""

    def __init__(self, kind: str, api: Api, runner: Runner) -> None:
        before = len(runner.dispatches)
        if kind == "assistant":
            started = api.start("go", onDisconnect="continue")
            self.scope, self.work = started["conversationId"], started["turnId"]
            self.state = lambda: api.turn(self.work)
        else:
            self.scope, self.work = execute(api, one_agent(api)), "work"
            self.state = lambda: api.get(f"/api/workspace/executions/{self.scope}")
        self.dispatch = runner.latest(before + 1)


# Tokens.


@pytest.mark.parametrize("kind", ["assistant", "agents"])
def test_tokens_are_hashes_in_the_seeds_table_with_its_lifetimes(kind, player, runner, played):
    caller = Caller(kind, player, runner)
    session = session_of(caller.dispatch)
    (row,) = rows(played, "SELECT * FROM sessions WHERE id = ?", session)
    assert (row["caller"], row["workspace"]) == (kind, player.team)
    assert (row["scope"], row["work"]) == (caller.scope, caller.work)
    stored = rows(played, "SELECT * FROM crew_agent_otp WHERE session_id = ?", session)
    hashes = {otp["kind"]: otp["hash"] for otp in stored}
    body = caller.dispatch.body
    assert hashes == {it: hashlib.sha256(body[f"otp_{it}"].encode()).digest() for it in LIVES}
    assert {otp["kind"]: otp["expires_at"] - row["created_at"] for otp in stored} == LIVES
    assert all(otp["used_at"] is None for otp in stored)


def test_the_phases_of_a_dispatch_come_in_the_seeds_order(api, server):
    """Mint, bootstrap, writeback, settle, by the clock of the database; both callers."""
    message = shell("mkdir -p assets; echo x > assets/x.txt")
    assert api.say(message).whole()["status"] == "succeeded"
    assert Run(api, one_agent(api, message), {}).rest()[-1]["status"] == "succeeded"
    sessions = rows(server, "SELECT * FROM sessions WHERE workspace = ?", api.team)
    assert {row["caller"] for row in sessions} == {"assistant", "agents"}
    for row in sessions:
        otps = rows(server, "SELECT * FROM crew_agent_otp WHERE session_id = ?", row["id"])
        used = {otp["kind"]: otp["used_at"] for otp in otps}
        order = [row["created_at"], used["setup"], used["run"], used["upload"], row["settled_at"]]
        assert None not in order and order == sorted(order), (row["caller"], order)


def test_the_bearer_ends_with_the_cap_and_the_caller_a_minute_later(host):
    """A runner that says nothing for ever, under a cap of five seconds."""
    cap, runner = 5, Runner(host)
    server = Server(SANDBOX_URL=runner.url, ASSISTANT_SANDBOX_MAX_RUNTIME_SEC=str(cap))
    try:
        api = team(server)
        began = time.monotonic()
        callers = [Caller(kind, api, runner) for kind in ("assistant", "agents")]
        configs = [caller.dispatch.config() for caller in callers]
        assert [config["max_runtime_sec"] for config in configs] == [cap, cap]
        bearers = [f"Bearer {config['workspace']['bearer']}" for config in configs]
        tables = f"{api.url}/api/workspace/tables"
        ask = lambda: [fetch("GET", tables, Authorization=bearer).status for bearer in bearers]
        assert ask() == [200, 200]
        query = """SELECT b.expires_at - s.created_at AS life FROM sandbox_bearers b
                   JOIN sessions s ON s.id = b.session_id"""
        assert rows(server, query) == [{"life": cap * 1000}] * 2
        assert wait_until(lambda: ask() == [401, 401], cap + 1)
        for caller in callers:
            assert caller.state()["state"] == "running", "the caller waits for the runner's last word"
        ended = lambda: all(caller.state()["state"] != "running" for caller in callers)
        assert wait_until(ended, cap + GRACE + 10)
        assert cap + GRACE - 1 < time.monotonic() - began
        for caller in callers:
            assert (caller.state()["state"], caller.state()["code"]) == ("failed", "runtime_exceeded")
            assert caller.dispatch.hung_up.wait(5) or caller.dispatch.cancelled.is_set()
    finally:
        runner.release()
        server.stop()


# Ends that were not planned.


def test_a_stream_that_breaks_off_is_cleaned_up_after(player, runner):
    """The step that ran, the tokens and the place in the conversation."""
    stream = player.say("Go on")
    chat = stream.until("turn").data["chatId"]
    dispatch = runner.of_chat(chat)
    dispatch.event("step_started", id="step_1", name="shell", args={})
    stream.until("step", status="running")
    dispatch.finish(broken=True)
    done = stream.whole()
    assert (done["status"], done["code"]) == ("failed", "sandbox_lost")
    (step,) = steps_of(done["message"])
    assert step["status"] == "failed" and step["error"]
    dispatch.ask("config", dispatch.body["otp_run"]).problem(401, "otp_expired")
    again = player.say("Once more", chat)
    runner.of_chat(chat, 2).result("fine")
    assert again.whole()["status"] == "succeeded"


def test_what_a_cancelled_turn_was_making_is_lost(api):
    chat = api.conversation()
    stream = api.say(shell("mkdir -p assets; echo x > assets/x.txt", "sleep 60"), chat)
    turn = stream.until("turn").data["turnId"]
    stream.until("step", status="succeeded")
    api.cancel(turn).expect(200)
    assert stream.whole()["code"] == "cancelled"
    assert api.bag(chat) == []
    again = api.say(shell("ls assets"), chat).whole()
    assert "x.txt" not in str(steps_of(again["message"])), "nor does the next turn find it"


def test_an_upload_token_is_not_given_back_when_its_turn_is_cancelled(player, runner, played):
    chat = player.conversation()
    stream = player.say("Make a file", chat)
    turn = stream.until("turn").data["turnId"]
    dispatch = runner.of_chat(chat)
    player.cancel(turn).expect(200)
    stream.whole()
    dispatch.write_back(("late.txt", b"x")).problem(401, "otp_expired")
    assert player.bag(chat) == []
    query = "SELECT used_at FROM crew_agent_otp WHERE session_id = ? AND kind = 'upload'"
    assert rows(played, query, session_of(dispatch)) == [{"used_at": None}]
    player.say("Again", chat).until("turn")
    assert runner.of_chat(chat, 2).body["otp_upload"] != dispatch.body["otp_upload"]


def test_a_browser_that_closes_its_stream_ends_the_sandbox(api, browser):
    """`EventSource.close()`, as the seed's chain begins; the sandbox is its last link."""
    browser.open(api.url, page(api, shell("echo begun", "sleep 60")))
    begun = "window.page && page.events.some(e => e.name === 'step' && e.data.status === 'succeeded')"
    assert wait_until(lambda: browser.run(begun), 20)
    assert len(api.sandboxes()) == 1
    browser.run("source.close()")
    assert wait_until(lambda: api.sandboxes() == [], 20)
    last = api.messages(browser.run("sessionStorage.chat"))[-1]
    assert last["content"][-1]["code"] == "cancelled"


def test_a_result_is_whole_for_whoever_shows_it(api):
    """Cutting it for the eye is left to the page."""
    stream = api.say(shell("head -c 300000 /dev/zero | tr '\\0' x"))
    done = stream.whole()
    (ended,) = [it for it in stream.seen if it.name == "step" and it.data["status"] == "succeeded"]
    assert ended.data["result"]["stdout"] == "x" * 300_000
    assert steps_of(done["message"])[0]["result"] == ended.data["result"]


# The bag.


def test_a_row_of_the_bag_has_the_columns_of_the_seed(player, runner, played):
    chat = player.conversation()
    given, loose = player.upload(chat, ("given.txt", b"given"), ("loose.txt", b"loose"))
    stream = player.say("Look", chat, attachmentIds=[given["id"]])
    message = stream.until("turn").data["userMessageId"]
    dispatch = runner.of_chat(chat)
    dispatch.write_back(("made.txt", b"made")).expect(200)
    columns = "chat_id, message_id, name, mime_type, size, sha256, storage_key, source"
    query = f"SELECT {columns} FROM assistant_chat_bag_files WHERE chat_id = ?"
    stored = {row["name"]: row for row in rows(played, query, chat)}

    def row(content: str, source: str, message: str | None = None) -> dict:
        name = f"{content}.txt"
        return {
            "chat_id": chat,
            "message_id": message,
            "name": name,
            "mime_type": "text/plain",
            "size": len(content),
            "sha256": hashlib.sha256(content.encode()).hexdigest(),
            "storage_key": f"assistant-chat-bag/{player.team}/{chat}/{name}",
            "source": source,
        }

    assert stored == {
        "given.txt": row("given", "user", message),
        "loose.txt": row("loose", "user"),
        "made.txt": row("made", "sandbox"),
    }


def test_deleting_a_conversation_deletes_its_bag_softly(player, played):
    chat = player.conversation()
    player.upload(chat, ("a.txt", b"a"), ("b.txt", b"b"))
    player.call("DELETE", f"/api/assistant/conversations/{chat}").expect(204)
    query = "SELECT name, deleted_at FROM assistant_chat_bag_files WHERE chat_id = ?"
    stored = rows(played, query, chat)
    assert {row["name"] for row in stored} == {"a.txt", "b.txt"}
    assert all(row["deleted_at"] for row in stored)
    bag: Path = played.data / "blobs" / "assistant-chat-bag" / player.team / chat
    assert {path.name for path in bag.iterdir()} == {"a.txt", "b.txt"}


def test_both_callers_get_their_bag_in_one_shape_and_for_five_minutes(player, runner):
    """A block has the bag of its execution, which the blocks before it filled."""
    chat = player.conversation()
    player.upload(chat, ("in.txt", b"in"))
    player.say("Look", chat).until("turn")
    assistant = runner.of_chat(chat).config()["assets"]
    agent = player.make("/api/agents", name="worker", systemPrompt="")["id"]
    workflow = make(player, chain(START, agents("one", agent, "a"), agents("two", agent, "b")))
    before = len(runner.dispatches)
    execution = execute(player, workflow)
    first = runner.latest(before + 1)
    assert not first.config().get("assets"), "nothing is in it yet"
    first.write_back(("out.txt", b"out")).expect(200)
    first.result()
    second = runner.latest(before + 2)
    block = second.config()["assets"]
    assert set(assistant) == set(block) == {"url", "expires_at", "files"}
    assert [set(file) for file in assistant["files"]] == [set(file) for file in block["files"]]
    for assets, content in ((assistant, {"in.txt": b"in"}), (block, {"out.txt": b"out"})):
        left = int(parse_qs(urlsplit(assets["url"]).query)["exp"][0]) - time.time()
        assert 270 < left <= 300
        archive = zipfile.ZipFile(io.BytesIO(fetch("GET", assets["url"]).expect(200).body))
        assert {name: archive.read(name) for name in archive.namelist()} == content
    second.result()
    path = f"/api/workspace/executions/{execution}"
    assert wait_until(lambda: player.get(path)["state"] == "succeeded")
    # It stays with its execution: neither the next one nor the workspace has it.
    assert [row["name"] for row in player.every(f"{path}/files")] == ["out.txt"]
    execute(player, workflow)
    assert not runner.latest(before + 3).config().get("assets")
    assert player.every("/api/workspace/files") == []


def test_what_is_not_in_assets_is_gone_with_the_sandbox(api):
    chat = api.conversation()
    commands = ["echo 1 > left.txt; echo 2 > /tmp/left.txt; mkdir -p assets; echo 3 > assets/kept.txt"]
    assert api.say(shell(*commands), chat).whole()["status"] == "succeeded"
    assert [row["name"] for row in api.bag(chat)] == ["kept.txt"]
    again = api.say(shell("cat kept.txt; find / -xdev -name left.txt 2>/dev/null; true"), chat).whole()
    assert steps_of(again["message"])[0]["result"]["stdout"] == "3\n"

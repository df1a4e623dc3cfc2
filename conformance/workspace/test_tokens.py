"""One-time tokens, bearers and signed addresses: who gets in, how often, how long."""

import re
import secrets
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

from api import Api, fetch
from teams import team
from waiting import wait_until

CROWD = 100
TOKENS = {"otp_setup": "env", "otp_run": "config"}


@pytest.fixture
def session(player, runner):
    """A turn that waits for its sandbox, which the test plays."""

    class Session:
        def __init__(self) -> None:
            self.stream = player.say("Begin")
            self.chat = self.stream.until("turn").data["chatId"]
            self.dispatch = runner.of_chat(self.chat)

    return Session


def test_tokens_have_the_shape_that_the_design_says(session):
    body = session().dispatch.body
    for name in ("otp_setup", "otp_run", "otp_upload"):
        assert re.fullmatch(r"otp_[A-Za-z0-9_-]{43}", body[name])


@pytest.mark.parametrize("token", TOKENS)
def test_one_of_a_hundred_redemptions_wins(session, token):
    dispatch = session().dispatch
    with ThreadPoolExecutor(CROWD) as pool:
        ask = lambda _: dispatch.ask(TOKENS[token], dispatch.body[token])
        answers = list(pool.map(ask, range(CROWD)))
    assert sorted(answer.status for answer in answers) == [200] + [401] * (CROWD - 1)
    for answer in answers:
        answer.status == 200 or answer.problem(401, "otp_used")


def test_one_of_a_hundred_uploads_wins(session, player):
    opened = session()
    with ThreadPoolExecutor(CROWD) as pool:
        send = lambda number: opened.dispatch.write_back((f"{number}.txt", b"x"))
        answers = list(pool.map(send, range(CROWD)))
    assert sorted(answer.status for answer in answers)[1:] == [401] * (CROWD - 1)
    assert len(player.bag(opened.chat)) == 1


@pytest.mark.parametrize("token", TOKENS)
def test_a_token_may_come_as_a_bearer(session, token):
    dispatch = session().dispatch
    dispatch.ask(TOKENS[token], f"Bearer {dispatch.body[token]}").expect(200)
    dispatch.ask(TOKENS[token], dispatch.body[token]).problem(401, "otp_used")


def test_a_token_opens_only_its_own_door(session):
    """A wrong kind is refused and stays unused."""
    dispatch = session().dispatch
    body = dispatch.body
    dispatch.ask("config", body["otp_setup"]).problem(401, "otp_unknown")
    dispatch.ask("env", body["otp_run"]).problem(401, "otp_unknown")
    dispatch.ask("env", body["otp_upload"]).problem(401, "otp_unknown")
    dispatch.ask("results", body["otp_run"], "POST").expect(401, 400, 415)
    assert dispatch.env() and dispatch.config()


def test_a_token_opens_only_its_own_session(session):
    ours, theirs = session().dispatch, session().dispatch
    for token, path in TOKENS.items():
        fetch("GET", f"{theirs.agent_url}/{path}", Authorization=ours.body[token]).problem(401, "otp_unknown")
    elsewhere = ours.agent_url.rsplit("/", 1)[0] + "/ses_" + "0" * 24
    fetch("GET", f"{elsewhere}/env", Authorization=ours.body["otp_setup"]).problem(401)
    assert ours.env() and theirs.config()


def test_a_token_with_one_letter_changed_is_unknown(session):
    dispatch = session().dispatch
    right = dispatch.body["otp_setup"]
    for place in (4, 20, len(right) - 1):
        letter = "A" if right[place] != "A" else "E"
        dispatch.ask("env", right[:place] + letter + right[place + 1 :]).problem(401, "otp_unknown")
    for wrong in ("", "otp_", right + "A", right[:-1], "x" * 10_000):
        dispatch.ask("env", wrong).problem(401)
    assert dispatch.env()


def test_nothing_opens_once_the_turn_is_over(session, player):
    opened = session()
    config = opened.dispatch.config()
    bearer = config["workspace"]["bearer"]
    assert re.fullmatch(r"asbx_[A-Za-z0-9_-]{43}", bearer)
    sandbox = f"{config['workspace']['url']}/tables"
    fetch("GET", sandbox, Authorization=f"Bearer {bearer}").expect(200)
    opened.dispatch.result("over")
    opened.stream.whole()
    opened.dispatch.ask("env", opened.dispatch.body["otp_setup"]).problem(401, "otp_expired")
    opened.dispatch.write_back(("late.txt", b"x")).problem(401, "otp_expired")
    fetch("GET", sandbox, Authorization=f"Bearer {bearer}").problem(401)
    assert player.bag(opened.chat) == []


def test_a_turn_that_is_cancelled_takes_its_tokens_with_it(session, player):
    opened = session()
    bearer = opened.dispatch.config()["workspace"]["bearer"]
    player.cancel(opened.stream.seen[0].data["turnId"]).expect(200, 202, 204)
    opened.stream.whole()
    opened.dispatch.ask("env", opened.dispatch.body["otp_setup"]).problem(401, "otp_expired")
    tables = f"{player.url}/api/workspace/tables"
    fetch("GET", tables, Authorization=f"Bearer {bearer}").problem(401)


def test_a_bearer_reaches_its_own_workspace_and_nothing_else(session, player, played):
    stranger = team(played)
    stranger.make("/api/workspace/tables", name="theirs", columns=[{"name": "a", "type": "text"}])
    mine = player.make("/api/workspace/tables", name="mine", columns=[{"name": "a", "type": "text"}])
    bearer = session().dispatch.config()["workspace"]["bearer"]
    inside = lambda path: fetch("GET", player.url + path, Authorization=f"Bearer {bearer}")
    tables = inside("/api/workspace/tables").expect(200).json()["items"]
    assert [table["id"] for table in tables] == [mine["id"]]
    for path in ("/api/assistant/conversations", "/api/models", "/api/environments", "/api/agents"):
        inside(path).expect(401, 403)
    inside("/api/workspace/executions").expect(401, 403)
    # Nor the rest of the server.
    inside("/sandboxes").expect(401, 403)
    inside("/runs").expect(401, 403)


def test_a_made_up_bearer_is_refused(player):
    for bearer in ("asbx_" + secrets.token_urlsafe(32), "asbx_", "asbx_" + "A" * 43):
        headers = {"Authorization": f"Bearer {bearer}"}
        assert fetch("GET", player.url + "/api/workspace/tables", **headers).status == 401


def test_the_key_for_the_servers_own_runner_cannot_be_made_up(player):
    """Keys of workspaces are derived; a wrong proof opens nothing."""
    forged = "wsk_" + player.team.encode().hex() + "_" + "0" * 64
    assert Api(player.url, forged).call("GET", "/sandboxes").status == 401


def test_a_stream_address_is_good_for_its_turn_only(player, runner):
    started, other = player.start("one"), player.start("two")
    right = started["streamUrl"]
    swapped = right.replace(started["turnId"], other["turnId"])
    assert swapped != right
    query = dict(pair.split("=") for pair in right.split("?")[1].split("&"))
    for wrong in (
        swapped,
        right.replace(f"exp={query['exp']}", f"exp={int(query['exp']) + 1}"),
        right.replace(query["sig"], query["sig"][:-1] + ("0" if query["sig"][-1] != "0" else "1")),
        right.replace(f"&sig={query['sig']}", "").replace(f"sig={query['sig']}&", ""),
    ):
        stream = player.follow(wrong)
        assert stream.status in (401, 403), wrong
        stream.hang_up()
    stream = player.follow(right)
    assert stream.status == 200
    assert stream.until("turn").data["turnId"] == started["turnId"]
    stream.hang_up()
    for dispatch in (runner.of_chat(it["conversationId"]) for it in (started, other)):
        dispatch.result()
    assert wait_until(lambda: player.ended(started["turnId"]) and player.ended(other["turnId"]))


@pytest.mark.parametrize("minutes", [10, 60])
def test_a_token_that_is_late_is_refused(session, played, minutes):
    """No test waits for an hour: the clock in the database is turned back instead."""
    dispatch = session().dispatch
    with sqlite3.connect(played.data / "mayfly.db", timeout=10) as database:
        kinds = "('upload')" if minutes == 60 else "('setup', 'run')"
        lives = "SELECT expires_at - s.created_at FROM crew_agent_otp o"
        scope = f"JOIN sessions s ON s.id = o.session_id WHERE o.session_id = ? AND o.kind IN {kinds}"
        name = dispatch.agent_url.rsplit("/", 1)[1]
        lifetimes = [life for (life,) in database.execute(f"{lives} {scope}", [name])]
        assert lifetimes and all(abs(life - minutes * 60_000) < 1_000 for life in lifetimes)
        earlier = f"UPDATE crew_agent_otp SET expires_at = 1 WHERE session_id = ? AND kind IN {kinds}"
        database.execute(earlier, [name])
    database.close()
    if minutes == 60:
        dispatch.write_back(("late.txt", b"x")).problem(401, "otp_expired")
    else:
        for token, path in TOKENS.items():
            dispatch.ask(path, dispatch.body[token]).problem(401, "otp_expired")

"""`kill -9` at random moments: what was acknowledged is there, what was open has an end.

Workers talk to a server that is killed and started again and again. Each writes down
what it was promised; behind the last restart every promise is looked at. The seed of the
moments is printed, and `MAYFLY_TEST_SEED` gives it again. What the clients and sandboxes
do between two moments is theirs: a seed brings a failure closer, it does not replay it.
"""

import hashlib
import os
import random
import secrets
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException

import pytest

from api import Api, fetch, shell, steps_of
from runner import Dispatch, Runner
from serving import Server
from sse import Broken, Event, folded
from waiting import wait_until

TURNS = 200
WORKERS = 8
# What a server that is being killed does to its clients.
GONE = (OSError, HTTPException, Broken)


@dataclass
class Promise:
    """One turn, as far as its worker was told."""

    number: int
    fate: str
    chat: str | None = None
    file: str | None = None
    content: bytes = b""
    turn: str | None = None
    message: str | None = None
    events: list[Event] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return bool(self.events) and self.events[-1].name == "done"

    @property
    def under_way(self) -> bool:
        """Whether the runner was known to have it."""
        return any(event.name == "step" for event in self.events)


class Town:
    """A server at one address that dies again and again, and its clients."""

    def __init__(self, server: Server, seed: int) -> None:
        self.server, self.random = server, random.Random(seed)
        self.lock = threading.Lock()
        self.left = list(range(TURNS))
        self.promises: list[Promise] = []
        self.kills = 0
        self.api = Api(server.url, server.key)
        # Whether it makes sense to begin something.
        self.serving = threading.Event()
        self.serving.set()

    def work(self) -> None:
        while True:
            self.serving.wait()
            with self.lock:
                if not self.left:
                    return
                number = self.left.pop()
                promise = Promise(number, self.random.choice(["cancel", "continue"]))
                self.promises.append(promise)
            try:
                self.take_turn(promise)
            except GONE:
                continue  # Whatever was promised so far is written down.

    def take_turn(self, promise: Promise) -> None:
        api = self.api
        chat = api.conversation(title=f"number {promise.number}")
        promise.chat = chat
        content = secrets.token_bytes(2000)
        (file,) = api.upload(chat, ("in.bin", content))
        promise.file, promise.content = file["id"], content
        message = shell(
            f"echo begin {promise.number}",
            "sleep 0.4; mkdir -p assets; sha256sum < in.bin > assets/out.txt",
            f"echo end {promise.number}",
        )
        started = api.start(message, chat, attachmentIds=[file["id"]], onDisconnect=promise.fate)
        promise.message, promise.turn = started["messageId"], started["turnId"]
        stream = api.follow(started["streamUrl"])
        try:
            while stream.next():
                pass
        finally:
            promise.events = stream.seen

    def kill(self) -> None:
        self.serving.clear()
        self.server.kill()
        self.kills += 1
        self.server.start()
        self.serving.set()


def printed_seed() -> int:
    seed = int(os.environ.get("MAYFLY_TEST_SEED") or secrets.randbits(32))
    print(f"seed {seed}")
    return seed


def free_port() -> int:
    """One that no outgoing connection is given, so that it is free again behind a restart."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


@pytest.fixture(params=["sqlite", "postgres"])
def stable(request):
    """A server that keeps its address over restarts, on either database."""
    arguments: list[str] = []
    if request.param == "postgres":
        postgres = request.getfixturevalue("postgres")
        arguments = ["--database", postgres.database("restart_" + secrets.token_hex(4))]
    made: list[Server] = []

    def make(*more: str, **variables: str) -> Server:
        listen = f"127.0.0.1:{free_port()}"
        made.append(Server(*arguments, *more, listen=listen, **variables))
        return made[-1]

    yield make
    for server in made:
        server.stop()


def test_two_hundred_turns_survive_a_server_that_is_killed_at_random(stable):
    seed = printed_seed()
    town = Town(stable("--max-sandboxes", "100"), seed)
    with ThreadPoolExecutor(WORKERS) as pool:
        workers = [pool.submit(town.work) for _ in range(WORKERS)]
        while not all(worker.done() for worker in workers):
            time.sleep(town.random.uniform(0.2, 2))
            town.kill()
        for worker in workers:
            worker.result()
    api = town.api
    states: dict[str, int] = {}
    turns = [promise for promise in town.promises if promise.turn]
    assert wait_until(lambda: all(api.ended(promise.turn) for promise in turns), 60), "every turn ends"
    for promise in town.promises:
        check(api, promise, states)
    print(f"{town.kills} kills, {states}")
    # The moments were such that something was at stake.
    assert town.kills >= 5
    assert states.get("cancel failed", 0) > 0, states
    assert states.get("continue succeeded", 0) > 0 and states.get("cancel succeeded", 0) > 0, states
    assert wait_until(lambda: api.sandboxes() == [], 20), orphans(town.server)


def orphans(server: Server) -> str:
    """Sandboxes that are left, and the runs that had them."""
    caller = server.caller()
    left = caller.sandboxes()
    runs = [(run["id"], run["state"]) for run in caller.runs() if run["sandbox_id"] in left]
    return f"{left} are left, of the runs {runs}"


def check(api: Api, promise: Promise, states: dict[str, int]) -> None:
    """Looks at one promise."""
    if promise.chat:
        path = f"/api/assistant/conversations/{promise.chat}"
        assert api.get(path)["title"] == f"number {promise.number}"
    if promise.file:
        assert api.content(promise.chat, promise.file) == promise.content, promise
    if not promise.turn:
        return
    asked, *rest = api.messages(promise.chat)
    assert asked["id"] == promise.message and asked["attachments"][0]["id"] == promise.file
    turn = api.turn(promise.turn)
    states[f"{promise.fate} {turn['state']}"] = states.get(f"{promise.fate} {turn['state']}", 0) + 1
    assert len(rest) == 1, "an ended turn has its answer"
    (answered,) = rest
    whole = [event for event in stored(api, promise.turn) if event.name != "log"]
    assert whole[: len(promise.events)] == promise.events, "what was told once stays as it was"
    assert [event.name for event in whole].count("done") == 1 and whole[-1].name == "done"
    assert whole[-1].data["message"] == answered
    assert folded(whole) == answered["content"]
    if turn["state"] == "succeeded":
        steps = [step["result"].get("stdout") for step in steps_of(answered) if step["name"] == "shell"]
        assert steps == [f"begin {promise.number}\n", "", f"end {promise.number}\n"]
        names = {row["name"]: row for row in api.bag(promise.chat)}
        if "out.txt" in names:
            made = api.content(promise.chat, names["out.txt"]["id"])
            assert made.split()[0].decode() == hashlib.sha256(promise.content).hexdigest()
        else:
            # Nobody was there to take it: the run goes on, and says so.
            assert promise.fate == "continue" and not promise.ended
            assert [s["status"] for s in steps_of(answered) if s["name"] == "writeback"] == ["failed"]
        return
    assert whole[-1].data["status"] == "failed"
    codes = ["sandbox_lost"]
    if promise.fate == "continue":
        assert not promise.under_way, f"it was to continue: {whole[-1].data}"
        # It could not ask the workspace who it is, and no token is good twice.
        codes += ["bootstrap_failed", "otp_rejected"]
    assert whole[-1].data["code"] in codes, whole[-1]


def stored(api: Api, turn: str) -> list[Event]:
    return [Event(event["seq"], event["kind"], event["data"]) for event in api.trace(turn)]


def test_no_token_is_good_twice_over_a_server_that_is_killed(stable, host):
    """Tokens are redeemed while the server dies; whoever was answered once is refused later."""
    seed = printed_seed()
    moments = random.Random(seed)
    runner = Runner(host)
    server = stable(SANDBOX_URL=runner.url)
    won: dict[str, int] = {}
    lock = threading.Lock()

    def redeem(dispatch: Dispatch) -> None:
        for token, path in (("otp_setup", "env"), ("otp_run", "config")):
            for _ in range(3):
                try:
                    answer = dispatch.ask(path, dispatch.body[token])
                except GONE:
                    continue
                answer.expect(200, 401, 503)
                if answer.status == 200:
                    with lock:
                        won[dispatch.body[token]] = won.get(dispatch.body[token], 0) + 1

    try:
        for _ in range(5):
            api = Api(server.url, server.key)
            count = len(runner.dispatches)
            for _ in range(20):
                api.start("x", onDisconnect="continue")
            dispatched = wait_until(lambda: len(runner.dispatches) >= count + 20)
            assert dispatched, f"{len(runner.dispatches) - count} of 20\n{server.log()}"
            fresh = runner.dispatches[count:]
            with ThreadPoolExecutor(40) as pool:
                tried = [pool.submit(redeem, dispatch) for dispatch in fresh + fresh]
                time.sleep(moments.uniform(0, 0.1))
                server.kill()
                server.start()
                for attempt in tried:
                    attempt.result()
            for dispatch in fresh:
                redeem(dispatch)
        assert won and set(won.values()) == {1}, f"somebody got in twice\n{server.log()}"
        # Nobody gets in any more: every token was tried at a server that lived.
        for dispatch in runner.dispatches:
            for token, path in (("otp_setup", "env"), ("otp_run", "config")):
                dispatch.ask(path, dispatch.body[token]).problem(401)
    finally:
        for dispatch in runner.dispatches:
            dispatch.result()
        api = Api(server.url, server.key)
        chats = [chat["id"] for chat in api.every("/api/assistant/conversations")]
        ended = wait_until(lambda: {len(api.messages(chat)) for chat in chats} == {2}, 60)
        assert ended, f"a turn has no answer\n{server.log()}"


def test_a_turn_that_is_to_continue_is_taken_up_where_it_was(stable, host):
    """Nothing that the runner said while nobody was there is missing or told twice."""
    runner = Runner(host)
    server = stable(SANDBOX_URL=runner.url)
    api = Api(server.url, server.key)
    started = api.start("Count", onDisconnect="continue")
    dispatch = runner.latest()
    stream = api.follow(started["streamUrl"])
    for number in range(10):
        dispatch.event("text", message_id=f"m{number}", delta=f"{number} ")
    stream.until("text", delta="9 ")
    server.kill()
    for number in range(10, 20):
        dispatch.event("text", message_id=f"m{number}", delta=f"{number} ")
    server.start()
    api = Api(server.url, server.key)
    again = api.follow(started["streamUrl"], last=stream.seen[-1].id)
    again.until("text", delta="19 ")
    dispatch.result("19 ")
    again.whole()
    told = [event.data["delta"] for event in stream.seen + again.seen if event.name == "text"]
    assert told == [f"{number} " for number in range(20)]


def test_a_turn_that_is_not_to_continue_ends_with_the_server(stable, host):
    runner = Runner(host)
    server = stable(SANDBOX_URL=runner.url)
    api = Api(server.url, server.key)
    stream = api.say("Hold on")
    begun = stream.until("turn").data
    chat, turn = begun["chatId"], begun["turnId"]
    dispatch = runner.latest()
    dispatch.say("half a ")
    stream.until("text")
    bearer = dispatch.config()["workspace"]["bearer"]
    server.kill()
    server.start()
    api = Api(server.url, server.key)
    assert wait_until(lambda: api.ended(turn))
    last = api.messages(chat)[-1]
    assert last["content"][0] == {"type": "text", "text": "half a "}
    assert last["content"][-1]["type"] == "error" and last["content"][-1]["code"] == "sandbox_lost"
    headers = {"Authorization": f"Bearer {bearer}"}
    fetch("GET", f"{api.url}/api/workspace/tables", **headers).problem(401)
    dispatch.ask("env", dispatch.body["otp_setup"]).problem(401, "otp_expired")
    runner.release()

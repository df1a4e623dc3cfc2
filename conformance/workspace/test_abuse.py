"""Clients that stop reading, a database that is locked, a disk that is full."""

import os
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from api import shell, text_of
from runner import Runner
from serving import Server
from teams import team
from test_bag import resident
from waiting import wait_until

MEBIBYTE = 1 << 20


def test_a_reader_that_stops_reading_holds_up_nobody_and_costs_little(player, runner, played):
    """It says that it wants the stream, reads its first event and then nothing more."""
    chat = player.conversation()
    started = player.start("Speak at length", chat, onDisconnect="continue")
    stalled = [player.follow(started["streamUrl"]) for _ in range(20)]
    for stream in stalled:
        stream.until("turn")
    reader = player.follow(started["streamUrl"])
    dispatch = runner.of_chat(chat)
    before, most = resident(played), 0
    for number in range(200):
        # Another message each time, so that no two can be merged.
        dispatch.event("text", message_id=f"m{number}", delta=f"{number} " + "x" * 100_000)
        most = max(most, resident(played))
    dispatch.result("at last")
    done = reader.whole()
    assert done["status"] == "succeeded", done
    most = max(most, resident(played))
    assert most - before < 150 * MEBIBYTE, f"{(most - before) // MEBIBYTE} MiB for 20 readers of 20 MB"
    # Whoever reads on gets all of it.
    late = stalled[0]
    assert late.whole() == done and late.seen == reader.seen
    for stream in stalled[1:]:
        stream.hang_up()


def test_a_locked_database_is_a_clear_error_and_nothing_is_lost(player, runner, played):
    chat = player.conversation()
    (file,) = player.upload(chat, ("before.txt", b"before"))
    stream = player.say("Wait for it", chat)
    stream.until("turn")
    dispatch = runner.of_chat(chat)
    locker = Locker(played.data / "mayfly.db")
    try:
        began = time.monotonic()
        problem = player.call("POST", "/api/assistant/conversations", {}).problem(503, "busy")
        assert time.monotonic() - began < 30
        assert "busy" in problem["message"]
        player.send(f"/api/assistant/conversations/{chat}/files", ("during.txt", b"x")).problem(503, "busy")
        # Reading goes on, and so does the run.
        assert player.content(chat, file["id"]) == b"before"
        dispatch.say("said while it was locked")
    finally:
        locker.release()
    assert player.conversation()
    dispatch.result("said while it was locked")
    done = stream.whole()
    stored = player.messages(chat)
    assert stored[0]["content"] == [{"type": "text", "text": "Wait for it"}]
    if done["status"] == "succeeded":
        assert text_of(stored[1]) == "said while it was locked"
    assert stored[1] == done["message"]
    assert [row["name"] for row in player.bag(chat)] == ["before.txt"], "what was refused is not there"


class Locker:
    """Another process that holds the database."""

    PROGRAM = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], timeout=20, isolation_level=None)
database.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.read()
"""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-c", self.PROGRAM, str(path)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, **pipes)
        assert self.process.stdout.readline() == "locked\n"

    def release(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=10)
        self.process.stdout.close()


class SmallServer(Server):
    """A server whose data directory is a small disk of its own."""

    def start(self) -> None:
        if not os.path.ismount(self.data):
            command = ["mount", "-t", "tmpfs", "-o", "size=200m,mode=0700", "tmpfs", str(self.data)]
            subprocess.run(command, check=True)
        super().start()

    def forget(self) -> None:
        subprocess.run(["umount", str(self.data)], check=True)
        super().forget()


def test_a_full_disk_is_a_clear_error_and_nothing_is_lost(host):
    if os.geteuid() != 0:
        pytest.skip("a disk of its own needs root")
    runner = Runner(host)
    runner.plan = lambda dispatch: dispatch.result("fine")
    server = SmallServer(SANDBOX_URL=runner.url)
    try:
        api = team(server)
        chat = api.conversation(title="kept")
        assert api.say("before", chat).whole()["status"] == "succeeded"
        filler = open(server.data / "filler", "wb", buffering=0)
        kept, refused = [], None
        for number in range(40):
            content = bytes([number]) * (16 * MEBIBYTE)
            answer = api.send(f"/api/assistant/conversations/{chat}/files", (f"{number}.bin", content))
            if answer.status != 201:
                refused = answer
                break
            kept.append((answer.json()["files"][0]["id"], content))
        assert refused is not None and len(kept) >= 2
        refused.problem(507, "storage_full")
        fill(filler)
        answers = [api.call("POST", "/api/assistant/conversations", {"title": "x" * 200}) for _ in range(50)]
        made = [answer.json()["id"] for answer in answers if answer.status == 201]
        for answer in answers:
            if answer.status != 201:
                answer.problem(507, "storage_full")
        stream = api.say("while it is full", chat)
        if stream.status == 200:
            stream.rest()
        filler.truncate(0)
        filler.close()
        for file, content in kept:
            assert api.content(chat, file) == content
        assert [row["id"] for row in api.bag(chat)] == [file for file, _ in kept]
        assert text_of(api.messages(chat)[1]) == "fine"
        assert set(made) <= {row["id"] for row in api.every("/api/assistant/conversations")}
        # Room is made, and the server goes on as if nothing had been.
        for path in (server.data / "blobs").rglob("0.bin"):
            path.unlink()
        assert wait_until(lambda: api.call("POST", "/api/assistant/conversations", {}).status == 201)
        # On each of its connections to the database.
        with ThreadPoolExecutor(32) as pool:
            bodies = [{"message": f"after {number}"} for number in range(64)]
            begin = lambda body: api.call("POST", "/api/assistant/chat/stream", body)
            answers = list(pool.map(begin, bodies))
        assert {answer.status for answer in answers} == {202}, (answers[0], server.log())
        turns = [answer.json()["turnId"] for answer in answers]
        assert wait_until(lambda: {api.turn(turn)["state"] for turn in turns} == {"succeeded"})
        check_database(server.data / "mayfly.db")
    finally:
        runner.release()
        server.stop()


def fill(file) -> None:
    """Writes until nothing fits any more, down to the last block."""
    for size in (MEBIBYTE, 4096, 1):
        try:
            while True:
                file.write(b"\xff" * size)
        except OSError:
            continue


def check_database(path: Path) -> None:
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()


def test_a_crowd_that_asks_for_the_same_turn_begins_it_once(player, runner):
    """One message and one turn win, every other is told whose turn it is."""
    chat = player.conversation()
    answers, lock = [], threading.Lock()

    def ask(number: int) -> None:
        body = {"conversationId": chat, "message": f"number {number}"}
        answer = player.call("POST", "/api/assistant/chat/stream", body, Accept="application/json")
        with lock:
            answers.append(answer)

    threads = [threading.Thread(target=ask, args=[number]) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status for answer in answers) == [202] + [409] * 49
    (won,) = [answer.json() for answer in answers if answer.status == 202]
    for answer in answers:
        if answer.status == 409:
            assert won["turnId"] in answer.problem(409, "turn_running")["message"]
    assert len(player.messages(chat)) == 1
    runner.of_chat(chat).result()
    assert wait_until(lambda: player.ended(won["turnId"]))


def test_a_huge_result_is_bounded_in_the_message_and_whole_turns_still_end(api):
    """Ten results of a mebibyte do not fit into one message; they are marked, not lost in silence."""
    command = "head -c 1000000 /dev/zero | tr '\\\\0' x"
    done = api.say(shell(*[command] * 6)).whole()
    assert done["status"] == "succeeded", done.get("error")
    size = len(str(done["message"]))
    assert size < 5 * MEBIBYTE, size
    assert "truncated" in str(done["message"])

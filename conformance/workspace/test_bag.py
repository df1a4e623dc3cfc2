"""The file bag: names, bytes, keys on disk, the zip, and what deleting means."""

import hashlib
import io
import secrets
import socket
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from api import fetch, form, shell, steps_of
from runner import Runner
from serving import Server
from teams import team
from waiting import wait_until

CROWD = 500
MANY = 10_000


def test_an_upload_is_a_row_with_its_facts(player):
    chat = player.conversation()
    content = b"%PDF-1.7\n" + secrets.token_bytes(1000)
    (file,) = player.upload(chat, ("Report 2026.pdf", content))
    assert file["name"] == "Report 2026.pdf" and file["size"] == len(content)
    assert file["mimeType"] == "application/pdf" and file["source"] == "user"
    assert file["sha256"] == hashlib.sha256(content).hexdigest()
    assert player.bag(chat) == [file]
    path = f"/api/assistant/conversations/{chat}/files/{file['id']}"
    assert player.get(path) == file
    answer = player.call("GET", path + "/content").expect(200)
    assert answer.body == content
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "attachment" in answer.headers["content-disposition"]


def test_types_are_found_in_the_bytes_and_not_believed(player):
    chat = player.conversation()
    picture = bytes.fromhex("89504e470d0a1a0a0000000d49484452") + bytes(32)
    (file,) = player.upload(chat, ("harmless.txt", picture))
    assert file["mimeType"] == "image/png"
    (file,) = player.upload(chat, ("table.csv", b"a,b\n1,2\n"))
    assert file["mimeType"].startswith("text/csv")
    (file,) = player.upload(chat, ("thing", b"\x00\x01\x02\x03"))
    assert file["mimeType"] == "application/octet-stream"


def test_names_that_are_taken_get_a_number_before_the_extension(player):
    chat = player.conversation()
    for expected in ("report.pdf", "report-1.pdf", "report-2.pdf"):
        assert player.upload(chat, ("report.pdf", b"x"))[0]["name"] == expected
    assert player.upload(chat, ("report-1.pdf", b"x"))[0]["name"] == "report-1-1.pdf"
    for expected in ("Makefile", "Makefile-1"):
        assert player.upload(chat, ("Makefile", b"x"))[0]["name"] == expected
    other = player.conversation()
    assert player.upload(other, ("report.pdf", b"x"))[0]["name"] == "report.pdf"


def test_a_name_is_not_given_again_when_its_file_is_deleted(player):
    chat = player.conversation()
    (first,) = player.upload(chat, ("a.txt", b"first"))
    player.call("DELETE", f"/api/assistant/conversations/{chat}/files/{first['id']}").expect(204, 200)
    (second,) = player.upload(chat, ("a.txt", b"second"))
    assert second["name"] == "a-1.txt"


def test_five_hundred_uploads_of_one_name_at_once(player):
    chat = player.conversation()

    def upload(number: int) -> dict:
        return player.upload(chat, ("same.txt", f"content {number}".encode()))[0] | {"number": number}

    with ThreadPoolExecutor(CROWD) as pool:
        files = list(pool.map(upload, range(CROWD)))
    expected = {"same.txt"} | {f"same-{number}.txt" for number in range(1, CROWD)}
    assert {file["name"] for file in files} == expected
    assert {row["id"] for row in player.bag(chat)} == {file["id"] for file in files}
    for file in files[::25]:
        assert player.content(chat, file["id"]) == f"content {file['number']}".encode()


ODD_NAMES = {
    "../../etc/passwd": "passwd",
    "/etc/shadow": "shadow",
    "C:\\Users\\me\\photo.jpg": None,
    "..": None,
    ".": None,
    "": None,
    ".hidden": ".hidden",
    "Übersicht – 四月.txt": "Übersicht – 四月.txt",
    "a%2Fb.txt": "a%2Fb.txt",
    "with space?and=query#part.txt": "with space?and=query#part.txt",
    "x" * 400 + ".txt": None,
}


@pytest.mark.parametrize("name", ODD_NAMES, ids=lambda name: repr(name[:20]))
def test_odd_names_are_kept_where_they_can_be_and_never_lead_anywhere(player, played, name):
    chat = player.conversation()
    (file,) = player.upload(chat, (name, b"odd"))
    if ODD_NAMES[name] is not None:
        assert file["name"] == ODD_NAMES[name]
    assert file["name"] and "/" not in file["name"] and file["name"] not in (".", "..")
    assert len(file["name"].encode()) <= 255
    assert player.content(chat, file["id"]) == b"odd"
    bag = played.data / "blobs" / "assistant-chat-bag" / player.team / chat
    assert [path.read_bytes() for path in bag.rglob("*") if path.is_file()] == [b"odd"]


def test_contents_lie_at_the_key_that_the_seed_names(player, played):
    chat = player.conversation()
    player.upload(chat, ("plain.txt", b"plain"), ("a b.txt", b"space"))
    bag = played.data / "blobs" / "assistant-chat-bag" / player.team / chat
    assert (bag / "plain.txt").read_bytes() == b"plain"
    others = [path.read_bytes() for path in bag.iterdir() if path.name != "plain.txt"]
    assert others == [b"space"]
    assert (played.data / "blobs").stat().st_mode & 0o077 == 0


def test_a_plain_put_uploads_too(player):
    chat = player.conversation()
    path = f"/api/assistant/conversations/{chat}/files/{quote('a b.txt')}"
    answer = fetch("PUT", player.url + path, b"put", X_API_Key=player.key).expect(200, 201)
    assert player.bag(chat)[0]["name"] == "a b.txt", answer
    assert player.content(chat, player.bag(chat)[0]["id"]) == b"put"


def test_attachments_belong_to_their_message(player, runner):
    chat, other = player.conversation(), player.conversation()
    files = player.upload(chat, ("a.txt", b"a"), ("b.txt", b"b"), ("c.txt", b"c"))
    (foreign,) = player.upload(other, ("foreign.txt", b"f"))
    ids = [file["id"] for file in files]
    for wrong in (foreign["id"], "file_" + "0" * 24):
        body = {"conversationId": chat, "message": "x", "attachmentIds": [ids[0], wrong]}
        problem = player.call("POST", "/api/assistant/chat/stream", body).problem(400)
        assert problem["field"] == "attachmentIds[1]"
    assert player.messages(chat) == []
    stream = player.say("Look", chat, attachmentIds=ids[:2])
    stream.until("turn")
    runner.of_chat(chat).result()
    stream.whole()
    asked = player.messages(chat)[0]
    assert [file["id"] for file in asked["attachments"]] == ids[:2]
    assert asked["attachments"][0].items() >= {"name": "a.txt", "size": 1}.items()
    rows = {row["id"]: row.get("messageId") for row in player.bag(chat)}
    assert rows == {ids[0]: asked["id"], ids[1]: asked["id"], ids[2]: None}


def test_a_turn_sees_what_the_user_gave_and_the_next_what_it_made(api):
    chat = api.conversation()
    (file,) = api.upload(chat, ("in.txt", b"from the user"))
    message = shell("cat in.txt", "mkdir -p assets; tr a-z A-Z < in.txt > assets/out.txt")
    done = api.say(message, chat, attachmentIds=[file["id"]]).whole()
    assert steps_of(done["message"])[0]["result"]["stdout"] == "from the user"
    made = [block for block in done["message"]["content"] if block["type"] == "files"]
    assert [file["name"] for block in made for file in block["files"]] == ["out.txt"]
    rows = {row["name"]: row for row in api.bag(chat)}
    assert rows["out.txt"]["source"] == "sandbox"
    assert api.content(chat, rows["out.txt"]["id"]) == b"FROM THE USER"
    again = api.say(shell("cat out.txt in.txt"), chat).whole()
    assert steps_of(again["message"])[0]["result"]["stdout"] == "FROM THE USERfrom the user"


def test_deleting_a_conversation_takes_its_bag_along(player, runner):
    chat = player.conversation()
    (file,) = player.upload(chat, ("a.txt", b"x"))
    stream = player.say("x", chat)
    stream.until("turn")
    dispatch = runner.of_chat(chat)
    url = dispatch.config()["assets"]["url"]
    dispatch.result()
    stream.whole()
    player.call("DELETE", f"/api/assistant/conversations/{chat}").expect(204, 200)
    player.call("GET", f"/api/assistant/conversations/{chat}/files").problem(404)
    player.call("GET", f"/api/assistant/conversations/{chat}/files/{file['id']}/content").problem(404)
    assert fetch("GET", url).status in (403, 404, 410), "not even by an address from before"
    answer = player.send(f"/api/assistant/conversations/{chat}/files", ("b.txt", b"x"))
    answer.problem(404)


def test_a_file_that_is_deleted_is_in_no_list_and_no_zip(player, runner):
    chat = player.conversation()
    keep, drop = player.upload(chat, ("keep.txt", b"k"), ("drop.txt", b"d"))
    path = f"/api/assistant/conversations/{chat}/files/{drop['id']}"
    player.call("DELETE", path).expect(204, 200)
    player.call("DELETE", path).problem(404)
    assert [row["id"] for row in player.bag(chat)] == [keep["id"]]
    body = {"conversationId": chat, "message": "x", "attachmentIds": [drop["id"]]}
    player.call("POST", "/api/assistant/chat/stream", body).problem(400, field="attachmentIds[0]")
    player.say("x", chat).until("turn")
    url = runner.of_chat(chat).config()["assets"]["url"]
    archive = zipfile.ZipFile(io.BytesIO(fetch("GET", url).expect(200).body))
    assert archive.namelist() == ["keep.txt"]


def test_promotion_is_asked_for_and_copies(player):
    chat = player.conversation()
    (file,) = player.upload(chat, ("a.txt", b"worth keeping"))
    assert player.every("/api/workspace/files") == [], "nothing moves on its own"
    path = f"/api/assistant/conversations/{chat}/files/{file['id']}/promote"
    first = player.call("POST", path).expect(201).json()
    second = player.call("POST", path).expect(201).json()
    assert {row["name"] for row in player.every("/api/workspace/files")} == {"a.txt", "a-1.txt"}
    player.call("DELETE", f"/api/assistant/conversations/{chat}").expect(204, 200)
    for row in (first, second):
        answer = player.call("GET", f"/api/workspace/files/{row['id']}/content").expect(200)
        assert answer.body == b"worth keeping"


def test_workspace_files_are_uploaded_listed_and_deleted(player):
    answer = player.send("/api/workspace/files", ("x.txt", b"1"), ("x.txt", b"2")).expect(201).json()
    assert [row["name"] for row in answer["files"]] == ["x.txt", "x-1.txt"]
    path = f"/api/workspace/files/{answer['files'][0]['id']}"
    assert player.call("GET", path + "/content").expect(200).body == b"1"
    player.call("DELETE", path).expect(204, 200)
    player.call("GET", path).problem(404)


def test_an_upload_that_breaks_off_leaves_nothing(player, played):
    chat = player.conversation()
    body, kind = form(("half.bin", bytes(1 << 20)))
    place = urlsplit(player.url)
    head = f"POST /api/assistant/conversations/{chat}/files HTTP/1.1\r\nHost: x\r\n"
    head += f"X-API-Key: {player.key}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((place.hostname, place.port)) as connection:
        connection.sendall(head.encode() + body[: 1 << 19])
    bag = played.data / "blobs" / "assistant-chat-bag" / player.team / chat
    files = lambda: [path for path in bag.rglob("*") if path.is_file()] if bag.exists() else []
    assert wait_until(lambda: files() == [], 5), files()
    assert player.bag(chat) == []


def test_a_zip_of_ten_thousand_files_is_whole_and_costs_little(player, runner, played):
    chat = player.conversation()
    batches = [range(at, at + 500) for at in range(0, MANY, 500)]
    send = lambda batch: player.upload(chat, *[(f"file {n}.txt", f"I am {n}".encode()) for n in batch])
    with ThreadPoolExecutor(4) as pool:
        stored = sum(map(len, pool.map(send, batches)))
    assert stored == MANY
    one_more = player.send(f"/api/assistant/conversations/{chat}/files", ("no.txt", b"x"))
    one_more.expect(413, 409, 422, 429)
    player.say("x", chat).until("turn")
    url = runner.of_chat(chat).config()["assets"]["url"]
    before = resident(played)
    archive = zipfile.ZipFile(io.BytesIO(fetch("GET", url).expect(200).body))
    assert sorted(archive.namelist()) == sorted(f"file {n}.txt" for n in range(MANY))
    assert archive.testzip() is None
    assert all(archive.read(f"file {n}.txt") == f"I am {n}".encode() for n in range(0, MANY, 97))
    assert resident(played) - before < 64 << 20


def test_a_large_bag_is_streamed_and_never_held(player, runner, played):
    chat = player.conversation()
    block = secrets.token_bytes(1 << 20)
    for number in range(3):
        player.upload(chat, (f"{number}.bin", block * 60))
    player.say("x", chat).until("turn")
    url = runner.of_chat(chat).config()["assets"]["url"]
    before, most, size = resident(played), 0, 0
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=60) as connection:
        connection.sendall(f"GET {place.path}?{place.query} HTTP/1.0\r\nHost: x\r\n\r\n".encode())
        while piece := connection.recv(1 << 20):
            size += len(piece)
            most = max(most, resident(played))
    assert size > 180 << 20
    assert most - before < 64 << 20, f"{(most - before) >> 20} MiB"


def test_an_address_of_a_bag_expires(host):
    runner = Runner(host)
    server = Server(SANDBOX_URL=runner.url, CHAT_BAG_ZIP_URL_TTL_SECONDS="1")
    try:
        api = team(server)
        chat = api.conversation()
        api.upload(chat, ("a.txt", b"x"))
        api.say("x", chat).until("turn")
        url = runner.of_chat(chat).config()["assets"]["url"]
        assert wait_until(lambda: fetch("GET", url).status == 403, 5)
        fetch("GET", url).problem(403, "expired")
    finally:
        runner.release()
        server.stop()


def resident(server: Server) -> int:
    """Memory of the server's process, in bytes."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) * 1024

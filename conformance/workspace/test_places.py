"""Rows in PostgreSQL and contents in S3: the same workspace, elsewhere."""

import hashlib
import secrets

import pytest

from api import Api, shell, steps_of
from s3 import S3
from serving import Server


@pytest.fixture(scope="module")
def s3():
    if reason := S3.missing():
        pytest.skip(reason)
    s3 = S3()
    yield s3
    s3.stop()


def chat_with_a_bag(api: Api) -> None:
    """A file goes in, a file comes out, the next turn sees both."""
    chat = api.conversation()
    content = secrets.token_bytes(12 << 20)
    (small, large) = api.upload(chat, ("in.txt", b"hello"), ("large.bin", content))
    message = shell("mkdir -p assets; rev in.txt > assets/out.txt", "sha256sum < large.bin")
    done = api.say(message, chat, attachmentIds=[small["id"], large["id"]]).whole()
    assert done["status"] == "succeeded", done
    assert hashlib.sha256(content).hexdigest() in steps_of(done["message"])[1]["result"]["stdout"]
    rows = {row["name"]: row for row in api.bag(chat)}
    assert api.content(chat, rows["out.txt"]["id"]).strip() == b"olleh"
    assert api.content(chat, large["id"]) == content
    again = api.say(shell("cat out.txt"), chat).whole()
    assert steps_of(again["message"])[0]["result"]["stdout"].strip() == "olleh"
    assert len(api.messages(chat)) == 4


def test_a_chat_with_its_bag_lives_in_postgres_and_s3(postgres, s3):
    name = "places_" + secrets.token_hex(4)
    bucket = "bags-" + secrets.token_hex(4)
    s3.bucket(bucket)
    places = ("--database", postgres.database(name), "--blobs", s3.url(bucket))
    server = Server(*places, **s3.variables())
    try:
        api = Api(server.url, server.key)
        chat_with_a_bag(api)
        listed = s3.keys(bucket)
        assert any(key.startswith("below/assistant-chat-bag/") and key.endswith("/in.txt") for key in listed)
        assert not list((server.data / "blobs").rglob("in.txt")) if (server.data / "blobs").exists() else True
        assert "assistant_chat_bag_files" in postgres.dump(name)
        # The next server finds everything where it was.
        before = [api.messages(chat["id"]) for chat in api.every("/api/assistant/conversations")]
        server.kill()
        server.start()
        api = Api(server.url, server.key)
        chats = api.every("/api/assistant/conversations")
        assert [api.messages(chat["id"]) for chat in chats] == before
        for row in api.bag(chats[0]["id"]):
            content = api.content(chats[0]["id"], row["id"])
            assert hashlib.sha256(content).hexdigest() == row["sha256"]
    finally:
        server.stop()


@pytest.mark.parametrize("wrong", ["postgres://nobody@127.0.0.1:9/none", "mysql://x"])
def test_a_database_that_is_not_there_is_said_at_the_start(wrong):
    with pytest.raises(RuntimeError, match="database|postgres"):
        Server("--database", wrong).stop()

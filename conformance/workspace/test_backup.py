"""A backup that is made while turns run, and the server that starts on it elsewhere."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from api import Api, shell, steps_of
from serving import PROGRAMS, Server


def mayfly(*arguments: str) -> None:
    command = [str(PROGRAMS / "mayfly"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_backup_of_a_running_server_holds_all_that_was_acknowledged_before_it(server):
    api = Api(server.url, server.key)
    variables = {"SECRET": "opened again"}
    environment = api.make("/api/environments", name="backed up", variables=variables)
    agent = api.make(
        "/api/agents", name="backed up", systemPrompt="x", environmentId=environment["id"]
    )
    chat = api.conversation(agentId=agent["id"])
    api.upload(chat, ("in.txt", b"hello"))
    api.say(shell("rev in.txt > assets/out.txt"), chat).whole()
    before, bag = api.messages(chat), api.bag(chat)
    busy = api.say(shell("sleep 3"), api.conversation())
    busy.until("step", status="running")
    with tempfile.TemporaryDirectory(prefix="backup-", dir="/tmp") as place:
        saved = str(Path(place) / "mayfly.tar")
        mayfly("backup", saved, "--data", str(server.data))
        assert busy.whole()["status"] == "succeeded"

        elsewhere = Server()
        try:
            elsewhere.end()
            shutil.rmtree(elsewhere.data)
            mayfly("restore", saved, "--data", str(elsewhere.data))
            elsewhere.key = server.key
            elsewhere.start()
            restored = Api(elsewhere.url, server.key)
            assert restored.messages(chat) == before
            assert restored.bag(chat) == bag
            for file in bag:
                assert restored.content(chat, file["id"]) == api.content(chat, file["id"])
            done = restored.say(shell("echo $SECRET; cat out.txt"), chat).whole()
            assert steps_of(done["message"])[0]["result"]["stdout"] == "opened again\nolleh"
            # The turn that ran meanwhile is not left open.
            for each in restored.every("/api/assistant/conversations"):
                assert len(restored.messages(each["id"])) % 2 == 0
        finally:
            elsewhere.stop()

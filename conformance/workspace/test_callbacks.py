"""What a sandbox is told when it calls back, and what it may send, both callers alike."""

import hashlib
import io
import zipfile

import pytest

from api import fetch, form, unique
from waiting import wait_until
from zips import pack

ASSISTANT_SKILLS = ["actana_tables", "actana_files", "actana_workflow_editor"]


@pytest.fixture
def turn(player, runner):
    """Begins a turn whose sandbox the test plays."""

    def begin(message: str = "Begin", chat: str | None = None, **more: object):
        before = len(runner.known(chat)) if chat else 0
        stream = player.say(message, chat, **more)
        dispatch = runner.of_chat(stream.until("turn").data["chatId"], before + 1)
        dispatch.stream_of_turn = stream
        return dispatch

    return begin


def end(dispatch, message: str = "over") -> dict:
    dispatch.result(message)
    return dispatch.stream_of_turn.whole()


def test_the_default_assistant_has_its_skills_and_nothing_of_an_environment(player, turn):
    dispatch = turn()
    env = dispatch.env()
    assert env["variables"] == {} and not env.get("setup_script")
    config = dispatch.config()
    assert config["session_id"] == dispatch.agent_url.rsplit("/", 1)[1]
    assert config["caller"] == "assistant" and config["chat_id"] == dispatch.body["chat_id"]
    assert config["system_prompt"] and config["max_rounds"] == 10
    assert config["model"]["provider"] == "scripted"
    assert [skill["id"] for skill in config["skills"]] == ASSISTANT_SKILLS
    assert config["messages"] == [] and config["mcp_servers"] == []
    assert not config.get("assets")
    assert config["workspace"]["url"] == f"{player.url}/api/workspace"
    assert config["max_runtime_sec"] == 28_800


def test_skills_are_the_bytes_that_their_version_names(turn):
    for skill in turn().config()["skills"]:
        answer = fetch("GET", skill["url"]).expect(200)
        assert hashlib.sha256(answer.body).hexdigest() == skill["version"]
        names = zipfile.ZipFile(io.BytesIO(answer.body)).namelist()
        assert "SKILL.md" in names and any(name.startswith("recipes/") for name in names)
        fetch("GET", skill["url"].partition("?")[0]).problem(400)
        letter = "0" if skill["url"][-1] != "0" else "1"
        fetch("GET", skill["url"][:-1] + letter).problem(403, "bad_signature")


def test_an_agent_is_told_all_that_it_was_given(player, turn):
    secret = unique("a variable's value")
    environment = player.make(
        "/api/environments", name=unique("e"), variables={"TOKEN": secret}, setupScript="echo hi"
    )
    endpoint = {"provider": "openai", "modelName": "big", "baseUrl": "http://127.0.0.1:1/v1"}
    model = player.make("/api/models", name=unique("m"), apiKey="sk-given", maxTokens=99, **endpoint)
    bundle = pack({"SKILL.md": "---\nname: editor\ndescription: Edits.\n---\n", "recipes/a.sh": "echo 1"})
    skill = player.send("/api/skills", ("editor.zip", bundle), part="bundle").expect(201).json()
    transport = {"type": "http", "url": "http://127.0.0.1:1/mcp", "headers": {"X-Key": "k"}}
    tools = player.make("/api/mcp-servers", name="tools", transport=transport)
    agent = player.make(
        "/api/agents",
        name=unique("a"),
        systemPrompt="Be brief.",
        modelId=model["id"],
        environmentId=environment["id"],
        maxRounds=3,
        skillIds=[skill["id"]],
        mcpServerIds=[tools["id"]],
        harness="opencode",
        template="mine",
    )
    dispatch = turn(chat=player.conversation(agentId=agent["id"]))
    assert (dispatch.body["harness"], dispatch.body["template"]) == ("opencode", "mine")
    env = dispatch.env()
    assert env["variables"] == {"TOKEN": secret} and env["setup_script"] == "echo hi"
    config = dispatch.config()
    assert (config["system_prompt"], config["max_rounds"]) == ("Be brief.", 3)
    expected = {"provider": "openai", "name": "big", "base_url": endpoint["baseUrl"]}
    assert expected.items() <= config["model"].items()
    assert (config["model"]["api_key"], config["model"]["max_tokens"]) == ("sk-given", 99)
    assert config["harness"]["kind"] == "opencode"
    (given,) = config["skills"]
    assert (given["id"], given["version"]) == (skill["id"], skill["version"])
    (server,) = config["mcp_servers"]
    assert server["url"] == transport["url"] and server["headers"] == {"X-Key": "k"}


def test_earlier_turns_are_told_and_the_prompt_is_not_among_them(player, turn):
    chat = player.conversation()
    end(turn("What is two and two?", chat), "four")
    failed = turn("And three?", chat)
    failed.event("error", code="model_error", message="no idea")
    failed.finish()
    failed.stream_of_turn.whole()
    messages = turn("And four?", chat).config()["messages"]
    assert messages[0]["role"] == "user" and "two and two" in str(messages[0]["content"])
    assert messages[1]["role"] == "assistant" and "four" in str(messages[1]["content"])
    assert "And four?" not in str(messages)


def test_files_that_are_written_back_are_in_the_next_turns_bag(player, turn):
    chat = player.conversation()
    (given,) = player.upload(chat, ("notes.txt", b"from the user"))
    dispatch = turn("Look", chat, attachmentIds=[given["id"]])
    assets = dispatch.config()["assets"]
    assert bag_of(assets["url"]) == {"notes.txt": b"from the user"}
    answer = dispatch.write_back(("notes.txt", b"changed"), ("new.bin", bytes(range(256))))
    stored = answer.expect(200, 201).json()["files"]
    assert [file["name"] for file in stored] == ["notes-1.txt", "new.bin"]
    for file, content in zip(stored, (b"changed", bytes(range(256)))):
        assert file["sha256"] == hashlib.sha256(content).hexdigest() and file["size"] == len(content)
        assert file["storageKey"] == f"assistant-chat-bag/{player.team}/{chat}/{file['name']}"
    dispatch.event("uploaded", files=[{"id": f["id"], "name": f["name"], "size": f["size"]} for f in stored])
    end(dispatch)
    rows = {row["name"]: row for row in player.bag(chat)}
    assert {name: row["source"] for name, row in rows.items()} == {
        "notes.txt": "user",
        "notes-1.txt": "sandbox",
        "new.bin": "sandbox",
    }
    assert player.content(chat, rows["new.bin"]["id"]) == bytes(range(256))
    assert bag_of(turn("Again", chat).config()["assets"]["url"]) == {
        "notes.txt": b"from the user",
        "notes-1.txt": b"changed",
        "new.bin": bytes(range(256)),
    }


def test_both_names_of_the_writeback_work(player, turn):
    dispatch = turn()
    dispatch.write_back(("a.txt", b"x"), path="assets/writeback").expect(200, 201)
    assert [file["name"] for file in player.bag(dispatch.body["chat_id"])] == ["a.txt"]
    dispatch.write_back(("a.txt", b"x")).problem(401, "otp_used")


MEBIBYTE = 1 << 20
TOO_MUCH = {
    "21 files": [(f"{n}.txt", b"x") for n in range(21)],
    "26 MiB": [("small.txt", b"x"), ("large.bin", bytes(25 * MEBIBYTE + 1))],
    "51 MiB together": [(f"{n}.bin", bytes(17 * MEBIBYTE + 1)) for n in range(3)],
}


@pytest.mark.parametrize("files", TOO_MUCH.values(), ids=TOO_MUCH.keys())
def test_too_much_is_refused_and_nothing_of_it_is_stored(player, turn, played, files):
    dispatch = turn()
    chat = dispatch.body["chat_id"]
    dispatch.write_back(*files).problem(413)
    assert player.bag(chat) == []
    blobs = played.data / "blobs" / "assistant-chat-bag" / player.team / chat
    assert not blobs.exists() or not [path for path in blobs.rglob("*") if path.is_file()]


def test_a_form_that_breaks_off_stores_nothing(player, turn):
    dispatch = turn()
    body, kind = form(("whole.txt", b"x" * 1000), ("half.txt", b"y" * 1000))
    headers = {"Authorization": dispatch.body["otp_upload"], "Content_Type": kind}
    fetch("POST", f"{dispatch.agent_url}/results", body[:-500], **headers).problem(400)
    assert player.bag(dispatch.body["chat_id"]) == []


def test_an_address_of_a_bag_is_good_for_its_bag_and_a_while(player, turn):
    ours, theirs = player.conversation(), player.conversation()
    player.upload(ours, ("a.txt", b"ours"))
    player.upload(theirs, ("a.txt", b"theirs"))
    url = turn("x", ours).config()["assets"]["url"]
    assert bag_of(url) == {"a.txt": b"ours"}
    assert bag_of(url) == {"a.txt": b"ours"}, "it may be fetched again while it is good"
    query = dict(pair.split("=") for pair in url.split("?")[1].split("&"))
    fetch("GET", url.replace(ours, theirs)).problem(403, "bad_signature")
    later = url.replace(f"exp={query['exp']}", f"exp={int(query['exp']) + 60}")
    fetch("GET", later).problem(403, "bad_signature")
    letter = "0" if query["sig"][0] != "0" else "1"
    fetch("GET", url.replace(query["sig"], letter + query["sig"][1:])).problem(403, "bad_signature")
    fetch("GET", url.replace(query["sig"], "")).expect(400, 403)
    fetch("GET", url.partition("?")[0]).expect(400, 401, 403)


def test_a_callback_without_a_token_learns_nothing(turn):
    dispatch = turn()
    for path in ("env", "config"):
        fetch("GET", f"{dispatch.agent_url}/{path}").problem(401)
    body, kind = form(("a.txt", b"x"))
    fetch("POST", f"{dispatch.agent_url}/results", body, Content_Type=kind).problem(401)
    assert dispatch.env() and dispatch.config()


def test_an_agents_block_is_told_the_same_at_its_own_address(player, runner):
    agent = player.make("/api/agents", name="worker", systemPrompt="Work.", harness="codex")
    blocks = [
        {"id": "start", "type": "start", "inputs": {}},
        {"id": "work", "type": "agents", "inputs": {"agent": agent["id"], "prompt": "Go"}},
    ]
    flow = {"blocks": blocks, "edges": [{"from": "start", "to": "work"}]}
    workflow = player.make("/api/workspace/workflows", name="flow", **flow)
    before = len(runner.dispatches)
    path = f"/api/workspace/workflows/{workflow['id']}/execute"
    execution = player.call("POST", path, {"input": {}}, Accept="application/json").expect(202).json()
    dispatch = runner.latest(before + 1)
    assert "/api/agents/sandbox/ses_" in dispatch.agent_url
    assert "chat_id" not in dispatch.body and dispatch.body["prompt"] == "Go"
    assert dispatch.body["harness"] == "codex"
    assert dispatch.env()["variables"] == {}
    config = dispatch.config()
    assert config["caller"] == "agents" and not config.get("chat_id")
    assert config["system_prompt"] == "Work."
    (file,) = dispatch.write_back(("out.txt", b"made")).expect(200, 201).json()["files"]
    owner = f"agents-bag/{player.team}/{execution['executionId']}"
    assert file["storageKey"] == f"{owner}/out.txt"
    # The other caller's address is not this session's.
    other = dispatch.agent_url.replace("/api/agents/", "/api/assistant/")
    fetch("GET", f"{other}/env", Authorization=dispatch.body["otp_setup"]).problem(401)
    player.call("POST", f"/api/workspace/executions/{execution['executionId']}/cancel").expect(200, 202, 204)
    assert wait_until(lambda: dispatch.hung_up.is_set() or dispatch.cancelled.is_set())


def bag_of(url: str) -> dict[str, bytes]:
    """What is in the zip at an address."""
    with zipfile.ZipFile(io.BytesIO(fetch("GET", url).expect(200).body)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}

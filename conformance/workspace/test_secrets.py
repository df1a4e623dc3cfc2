"""What must never be found in the open: in no file, in no database, in no log."""

import json
import secrets
from pathlib import Path

import pytest

from api import Api, fetch, shell
from host import Exchange
from runner import Runner
from serving import Server
from waiting import wait_until


class Passer:
    """A runner that passes dispatches on to the real one, and remembers their tokens."""

    def __init__(self, host) -> None:
        self.url = host.lodge(self.handle)
        self.real = ""
        self.seen: list[str] = []

    def handle(self, exchange: Exchange) -> None:
        request = exchange.request
        if request.line == "POST /stream":
            body = json.loads(request.body)
            self.seen += [body[name] for name in ("otp_setup", "otp_run", "otp_upload")]
        place = request.path + (f"?{request.query}" if request.query else "")
        kept = ("accept", "content-type", "x-api-key", "authorization")
        headers = {name.replace("-", "_"): value for name, value in request.headers.items() if name in kept}
        answer = fetch(request.method, self.real + place, request.body, **headers)
        head = {"Content_Type": answer.headers["content-type"]}
        if run := answer.headers.get("x-mayfly-run-id"):
            head["X_Mayfly_Run_Id"] = run
        exchange.answer(answer.status, answer.body, **head)


def files_with(place: Path, *words: str) -> dict[str, list[str]]:
    """Files that hold one of the words, by word."""
    found: dict[str, list[str]] = {}
    for path in place.rglob("*"):
        if path.is_file() and "sandboxes" not in path.parts:
            content = path.read_bytes()
            for word in words:
                if word.encode() in content:
                    found.setdefault(word, []).append(str(path))
    return found


def work(api: Api) -> dict[str, str]:
    """Makes one of everything that has a secret; the secrets."""
    names = ("variable", "model", "environment", "header")
    kept = {name: f"{name}-{secrets.token_hex(16)}" for name in names}
    environment = api.make("/api/environments", name="e", variables={"TOKEN": kept["variable"]})
    endpoint = {"provider": "openai", "modelName": "x", "baseUrl": "http://127.0.0.1:9"}
    api.make("/api/models", name="unused", apiKey=kept["model"], **endpoint)
    scripted = api.make("/api/models", name="default", provider="scripted", modelName="x")
    stdio = {"type": "stdio", "command": "true", "env": {"K": kept["environment"]}}
    http = {"type": "http", "url": "http://127.0.0.1:9/", "headers": {"X-Key": kept["header"]}}
    for name, transport in (("s", stdio), ("h", http)):
        api.make("/api/mcp-servers", name=name, transport=transport)
    agent = api.make(
        "/api/agents", name="a", systemPrompt="", environmentId=environment["id"], modelId=scripted["id"]
    )
    kept["agent"] = agent["id"]
    return kept


@pytest.mark.parametrize("database", ["sqlite", "postgres"])
def test_no_secret_lies_in_the_open(host, database, request):
    """A real run, and one that the test plays so as to see the bearer. The log tells all it can."""
    passer, runner = Passer(host), Runner(host)
    key = "e2b_" + secrets.token_hex(20)
    arguments: tuple[str, ...] = ()
    name = "secrets_" + secrets.token_hex(4)
    if database == "postgres":
        postgres = request.getfixturevalue("postgres")
        arguments = ("--database", postgres.database(name))
    variables = {"SANDBOX_URL": passer.url, "SANDBOX_API_KEY": key, "MAYFLY_API_KEY": key}
    server = Server(*arguments, MAYFLY_LOG="debug", **variables)
    server.key = key
    try:
        passer.real = server.url
        api = Api(server.url, key)
        kept = work(api)
        agent = kept.pop("agent")
        title = "an open word " + secrets.token_hex(8)
        chat = api.conversation(agentId=agent, title=title)
        api.upload(chat, ("a.txt", b"x"))
        command = 'test -n "$TOKEN" && mkdir -p assets && echo made > assets/b.txt'
        done = api.say(shell(command), chat).whole()
        assert done["status"] == "succeeded" and len(api.bag(chat)) == 2, done
        inputs = {"agent": agent, "prompt": "x", "sandboxUrl": runner.url}
        flow = {
            "blocks": [
                {"id": "start", "type": "start", "inputs": {}},
                {"id": "w", "type": "agents", "inputs": inputs},
            ],
            "edges": [{"from": "start", "to": "w"}],
        }
        workflow = api.make("/api/workspace/workflows", name="f", **flow)["id"]
        path = f"/api/workspace/workflows/{workflow}/execute"
        api.call("POST", path, {"input": {}}, Accept="application/json").expect(202)
        dispatch = runner.latest()
        bearer = dispatch.config()["workspace"]["bearer"]
        tables = f"{api.url}/api/workspace/tables"
        fetch("GET", tables, Authorization=f"Bearer {bearer}").expect(200)
        dispatch.ask("env", "otp_" + "A" * 43).expect(401)
        passer.seen += [dispatch.body[token] for token in ("otp_setup", "otp_run", "otp_upload")]
        words = [key, bearer, *kept.values(), *passer.seen]
        assert len(passer.seen) == 6 and len(words) == 12
        dispatch.result()
        state = lambda: api.every("/api/workspace/executions")[0]["state"]
        assert wait_until(lambda: state() == "succeeded")
        assert files_with(server.data, *words) == {}
        log = server.log()
        assert [word for word in words if word in log] == []
        dump = postgres.dump(name) if database == "postgres" else ""
        assert [word for word in words if word in dump] == []
        # The search can find something.
        assert title in dump or files_with(server.data, title)
        assert log, "the log was to tell all it can"
        shown = [api.every(p) for p in ("/api/models", "/api/environments", "/api/mcp-servers")]
        assert [word for word in words if word in str(shown)] == []
    finally:
        runner.release()
        server.stop()


def test_the_servers_key_is_for_its_owner_alone(played):
    for name in ("server.key", "mayfly.db"):
        assert (played.data / name).stat().st_mode & 0o077 == 0, name

"""Workflows: what is no workflow is refused by block and field; what is one runs."""

import json

import pytest

import lines
from api import Api, connect, shell
from runner import Runner
from serving import Server
from teams import team
from waiting import wait_until

START = {"id": "start", "type": "start", "inputs": {}}


def agents(id: str, agent: str, prompt: str, **inputs: object) -> dict:
    return {"id": id, "type": "agents", "inputs": {"agent": agent, "prompt": prompt} | inputs}


def respond(data: object) -> dict:
    return {"id": "answer", "type": "respond", "inputs": {"data": data}}


def chain(*blocks: dict) -> dict:
    """A workflow whose blocks follow each other."""
    ids = [block["id"] for block in blocks]
    return {"blocks": list(blocks), "edges": [{"from": a, "to": b} for a, b in zip(ids, ids[1:])]}


class Run:
    """An execution whose stream is being read."""

    def __init__(self, api: Api, workflow: str, given: object, **more: object) -> None:
        self.connection = connect(api.url)
        body = json.dumps({"input": given} | more)
        headers = {"X-API-Key": api.key, "Content-Type": "application/json"}
        headers["Accept"] = "application/x-ndjson"
        path = f"/api/workspace/workflows/{workflow}/execute"
        self.connection.request("POST", path, body, headers)
        self.answer = self.connection.getresponse()
        self.body = b""
        assert self.answer.status == 200, self.answer.read()

    def line(self) -> dict | None:
        read = self.answer.readline()
        self.body += read
        return json.loads(read) if read else None

    def until(self, **wanted: object) -> dict:
        while line := self.line():
            if wanted.items() <= line.items():
                return line
        raise AssertionError(f"no line with {wanted} in {self.body.decode()}")

    def rest(self) -> list[dict]:
        while self.line():
            pass
        self.connection.close()
        return [json.loads(line) for line in self.body.splitlines()]

    def hang_up(self) -> None:
        self.answer.close()
        self.connection.close()


def make(api: Api, workflow: dict, **more: object) -> str:
    name = f"flow {len(api.every('/api/workspace/workflows'))}"
    return api.make("/api/workspace/workflows", name=name, **workflow, **more)["id"]


@pytest.fixture
def worker(api) -> str:
    return api.make("/api/agents", name="worker", systemPrompt="Work.")["id"]


CHECKS = [
    (chain(START), "blocks"),
    ({"blocks": [respond("x")], "edges": []}, "blocks"),
    (chain(START, {"id": "second", "type": "start", "inputs": {}}), "blocks[1]"),
    (chain(START, {"id": "x", "type": "teleport", "inputs": {}}), "blocks[1].type"),
    (chain(START, {"id": "Bad Id", "type": "respond", "inputs": {"data": 1}}), "blocks[1].id"),
    ({"blocks": [START, respond("x"), respond("y")], "edges": []}, "blocks[2].id"),
    (chain(START, {"id": "w", "type": "agents", "inputs": {"agent": "a"}}), "blocks[1].inputs.prompt"),
    (chain(START, {"id": "w", "type": "agents", "inputs": {"prompt": "a"}}), "blocks[1].inputs.agent"),
    (chain(START, respond("{{nobody.response}}")), "blocks[1].inputs.data"),
    (chain(START, respond("{{answer.data}}")), "blocks[1].inputs.data"),
    (chain(START, agents("w", "a", "go"), respond("{{w.smell}}")), "blocks[2].inputs.data"),
    ({"blocks": [START, respond("x")], "edges": [{"from": "start", "to": "gone"}]}, "edges[0].to"),
    ({"blocks": [START, respond("x")], "edges": []}, "blocks[1]"),
    (
        {
            "blocks": [START, agents("a", "x", "y"), agents("b", "x", "y")],
            "edges": [
                {"from": "start", "to": "a"},
                {"from": "a", "to": "b"},
                {"from": "b", "to": "a"},
            ],
        },
        "edges",
    ),
]


@pytest.mark.parametrize(("workflow", "field"), CHECKS, ids=[f"{n}: {f}" for n, (_, f) in enumerate(CHECKS)])
def test_what_is_no_workflow_is_refused_by_block_and_field(player, workflow, field):
    body = {"name": "wrong"} | workflow
    problem = player.call("POST", "/api/workspace/workflows", body).problem(400)
    assert problem.get("field", "").startswith(field), problem
    assert player.every("/api/workspace/workflows") == []


def test_two_agents_work_one_after_the_other(api, worker):
    """The second gets what the first said; both write files."""
    workflow = make(
        api,
        chain(
            START,
            agents("first", worker, shell("mkdir -p assets; echo {{start.city}} > assets/city.txt")),
            agents("second", worker, "It said: {{first.response}}\n" + shell("echo B")),
            {"id": "keep", "type": "save_file", "inputs": {"files": "{{first.files}}"}},
            respond({"said": "{{second.response}}", "files": "{{keep.files}}"}),
        ),
    )
    read = Run(api, workflow, {"city": "Bonn"}).rest()
    assert read[0]["type"] == "execution" and read[0]["status"] == "running"
    assert read[-1]["type"] == "execution" and read[-1]["status"] == "succeeded", read[-1]
    outputs = read[-1]["outputs"]
    assert "B" in json.dumps(outputs)
    order = [(line["block"], line["status"]) for line in read if line["type"] == "block"]
    names = ["start", "first", "second", "keep", "answer"]
    assert [entry for entry in order if entry[1] != "running"] == [(name, "succeeded") for name in names]
    (kept,) = api.every("/api/workspace/files")
    assert kept["name"] == "city.txt"
    content = api.call("GET", f"/api/workspace/files/{kept['id']}/content").expect(200).body
    assert content == b"Bonn\n"
    execution = api.get(f"/api/workspace/executions/{read[0]['id']}")
    assert execution["state"] == "succeeded" and execution["outputs"] == outputs
    (file,) = api.every(f"/api/workspace/executions/{read[0]['id']}/files")
    assert file["name"] == "city.txt"


def test_the_lines_of_a_run_come_through_as_they_are(player, runner):
    """Byte for byte, and valid by the rules of the seed, between the engine's own."""
    agent = player.make("/api/agents", name="w", systemPrompt="")["id"]
    workflow = make(player, chain(START, agents("work", agent, "go"), respond("{{work.response}}")))
    run = Run(player, workflow, {})
    dispatch = runner.latest()
    assert dispatch.headers["accept"] == "application/x-ndjson"
    odd = b'{ "type" : "log", "level":"info","message":"spaced \\u00e4  out" ,"ts":1800000000000}\n'
    dispatch.line(odd)
    dispatch.line(b'{"type":"result","message":"end","ts":1800000000001}\n')
    dispatch.finish()
    run.rest()
    assert odd in run.body
    ours = (b'"execution"', b'"block"')
    theirs = [line for line in run.body.splitlines(True) if not any(mark in line for mark in ours)]
    assert lines.envelope(b"".join(theirs))[-1]["message"] == "end"


def test_an_agent_that_fails_fails_the_execution(api):
    environment = api.make("/api/environments", name="e", setupScript="echo broken >&2; exit 1")
    agent = api.make("/api/agents", name="w", systemPrompt="", environmentId=environment["id"])["id"]
    workflow = make(api, chain(START, agents("work", agent, "go"), respond("never")))
    read = Run(api, workflow, {}).rest()
    assert read[-1]["status"] == "failed" and "broken" in json.dumps(read[-1])
    assert ("answer", "succeeded") not in [(line.get("block"), line.get("status")) for line in read]
    assert api.get(f"/api/workspace/executions/{read[0]['id']}")["state"] == "failed"


def test_cancelling_reaches_the_sandbox(api, worker):
    workflow = make(api, chain(START, agents("work", worker, shell("sleep 60")), respond("never")))
    run = Run(api, workflow, {})
    execution = run.line()["id"]
    run.until(type="step", status="running")
    api.call("POST", f"/api/workspace/executions/{execution}/cancel").expect(200, 202, 204)
    assert run.rest()[-1]["status"] == "cancelled"
    assert wait_until(lambda: api.sandboxes() == [], 3)
    assert api.get(f"/api/workspace/executions/{execution}")["state"] == "cancelled"


def test_hanging_up_cancels_and_continue_does_not(api, worker):
    workflow = make(api, chain(START, agents("work", worker, shell("sleep 2")), respond("{{work.response}}")))
    left, kept = Run(api, workflow, {}), Run(api, workflow, {}, onDisconnect="continue")
    ids = [run.line()["id"] for run in (left, kept)]
    for run in (left, kept):
        run.until(type="step", status="running")
        run.hang_up()
    state = lambda id: api.get(f"/api/workspace/executions/{id}")["state"]
    assert wait_until(lambda: "running" not in (state(ids[0]), state(ids[1])), 20)
    assert (state(ids[0]), state(ids[1])) == ("cancelled", "succeeded")


def test_an_execution_is_followed_again_from_any_line(api, worker):
    workflow = make(api, chain(START, agents("work", worker, shell("echo x")), respond("{{work.response}}")))
    run = Run(api, workflow, {})
    read = run.rest()
    path = f"/api/workspace/executions/{read[0]['id']}/stream"
    assert api.call("GET", path).expect(200).body == run.body
    whole = run.body.splitlines(keepends=True)
    for place in (1, len(whole) // 2, len(whole) - 1):
        rest = api.call("GET", f"{path}?after={place}").expect(200).body
        assert rest == b"".join(whole[place:])


def test_the_sandbox_address_is_the_blocks_then_the_workflows_then_the_servers(host):
    runners = {name: Runner(host) for name in ("block", "workflow", "server")}
    for runner in runners.values():
        runner.plan = lambda dispatch: dispatch.result("done")
    server = Server(SANDBOX_URL=runners["server"].url, SANDBOX_API_KEY="for the server's only")
    try:
        api = team(server)
        agent = api.make("/api/agents", name="w", systemPrompt="")["id"]
        given = {"sandboxUrl": runners["block"].url}
        environment = {"variables": {"SANDBOX_URL": runners["workflow"].url}}
        for expected, inputs, more in (
            ("block", given, {"environment": environment}),
            ("workflow", {}, {"environment": environment}),
            ("server", {}, {}),
        ):
            workflow = make(api, chain(START, agents("work", agent, "go", **inputs), respond("x")), **more)
            counts = {name: len(runner.dispatches) for name, runner in runners.items()}
            Run(api, workflow, {}).rest()
            grown = [name for name, runner in runners.items() if len(runner.dispatches) > counts[name]]
            assert grown == [expected]
        assert "for the server's only" in str(runners["server"].dispatches[0].headers)
        for name in ("block", "workflow"):
            headers = runners[name].dispatches[0].headers
            assert "x-api-key" not in headers and "authorization" not in headers
    finally:
        for runner in runners.values():
            runner.release()
        server.stop()


def test_a_file_is_saved_from_text(api):
    save = {"id": "save", "type": "save_file", "inputs": {"name": "hi.txt", "content": "Hi {{start.who}}"}}
    workflow = make(api, chain(START, save, respond("{{save.files}}")))
    read = Run(api, workflow, {"who": "you"}).rest()
    assert read[-1]["status"] == "succeeded", read[-1]
    (file,) = api.every("/api/workspace/files")
    assert api.call("GET", f"/api/workspace/files/{file['id']}/content").body == b"Hi you"
    assert file["id"] in json.dumps(read[-1]["outputs"]), "a reference alone keeps its type"


def test_other_teams_neither_start_nor_see_an_execution(api, server, worker):
    workflow = make(api, chain(START, respond("x")))
    run = Run(api, workflow, {})
    execution = run.rest()[0]["id"]
    stranger = team(server)
    stranger.call("POST", f"/api/workspace/workflows/{workflow}/execute", {"input": {}}).problem(404)
    for tail in ("", "/stream", "/files"):
        stranger.call("GET", f"/api/workspace/executions/{execution}{tail}").problem(404)
    stranger.call("POST", f"/api/workspace/executions/{execution}/cancel").problem(404)
    assert stranger.every("/api/workspace/executions") == []

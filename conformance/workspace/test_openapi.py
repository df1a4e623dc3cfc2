"""The API document is whole, readable and true: `schemathesis` makes requests out of it."""

import functools
import json
import os
import re
from collections.abc import Iterator

import jsonschema_rs
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings, strategies
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)
from schemathesis.config import SchemathesisConfig

from api import Api, fetch, shell, unique
from waiting import wait_until

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
SEED = int(os.environ.get("MAYFLY_TEST_SEED", "20261115"))
EXAMPLES = 10
PATIENCE = 20

# Operations that are not tried, each with its reason.
LEFT_OUT = {
    "start_command": "runs what it is given in a sandbox",
    "start_run": "runs what it is given in a sandbox",
    "begin_turn": "runs what it is given in a sandbox",
}

METHODS = ("get", "put", "post", "delete", "patch")
SCHEMES = {"api_key", "bearer", "sandbox_bearer", "otp", "signature"}


@pytest.fixture(scope="module")
def document(server) -> dict:
    answer = fetch("GET", server.url + "/api/openapi.json").expect(200)
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def operations(document: dict) -> Iterator[tuple[str, str, dict]]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield method, path, item[method]


def test_it_is_openapi_and_says_whose(document):
    assert document["openapi"].startswith("3.1.")
    assert document["info"]["title"] == "Mayfly"
    assert document["info"]["version"]
    assert "E2B" in document["info"]["description"]
    schemathesis.openapi.from_dict(document).validate()


def test_every_operation_says_its_name_tag_keys_and_answers(document):
    tags = {tag["name"] for tag in document["tags"]}
    names: dict[str, str] = {}
    for method, path, operation in operations(document):
        place = f"{method} {path}"
        assert operation["operationId"] not in names, (place, names[operation["operationId"]])
        names[operation["operationId"]] = place
        assert operation.get("summary") or operation.get("description"), place
        assert len(operation["tags"]) == 1 and set(operation["tags"]) <= tags, place
        assert {scheme for one in operation["security"] for scheme in one} <= SCHEMES, place
        assert any(status.startswith("2") for status in operation["responses"]), place
        named = set(re.findall(r"\{(\w+)\}", path))
        told = {it["name"] for it in operation.get("parameters", []) if it["in"] == "path"}
        assert told == named, place
    assert set(document["components"]["securitySchemes"]) == SCHEMES
    assert set(LEFT_OUT) <= set(names)


def test_every_part_of_the_house_is_in_it(document):
    for path in ("/health", "/commands", "/stream", "/runs/{id}", "/api/agents", "/api/openapi.json"):
        assert path in document["paths"], path
    assert not [path for path in document["paths"] if re.match(r"(/v\d)?/(sandboxes|templates)", path)]


def test_every_reference_leads_somewhere(document):
    for reference in set(re.findall(r'"\$ref":\s*"([^"]*)"', json.dumps(document))):
        place = document
        for name in reference.removeprefix("#/").split("/"):
            assert name in place, reference
            place = place[name]


def test_the_page_is_whole_by_itself(server):
    answer = fetch("GET", server.url + "/api/docs").expect(200)
    assert answer.headers["content-type"].startswith("text/html")
    assert "connect-src 'self'" in answer.headers["content-security-policy"]
    assert b"openapi.json" in answer.body
    assert b"://" not in answer.body


def test_operations_that_want_a_key_refuse_without_one(server, document):
    """Also those that would run something: they must not get so far."""
    for method, path, operation in operations(document):
        if {} in operation["security"] or {"api_key": []} not in operation["security"]:
            continue
        if operation["operationId"] == "follow_turn":
            continue  # Its query is read first, to know whether it is signed.
        filled = re.sub(r"\{\w+\}", "x", path)
        answer = fetch(method.upper(), server.url + filled)
        assert answer.status == 401, (method, path, answer.status, answer.body)


def test_answers_are_what_the_document_says(api, document, subtests):
    config = SchemathesisConfig(seed=SEED)
    schema = schemathesis.openapi.from_dict(document, config=config)
    schema.config.update(base_url=api.url)
    schema.config.generation.update(with_security_parameters=False)
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()
        name = operation.definition.raw["operationId"]
        if name in LEFT_OUT:
            continue
        tried += 1
        with subtests.test(f"{operation.method.upper()} {operation.path}"):
            try_out(api, operation, known(api, operation.path))
    assert tried > 60


def test_callbacks_answer_what_the_document_says(player, runner, document):
    """Their tokens work once, so they are not for trying out: one session, asked in order."""
    chat = player.conversation()
    file = player.upload(chat, ("a.txt", b"hello"))[0]["id"]
    player.start("hello", chat, attachmentIds=[file])
    dispatch = runner.of_chat(chat)
    answers = {"env": dispatch.env(), "config": dispatch.config()}
    answers["results"] = dispatch.write_back(("b.txt", b"bye")).expect(200).json()
    dispatch.result()
    for name, answer in answers.items():
        item = document["paths"]["/api/assistant/sandbox/{session_id}/" + name]
        operation = item.get("get") or item["post"]
        content = operation["responses"]["200"]["content"]["application/json"]
        jsonschema_rs.Draft202012Validator(document | content["schema"]).validate(answer)
        told = document["components"]["schemas"][content["schema"]["$ref"].split("/")[-1]]
        assert set(answer) <= set(told["properties"]), name
    assert answers["config"]["assets"]["files"]


def try_out(api: Api, operation, names: dict[str, str]) -> None:
    """Good and bad requests, at things that are there and at things that are not."""
    statuses: list[int] = []
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

        @seed(SEED)
        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode), there=strategies.booleans())
        def check(case, there):
            if there and names:
                case.path_parameters = {**(case.path_parameters or {}), **names}
            answer = case.call(headers={"X-API-Key": api.key}, timeout=PATIENCE)
            statuses.append(answer.status_code)
            case.validate_response(answer, checks=CHECKS)

        try:
            check()
        except Unsatisfiable:
            # Where any text will do, there is no bad request.
            assert mode is GenerationMode.NEGATIVE
    if names and operation.method == "get":
        assert 200 in statuses, f"what it answers was never seen: {statuses}"


def known(api: Api, path: str) -> dict[str, str]:
    """Names of things that are there, for the variables of a path."""
    for start, make in MAKERS.items():
        if path.startswith(start):
            return make(api)
    return {}


@functools.cache
def run(api: Api) -> dict[str, str]:
    """One that has ended, and left a file."""
    prompt = shell("mkdir -p $WORKSPACE_DIR/assets && echo hi > $WORKSPACE_DIR/assets/a.txt")
    answer = api.call("POST", "/stream", {"prompt": prompt, "config": {}}).expect(200)
    names = {"id": answer.headers["x-mayfly-run-id"], "name": "result.json"}
    return names | {"file": api.get(f"/runs/{names['id']}/assets")["files"][0]["id"]}


@functools.cache
def begun(api: Api) -> dict:
    """A turn that has ended."""
    begun = api.start(shell("echo hi"))
    assert wait_until(lambda: api.ended(begun["turnId"]))
    return begun


def turn(api: Api) -> dict[str, str]:
    return {"id": begun(api)["turnId"]}


def talk(api: Api) -> dict[str, str]:
    return {"id": begun(api)["conversationId"]}


def table(api: Api) -> dict[str, str]:
    columns = [{"name": "item", "type": "text"}]
    made = api.make("/api/workspace/tables", name=unique("table"), columns=columns)["id"]
    rows = api.make(f"/api/workspace/tables/{made}/rows", rows=[{"item": "one"}])["items"]
    return {"id": made, "row": rows[0]["id"]}


def workflow(api: Api) -> dict[str, str]:
    """One that needs no sandbox."""
    blocks = [
        {"id": "start", "type": "start", "inputs": {}},
        {"id": "answer", "type": "respond", "inputs": {"data": "done"}},
    ]
    edges = [{"from": "start", "to": "answer"}]
    path = "/api/workspace/workflows"
    return {"id": api.make(path, name=unique("flow"), blocks=blocks, edges=edges)["id"]}


def execution(api: Api) -> dict[str, str]:
    path = f"/api/workspace/workflows/{workflow(api)['id']}/execute"
    answer = api.call("POST", path, {"input": {}}, Accept="application/json")
    return {"id": answer.expect(202).json()["executionId"]}


def file(api: Api) -> dict[str, str]:
    answer = api.send("/api/workspace/files", ("a.txt", b"hello"))
    return {"id": answer.expect(201).json()["files"][0]["id"]}


def conversation(api: Api) -> dict[str, str]:
    chat = api.conversation()
    return {"id": chat, "file": api.upload(chat, ("a.txt", b"hello"))[0]["id"]}


def skill(api: Api) -> dict[str, str]:
    text = b"---\nname: %s\ndescription: For a test.\n---\nDo it." % unique("skill").replace(" ", "-").encode()
    return {"id": api.send("/api/skills", ("SKILL.md", text)).expect(201).json()["id"]}


def resource(path: str, **fields: object):
    return lambda api: {"id": api.make(path, name=unique("thing"), **fields)["id"]}


MAKERS = {
    "/runs/{id}": run,
    "/api/agents/{id}": resource("/api/agents", systemPrompt="Work."),
    "/api/environments/{id}": resource("/api/environments"),
    "/api/models/{id}": resource("/api/models", provider="scripted"),
    "/api/mcp-servers/{id}": resource(
        "/api/mcp-servers", transport={"type": "http", "url": "http://127.0.0.1:9/mcp"}
    ),
    "/api/skills/{id}": skill,
    "/api/workspace/tables/{id}": table,
    "/api/workspace/workflows/{id}": workflow,
    # No execution of this workflow leaves a file.
    "/api/workspace/executions/{id}/files/": lambda api: {},
    "/api/workspace/executions/{id}": execution,
    "/api/workspace/files/{id}": file,
    "/api/assistant/turns/{id}": turn,
    "/api/assistant/conversations/{id}/messages": talk,
    "/api/assistant/conversations/{id}": conversation,
}

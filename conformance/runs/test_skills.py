"""Skills: fetched by version, checked, unpacked, and run as recipes."""

import hashlib
import json

import pytest

from scripts import calling, saying
from zips import HOSTILE, pack, skill

ADD_NODE = """#!/bin/bash
input=$(cat)
echo "{\\"nodeId\\": \\"node_$ARG_NODE_TYPE\\", \\"input\\": $input}"
"""


def recipe(name: str, **args: object) -> tuple[str, dict]:
    return "run_recipe", {"skill": "editor", "recipe": name, "args": args}


def test_a_recipe_is_a_step_named_by_its_path(caller, workspace):
    version, packed = skill({"recipes/add-node.sh": ADD_NODE})
    config = calling([recipe("recipes/add-node.sh", nodeType="inference")])
    session = workspace(config, skills={("editor", version): packed})
    outcome = caller.run(session.body())
    (started,) = outcome.started()
    assert started["name"] == "recipes/add-node.sh"
    assert started["args"] == {"nodeType": "inference"}
    result = outcome.step("recipes/add-node.sh")["result"]
    assert result == {"nodeId": "node_inference", "input": {"nodeType": "inference"}}


def test_the_model_is_told_of_every_attached_skill(caller, workspace, model):
    thinker = model("anthropic")
    version, packed = skill({"recipes/add-node.sh": ADD_NODE, "reference.md": "# All"})
    other = skill({"recipes/list.sh": "echo x"})
    skills = {("editor", version): packed, ("tables", other[0]): other[1]}
    session = workspace({"model": thinker.config()}, skills=skills)
    outcome = caller.run(session.body())
    assert "Loaded 2 skills" in outcome.logs()
    system = thinker.asked[0].system
    assert "Edits nodes." in system and "recipes/add-node.sh" in system and "tables" in system
    assert "run_recipe" in thinker.asked[0].tools
    assert len(session.asked("skill")) == 2


def test_a_recipe_reaches_the_workspace_with_its_bearer(caller, workspace):
    call_back = """
curl -sf -X POST -H "Authorization: Bearer $WORKSPACE_API_TOKEN" \
  --data '{"name":"a"}' "$WORKSPACE_API_URL/tables/rows?limit=1"
"""
    version, packed = skill({"recipes/call-back.sh": call_back})
    config = calling([recipe("recipes/call-back.sh")])
    session = workspace(config, skills={("editor", version): packed})
    outcome = caller.run(session.body())
    result = outcome.step("recipes/call-back.sh")["result"]
    assert result == {"method": "POST", "path": "/v1/tables/rows", "body": '{"name":"a"}'}
    assert session.bearer.startswith("asbx_")
    (request,) = session.asked("workspace")
    assert request.query == "limit=1"


def test_a_recipe_that_fails_is_a_failed_step_and_the_run_goes_on(caller, workspace):
    version, packed = skill({"recipes/bad.sh": "echo broken >&2; exit 4"})
    config = calling([recipe("recipes/bad.sh"), recipe("recipes/../../../bin/sh")], text="went on")
    outcome = caller.run(workspace(config, skills={("editor", version): packed}).body())
    assert [step["status"] for step in outcome.steps()] == ["failed", "failed"]
    assert "4" in outcome.step("recipes/bad.sh")["error"]
    assert outcome.message == "went on"


def test_a_skill_with_another_hash_is_refused(caller, workspace):
    version, packed = skill({"recipes/x.sh": "echo x"})
    other = pack({"SKILL.md": "forged"})
    session = workspace(saying(), skills={("editor", version): other})
    message = caller.run(session.body()).error("bootstrap_failed")
    assert "SHA-256" in message and version in message


def test_a_skill_that_is_not_there_is_refused_by_name(caller, workspace):
    version, packed = skill({})
    session = workspace(saying(), skills={("editor", version): packed})
    session.troubles["skill"] = lambda exchange: exchange.answer(404)
    assert "/skills/editor/" in caller.run(session.body()).error("bootstrap_failed")


@pytest.mark.parametrize("kind", ["climbing", "link", "bomb", "nonsense"])
def test_a_hostile_skill_is_refused_though_its_hash_is_right(caller, workspace, kind):
    packed = HOSTILE[kind]
    version = hashlib.sha256(packed).hexdigest()
    session = workspace(saying(), skills={("editor", version): packed})
    caller.run(session.body()).error("bootstrap_failed")


def test_a_skill_by_its_own_address_is_fetched_there(caller, workspace, host):
    version, packed = skill({"recipes/x.sh": "echo '{\"far\": true}'"})
    asked = []

    def give(exchange):
        asked.append(exchange.request)
        exchange.answer(200, packed, Content_Type="application/zip")

    entry = {"id": "editor", "name": "editor", "version": version, "url": host.lodge(give) + "/x.zip"}
    config = calling([recipe("x")]) | {"skills": [entry]}
    outcome = caller.run(workspace(config).body())
    assert outcome.step("recipes/x.sh")["result"] == {"far": True}
    assert len(asked) == 1 and "authorization" not in asked[0].headers
    assert json.dumps(outcome.lines).count("far") == 1

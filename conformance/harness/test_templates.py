"""`mayfly template add-harness`: made once, said so, replaced only when asked for."""

import json
import os
import shutil

import pytest

from agents import CLAUDE
from conftest import mayfly
from serving import Server


def listed(server) -> dict[str, dict]:
    made = mayfly(server, "template", "list", "--json")
    return {template["name"]: template for template in json.loads(made.stdout)}


def test_a_template_is_made_once_and_says_what_is_in_it(server, agent):
    before = listed(server)[agent.name]
    assert (before["label"], before["harness"], before["base"]) == ("harness", agent.name, "dev")
    assert before["sizeBytes"] > 50_000_000
    again = mayfly(server, "template", "add-harness", agent.name)
    assert again.returncode == 0 and before["version"] in again.stderr
    assert listed(server)[agent.name] == before
    table = mayfly(server, "template", "list").stdout
    assert f"{agent} {before['version']} over dev" in table
    assert f"{agent} {before['version']}" in mayfly(server, "doctor").stdout


def test_another_release_is_not_put_in_its_place_unasked(server, install):
    install(CLAUDE)
    other = mayfly(server, "template", "add-harness", "claude-code", "--version", "2.1.196")
    assert other.returncode == 1 and "--force" in other.stderr
    missing = mayfly(server, "template", "add-harness", "claude-code", "--version", "0.0.0-none", "--name", "none")
    assert missing.returncode == 1 and "0.0.0-none" in missing.stderr
    hostile = mayfly(server, "template", "add-harness", "claude-code", "--version", "../../evil", "--name", "none")
    assert hostile.returncode == 1 and "is not a release" in hostile.stderr
    below = mayfly(server, "template", "remove", "dev")
    assert below.returncode == 1
    assert "none" not in listed(server)
    assert not list((server.data / "templates").glob("*.partial"))


def test_without_npm_it_says_what_to_do(server):
    command = ["template", "add-harness", "codex", "--name", "other"]
    done = mayfly(server, *command, PATH="/nonexistent")
    assert done.returncode == 1 and "npm is not on the PATH" in done.stderr


def test_a_template_without_the_program_says_how_to_make_one(caller, mind, dispatch):
    if shutil.which(CLAUDE.program):
        pytest.skip(f"the host has {CLAUDE.program}, and `base` shows the host's programs")
    outcome = caller.run(dispatch(CLAUDE, mind(CLAUDE), template="base"))
    assert "mayfly template add-harness claude-code" in outcome.error("bad_request")


def test_a_template_that_is_not_there_is_refused_before_anything_is_started(mind, dispatch):
    if os.geteuid() != 0:
        pytest.skip("templates need the native tier, and that root")
    server = Server()
    try:
        status, answer = server.caller().refusal(dispatch(CLAUDE, mind(CLAUDE)))
        assert status in (400, 404)
        assert "mayfly template add-harness claude-code" in answer["message"]
        assert server.caller().runs() == []
    finally:
        server.stop()

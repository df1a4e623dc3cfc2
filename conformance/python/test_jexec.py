"""Where `jexec` exists, every command goes through it; a stand-in shows how it is called."""

import json

import httpx
import pytest
from e2b import Sandbox

from server import Server

# Writes down how it was called, then does what the real one does after entering the jail.
STAND_IN = """#!/bin/sh
for argument; do printf '%s\\n' "$argument"; done > "{record}"
shift 4
exec "$@"
"""


@pytest.fixture
def jailed(tmp_path):
    record, stand_in = tmp_path / "record", tmp_path / "jexec"
    stand_in.write_text(STAND_IN.format(record=record))
    stand_in.chmod(0o755)
    server = Server("--jexec", str(stand_in), tier="process")
    yield server, record
    server.stop()


def test_a_command_is_wrapped_as_the_seed_says(jailed):
    server, record = jailed
    options = {"api_url": server.url, "sandbox_url": server.url, "api_key": server.key}
    with Sandbox.create(**options) as sandbox:
        assert sandbox.commands.run("echo inside").stdout == "inside\n"
        called = record.read_text().splitlines()
        assert called == ["-l", "-U", "root", f"e2b-{sandbox.sandbox_id}", "/bin/bash", "-l", "-c", "echo inside"]


def test_the_alias_is_wrapped_too(jailed):
    server, record = jailed
    body = {"cmd": "/bin/echo", "args": ["one two", "three"]}
    answer = httpx.post(f"{server.url}/commands", json=body, headers={"X-API-Key": server.key})
    start, line, end = map(json.loads, answer.text.splitlines())
    assert line == {"type": "stdout", "data": "one two three\n"}
    called = record.read_text().splitlines()
    assert called == ["-l", "-U", "root", f"e2b-{start['sandbox_id']}", "/bin/echo", "one two", "three"]

"""A real MCP server from npm: as a program inside the sandbox, and over HTTP on the host."""

import io
import os
import socket
import subprocess
import zipfile
from pathlib import Path

import pytest

from dialects import Asked, Turn
from serving import ROOT
from waiting import wait_until

MODULES = ROOT / "conformance" / "runs" / "node_modules"
ENTRY = "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
NODE = "/usr/bin/node"


@pytest.fixture(scope="module")
def packed() -> bytes:
    """The server with everything it needs, as a bag."""
    assert MODULES.exists(), "run `cargo xtask test` or `npm ci` in conformance/runs first"
    if not os.path.exists(NODE):
        pytest.skip(f"sandboxes see Node only as {NODE}")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for path in sorted(MODULES.rglob("*")):
            if path.is_file() and not path.is_symlink() and path.suffix not in (".map", ".md"):
                archive.write(path, Path("mcp/node_modules") / path.relative_to(MODULES))
    return buffer.getvalue()


@pytest.fixture
def remote():
    """The same server on the host's loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        ["node", str(MODULES.parent / ENTRY), "streamableHttp"],
        env={"PATH": os.environ["PATH"], "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    assert wait_until(listens, 20), "the MCP server did not start"
    yield f"http://127.0.0.1:{port}/mcp"
    process.kill()
    process.wait()


def use(caller, workspace, model, server: dict, **more: object):
    """A run whose model calls two tools of the server and repeats what they say."""

    def repeat(asked: Asked) -> Turn:
        return Turn(" / ".join(asked.results.values()))

    calls = [("mcp__every__echo", {"message": "salut"}), ("mcp__every__get-sum", {"a": 40, "b": 2})]
    thinker = model("anthropic", Turn(calls=calls), repeat)
    config = {"model": thinker.config(), "mcp_servers": [{"name": "every"} | server]}
    outcome = caller.run(workspace(config, **more).body())
    assert outcome.last["type"] == "result", outcome.lines
    return thinker, outcome


def test_a_server_inside_offers_its_tools_to_the_model(caller, workspace, model, packed, walled):
    server = {"transport": "stdio", "command": NODE, "args": [f"/root/workspace/mcp/{ENTRY}", "stdio"]}
    thinker, outcome = use(caller, workspace, model, server, bag=packed)
    assert "mcp__every__echo" in thinker.asked[0].tools, outcome.logs()
    assert thinker.asked[0].tools["mcp__every__echo"]["required"] == ["message"]
    assert "salut" in outcome.message and "42" in outcome.message
    assert outcome.step("mcp__every__echo")["status"] == "succeeded"
    assert outcome.step("mcp__every__get-sum")["status"] == "succeeded"


def test_a_server_on_the_host_is_reached_through_the_link(caller, workspace, model, remote):
    thinker, outcome = use(caller, workspace, model, {"transport": "http", "url": remote})
    assert "mcp__every__echo" in thinker.asked[0].tools, outcome.logs()
    assert "salut" in outcome.message and "42" in outcome.message


def test_headers_of_a_server_are_added_by_the_host(caller, workspace, host):
    seen = []

    def refuse(exchange):
        seen.append(exchange.request)
        exchange.answer(500, b"no")

    server = {"name": "x", "transport": "http", "url": host.lodge(refuse) + "/mcp"}
    headers = {"Authorization": "Bearer for-the-host-only"}
    config = {"mcp_servers": [server | {"headers": headers}]}
    outcome = caller.run(workspace(config).body())
    assert seen and seen[0].headers["authorization"] == "Bearer for-the-host-only"
    assert seen[0].path == "/mcp"
    assert "for-the-host-only" not in str(outcome.lines)


def test_a_server_that_does_not_start_is_a_warning_and_the_run_goes_on(caller, workspace):
    servers = [
        {"name": "gone", "transport": "stdio", "command": "/no/such/program", "args": []},
        {"name": "mad", "transport": "stdio", "command": "/bin/echo", "args": ["not json"]},
    ]
    outcome = caller.run(workspace({"mcp_servers": servers}).body())
    assert outcome.last["type"] == "result"
    for name in ("gone", "mad"):
        assert any(name in line for line in outcome.logs()), outcome.logs()

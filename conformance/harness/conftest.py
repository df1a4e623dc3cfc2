"""Fixtures: a server with walls, the four agents' templates on it, models that follow a plan."""

import json
import os
import platform
import subprocess

import pytest

from agents import AGENTS, Agent
from caller import Caller
from host import Host
from minds import Mind
from model import Entry
from serving import PROGRAMS, Server, tier
from workspace import Session

# Why a package may be missing through no fault of ours.
EXCUSES = ("npm is not on the PATH", "npm could not install", "is not made for this processor")


@pytest.fixture(scope="session")
def host():
    host = Host()
    yield host
    host.stop()


@pytest.fixture(scope="session")
def server():
    """Its sandboxes have no network at all: agents reach their model by the host link."""
    if os.geteuid() != 0 or platform.system() != "Linux" or tier() != "native":
        pytest.skip("templates with agents in them need the native tier, and that root on Linux")
    for name in ("mayfly", "mayfly-keeper", "mayfly-envd", "mayfly-agent"):
        assert (PROGRAMS / name).exists(), f"{name} is missing: run `cargo xtask build` first"
    server = Server("--network", "none")
    yield server
    server.stop()


@pytest.fixture
def caller(server) -> Caller:
    return server.caller()


def mayfly(server: Server, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
    """The command line, on the server's data."""
    command = [str(PROGRAMS / "mayfly"), *arguments, "--data", str(server.data)]
    environment = os.environ | variables
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.fixture(scope="session")
def install(server):
    """Makes the template of an agent, once. One whose package cannot be had is skipped."""
    made: dict[str, dict | str] = {}

    def add(agent: Agent) -> dict:
        if agent.name not in made:
            done = mayfly(server, "template", "add-harness", agent.name, "--json")
            excused = any(excuse in done.stderr for excuse in EXCUSES)
            assert done.returncode == 0 or excused, done.stderr
            made[agent.name] = done.stderr if excused else json.loads(done.stdout)[0]
        if isinstance(made[agent.name], str):
            pytest.skip(f"{agent} cannot be installed: {made[agent.name]}")
        return made[agent.name]

    return add


@pytest.fixture(params=AGENTS, ids=str)
def agent(request, install) -> Agent:
    install(request.param)
    return request.param


@pytest.fixture
def mind(host):
    """Makes models. A request that comes to a wrong address, or with another key, fails the test."""
    minds: list[Mind] = []

    def make(agent: Agent | None = None, *plan: Entry, provider: str = "", always: Entry | None = None) -> Mind:
        provider = provider or (agent.providers[0] if agent else "anthropic")
        minds.append(Mind(host, provider, list(plan), always))
        return minds[-1]

    yield make
    for made in minds:
        made.released.set()
    assert [made.complaints for made in minds if made.complaints] == []


@pytest.fixture
def dispatch():
    """The body of a dispatch to an agent that thinks with a model."""

    def make(agent: Agent, mind: Mind, prompt: str = "Go", config: dict | None = None, **more: object) -> dict:
        config = {"model": mind.config()} | (config or {})
        return {"prompt": prompt, "harness": agent.name, "config": config, **more}

    return make


@pytest.fixture
def workspace(host):
    """Makes sessions of a workspace. A request that breaks its rules fails the test."""
    sessions: list[Session] = []

    def make(config: dict, variables: dict[str, str], setup_script: str) -> Session:
        env = {"variables": variables, "setup_script": setup_script}
        sessions.append(Session(host, config, env))
        return sessions[-1]

    yield make
    assert [session.complaints for session in sessions if session.complaints] == []

"""Fixtures: one server and one host for the session, a workspace and models for each test."""

import os
import platform

import pytest

from caller import Caller
from host import Host
from model import Entry, Model
from serving import PROGRAMS, Server, tier
from workspace import Session


@pytest.fixture(scope="session")
def host():
    host = Host()
    yield host
    host.stop()


@pytest.fixture(scope="session")
def server():
    if tier() == "native" and (os.geteuid() != 0 or platform.system() != "Linux"):
        pytest.skip("the native tier needs root on Linux")
    for name in ("mayfly", "mayfly-keeper", "mayfly-envd", "mayfly-agent"):
        assert (PROGRAMS / name).exists(), f"{name} is missing: run `cargo xtask build` first"
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def own_server():
    """A server of the test's own, since it is killed."""
    server = Server()
    yield server
    server.stop()


@pytest.fixture
def caller(server) -> Caller:
    return server.caller()


@pytest.fixture
def walled(server) -> None:
    """For what only walls can hold."""
    if tier() == "process":
        pytest.skip("the process tier has no walls")


@pytest.fixture
def workspace(host):
    """Makes sessions of a workspace. A request that breaks its rules fails the test."""
    sessions: list[Session] = []

    def make(config: dict | None = None, env: dict | None = None, **more: object) -> Session:
        environment = env if env is not None else {"variables": {}, "setup_script": ""}
        session = Session(host, config or {}, environment, **more)
        sessions.append(session)
        return session

    yield make
    for session in sessions:
        session.released.set()
    assert [session.complaints for session in sessions if session.complaints] == []


@pytest.fixture
def model(host):
    """Makes model servers. A request that a real one would refuse fails the test."""
    models: list[Model] = []

    def make(provider: str, *plan: Entry) -> Model:
        models.append(Model(host, provider, list(plan)))
        return models[-1]

    yield make
    for made in models:
        made.released.set()
    assert [made.complaints for made in models if made.complaints] == []

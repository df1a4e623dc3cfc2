"""Fixtures: one server for the session, a team of its own for each test, a played runner."""

import os
import platform

import pytest

from api import Api
from browser import Browser
from host import Host
from model import Entry, Model
from postgres import Postgres
from runner import Runner
from serving import PROGRAMS, Server, tier
from teams import team
from waiting import wait_until


def pytest_configure() -> None:
    """Says early what every test would say late."""
    for name in ("mayfly", "mayfly-keeper", "mayfly-envd", "mayfly-agent"):
        assert (PROGRAMS / name).exists(), f"{name} is missing: run `cargo xtask build` first"


@pytest.fixture(scope="session")
def host():
    host = Host()
    yield host
    host.stop()


@pytest.fixture(scope="session")
def server():
    """The server that most tests share: it is its own runner."""
    if tier() == "native" and (os.geteuid() != 0 or platform.system() != "Linux"):
        pytest.skip("the native tier needs root on Linux")
    server = Server()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def played(host):
    """A server whose runner is played by the test, so that no sandbox is needed."""
    runner = Runner(host)
    server = Server(SANDBOX_URL=runner.url, SANDBOX_API_KEY="the key at the runner")
    server.runner = runner
    yield server
    runner.release()
    server.stop()


@pytest.fixture
def runner(played) -> Runner:
    yield played.runner
    played.runner.release()
    played.runner.dispatches.clear()
    played.runner.plan = None


@pytest.fixture
def api(server):
    """A team that nobody else uses. Its sandboxes are gone when the test is over."""
    api = team(server)
    yield api
    assert wait_until(lambda: api.sandboxes() == []), api.sandboxes()


@pytest.fixture
def player(played) -> Api:
    """A team that nobody else uses, at the server whose runner is played."""
    return team(played)


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


@pytest.fixture(scope="session")
def postgres():
    if reason := Postgres.missing():
        pytest.skip(reason)
    postgres = Postgres()
    yield postgres
    postgres.stop()


@pytest.fixture
def browser():
    if reason := Browser.missing():
        pytest.skip(reason)
    browser = Browser()
    yield browser
    browser.stop()

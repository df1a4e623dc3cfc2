"""Fixtures: one server for the whole session, a fresh sandbox where a test asks for one."""

import os

import httpx
import pytest
from e2b import Sandbox

from rpc import Rpc
from server import Server


@pytest.fixture(scope="session")
def server():
    if os.environ.get("MAYFLY_TEST_TIER") == "native" and os.geteuid() != 0:
        pytest.skip("the native tier needs root")
    server = Server()
    for name in [name for name in os.environ if name.startswith("E2B_")]:
        del os.environ[name]
    os.environ.update(server.environment)
    yield server
    server.stop()


@pytest.fixture
def api(server):
    """The control plane with a valid key."""
    headers = {"X-API-Key": server.key}
    with httpx.Client(base_url=server.url, headers=headers, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def shared(server):
    """A sandbox that the tests of one file share; they must not harm it."""
    sandbox = Sandbox.create(timeout=600)
    yield sandbox
    sandbox.kill()


@pytest.fixture
def sandbox(server):
    """A sandbox of the test's own."""
    sandbox = Sandbox.create(timeout=300)
    yield sandbox
    sandbox.kill()


@pytest.fixture
def rpc(server, shared):
    """Raw calls to the shared sandbox's daemon."""
    with Rpc(server.url, shared.sandbox_id, shared._envd_access_token) as rpc:
        yield rpc

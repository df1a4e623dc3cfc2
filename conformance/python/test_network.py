"""What sandboxes reach, as the SDK says it and as it is told."""

import os

import httpx
import pytest
from e2b import ALL_TRAFFIC, Sandbox
from e2b.exceptions import InvalidArgumentException, SandboxException

from server import Server

NATIVE = os.environ.get("MAYFLY_TEST_TIER") == "native"
needs_native = pytest.mark.skipif(not NATIVE, reason="only the native tier has networks to give")
ADDRESS = "192.0.2.7"
INTERFACES = "ls /proc/sys/net/ipv4/conf"


@pytest.fixture(scope="module")
def walled(server):
    """The session's server, if its sandboxes have a network."""
    with httpx.Client(base_url=server.url, headers={"X-API-Key": server.key}) as api:
        sandbox = Sandbox.create()
        has_network = api.get(f"/sandboxes/{sandbox.sandbox_id}").json()["allowInternetAccess"]
        sandbox.kill()
    if not has_network:
        pytest.skip("this host has no nft, so sandboxes have no network")
    return server


def interfaces(sandbox: Sandbox) -> set[str]:
    return set(sandbox.commands.run(INTERFACES).stdout.split()) - {"all", "default"}


@needs_native
def test_a_plain_sandbox_has_a_network(walled):
    with Sandbox.create() as sandbox:
        assert sandbox.get_info().allow_internet_access is True
        assert interfaces(sandbox) == {"lo", "eth0"}


@needs_native
def test_internet_access_can_be_declined(walled):
    with Sandbox.create(allow_internet_access=False) as sandbox:
        assert sandbox.get_info().allow_internet_access is False
        assert interfaces(sandbox) == {"lo"}


@needs_native
def test_rules_are_told_as_they_were_said(walled):
    rules = {"deny_out": [ALL_TRAFFIC], "allow_out": [ADDRESS]}
    with Sandbox.create(network=rules) as sandbox:
        info = sandbox.get_info()
        assert info.network["deny_out"] == [ALL_TRAFFIC]
        assert info.network["allow_out"] == [ADDRESS]
        assert info.allow_internet_access is False


@needs_native
def test_an_update_replaces_everything(walled):
    with Sandbox.create(network={"deny_out": ["192.0.2.0/24"]}) as sandbox:
        sandbox.update_network({"allow_out": [ADDRESS]})
        info = sandbox.get_info()
        assert info.network["allow_out"] == [ADDRESS]
        assert not info.network.get("deny_out")
        sandbox.update_network({"allow_internet_access": False})
        assert interfaces(sandbox) == {"lo"}
        sandbox.update_network({})
        assert sandbox.get_info().allow_internet_access is True
        assert interfaces(sandbox) == {"lo", "eth0"}


@needs_native
def test_what_is_not_there_is_refused_by_name(walled):
    cases = [
        ({"allow_out": ["a.test"], "deny_out": [ALL_TRAFFIC]}, "domains"),
        ({"allow_out": ["2001:db8::1"]}, "IPv6"),
        ({"rules": {"a.test": [{"transform": {"headers": {"A": "b"}}}]}}, "network.rules"),
        ({"deny_out": ["1.1.1.1/99"]}, "1.1.1.1/99"),
    ]
    for network, words in cases:
        with pytest.raises((InvalidArgumentException, SandboxException), match=words):
            Sandbox.create(network=network)


def test_an_unknown_sandbox_has_no_network_to_change(api):
    answer = api.put("/sandboxes/inothing/network", json={})
    assert answer.status_code == 404


def test_a_server_without_a_network_takes_the_default_and_refuses_rules():
    server = Server("--network", "none") if NATIVE else Server()
    try:
        headers = {"X-API-Key": server.key}
        with httpx.Client(base_url=server.url, headers=headers, timeout=30) as api:
            body = {"templateID": "base", "allow_internet_access": True}
            made = api.post("/v2/sandboxes", json=body)
            assert made.status_code == 201, made.text
            detail = api.get(f"/sandboxes/{made.json()['sandboxID']}").json()
            assert detail["allowInternetAccess"] is not NATIVE
            refused = api.post("/v2/sandboxes", json=body | {"network": {"denyOut": [ADDRESS]}})
            assert refused.status_code == 400, refused.text
            assert ("--network internet" if NATIVE else "process") in refused.json()["message"]
    finally:
        server.stop()

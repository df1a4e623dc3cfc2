"""Who may come in, and how a request finds its sandbox."""

import re
import subprocess

import httpx
import pytest
from e2b import Sandbox

from rpc import Rpc, frame, frames, shell
from server import PROGRAM

CONTROL = [
    ("GET", "/sandboxes"),
    ("GET", "/v2/sandboxes"),
    ("POST", "/sandboxes"),
    ("POST", "/v2/sandboxes"),
    ("GET", "/sandboxes/i1"),
    ("DELETE", "/sandboxes/i1"),
    ("POST", "/sandboxes/i1/timeout"),
    ("POST", "/sandboxes/i1/connect"),
    ("POST", "/v2/sandboxes/i1/connect"),
    ("GET", "/sandboxes/i1/logs"),
    ("GET", "/commands"),
    ("POST", "/commands"),
    ("GET", "/commands/1"),
    ("POST", "/commands/1/kill"),
    ("GET", "/metrics"),
]


@pytest.mark.parametrize(("method", "path"), CONTROL)
def test_the_control_plane_wants_a_key(server, method, path):
    for headers in [{}, {"X-API-Key": "e2b_" + "0" * 40}, {"X-API-Key": ""}]:
        answer = httpx.request(method, server.url + path, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, 401)
        assert answer.json()["message"]


def test_a_key_is_taken_from_either_header(server):
    for headers in [{"X-API-Key": server.key}, {"Authorization": f"Bearer {server.key}"}]:
        assert httpx.get(server.url + "/sandboxes", headers=headers).status_code == 200


def test_the_servers_own_health_needs_no_key(server):
    assert httpx.get(server.url + "/health").is_success


def test_the_data_plane_wants_the_sandboxs_token(server, shared):
    with Sandbox.create() as other:
        for token in [None, "", "wrong", server.key, other._envd_access_token]:
            with Rpc(server.url, shared.sandbox_id, token) as stranger:
                answer = stranger.unary("List", {})
                assert (answer.status_code, answer.json()["code"]) == (401, 401), token
                answer = stranger.raw_stream("Start", frame(shell("true")))
                assert answer.status_code == 401


def test_a_sandboxs_health_needs_no_token(server, shared):
    with Rpc(server.url, shared.sandbox_id, None) as stranger:
        assert stranger.http.get("/health").status_code == 204


def test_the_api_key_does_not_open_the_data_plane(server, shared):
    with Rpc(server.url, shared.sandbox_id, None) as stranger:
        assert stranger.unary("List", {}, X_API_Key=server.key).status_code == 401


def test_an_unknown_sandbox_is_a_bad_gateway(server):
    with Rpc(server.url, "inosuchsandbox", "token") as rpc:
        for answer in [rpc.unary("List", {}), rpc.http.get("/health"), rpc.http.get("/metrics")]:
            assert answer.status_code == 502
            assert answer.json() == {
                "sandboxId": "inosuchsandbox",
                "message": "The sandbox was not found",
                "code": 502,
            }


def test_a_killed_sandbox_is_a_bad_gateway(server):
    sandbox = Sandbox.create()
    sandbox.kill()
    with Rpc(server.url, sandbox.sandbox_id, sandbox._envd_access_token) as rpc:
        answer = rpc.http.get("/health")
        assert answer.status_code == 502
        assert answer.json()["message"] == "The sandbox was not found"


def test_a_host_name_finds_the_sandbox_too(server, shared):
    headers = {
        "Host": f"49983-{shared.sandbox_id}.sandboxes.example:8443",
        "X-Access-Token": shared._envd_access_token,
    }
    with httpx.Client(base_url=server.url, headers=headers) as client:
        assert client.get("/health").status_code == 204
        answer = client.post("/process.Process/List", json={})
        assert answer.status_code == 200
        answer = client.post(
            "/process.Process/Start",
            content=frame(shell("echo by host")),
            headers={"Content-Type": "application/connect+json"},
        )
        assert len(frames(answer.content)) == 4


def test_a_host_name_wants_the_token_as_well(server, shared):
    headers = {"Host": f"49983-{shared.sandbox_id}.sandboxes.example"}
    answer = httpx.post(server.url + "/process.Process/List", json={}, headers=headers)
    assert answer.status_code == 401


def test_a_host_name_of_an_unknown_sandbox_is_a_bad_gateway(server):
    headers = {"Host": "49983-inosuchsandbox.sandboxes.example"}
    answer = httpx.get(server.url + "/health", headers=headers)
    assert (answer.status_code, answer.json()["sandboxId"]) == (502, "inosuchsandbox")


def test_a_sandbox_request_never_reaches_a_control_route(server, shared, rpc):
    # `/commands` and `/sandboxes` are routes of ours; the daemon has neither.
    assert rpc.http.get("/commands").status_code == 404
    assert rpc.http.get("/sandboxes").status_code == 404


def test_one_team_does_not_see_what_another_has(server, shared):
    made = subprocess.run(
        [PROGRAM, "keys", "create", "--team", "blue", "--name", "door", "--data", server.data],
        capture_output=True,
        text=True,
        check=True,
    )
    key = re.search(r"e2b_[0-9a-f]{40}", made.stdout)[0]
    handle = shared.commands.run("sleep 1000", background=True)
    with httpx.Client(base_url=server.url, headers={"X-API-Key": key}) as stranger:
        assert stranger.get("/sandboxes").json() == []
        assert stranger.get("/commands").json() == []
        for method, path in [
            ("GET", f"/sandboxes/{shared.sandbox_id}"),
            ("GET", f"/sandboxes/{shared.sandbox_id}/logs"),
            ("DELETE", f"/sandboxes/{shared.sandbox_id}"),
            ("POST", f"/v2/sandboxes/{shared.sandbox_id}/connect"),
            ("GET", f"/commands/{handle.pid}"),
            ("POST", f"/commands/{handle.pid}/kill"),
        ]:
            assert stranger.request(method, path).status_code == 404, path
        body = {"cmd": "true", "sandbox_id": shared.sandbox_id}
        assert stranger.post("/commands", json=body).status_code == 404
    assert handle.kill() is True


def test_the_first_version_of_the_routes_is_served_too(api):
    made = api.post("/sandboxes", json={"templateID": "base", "timeout": 60})
    assert made.status_code == 201
    sandbox = made.json()
    assert {"templateID", "sandboxID", "clientID", "envdVersion", "envdAccessToken"} <= set(sandbox)
    again = api.post(f"/sandboxes/{sandbox['sandboxID']}/connect", json={"timeout": 60})
    assert again.status_code == 200
    assert again.json()["envdAccessToken"] == sandbox["envdAccessToken"]
    newer = api.post(f"/v2/sandboxes/{sandbox['sandboxID']}/connect", json={})
    assert newer.status_code == 200
    ids = [entry["sandboxID"] for entry in api.get("/sandboxes").json()]
    assert sandbox["sandboxID"] in ids
    assert api.delete(f"/sandboxes/{sandbox['sandboxID']}").status_code == 204


def test_a_chunked_body_is_read(api):
    def pieces():
        yield b'{"templateID":'
        yield b'"base","timeout":60}'

    answer = api.post("/v2/sandboxes", content=pieces(), headers={"Content-Type": "application/json"})
    assert answer.status_code == 201
    api.delete(f"/sandboxes/{answer.json()['sandboxID']}")

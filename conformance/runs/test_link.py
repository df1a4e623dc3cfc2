"""The host link from the inside: it leads to the run's own upstreams and nowhere else."""

import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from dialects import Turn
from scripts import shell
from serving import Server, tier


def curl(*requests: str) -> str:
    """One line `status` for each request, told apart by their order."""
    options = '-s -o /dev/null --max-time 10 --path-as-is -w "%{http_code}\\n"'
    return "L=${AGENT_URL%/agent}\n" + "\n".join(f"curl {options} {request}" for request in requests)


def codes(outcome) -> list[str]:
    return outcome.step("shell")["result"]["stdout"].split()


def test_paths_that_are_not_upstreams_are_not_there(caller, workspace, host):
    before = len(host.strays)
    command = curl(
        "$L/",
        "$L/etc/passwd",
        "$L/agent",
        "$L/agent/secrets",
        "-X POST $L/agent/env",
        "$L/sandboxes",
        "$L/runs",
        "-X POST $L/stream",
        "$L/metrics",
        "-X POST $L/model/v1/files",
        "-X POST $L/model/v1/messages",
        "$L/mcp/0",
        "$L/mcp/-1",
        "$L/tools/x",
        "$L/assets",
        "$L/skills/a/b",
    )
    session = workspace(shell(command))
    outcome = caller.run(session.body())
    assert all(code in ("400", "404") for code in codes(outcome)), codes(outcome)
    assert len(codes(outcome)) == 16
    assert session.order() == ["env", "config"] and len(host.strays) == before


def test_no_path_climbs_out_of_the_workspaces_address(caller, workspace, host):
    before = len(host.strays)
    command = curl(
        "$L/workspace/../x",
        "$L/workspace/..",
        "$L/workspace/%2e%2e/x",
        "$L/workspace/%2e%2e%2fx",
        "$L/workspace/%252e%252e/x",
        "$L/workspace//x",
        "'$L/workspace/a\\..\\b'",
        "$L/workspace/..%5cx",
        "'$L/workspace/..;/x'",
        "$L/workspace@127.0.0.1/",
        "$L/workspacex",
    )
    session = workspace(shell(command))
    outcome = caller.run(session.body())
    assert all(code in ("000", "400", "404") for code in codes(outcome)), codes(outcome)
    assert session.order() == ["env", "config"] and len(host.strays) == before


def test_no_header_and_no_absolute_address_leads_elsewhere(caller, workspace, host):
    seen = []
    elsewhere = host.lodge(lambda e: (seen.append(e.request), e.answer(200, b"elsewhere")))
    place = elsewhere.removeprefix("http://")
    command = curl(
        f"-x $L {elsewhere}/x",
        f"--proxytunnel -x $L {elsewhere}/x",
        f'-H "Host: {place.split("/")[0]}" $L/x',
        f'-H "X-Forwarded-Host: {place}" -H "X-Original-URL: {elsewhere}" $L/agent/x',
        f"$L/workspace/{elsewhere}",
        f"'$L/agent/env?url={elsewhere}'",
    )
    session = workspace(shell(command))
    assert caller.run(session.body()).message
    assert seen == []
    # The last of them did reach `/env`, with the query and without a token.
    session.complaints.clear()


def test_a_redirect_of_an_upstream_is_not_followed(caller, workspace, host):
    seen = []
    elsewhere = host.lodge(lambda e: (seen.append(e.request), e.answer(200, b"elsewhere")))
    session = workspace(shell('curl -sL -w "%{http_code}" $WORKSPACE_API_URL/tables'))
    session.troubles["workspace"] = lambda e: e.answer(302, b"", Location=elsewhere)
    outcome = caller.run(session.body())
    assert seen == [] and "elsewhere" not in outcome.step("shell")["result"]["stdout"]


def test_the_metadata_service_is_out_of_reach_of_a_config(caller, workspace):
    for config in (
        {"model": {"provider": "openai", "name": "x", "base_url": "http://169.254.169.254/v1"}},
        {"model": {"provider": "openai", "name": "x", "base_url": "http://[::ffff:a9fe:a9fe]/"}},
    ):
        message = caller.run(workspace(config).body()).error("model_error")
        assert "may not" in message or "denied" in message, message


def test_the_workspace_gets_bearer_query_and_body_as_they_were(caller, workspace):
    command = """
curl -sf -X PUT -H "Authorization: Bearer $WORKSPACE_API_TOKEN" -H 'X-Own: 1' -H 'Cookie: a=b' \
  --data-binary 'two lines
of text' "$WORKSPACE_API_URL/files/a%20b?x=1&y=%2F"
"""
    session = workspace(shell(command))
    caller.run(session.body())
    (request,) = session.asked("workspace")
    assert request.line == "PUT /v1/files/a%20b" and request.query == "x=1&y=%2F"
    assert request.body == b"two lines\nof text"
    assert request.headers["authorization"] == f"Bearer {session.bearer}"
    assert request.headers["x-own"] == "1" and "cookie" not in request.headers
    assert "x-forwarded-for" not in request.headers


def test_a_tool_may_not_spend_the_key_in_ways_of_its_own(caller, workspace, model):
    """The model's upstream is open to tools too: only its one call, and never with their headers."""
    command = curl(
        '-X POST -H "x-api-key: mine" -H "content-type: application/json" --data "{}" $L/model/v1/messages',
        "-X DELETE $L/model/v1/messages",
        "$L/model/v1/files",
        "-X POST $L/model/chat/completions",
        "-X POST $L/model/v1/messages/../files",
    )
    thinker = model("anthropic", Turn(calls=[("shell", {"command": command})]), Turn("ok"))
    outcome = caller.run(workspace({"model": thinker.config()}).body())
    assert codes(outcome)[1:] == ["404"] * 4
    # The first one went to the provider with the real key, and was refused for its body.
    assert len(thinker.complaints) == 1 and "mine" not in thinker.complaints[0]
    thinker.complaints.clear()


def test_two_runs_at_once_reach_their_own_workspaces_only(caller, workspace):
    command = 'curl -s -H "Authorization: Bearer $WORKSPACE_API_TOKEN" $WORKSPACE_API_URL/who?$MARK'
    sessions = [workspace(shell(command), {"variables": {"MARK": f"m{n}"}}) for n in range(4)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda session: caller.run(session.body()).message, sessions))
    for number, session in enumerate(sessions):
        assert [request.query for request in session.asked("workspace")] == [f"m{number}"]


def test_the_host_itself_is_out_of_reach(caller, workspace, host, walled):
    seen = []
    address = host.lodge(lambda e: (seen.append(e.request), e.answer(200)))
    command = f"curl -s --max-time 3 {address}/x; echo $?"
    outcome = caller.run(workspace(shell(command)).body())
    assert seen == []
    assert outcome.step("shell")["result"]["stdout"].strip() in ("7", "28")


@pytest.mark.parametrize("size", [1, 70_000])
def test_many_connections_at_once_pass_through_the_link(caller, workspace, size):
    command = f"""
head -c {size} /dev/zero | tr '\\0' a > body
for i in $(seq 40); do
  curl -s --max-time 30 -o out$i -H "Authorization: Bearer $WORKSPACE_API_TOKEN" \
    --data-binary @body $WORKSPACE_API_URL/n$i &
done
wait; cat out* | wc -c
"""
    session = workspace(shell(command))
    assert caller.run(session.body()).message
    assert {request.path for request in session.asked("workspace")} == {f"/v1/n{n}" for n in range(1, 41)}
    assert all(len(request.body) == size for request in session.asked("workspace"))


@pytest.mark.parametrize("network", ["none", "internet"])
def test_the_link_works_in_every_network(walled, workspace, network):
    if network == "internet" and (tier() != "native" or not shutil.which("nft")):
        pytest.skip("this network needs the native tier and nft")
    server = Server("--network", network)
    try:
        session = workspace(shell("wc -l < /proc/net/dev"))
        outcome = server.caller().run(session.body())
        interfaces = int(outcome.step("shell")["result"]["stdout"]) - 2
        assert interfaces == {"none": 1, "internet": 2}[network]
        assert session.order() == ["env", "config"]
    finally:
        server.stop()

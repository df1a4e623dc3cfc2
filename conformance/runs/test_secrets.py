"""What must not be found inside: provider keys, one-time tokens, headers of MCP servers."""

import hashlib

from dialects import Turn
from workspace import mint

# Everything that a root inside can read about processes, without naming what it looks for.
LOOK = r"""
env
for process in /proc/[0-9]*; do
  tr '\0' '\n' < $process/environ; tr '\0' ' ' < $process/cmdline; echo
done 2>/dev/null
true
"""
# A needle is given in two halves, so that the search does not find itself.
SEARCH = """
grep -rlsF "{first}""{second}" / --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr \
  --exclude-dir=dev --exclude-dir=lib --exclude-dir=bin
true
"""


def halves(secret: str) -> dict[str, str]:
    middle = len(secret) // 2
    return {"first": secret[:middle], "second": secret[middle:]}


def test_the_key_reaches_the_provider_and_never_the_sandbox(caller, workspace, model, walled):
    thinker = model("anthropic")
    search = SEARCH.format(**halves(thinker.key))
    thinker.plan = [
        Turn(calls=[("shell", {"command": LOOK})]),
        Turn(calls=[("shell", {"command": search})]),
        Turn("Looked."),
    ]
    outcome = caller.run(workspace({"model": thinker.config()}).body())
    assert outcome.message == "Looked."
    look, found = outcome.steps("shell")
    # The model checks the key of each request, so that it did reach the provider.
    assert len(thinker.asked) == 3
    assert "AGENT_URL" in look["result"]["stdout"]
    assert thinker.key not in str(outcome.lines) and thinker.url not in look["result"]["stdout"]
    assert found["result"]["stdout"] == ""


def test_one_time_tokens_are_in_no_environment_argument_or_file(caller, workspace, model, walled):
    # A decoy proves that the search finds what is there.
    decoy = "decoy_" + mint()
    env = {"variables": {}, "setup_script": f"echo {decoy} > /root/decoy"}
    session = workspace(env=env)
    needles = [*session.tokens.values(), decoy]
    searches = [SEARCH.format(**halves(token)) for token in needles]
    # One a round: a search that runs beside another would find the other's arguments.
    plan = [Turn(calls=[("shell", {"command": command})]) for command in [LOOK, *searches]]
    thinker = model("openai", *plan)
    session.config = {"model": thinker.config()}
    look, *found = caller.run(session.body()).steps("shell")
    assert "AGENT_URL" in look["result"]["stdout"]
    assert not any(token in str(look) for token in session.tokens.values())
    assert [step["result"]["stdout"] for step in found] == ["", "", "", "/root/decoy\n"]


def test_tokens_cannot_be_read_out_of_the_agents_memory(caller, workspace, model, walled):
    session = workspace()
    digest = hashlib.sha256(session.tokens["upload"].encode()).hexdigest()
    program = r"""
import glob, hashlib, re, sys
for place in glob.glob("/proc/[0-9]*"):
    try:
        if "agent" not in open(place + "/comm").read():
            continue
        memory = open(place + "/mem", "rb", 0)
        for line in open(place + "/maps"):
            start, end = (int(n, 16) for n in line.split()[0].split("-"))
            if "rw" not in line.split()[1]:
                continue
            memory.seek(start)
            for token in re.findall(rb"otp_[A-Za-z0-9_-]{43}", memory.read(end - start)):
                if hashlib.sha256(token).hexdigest() == sys.argv[1]:
                    print("found")
    except OSError as error:
        print(type(error).__name__)
"""
    command = f"cat > look.py <<'EOF'\n{program}\nEOF\npython3 look.py {digest}"
    thinker = model("anthropic", Turn(calls=[("shell", {"command": command})]))
    session.config = {"model": thinker.config()}
    step = caller.run(session.body()).step("shell")
    assert step["result"]["stdout"] == "PermissionError\n"


def test_the_config_that_enters_has_neither_keys_nor_addresses(caller, workspace, model, host, walled):
    """A tool asks for the config again, and gets nothing: its token is used."""
    thinker = model("anthropic")
    secret = "Bearer mcp-secret-for-headers"
    server = {"name": "x", "transport": "http", "url": host.lodge(lambda e: e.answer(500))}
    session = workspace()
    command = 'curl -s -o /dev/null -w "%{http_code}" -H "Authorization: otp_x" $AGENT_URL/config'
    thinker.plan = [Turn(calls=[("shell", {"command": f"{command}\n{LOOK}"})])]
    session.config = {
        "model": thinker.config(),
        "mcp_servers": [server | {"headers": {"Authorization": secret}}],
    }
    outcome = caller.run(session.body())
    told = outcome.step("shell")["result"]["stdout"]
    assert told.startswith("401")
    assert session.complaints == ["run: otp_unknown"]
    session.complaints.clear()
    assert "mcp-secret" not in str(outcome.lines)


def test_a_run_leaves_no_secret_in_the_servers_files(server, caller, workspace, model):
    thinker = model("anthropic", Turn("Done."))
    session = workspace({"model": thinker.config()})
    assert caller.run(session.body(on_disconnect="continue")).message
    secrets = [thinker.key, session.bearer, *session.tokens.values()]
    for path in server.data.rglob("*"):
        if path.is_file() and "sandboxes" not in path.parts:
            content = path.read_bytes()
            assert not [s for s in secrets if s.encode() in content], path


def test_answers_of_the_api_show_no_secret(caller, workspace, model):
    thinker = model("openai", Turn("Done."))
    session = workspace({"model": thinker.config()})
    run = caller.run(session.body()).run_id
    shown = [caller.get(f"/runs/{run}")[1], caller.get(f"/runs/{run}/files/stream.jsonl")[1]]
    for secret in (thinker.key, session.bearer, *session.tokens.values()):
        assert not any(secret.encode() in body for body in shown)

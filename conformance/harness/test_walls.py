"""An agent inside its walls: no key, no network, memory of its own, many at once; and a server
that dies outside of them."""

from concurrent.futures import ThreadPoolExecutor

import pytest

import lines
import logs
from agents import CLAUDE, GROK
from caller import RAW
from dialects import Turn
from scripts import shell

# A needle is given in two halves, and processes are looked at before it is put together, so
# that the search does not find itself.
SEARCH = """
cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' > /tmp/seen
needle="{first}""{second}"
grep -cF "$needle" /tmp/seen | sed 's/^/processes:/'
grep -rlsF "$needle" / --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr --exclude-dir=dev \
  --exclude-dir=lib --exclude-dir=bin | sed 's/^/file:/'
getent hosts api.anthropic.com > /dev/null || echo no-names
"""
CROWD = 20
AGENTS_IN_CROWD = 5


def test_no_key_is_inside_and_no_network_is_needed(caller, mind, dispatch, agent):
    thinker = mind(agent)
    middle = len(thinker.key) // 2
    halves = {"first": thinker.key[:middle], "second": thinker.key[middle:]}
    thinker.plan = [Turn(calls=[agent.run(SEARCH.format(**halves))]), Turn("Looked.")]
    log = caller.run_raw(dispatch(agent, thinker))
    assert logs.message(log) == "Looked."
    ((_, end),) = logs.steps(log)
    told = logs.written(end["result"])
    assert "processes:0" in told and "file:" not in told, told
    assert "no-names" in told
    # Each request did reach the provider with the key, which the model checks.
    assert len(thinker.bodies) == 2
    assert thinker.key not in logs.written(log)


def test_files_are_not_told_when_nobody_wants_them(caller, mind, dispatch, install):
    install(CLAUDE)
    thinker = mind(CLAUDE, Turn(calls=[CLAUDE.run("echo x > quiet.txt")]))
    log = caller.run_raw(dispatch(CLAUDE, thinker, fileEvents=False))
    assert logs.message(log) == "done" and logs.files(log) == []


def test_the_program_is_roots_and_the_sandbox_has_memory_for_it(caller, agent):
    look = f"stat -c '%u:%g %a' $(command -v {agent.program}); grep MemTotal /proc/meminfo; {agent.program} --version"
    outcome = caller.run({"prompt": "Go", "template": agent.name, "config": shell(look)})
    said = outcome.step("shell")["result"]["stdout"]
    assert said.startswith("0:0 755\n") and "MemTotal:        2097152 kB" in said, said


@pytest.mark.parametrize("agent", [CLAUDE, GROK], ids=str)
def test_an_agent_works_on_while_the_server_is_away(mind, dispatch, install, server, agent):
    """What a run needs of the host outlives the server: its model, its session's archive."""
    install(agent)
    thinker = mind(agent, Turn(calls=[agent.run("sleep 3; echo x > later.txt")]), Turn("Went on."))
    stream = server.caller().dispatch(dispatch(agent, thinker, on_disconnect="continue"), RAW)
    stream.until(type="step_started")
    server.kill()
    server.start()
    caller = server.caller()
    log = lines.raw(caller.follow(stream.run_id).rest())
    assert logs.message(log) == "Went on." and logs.paths(log) == {"later.txt"}
    again = mind(agent, Turn("Yes."))
    session = logs.session(log, agent)
    resumed = caller.run_raw(dispatch(agent, again, modelOptions={"sessionId": session}))
    assert logs.message(resumed) == "Yes." and again.heard("later.txt")


def test_twenty_agents_edit_at_once(server, caller, mind, dispatch, install):
    install(CLAUDE)

    def run(number: int) -> None:
        command = f"for i in $(seq 20); do echo {number}-$i >> notes-{number}.txt; sleep 0.02; done"
        if number < AGENTS_IN_CROWD:
            body = dispatch(CLAUDE, mind(CLAUDE, Turn(calls=[CLAUDE.run(command)]), Turn("edited")))
        else:
            body = {"prompt": "Go", "config": shell(command, text="edited")}
        log = caller.run_raw(body)
        assert logs.message(log) == "edited"
        assert logs.paths(log) == {f"notes-{number}.txt"}
        added = "".join(f"+{number}-{line}\n" for line in range(1, 21))
        assert added in logs.diff(log)

    with ThreadPoolExecutor(CROWD) as pool:
        list(pool.map(run, range(CROWD)))
    assert server.left() == {}

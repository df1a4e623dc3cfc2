"""The named environment: its variables, and its script before the first model call."""

from dialects import Turn
from scripts import saying, shell


def environment(script: str, **variables: str) -> dict:
    return {"variables": variables, "setup_script": script}


def test_the_script_has_the_variables_and_its_output_is_log_lines(caller, workspace):
    script = 'echo "first $GREETING"\necho "to stderr" >&2\npwd\nprintf "no line break"'
    session = workspace(saying(), environment(script, GREETING="hello"))
    logs = caller.run(session.body()).logs()
    for line in ("first hello", "to stderr", "no line break"):
        assert line in logs, logs
    assert logs.index("first hello") < logs.index("to stderr") < logs.index("no line break")


def test_the_script_runs_before_the_model_is_asked_and_tools_see_its_work(caller, workspace, model):
    thinker = model("openai", Turn(calls=[("shell", {"command": "cat made; echo $KIND"})]))
    script = "sleep 0.5; date +%s%N > made; echo setup is over"
    session = workspace({"model": thinker.config()}, environment(script, KIND="named"))
    outcome = caller.run(session.body())
    over = next(i for i, line in enumerate(outcome.lines) if line.get("message") == "setup is over")
    first = next(i for i, line in enumerate(outcome.lines) if line["type"] == "step")
    assert over < first
    # The model was asked no earlier than the caller could read that the setup was over.
    assert thinker.times[0] > session.asked("config")[0].at + 0.5
    assert outcome.step("shell")["result"]["stdout"].endswith("named\n")


def test_a_script_that_fails_ends_the_run_with_the_tail_of_its_output(caller, workspace, model):
    thinker = model("anthropic")
    script = "for i in $(seq 2000); do echo line $i; done; echo the reason >&2; exit 7"
    session = workspace({"model": thinker.config()}, environment(script))
    message = caller.run(session.body()).error("setup_failed")
    assert "the reason" in message and "7" in message
    assert "line 2000" in message and "line 1\n" not in message and len(message) < 4096
    assert thinker.asked == []


def test_the_first_command_that_fails_ends_the_script(caller, workspace):
    session = workspace(saying(), environment("false\necho not reached"))
    outcome = caller.run(session.body())
    outcome.error("setup_failed")
    assert "not reached" not in outcome.logs()


def test_what_the_script_leaves_running_lives_on(caller, workspace):
    script = "(while :; do echo tick; sleep 0.1; done) & echo $! > pid"
    session = workspace(shell("sleep 0.5; kill -0 $(cat pid) && echo alive"), environment(script))
    assert caller.run(session.body()).step("shell")["result"]["stdout"] == "alive\n"
    assert caller.sandboxes() == []


def test_variables_of_ours_win_over_those_of_the_environment(caller, workspace):
    variables = {"HOME": "/nowhere", "AGENT_URL": "http://evil", "OWN": "a b\n'c'"}
    session = workspace(shell('echo "$HOME|$AGENT_URL|$OWN"'), environment("", **variables))
    told = caller.run(session.body()).step("shell")["result"]["stdout"]
    home, agent, own = told.split("|")
    assert home != "/nowhere" and agent.startswith("http://127.0.0.1:") and own == "a b\n'c'\n"

"""Tools that mean harm: to the run, to the link, to the server's memory and disk."""

import time

import lines
from dialects import Turn
from model import Broken
from scripts import calling, saying, shell
from waiting import wait_until

HOLD = """
import os, socket, time
host, port = os.environ["AGENT_URL"].split("/")[2].split(":")
held = []
try:
    for _ in range(3000):
        held.append(socket.create_connection((host, int(port)), timeout=5))
        held[-1].sendall(b"GET /workspace/x HTTP/1.1\\r\\nHost: x\\r\\n")
except OSError:
    pass
print(len(held), flush=True)
time.sleep(float(os.environ["HOLD"]))
"""


def resident(pid: int) -> int:
    """Bytes of a process that are in memory."""
    with open(f"/proc/{pid}/statm") as statm:
        return int(statm.read().split()[1]) * 4096


def test_thousands_of_connections_into_the_link_hold_nobody_else_up(server, caller, workspace, walled):
    command = f"cat > hold.py <<'EOF'\n{HOLD}\nEOF\nulimit -n 4096; python3 hold.py"
    env = {"variables": {"HOLD": "8"}}
    stream = caller.dispatch(workspace(shell(command), env).body())
    stream.until(type="step", status="running")
    time.sleep(3)
    began = time.monotonic()
    other = 'curl -s -H "Authorization: Bearer $WORKSPACE_API_TOKEN" $WORKSPACE_API_URL/x'
    session = workspace(shell(other))
    assert caller.run(session.body()).message == "done"
    assert time.monotonic() - began < 5
    assert len(session.asked("workspace")) == 1
    (step,) = [line for line in lines.envelope(stream.rest()) if line.get("status") == "succeeded"]
    assert 0 < int(step["result"]["stdout"]) < 1000, "what one run may hold open is bounded"


def test_a_setup_script_that_never_stops_talking_ends_and_is_bounded(server, caller, workspace):
    env = {"variables": {}, "setup_script": "yes 'a line that is repeated for ever and ever'"}
    before = resident(server.process.pid)
    stream = caller.dispatch(workspace(saying(), env).body(limits={"max_runtime_sec": 30}))
    last = stream.tail().splitlines()[-1]
    assert b'"type":"error"' in last, last
    assert resident(server.process.pid) - before < 256 << 20
    assert wait_until(lambda: caller.sandboxes() == [], 5)


def test_an_event_of_a_model_that_never_ends_is_given_up(caller, workspace, model):
    endless = Broken(Turn("x"), 1, b"data: " + b"x" * (12 << 20))
    thinker = model("anthropic", endless)
    caller.run(workspace({"model": thinker.config()}).body()).error("model_error")


def test_a_workspace_directory_that_is_removed_is_a_failed_step_at_most(caller, workspace):
    outcome = caller.run(workspace(shell("rm -rf $WORKSPACE_DIR", "pwd", text="went on")).body())
    assert outcome.message == "went on"


def test_a_full_disk_inside_does_not_end_the_run(caller, workspace, walled):
    command = "fallocate -l 100G /root/big; fallocate -l 4900M /root/big; head -c 500M /dev/zero > /root/more"
    config = shell(command, "rm /root/big; echo x > y && cat y", text="went on")
    outcome = caller.run(workspace(config).body())
    assert outcome.steps("shell")[1]["status"] == "succeeded"
    assert outcome.message == "went on"


def test_a_tool_that_talks_without_end_is_cut_and_killed_at_its_time(caller, workspace):
    config = calling([("shell", {"command": "yes", "timeout_ms": 2000})], text="went on")
    outcome = caller.run(workspace(config).body())
    step = outcome.step("shell")
    assert step["status"] == "failed" and "2000" in step["error"]
    assert outcome.message == "went on"

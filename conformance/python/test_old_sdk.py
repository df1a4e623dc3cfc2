"""The last SDK of the 2.45 line, which uses the first version of the routes."""

import os
import subprocess

import pytest

from server import ROOT

PYTHON = ROOT / ".venv-old" / "bin" / "python"
PREAMBLE = "import e2b\nfrom e2b import Sandbox\n"
SCRIPTS = {
    "run": "with Sandbox.create() as box:\n    print(box.commands.run('echo hi').stdout, end='')",
    "failure": (
        "with Sandbox.create() as box:\n"
        "    try:\n        box.commands.run('exit 3')\n"
        "    except e2b.CommandExitException as exit:\n        print(exit.exit_code)"
    ),
    "connect": (
        "with Sandbox.create() as box:\n"
        "    handle = box.commands.run('sleep 0.5; echo late', background=True)\n"
        "    handle.disconnect()\n"
        "    again = Sandbox.connect(box.sandbox_id)\n"
        "    print(again.commands.connect(handle.pid).wait().stdout, end='')"
    ),
    "stdin": (
        "with Sandbox.create() as box:\n"
        "    handle = box.commands.run('head -n1', background=True, stdin=True)\n"
        "    box.commands.send_stdin(handle.pid, 'typed\\n')\n"
        "    print(handle.wait().stdout, end='')"
    ),
    "kill": (
        "with Sandbox.create() as box:\n"
        "    handle = box.commands.run('sleep 1000', background=True)\n"
        "    print(handle.kill(), box.commands.kill(999999), box.commands.list())"
    ),
    "terminal": (
        "with Sandbox.create() as box:\n"
        "    handle = box.pty.create(e2b.PtySize(24, 80))\n"
        "    box.pty.send_stdin(handle.pid, b'stty size; exit\\n')\n"
        "    shown = []\n"
        "    handle.wait(on_pty=lambda data: shown.append(data))\n"
        "    print(b'24 80' in b''.join(shown))"
    ),
    "gone": (
        "box = Sandbox.create()\nbox.set_timeout(100)\nbox.kill()\n"
        "try:\n    box.commands.run('true')\n"
        "except e2b.TimeoutException as gone:\n    print('was not found' in str(gone))\n"
        "print(box.is_running(), box.kill())"
    ),
}
EXPECTED = {
    "run": "hi\n",
    "failure": "3\n",
    "connect": "late\n",
    "stdin": "typed\n",
    "kill": "True False []\n",
    "terminal": "True\n",
    "gone": "True\nFalse False\n",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_an_older_sdk_works_as_well(server, name):
    if not PYTHON.exists():
        pytest.skip("no .venv-old: run `cargo xtask test`, which makes it")
    result = subprocess.run(
        [PYTHON, "-c", PREAMBLE + SCRIPTS[name]],
        env=os.environ | server.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.stdout == EXPECTED[name], result.stderr

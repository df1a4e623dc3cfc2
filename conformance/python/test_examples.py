"""The examples that users copy, run as their headers say."""

import os
import re
import shutil
import subprocess

import pytest

from server import ROOT

EXAMPLES = {
    "11-commands-stream.py": str(ROOT / ".venv/bin/python"),
    "commands-stream.mjs": "node",
    "commands-stream.sh": "bash",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_prints_what_it_promises(server, name, tmp_path):
    # A directory like a user's: the example, and the packages it needs beside it.
    example = shutil.copy(ROOT / "examples" / name, tmp_path)
    (tmp_path / "node_modules").symlink_to(ROOT / "conformance/js/node_modules")
    result = subprocess.run(
        [EXAMPLES[name], example],
        env=os.environ | server.environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    assert hide_names(result.stdout).splitlines() == promised(example)


def hide_names(output: str) -> str:
    """Puts placeholders where ids and pids are, which differ from run to run."""
    output = re.sub(r"\bi[0-9a-z]{20}\b", "ID", output)
    return re.sub(r'(pid"?[ :]{1,2})\d+', r"\1PID", output)


def promised(example: str) -> list[str]:
    """The lines of the header's last part, without their comment marks."""
    with open(example) as text:
        _, output = text.read().split("Expected output:\n", 1)
    lines = []
    for line in output.splitlines():
        if not line.startswith(("#   ", "//   ")):
            break
        lines.append(line.lstrip("#/").removeprefix("   "))
    return lines

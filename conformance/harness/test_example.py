"""The example that users copy, run as its header says."""

import os
import subprocess
import sys
from pathlib import Path

from agents import CLAUDE
from dialects import Turn

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "harness.py"


def test_the_example_shows_two_runs_of_one_session(server, mind, install):
    install(CLAUDE)
    command = "printf 'one\\ntwo\\n' > haiku.txt"
    thinker = mind(CLAUDE, Turn("I write it.", calls=[CLAUDE.run(command)]), Turn("Done."), Turn("A haiku."))
    environment = {"PATH": os.environ["PATH"], "MAYFLY_URL": server.url, "MAYFLY_API_KEY": server.key}
    environment |= {"MODEL_API_KEY": thinker.key, "MODEL_BASE_URL": thinker.url}
    arguments = ["claude-code", "anthropic", "test-model", "Write a haiku to haiku.txt"]
    done = subprocess.run(
        [sys.executable, str(EXAMPLE), *arguments], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.split("--- again, in a fresh sandbox ---\n")
    lines = first.splitlines()
    assert lines[0].startswith("[session ") and second.splitlines() == [lines[0], "A haiku."]
    assert lines[1] == "I write it." and lines[2].startswith("-> Bash {") and "haiku.txt" in lines[2]
    assert "[create haiku.txt]" in lines and "Done." in lines
    assert lines[-1] == "[diff] 2 lines added, 0 removed"
    assert thinker.heard("Write a haiku to haiku.txt") and thinker.heard("What did you do?")

"""A root file system that Debian's own tools made, from its tarball to a sandbox and away again."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from e2b import Sandbox

from server import PROGRAM, ROOT

# Made once: it takes half a minute and a hundred packages.
CACHE = ROOT / "target" / "conformance" / "debian.tar"
SUITE = "bookworm"

pytestmark = pytest.mark.skipif(
    os.environ.get("MAYFLY_TEST_TIER", "process") == "process",
    reason="tier process has no templates",
)


@pytest.fixture(scope="module")
def tarball() -> Path:
    if CACHE.exists():
        return CACHE
    if not shutil.which("mmdebstrap"):
        pytest.skip("there is no mmdebstrap to make a root file system with")
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    partial = CACHE.with_name("partial.tar")
    command = ["mmdebstrap", "--quiet", "--variant=essential", SUITE, str(partial)]
    made = subprocess.run(command, capture_output=True, text=True)
    if made.returncode != 0:
        partial.unlink(missing_ok=True)
        pytest.skip(f"mmdebstrap cannot make a root file system here: {made.stderr.strip()[-500:]}")
    return partial.rename(CACHE)


def template(server, *arguments: str) -> subprocess.CompletedProcess:
    command = [str(PROGRAM), "template", *arguments, "--data", str(server.data)]
    return subprocess.run(command, capture_output=True, text=True)


def test_debians_own_root_file_system_is_imported_used_and_removed(server, tarball):
    imported = template(server, "import", "debian", str(tarball))
    assert imported.returncode == 0, imported.stderr
    assert "debian" in template(server, "list").stdout
    sandbox = Sandbox.create("debian", timeout=300)
    try:
        release = sandbox.commands.run(". /etc/os-release; echo $ID $VERSION_CODENAME; whoami; pwd")
        assert release.stdout == f"debian {SUITE}\nroot\n/root\n"
        # Its own package manager works on its own database, and what it changes stays inside.
        assert "ii  dpkg" in sandbox.commands.run("dpkg --list dpkg").stdout
        sandbox.commands.run("dpkg --remove --force-all hostname && ! command -v hostname")
        refused = template(server, "remove", "debian")
        assert refused.returncode != 0
        assert f"template `debian` is in use by `{sandbox.sandbox_id}`" in refused.stderr
        assert sandbox.commands.run("echo on").stdout == "on\n"
    finally:
        sandbox.kill()
    other = Sandbox.create("debian", timeout=300)
    assert other.commands.run("command -v hostname").exit_code == 0
    other.kill()
    removed = template(server, "remove", "debian")
    assert removed.returncode == 0, removed.stderr
    assert "debian" not in template(server, "list").stdout

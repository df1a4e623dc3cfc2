"""Fixtures: the layer that sandboxes start from, and sandboxes that several tests share."""

import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from box import PROGRAMS, PYTHON, Box, skeleton


SYSTEM = "/usr/sbin:/sbin"


def reason_to_skip() -> str | None:
    """What this host lacks, or nothing."""
    if os.geteuid() != 0:
        return "the native tier needs root"
    if platform.machine() != "x86_64":
        return "the probes know the system calls of x86-64 only"
    if not os.path.exists(PYTHON):
        return f"the probes need {PYTHON}, which sandboxes see through the host's /usr"
    for name in ("user", "pid", "net", "ipc", "cgroup"):
        if not os.path.exists(f"/proc/self/ns/{name}"):
            return f"this kernel has no {name} namespaces"
    if "\toverlay\n" not in Path("/proc/filesystems").read_text():
        return "this kernel has no overlay file system"
    if not os.path.exists("/dev/loop-control") or not shutil.which("mkfs.ext4", path=SYSTEM):
        return "limits on disks need loop devices and mkfs.ext4"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if reason := reason_to_skip():
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", autouse=True)
def programs() -> None:
    for name in ("mayfly", "mayfly-keeper", "mayfly-envd"):
        assert (PROGRAMS / name).exists(), f"{name} is missing: run `cargo xtask build` first"


@pytest.fixture(scope="session")
def layer():
    """A read-only layer with users and mount points."""
    with tempfile.TemporaryDirectory(prefix="walls-layer-", dir="/tmp") as place:
        yield skeleton(Path(place) / "root")


@pytest.fixture
def data():
    """A server's data directory. Its path is short, as sockets are below it."""
    place = tempfile.mkdtemp(prefix="walls-", dir="/tmp")
    yield Path(place)
    subprocess.run(["rm", "-rf", "--one-file-system", place], check=True)


@pytest.fixture(scope="session")
def shared(layer):
    """Sandboxes by the walls they are built without, started once for all tests.

    The tests that use them leave nothing in them that another one could trip over.
    """
    boxes: dict[tuple[str, ...], Box] = {}

    def take(without: tuple[str, ...] = ()) -> Box:
        if without not in boxes:
            boxes[without] = Box([layer], without=without, lifetime=900).__enter__()
        return boxes[without]

    yield take
    failures = []
    for box in boxes.values():
        try:
            box.__exit__()
        except AssertionError as failure:
            failures.append(str(failure))
    assert not failures, failures


@pytest.fixture
def box(layer):
    """A sandbox of the test's own."""
    with Box([layer]) as box:
        yield box

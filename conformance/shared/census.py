"""What a sandbox is made of on the host, found from outside: the proof that nothing is left."""

import os
from pathlib import Path

IDS = 65_536


def processes_with_ids(*first_ids: int) -> set[int]:
    """Processes that run under the sandboxes' ids."""
    found = set()
    for pid in pids():
        try:
            # The name in it is any bytes.
            status = (Path("/proc") / str(pid) / "status").read_text(errors="replace")
        except OSError:
            continue  # It ended while we looked.
        uid = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("Uid:"))
        if any(first_id <= uid < first_id + IDS for first_id in first_ids):
            found.add(pid)
    return found


def processes_naming(mark: str) -> set[int]:
    """Processes that name the mark in their arguments or work below it."""
    found = set()
    for pid in pids() - {os.getpid()}:
        try:
            arguments = (Path("/proc") / str(pid) / "cmdline").read_bytes()
            directory = os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            continue
        if mark.encode() in arguments or mark in directory:
            found.add(pid)
    return found


def mounts(mark: str = "") -> list[str]:
    """The host's mounts that name the mark."""
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if mark in line]


def cgroups(sandbox: str = "") -> set[str]:
    """Groups of one sandbox, or of all of them."""
    found = set()
    for tree in cgroup_trees():
        for place in (tree / "mayfly").glob("*"):
            if place.is_dir() and (not sandbox or place.name == sandbox):
                found.add(str(place))
    return found


def cgroup_trees() -> list[Path]:
    """Where groups of sandboxes can be: every cgroup file system of this host."""
    trees = []
    for line in mounts(" - cgroup"):
        place, kind = line.split(" - ")
        if kind.split()[0] in ("cgroup", "cgroup2"):
            trees.append(Path(place.split()[4]))
    return trees


def group_descriptors() -> int:
    """How many groups the keeper hands its init: one per tree that it limits."""
    lines = [line.split(" - ")[1] for line in mounts(" - cgroup")]
    split = [line.split()[-1].split(",") for line in lines if line.startswith("cgroup ")]
    limited = [name for options in split for name in ("memory", "pids", "cpu") if name in options]
    return len(limited) or 1


def devices() -> set[str]:
    """Network devices, and loop devices with or without an image."""
    loops = {path.name for path in Path("/sys/block").glob("loop*")}
    return loops | {path.name for path in Path("/sys/class/net").iterdir()}


def images(mark: str) -> list[str]:
    """Images in loop devices whose place names the mark. None of ours has a name any more."""
    found = []
    for device in Path("/sys/block").glob("loop*"):
        try:
            image = (device / "loop" / "backing_file").read_text().strip()
        except OSError:
            continue  # It has none.
        if mark in image:
            found.append(f"{device.name} {image}")
    return found


def pids() -> set[int]:
    return {int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()}


def children(pid: int) -> list[int]:
    """Direct children of a process with one thread."""
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []

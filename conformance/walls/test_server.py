"""Many sandboxes through the server, which is killed in between: nothing is left in the end."""

import json
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import census
import daemon
from box import network_of
from serving import Server
from waiting import wait_until

BATCH = 50
# Disks that a server makes ahead of time.
READY = 3
SANDBOXES = 1_000 if os.environ.get("MAYFLY_SOAK") else 200
# With fewer levels the standard library's way of removing still gets through.
DEEP = """
import os
os.chdir("/tmp")
for _ in range(30_000):
    os.mkdir("d")
    os.chdir("d")
"""


class Count:
    """What the sandboxes of one server are made of, counted on the host."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.names: set[str] = set()
        self.ids: set[int] = set()
        self.mounts, self.devices = len(census.mounts()), census.devices()

    def meet(self) -> None:
        """Learns the names and ids of the sandboxes that are there now."""
        for spec in (self.data / "sandboxes").glob("*/spec.json"):
            self.names.add(spec.parent.name)
            self.ids.add(json.loads(spec.read_text())["first_id"])

    def found(self) -> dict[str, object]:
        """What is there of them now."""
        return {
            "processes": census.processes_naming(str(self.data / "sandboxes")),
            "owned": census.processes_with_ids(*self.ids),
            "mounts": len(census.mounts()) - self.mounts,
            "cgroups": {group for group in census.cgroups() if Path(group).name in self.names},
            "devices": network_of(census.devices() - self.devices),
            "images": census.images(str(self.data))[READY:],
            "directories": list((self.data / "sandboxes").glob("[!.]*")),
        }

    def left(self) -> dict[str, object]:
        """What is there of them, as soon as it does not change any more."""
        left = {}
        for _ in range(100):
            left = {kind: things for kind, things in self.found().items() if things}
            if not left:
                break
            time.sleep(0.1)
        return left


def count_of(things: object) -> int:
    return things if isinstance(things, int) else len(things)


def test_hundreds_come_and_go_and_the_server_is_killed_in_between(data):
    count = Count(data)
    made = 0
    server = Server(data, "--max-sandboxes", str(BATCH))
    with ThreadPoolExecutor(10) as pool:
        while made < SANDBOXES:
            batch = list(pool.map(lambda _: server.create(), range(BATCH)))
            made += BATCH
            count.meet()
            assert count.names >= set(batch)
            # The check of the check: what lives is seen.
            seen = {kind: count_of(things) for kind, things in count.found().items()}
            assert all(seen[kind] >= BATCH for kind in ("processes", "owned", "cgroups", "directories"))
            # Half of them are alive when it is killed; the next one finds and ends them.
            list(pool.map(server.remove, batch[: BATCH // 2]))
            server.kill()
            server.__exit__()
            server = Server(data, "--max-sandboxes", str(BATCH))
            found = server.list()
            assert sorted(found) == sorted(batch[BATCH // 2 :])
            list(pool.map(server.remove, found))
            assert server.list() == []
    left = count.left()
    server.__exit__()
    print(f"{made} sandboxes; with {BATCH} alive {seen}; in the end {left}")
    assert census.images(str(data)) == []
    added = census.devices() - count.devices
    assert added == network_of(added), "loop devices that were added are left"
    assert len(count.names) == SANDBOXES
    assert left == {}


def test_a_sandbox_answers_through_its_door_after_the_server_was_killed(data):
    server = Server(data)
    sandbox = server.create()
    server.kill()
    server.__exit__()
    door = data / "sandboxes" / sandbox / "door"
    assert daemon.start(door, ["/bin/echo", "alive"], "root", "/", 10).output == "alive\n"
    with Server(data) as server:
        assert server.list() == [sandbox]
        server.remove(sandbox)


def test_a_start_removes_the_generations_of_the_template_that_nobody_uses(data):
    server = Server(data)
    sandbox = server.create()
    server.kill()
    server.__exit__()
    generations = data / "templates" / "dev"
    (current,) = generations.iterdir()
    # As if the sandbox had begun before the host last changed.
    used, unused = generations / "used", generations / "unused"
    for place in (used, unused):
        (place / "rootfs").mkdir(parents=True)
    place = data / "sandboxes" / sandbox / "spec.json"
    spec = json.loads(place.read_text())
    place.write_text(json.dumps(spec | {"layers": [str(used / "rootfs")]}))
    with Server(data) as server:
        assert server.list() == [sandbox]
        assert set(generations.iterdir()) == {current, used}
        server.remove(sandbox)
    with Server(data):
        assert list(generations.iterdir()) == [current]


def test_the_disk_has_the_size_that_is_told(data):
    with Server(data, "--disk-mib", "300") as server:
        # More than are made ahead of time.
        sandboxes = [server.create() for _ in range(READY + 2)]
        for sandbox in sandboxes:
            assert server.call("GET", f"/sandboxes/{sandbox}")["diskSizeMB"] == 300
            door = data / "sandboxes" / sandbox / "door"
            command = ["/bin/df", "--output=size", "-BM", "/", "/usr"]
            lines = daemon.start(door, command, "root", "/", 10).output.split()
            assert all(290 < int(size[:-1]) <= 300 for size in lines[1:]), lines
        for sandbox in sandboxes:
            server.remove(sandbox)
    assert census.images(str(data)) == []


def test_disks_made_ahead_of_time_go_with_a_server_that_is_killed(data):
    server = Server(data)
    assert wait_until(lambda: len(census.images(str(data))) == READY)
    server.kill()
    server.__exit__()
    assert wait_until(lambda: not census.images(str(data)))


def test_no_sandbox_is_made_on_a_disk_that_is_nearly_full(data):
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=900m", "tmpfs", data], check=True)
    try:
        with Server(data) as server:
            with pytest.raises(RuntimeError, match="MiB left, and 1024 MiB stay free"):
                server.create()
            assert server.list() == []
    finally:
        subprocess.run(["umount", data], check=True)


def test_a_tree_of_thirty_thousand_levels_does_not_take_the_server_down(data):
    count = Count(data)
    with Server(data) as server:
        sandbox = server.create()
        count.meet()
        door = data / "sandboxes" / sandbox / "door"
        assert daemon.start(door, ["/usr/bin/python3", "-c", DEEP], "root", "/", 120).code == 0
        server.remove(sandbox)
        assert server.list() == []
    # A slow disk may take longer than the server waits. The keeper goes on, the next one clears up.
    mark = str(data / "sandboxes")
    assert wait_until(lambda: not census.processes_naming(mark), 300)
    with Server(data):
        assert count.left() == {}


def test_a_sandbox_has_the_same_walls_when_the_server_builds_it(data):
    """The server's own orders leave no wall out."""
    with Server(data) as server:
        sandbox = server.create()
        state = data / "sandboxes" / sandbox
        assert json.loads((state / "spec.json").read_text()).get("without", []) == []
        lines = daemon.start(state / "door", ["/bin/cat", "/proc/self/status"], "root", "/", 10).output
        fields = dict(line.split(":\t", 1) for line in lines.splitlines() if ":\t" in line)
        assert (fields["Seccomp"], fields["CapEff"]) == ("2", "00000000800425fb")
        server.remove(sandbox)

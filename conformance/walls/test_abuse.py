"""Sandboxes that take all they can get: what they hit is their own limit, not a neighbour's."""

import contextlib
import errno
import os
import threading
import time
from pathlib import Path

import pytest

import census
from box import Box
from daemon import CommandError
from waiting import wait_until

# How long a neighbour's `true` may take while somebody else goes wild.
PATIENCE = 5
FORK_BOMB = "bomb() { bomb | bomb & }; bomb; sleep 2"
MEMORY_HOG = """
hoard = []
while True:
    hoard.append(bytearray(16 << 20))
"""
MANY_FILES = """
import os
os.mkdir("/tmp/many")
for number in range({count}):
    if number % 1000 == 0:
        os.mkdir(f"/tmp/many/{{number}}")
        os.chdir(f"/tmp/many/{{number}}")
    os.close(os.open(str(number), os.O_CREAT | os.O_WRONLY))
"""
FILES = 100_000
DEPTH = 5_000


@pytest.fixture
def culprit(layer):
    with Box([layer], processes=128, memory_mib=256) as box:
        yield box


@pytest.fixture
def neighbour(layer):
    with Box([layer]) as box:
        yield box


def answer_time(box: Box) -> float:
    start = time.monotonic()
    assert box.run("true", timeout=30).code == 0
    return time.monotonic() - start


@contextlib.contextmanager
def going_on(box: Box, line: str, user: str = "root"):
    """Runs a line in the background for as long as the context lasts."""

    def run() -> None:
        # It ends with its sandbox at the latest, in the middle of its stream.
        with contextlib.suppress(CommandError, OSError):
            box.run(line, user, timeout=120)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        box.kill()
        thread.join(timeout=30)
    assert not thread.is_alive()


@pytest.mark.parametrize("user", ["root", "user"])
def test_a_fork_bomb_hits_its_own_limit(culprit, neighbour, user):
    with going_on(culprit, FORK_BOMB, user):
        times = [answer_time(neighbour) for _ in range(10)]
        assert len(culprit.processes()) <= 128 + 64 + 1, "more processes than its limits allow"
    assert max(times) < PATIENCE, times


def test_processes_over_the_limit_are_refused_and_init_lives(culprit):
    outcome = culprit.python(
        """
import os, signal, time
children = []
try:
    while len(children) < 1000:
        child = os.fork()
        if child == 0:
            time.sleep(30)
            os._exit(0)
        children.append(child)
except OSError:
    pass
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
print(len(children))
"""
    )
    assert 100 < int(outcome) <= 128
    assert answer_time(culprit) < PATIENCE


def test_a_higher_limit_lets_them_through(layer):
    """The number is the limit's doing, and not the machine's."""
    with Box([layer], processes=600) as box:
        program = "for _ in $(seq 400); do sleep 5 & done 2>&1 | grep -c fork; jobs -p | wc -l"
        assert box.run(program).output.split()[0] == "0"


def test_a_memory_hog_is_killed_and_its_sandbox_lives(culprit, neighbour):
    with pytest.raises(CommandError, match="signal: killed"):
        culprit.python(MEMORY_HOG)
    assert answer_time(culprit) < PATIENCE
    assert answer_time(neighbour) < PATIENCE
    assert culprit.run("cat /proc/1/comm").code == 0


def test_a_memory_hog_within_its_limit_is_left_alone(layer):
    with Box([layer], memory_mib=512) as box:
        assert box.python("print(len(bytearray(300 << 20)))").strip() == str(300 << 20)


def test_the_limit_on_memory_is_one_on_swap_too(culprit):
    """Read from the host's side: a machine without swap would not show the difference."""
    files = {"memory.memsw.limit_in_bytes": 256 << 20, "memory.swap.max": 0}
    groups = [Path(group) / "commands" for group in census.cgroups(culprit.id)]
    found = {
        name: int((group / name).read_text())
        for group in groups
        for name in files
        if (group / name).exists()
    }
    if not found:
        pytest.skip("this kernel does not count swap")
    assert found.items() <= files.items()


def test_shared_memory_files_count_as_memory(culprit):
    outcome = culprit.run("head -c 1G /dev/zero > /dev/shm/full; stat -c %s /dev/shm/full")
    assert int(outcome.output.split()[-1]) <= 128 << 20
    culprit.run("rm -f /dev/shm/full")
    assert answer_time(culprit) < PATIENCE


def test_a_busy_loop_on_every_core_leaves_time_for_a_neighbour(culprit, neighbour):
    with going_on(culprit, "for _ in $(seq $(nproc --all)) 1 2; do while :; do :; done & done; wait"):
        times = [answer_time(neighbour) for _ in range(10)]
    assert max(times) < PATIENCE, times


def test_many_files_are_made_and_nothing_is_left_of_them(culprit, neighbour):
    with watched(neighbour):
        culprit.python(MANY_FILES.format(count=FILES), timeout=120)
    assert int(culprit.run("find /tmp/many -type f | wc -l").output) == FILES


DEEP = """
import os
os.chdir("/tmp")
for _ in range({depth}):
    os.mkdir("d")
    os.chdir("d")
"""


def test_a_tree_deeper_than_any_stack_is_removed(culprit):
    """Whoever removes it must not descend by calling itself: it runs outside the walls."""
    culprit.python(DEEP.format(depth=DEPTH))


SMALL_DISK = 512
FILL = "cat /dev/zero > /root/full; stat -c %s /root/full"
# As many as fit into a gigabyte, and then some.
FILL_FOR_SURE = "head -c 1G /dev/zero > /root/full; stat -c %s /root/full"
MILLION = 1_000_000
MANY_FILES_UNTIL_FULL = (
    "made = 0\ntry:\n"
    + "".join(f"    {line}\n" for line in MANY_FILES.format(count=MILLION).strip().splitlines())
    + "        made += 1\n"
    + "except OSError as error:\n    print(error.errno)\nprint(made)\n"
)


@pytest.fixture
def small(layer):
    with Box([layer], disk_mib=SMALL_DISK, memory_mib=256) as box:
        yield box


@contextlib.contextmanager
def watched(neighbour: Box):
    """Wants a neighbour to answer for as long as the context lasts."""
    done = threading.Event()
    times = []

    def look() -> None:
        while not done.is_set():
            times.append(answer_time(neighbour))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
    assert times and max(times) < PATIENCE, times


def test_a_full_disk_is_full_at_its_limit_for_its_own_sandbox_alone(small, neighbour):
    with watched(neighbour):
        outcome = small.run(FILL, timeout=300)
    assert "No space left on device" in outcome.output
    size = int(outcome.output.split()[-1])
    assert (SMALL_DISK - 32) << 20 < size < SMALL_DISK << 20
    assert answer_time(small) < PATIENCE
    assert neighbour.run("head -c 64M /dev/zero > /root/mine").code == 0


def test_a_disk_without_the_limit_goes_on(layer):
    """It is the limit that stops it, and not the host's disk."""
    with Box([layer], disk_mib=SMALL_DISK, without=("disk_limit",)) as box:
        outcome = box.run(FILL_FOR_SURE, timeout=300)
        assert int(outcome.output.split()[-1]) == 1 << 30


def test_a_million_files_end_at_the_limit(small, neighbour):
    with watched(neighbour):
        error, made = small.python(MANY_FILES_UNTIL_FULL, timeout=300).split()
    assert int(error) == errno.ENOSPC
    assert 10_000 < int(made) <= (SMALL_DISK << 20) // 16_384
    assert answer_time(small) < PATIENCE


def test_more_files_are_made_without_the_limit(layer):
    with Box([layer], disk_mib=SMALL_DISK, without=("disk_limit",)) as box:
        program = MANY_FILES.format(count=(SMALL_DISK << 20) // 16_384 + 1_000)
        box.python(program, timeout=300)


def test_space_that_is_freed_inside_goes_back_to_the_host(layer):
    with Box([layer], disk_mib=SMALL_DISK) as box:
        (image,) = image_files(box)
        box.run("head -c 300M /dev/zero > /root/big; sync /root/big")
        assert image.stat().st_blocks * 512 > 250 << 20
        box.run("rm /root/big")
        # The keeper looks around every few seconds.
        assert wait_until(lambda: image.stat().st_blocks * 512 < 80 << 20, 20)


def image_files(box: Box) -> list[Path]:
    """The image has no name: its keeper alone has a descriptor of it."""
    return [
        path
        for path in Path(f"/proc/{box.keeper.pid}/fd").iterdir()
        if box.id in os.readlink(path) and "(deleted)" in os.readlink(path)
    ]

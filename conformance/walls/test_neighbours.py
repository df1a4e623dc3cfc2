"""Two sandboxes side by side: neither can name, see, signal or reach the other."""

import pytest

from box import Box
from daemon import CommandError


@pytest.fixture(scope="module")
def pair(layer):
    with Box([layer]) as one, Box([layer]) as other:
        yield one, other


def test_their_ids_differ(pair):
    one, other = pair
    maps = {box.run("cat /proc/self/uid_map").output for box in pair}
    assert len(maps) == 2
    assert abs(one.first_id - other.first_id) >= 65_536


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "/run", "/root", "/usr", "/dev", "/var/lib"])
def test_a_file_of_one_is_not_there_for_the_other(pair, place):
    one, other = pair
    one.run(f"echo secret > {place}/of-one")
    assert one.run(f"cat {place}/of-one").output == "secret\n"
    assert other.run(f"cat {place}/of-one").code != 0


def test_a_process_of_one_cannot_be_signalled_by_the_other(pair):
    one, other = pair
    victim = one.run("sleep 300 >/dev/null 2>&1 & echo $!").output.strip()
    # By its number inside, and by every number that there can be on this host.
    other.python(
        """
import os
for pid in range(2, 70_000):
    if pid not in (os.getpid(), os.getppid()):
        try:
            os.kill(pid, 9)
        except OSError:
            pass
"""
    )
    assert one.run(f"kill -0 {victim}").code == 0
    one.run(f"kill -9 {victim}")


def test_without_pid_namespaces_and_with_the_same_ids_it_could(layer):
    """Two walls hold that: shown with both of them gone."""
    first = Box([layer], without=("own_processes",))
    with first, Box([layer], without=("own_processes",), first_id=first.first_id) as other:
        victim = first.run("sleep 300 >/dev/null 2>&1 & echo $!").output.strip()
        assert other.run(f"kill -9 {victim}").code == 0


SHARED_MEMORY = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if libc.shmget(0x77616c6c, 4096, {flags}) < 0:
    raise OSError(ctypes.get_errno(), "shmget")
"""
REMOVE_MEMORY = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
libc.shmctl(libc.shmget(0x77616c6c, 0, 0), 0, None)
"""


@pytest.mark.parametrize("without", [(), ("own_messages",)], ids=["with", "without own_messages"])
def test_shared_memory_of_one_is_not_there_for_the_other(layer, without):
    with Box([layer], without=without) as one, Box([layer], without=without) as other:
        one.python(SHARED_MEMORY.format(flags="0o1666"))
        try:
            other.python(SHARED_MEMORY.format(flags="0"))
            found = True
        except CommandError:
            found = False
        one.python(REMOVE_MEMORY)
        assert found == bool(without)


LISTEN = """
import os, socket, time
for name, family in (("\\0walls-neighbour", socket.AF_UNIX), (("127.0.0.1", 47_113), socket.AF_INET)):
    server = socket.socket(family)
    server.bind(name)
    server.listen()
    if os.fork() == 0:
        os.setsid()
        os.dup2(os.open("/dev/null", os.O_RDWR), 1)
        os.dup2(1, 2)
        time.sleep(20)
        os._exit(0)
"""
CONNECT = """
import socket
server = socket.socket(socket.{family})
server.settimeout(2)
server.connect({name!r})
"""
PLACES = [("AF_UNIX", "\0walls-neighbour"), ("AF_INET", ("127.0.0.1", 47_113))]


@pytest.mark.parametrize("without", [(), ("own_network",)], ids=["with", "without own_network"])
def test_a_socket_of_one_is_out_of_the_others_reach(layer, without):
    with Box([layer], without=without) as one, Box([layer], without=without) as other:
        one.python(LISTEN)
        for family, name in PLACES:
            one.python(CONNECT.format(family=family, name=name))
            try:
                other.python(CONNECT.format(family=family, name=name))
                found = True
            except CommandError:
                found = False
            assert found == bool(without), name

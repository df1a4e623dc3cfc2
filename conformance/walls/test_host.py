"""What the host has and a sandbox must not reach: each with a thing put there for it to find.

`without` empty is the wall, the other case shows that the test would notice its absence.
"""

import ctypes
import os
import socket
import stat
import threading

import pytest

from box import Box
from daemon import CommandError

IPC_CREATE, IPC_REMOVE = 0o1000, 0
SHARED_MEMORY_KEY = 0x6D617966
ADD_KEY, KEYCTL = 248, 250


def reaches(box: Box, program: str, user: str = "root") -> bool:
    """Whether a program that fails when it is refused went through."""
    try:
        box.python(program, user)
    except CommandError as refused:
        assert "Error" in str(refused), refused
        return False
    return True


def with_and_without(*walls: str):
    cases = [pytest.param((), id="with"), pytest.param(walls, id="without " + ", ".join(walls))]
    return pytest.mark.parametrize("without", cases)


@with_and_without("own_network")
@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_a_service_on_the_hosts_loopback_is_out_of_reach(shared, without, address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as server:
        port = server.getsockname()[1]
        program = f"import socket; socket.create_connection(({address!r}, {port}), 2)"
        assert reaches(shared(without), program, "user") == bool(without)


@with_and_without("own_network")
def test_an_abstract_socket_of_the_host_is_out_of_reach(shared, without):
    name = f"\0mayfly-walls-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        program = f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})"
        assert reaches(shared(without), program, "user") == bool(without)
        seen = name[1:] in shared(without).run("cat /proc/net/unix").output
        assert seen == bool(without)


@with_and_without("own_messages")
def test_shared_memory_of_the_host_is_not_to_be_found(shared, without):
    libc = ctypes.CDLL(None, use_errno=True)
    segment = libc.shmget(SHARED_MEMORY_KEY, 4096, IPC_CREATE | 0o666)
    assert segment >= 0, os.strerror(ctypes.get_errno())
    try:
        program = f"""
import ctypes
if ctypes.CDLL(None).shmget({SHARED_MEMORY_KEY}, 0, 0) < 0:
    raise OSError("no such segment")
"""
        assert reaches(shared(without), program, "user") == bool(without)
    finally:
        libc.shmctl(segment, IPC_REMOVE, None)


@pytest.mark.parametrize("without", [("seccomp",), ("seccomp", "own_keys")], ids=["with", "without"])
def test_keys_of_the_servers_session_are_not_inherited(layer, without):
    """The filter refuses to look for keys at all; this is the wall behind it."""
    libc = ctypes.CDLL(None, use_errno=True)
    join, session = 1, -3
    assert libc.syscall(KEYCTL, join, None) > 0
    key = libc.syscall(ADD_KEY, b"user", b"walls", b"sesame", 6, session)
    assert key > 0, os.strerror(ctypes.get_errno())
    program = f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if libc.syscall({KEYCTL}, 11, {key}, ctypes.create_string_buffer(64), 64) < 0:
    raise OSError(ctypes.get_errno(), "keyctl")
"""
    with Box([layer], without=without) as box:
        assert reaches(box, program) == ("own_keys" in without)


@with_and_without("own_users")
def test_a_file_made_inside_belongs_to_the_sandboxs_ids_outside(shared, without):
    box = shared(without)
    box.run("touch /tmp/of-root; chown 0:0 /tmp/of-root; chmod 4755 /tmp/of-root")
    box.run("touch /tmp/of-user", user="user")
    owners = {
        name: os.lstat(f"/proc/{box.init}/root/tmp/{name}").st_uid
        for name in ("of-root", "of-user")
    }
    first = 0 if without else box.first_id
    assert owners == {"of-root": first, "of-user": first + 1000}


def test_nobody_else_on_the_host_gets_into_a_sandboxs_directory(shared):
    mode = os.stat(shared().state).st_mode
    assert stat.S_IMODE(mode) == 0o700


def test_a_set_user_id_program_gives_the_sandboxs_root_and_no_more(shared):
    box = shared()
    box.run("cp /usr/bin/python3.11 /tmp/become || cp /usr/bin/python3 /tmp/become; chmod 4755 /tmp/become")
    program = "import os; print(os.geteuid(), *open('/proc/self/uid_map').read().split())"
    found = box.run(f'/tmp/become -I -c "{program}"', user="user").output.split()
    assert found == ["0", "0", str(box.first_id), "65536"]
    box.run("rm /tmp/become")


def test_the_ids_of_the_host_do_not_exist_inside(shared):
    """A file of a host user cannot be made: there is no name for its owner."""
    outcome = shared().run(f"touch /tmp/foreign && chown {shared().first_id} /tmp/foreign")
    assert outcome.code != 0 and "Invalid argument" in outcome.output


@pytest.mark.parametrize("number", range(3, 21))
def test_a_working_directory_behind_a_descriptor_leads_nowhere(shared, number):
    """CVE-2024-21626: a directory of the host, entered through a descriptor that was left open."""
    try:
        outcome = shared().run("pwd -P; ls", directory=f"/proc/self/fd/{number}")
    except CommandError:
        return
    assert outcome.code != 0, outcome.output


def test_a_racing_rename_does_not_move_a_working_directory_out(shared):
    """CVE-2021-30465 in its last form: the directory is a link one moment and none the next."""
    box = shared()
    box.run("mkdir -p /tmp/race/real; ln -sfn /proc/1/cwd /tmp/race/link")
    swap = "for _ in $(seq 400); do mv -T /tmp/race/real /tmp/race/x; mv -T /tmp/race/link /tmp/race/real; mv -T /tmp/race/real /tmp/race/link; mv -T /tmp/race/x /tmp/race/real; done"
    racer = threading.Thread(target=box.run, args=(swap,))
    racer.start()
    places = set()
    while racer.is_alive():
        try:
            places.add(box.run("pwd -P", user="user", directory="/tmp/race/real").output.strip())
        except CommandError:
            pass
    racer.join()
    box.run("rm -rf /tmp/race")
    assert places <= {"/tmp/race/real", "/tmp/race/x", "/tmp/race/link"}


def test_a_keeper_and_its_init_are_closed_to_other_users_of_the_host(shared):
    """Both are not dumpable: what they hold open can be looked at by the host's root only."""
    box = shared()
    for pid in (box.keeper.pid, box.init):
        assert os.stat(f"/proc/{pid}/fd").st_uid in (0, box.first_id)
        program = f"import os; os.setgid(65534); os.setuid(65534); os.readlink('/proc/{pid}/exe')"
        status = os.spawnv(os.P_WAIT, "/bin/sh", ["sh", "-c", f"/usr/bin/python3 -I -c \"{program}\" 2>/dev/null"])
        assert status != 0

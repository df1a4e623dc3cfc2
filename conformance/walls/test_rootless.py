"""The same walls built by an ordinary user: rows of the threat model, and what is different."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

import census
import daemon
from box import AS_ORDINARY, ORDINARY, PROGRAMS, Box, skeleton
from daemon import CommandError
from rows import BOTH, PRELUDE, ROWS
from serving import Server
from waiting import wait_until

# Rows that promise what only root can build. Each has its counterpart below.
NOT_WITHOUT_ROOT = {
    "no path and no device of the host is in mountinfo": "the six nodes of /dev are the host's, as"
    " only root makes nodes",
    "user 0 is one of 65,536 ids that no user of the host has": "there is one id, the user's own",
}


@pytest.fixture(scope="module", autouse=True)
def allowed() -> None:
    """Walls without root need user namespaces, and programs that the user can start."""
    command = [str(PROGRAMS / "mayfly-keeper"), "--try-without-root"]
    try:
        tried = subprocess.run(command, capture_output=True, text=True, **AS_ORDINARY)
    except PermissionError:
        pytest.skip(f"an ordinary user cannot start what is in {PROGRAMS}")
    if tried.returncode:
        pytest.skip(f"an ordinary user cannot build walls here: {tried.stderr}")


@pytest.fixture(scope="module")
def own_layer():
    """The layer of the other tests, as one that its user has made."""
    with tempfile.TemporaryDirectory(prefix="walls-layer-", dir="/tmp") as place:
        os.chmod(place, 0o755)
        layer = skeleton(Path(place) / "root")
        for base, directories, files in os.walk(layer):
            for name in (".", *directories, *files):
                os.chown(os.path.join(base, name), ORDINARY, ORDINARY, follow_symlinks=False)
        yield layer


@pytest.fixture(scope="module")
def shared_box(own_layer):
    with Box([own_layer], privilege="user", lifetime=900) as box:
        yield box


@pytest.fixture
def own_data(data):
    os.chown(data, ORDINARY, ORDINARY)
    return data


@pytest.mark.parametrize(
    "row, user",
    [pytest.param(row, user, id=f"{row.sentence} ({user})") for row in ROWS for user in BOTH],
)
def test_it_holds_without_root_that(row, user, shared_box):
    if reason := NOT_WITHOUT_ROOT.get(row.sentence):
        pytest.skip(reason)
    assert row.breaches(shared_box, user) == []


def test_of_the_host_mountinfo_names_six_nodes_and_nothing_else(shared_box):
    nodes = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty")}
    lines = shared_box.run("cat /proc/self/mountinfo").output.splitlines()
    places = {line.split()[4]: line for line in lines}
    assert nodes <= places.keys()
    for place, line in places.items():
        assert not any(word in line for word in ("/tmp/", "/home/", "walls-")), line
        if place not in nodes:
            assert line.split(" - ")[1].split()[0] in ("overlay", "proc", "tmpfs", "devpts"), line


def test_there_is_one_id_and_it_is_the_users(shared_box):
    for name in ("uid_map", "gid_map"):
        assert shared_box.run(f"cat /proc/self/{name}").output.split() == ["0", str(ORDINARY), "1"]
    status = Path(f"/proc/{shared_box.init}/status").read_text()
    assert f"Uid:\t{ORDINARY}\t{ORDINARY}\t{ORDINARY}\t{ORDINARY}" in status


def test_users_are_known_by_name_and_are_all_the_same(shared_box):
    for user, home in (("root", "/root"), ("user", "/home/user")):
        outcome = shared_box.run("id -u; echo $USER $HOME; pwd", user)
        assert outcome.output.split() == ["0", user, home, home]
    with pytest.raises(CommandError, match="invalid username"):
        shared_box.run("true", "stranger")


@pytest.mark.parametrize("user", BOTH)
def test_nothing_can_be_mounted_unmounted_or_made_a_namespace_of(shared_box, user):
    """The namespaces belong to the sandbox, so this hangs on the filter and the capabilities."""
    probe = """
for words, number, arguments in (
    ("mount", 165, (0, 0, 0, 0, 0)), ("umount", 166, (0, 2)), ("pivot_root", 155, (0, 0)),
    ("open_tree", 428, (-100, 0, 1)), ("move_mount", 429, (0, 0, 0, 0, 0)), ("fsopen", 430, (0, 0)),
    ("mount_setattr", 442, (-100, 0, 0, 0, 0)), ("setns", 308, (0, 0)), ("sethostname", 170, (0, 0)),
    ("unshare of users", 272, (0x10000000,)), ("unshare of mounts", 272, (0x20000,)),
    ("unshare of networks", 272, (0x40000000,)),
):
    if errno_of(number, *arguments) != errno.EPERM:
        breach(words)
"""
    assert shared_box.python(PRELUDE + probe, user) == ""


@pytest.mark.parametrize(
    "without", [("seccomp",), ("capabilities",)], ids=["by the capabilities", "by the filter"]
)
def test_mounts_are_held_twice(own_layer, without):
    probe = """
if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0:
    breach("mounted")
"""
    with Box([own_layer], privilege="user", without=without) as box:
        assert box.python(PRELUDE + probe) == ""
    with Box([own_layer], privilege="user", without=("seccomp", "capabilities")) as box:
        assert box.python(PRELUDE + probe) == "mounted\n"


def test_a_nested_user_namespace_is_held_by_more_than_the_filter(own_layer):
    probe = """
answer = errno_of(272, 0x10000000)
print(errno.errorcode.get(answer, answer))
"""
    with Box([own_layer], privilege="user", without=("seccomp",)) as box:
        assert box.python(PRELUDE + probe) == "ENOSPC\n"


def test_its_network_cannot_be_changed(shared_box):
    probe = """
import fcntl
handle = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
try:
    fcntl.ioctl(handle, 0x8914, struct.pack("16sh22x", b"lo", 0))
    breach("the loopback was taken down")
except OSError as err:
    if err.errno != errno.EPERM:
        breach(err)
"""
    assert shared_box.python(PRELUDE + probe) == ""


def test_the_hosts_usr_cannot_be_written(shared_box):
    assert "Read-only file system" in shared_box.run("touch /usr/bin/new").output
    assert "Read-only file system" in shared_box.run("touch /usr/bin/env").output


def test_files_of_the_user_are_out_of_reach(shared_box):
    """What its id could open outside has no name inside."""
    with tempfile.NamedTemporaryFile(dir="/tmp") as secret:
        os.chown(secret.name, ORDINARY, ORDINARY)
        for path in (secret.name, f"/proc/1/root{secret.name}", f"/..{secret.name}"):
            assert shared_box.run(f"cat {path}").code != 0


def test_processes_over_the_limit_are_refused_and_others_have_their_own(own_layer):
    fork = """
import os, time
children = 0
try:
    while children < 200:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        children += 1
except BlockingIOError:
    pass
print(children)
"""
    with Box([own_layer], privilege="user", processes=40) as box:
        with Box([own_layer], privilege="user", processes=40) as other:
            assert 20 < int(box.python(fork)) < 40
            assert other.run("echo fine").output == "fine\n"


def test_what_nobody_can_enter_is_removed(own_layer):
    with Box([own_layer], privilege="user") as box:
        box.run("mkdir -p /tmp/a/b/c /tmp/d && touch /tmp/a/b/file && chmod 0 /tmp/a/b /tmp/a")
        box.run("chmod 500 /tmp/d /; mkdir -p /home/user/x/y; chmod 0 /home/user/x/y")
    # Leaving it fails if anything is left.


def test_a_killed_keeper_takes_its_sandbox_along(own_layer):
    with Box([own_layer], privilege="user") as box:
        box.run("sleep 1000 >/dev/null 2>&1 &")
        box.keeper.kill()
        box.keeper.wait()
        assert wait_until(lambda: not os.path.exists(f"/proc/{box.init}"))
        subprocess.run(["rm", "-rf", str(box.state / "disk")], check=True)


def test_a_server_says_what_is_missing_and_serves(own_data):
    with Server(own_data, privilege="user") as server:
        sandbox = server.create()
        door = own_data / "sandboxes" / sandbox / "door"
        line = "id -u; python3 -c 'print(6 * 7)'; echo kept > file; cat file"
        assert daemon.start(door, ["/bin/bash", "-c", line], "user", None, 60).output == "0\n42\nkept\n"
        with pytest.raises(RuntimeError, match="no network"):
            server.call("POST", "/sandboxes", {"templateID": "base", "network": {"denyOut": ["1.1.1.1"]}})
        server.remove(sandbox)
        assert not (own_data / "sandboxes" / sandbox).exists()
    log = (own_data / "log").read_text()
    assert "memory and processors of sandboxes are not limited" in log
    assert "sandboxes may fill the host's disk" in log


def test_a_host_without_user_namespaces_is_refused_with_what_to_do(own_data):
    # The setting belongs to a user namespace, so the host's own stays as it is.
    forbid = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" "$@"'
    server = [str(PROGRAMS / "mayfly"), "serve", "--listen", "127.0.0.1:0", "--data", str(own_data)]
    refused = subprocess.run(
        ["unshare", "--user", "--map-user=1000", "--keep-caps", "sh", "-c", forbid, *server],
        capture_output=True,
        text=True,
        timeout=60,
        **AS_ORDINARY,
    )
    assert refused.returncode != 0
    assert "build no walls: cannot make namespaces" in refused.stderr, refused.stderr
    assert "user.max_user_namespaces" in refused.stderr
    assert "listening" not in refused.stdout


def test_a_killed_server_finds_its_sandboxes_again_and_leaves_nothing(own_data):
    before = len(census.mounts())
    server = Server(own_data, privilege="user")
    sandbox = server.create()
    door = own_data / "sandboxes" / sandbox / "door"
    assert json.loads((door.parent / "spec.json").read_text())["privilege"] == "user"
    daemon.start(door, ["/bin/bash", "-c", "echo kept > /tmp/file"], "root", "/", 60)
    server.kill()
    with Server(own_data, privilege="user") as server:
        assert server.list() == [sandbox]
        outcome = daemon.start(door, ["/bin/cat", "/tmp/file"], "user", "/", 60)
        assert outcome.output == "kept\n"
        server.remove(sandbox)
    assert wait_until(lambda: not census.processes_naming(str(own_data)))
    assert list((own_data / "sandboxes").glob("[!.]*")) == []
    assert len(census.mounts()) == before


def test_a_tarball_can_be_imported_and_all_its_files_are_the_users(own_data):
    place = own_data / "image"
    skeleton(place)
    archive = own_data / "image.tar"
    (place / "bin").unlink()
    (place / "bin").mkdir()
    for name in ("sh", "bash"):
        shutil.copy(f"/bin/{name}", place / "bin" / name)
    (place / "closed").mkdir(mode=0o500)
    (place / "closed" / "file").touch()
    subprocess.run(["tar", "-cf", str(archive), "-C", str(place), "."], check=True)
    os.chown(archive, ORDINARY, ORDINARY)
    command = [str(PROGRAMS / "mayfly"), "template", "import", "mine", str(archive)]
    done = subprocess.run(
        [*command, "--data", str(own_data)], capture_output=True, text=True, env={}, **AS_ORDINARY
    )
    assert done.returncode == 0, done.stderr
    rootfs = next((own_data / "templates").glob("mine*/rootfs"))
    owners = {os.lstat(path).st_uid for path in rootfs.rglob("*")}
    assert owners == {ORDINARY}

"""Images made to fool the launcher. It may refuse them or start them, but it must not touch the host.

The trap is a directory of the host that every link of the image leads to. The launcher runs as
the host's root, so the trap would show whatever it made, mounted or changed there.
"""

import os
import stat
import tempfile
from pathlib import Path

import pytest

import census
from box import Box, NotStarted, skeleton

NAMES = ("proc", "dev", "sys", "etc", "usr", "tmp", "root", "run")


@pytest.fixture
def trap():
    with tempfile.TemporaryDirectory(prefix="walls-trap-", dir="/tmp") as place:
        trap = Path(place) / "trap"
        for name in ("", "pts", "shm", "sys/net/ipv4", "kcore.d"):
            (trap / name).mkdir(parents=True, exist_ok=True)
        for name in ("null", "ptmx", "sysrq-trigger", "hostname", "sys/net/ipv4/ping_group_range"):
            (trap / name).write_text("untouched")
        yield trap


@pytest.fixture
def image(tmp_path):
    return skeleton(tmp_path / "image")


def snapshot(place: Path) -> dict[str, tuple]:
    """Everything there is to know about a directory."""
    found = {}
    for base, directories, files in os.walk(place):
        for name in ["", *directories, *files]:
            path = os.path.join(base, name)
            status = os.lstat(path)
            content = Path(path).read_text() if stat.S_ISREG(status.st_mode) else None
            found[path] = (status.st_mode, status.st_uid, status.st_gid, status.st_mtime_ns, content)
    return found


def replace(image: Path, name: str, target: str) -> None:
    place = image / name
    if place.is_symlink() or place.is_file():
        place.unlink()
    elif place.is_dir():
        for child in place.iterdir():
            child.unlink()
        place.rmdir()
    place.symlink_to(target)


def starts_safely(image: Path, trap: Path) -> bool:
    """Starts the image if the launcher does; whatever it decides, the host is as it was."""
    before, mounts = snapshot(trap), census.mounts()
    started = False
    try:
        with Box([image]) as box:
            started = True
            # It came up behind its walls, and its writes stay there.
            assert run(box, "echo x > /proc/sys/kernel/core_pattern").code != 0
            kinds = run(box, "stat -f -c %T /proc /dev /sys").output.split()
            assert kinds == ["proc", "tmpfs", "tmpfs"], kinds
            assert run(box, "stat -c %t:%T /dev/null").output == "1:3\n"
            run(box, "echo x > /etc/written; echo x > /tmp/written; echo x > /usr/written")
    except NotStarted as refused:
        assert str(refused), "a refusal says why"
    assert snapshot(trap) == before
    assert census.mounts() == mounts
    return started


def run(box: Box, line: str):
    """As nobody by name and in no home: an image need not have either."""
    return box.run(line, user="", directory="/")


@pytest.mark.parametrize("name", NAMES)
def test_a_directory_that_links_to_the_host_is_no_way_there(image, trap, name):
    replace(image, name, str(trap))
    starts_safely(image, trap)


@pytest.mark.parametrize("target", ["/", "../..", "../../../../..", "/proc/self/root", "/proc/1/cwd", "."])
@pytest.mark.parametrize("name", ["proc", "dev", "sys", "usr"])
def test_a_mount_point_that_links_elsewhere_is_refused_by_name(image, trap, name, target):
    replace(image, name, target)
    assert not starts_safely(image, trap)


@pytest.mark.parametrize(
    "name", ["dev/null", "dev/ptmx", "dev/console", "dev/pts", "dev/shm", "dev/tty", "dev/fd"]
)
def test_a_device_that_is_a_link_is_covered_before_it_is_used(image, trap, name):
    """CVE-2025-31133, CVE-2025-52565, CVE-2024-45310."""
    (image / name).symlink_to(trap / "null")
    assert starts_safely(image, trap)


@pytest.mark.parametrize("name", ["etc/hostname", "etc/hosts", "etc/resolv.conf", "etc/passwd", "etc/group"])
def test_a_file_that_the_launcher_writes_is_not_written_through_a_link(image, trap, name):
    replace(image, name, str(trap / "hostname"))
    assert starts_safely(image, trap)


def test_a_proc_full_of_decoys_is_covered(image, trap):
    """CVE-2019-19921, CVE-2023-27561, CVE-2025-52881: labels written to a file of the image."""
    (image / "proc/sys/net/ipv4").mkdir(parents=True)
    (image / "proc/sys/net/ipv4/ping_group_range").symlink_to(trap / "null")
    (image / "proc/self").symlink_to(trap)
    (image / "proc/kcore").symlink_to(trap / "null")
    assert starts_safely(image, trap)


def test_a_device_in_an_image_opens_nothing(image, trap):
    os.mknod(image / "disk", stat.S_IFBLK | 0o666, os.makedev(254, 0))
    os.mknod(image / "memory", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    with Box([image]) as box:
        assert "Permission denied" in box.run("head -c1 /disk").output
        assert "Permission denied" in box.run("head -c1 /memory").output


def test_a_program_of_an_image_with_file_capabilities_gets_none_of_the_hosts(image):
    (image / "root/grab").write_bytes(Path("/usr/bin/python3").resolve().read_bytes())
    os.chmod(image / "root", 0o755)
    os.chmod(image / "root/grab", 0o755)
    every = (0x0200_0001, 0xFFFF_FFFF, 0, 0x1FF, 0)
    os.setxattr(image / "root/grab", "security.capability", b"".join(n.to_bytes(4, "little") for n in every))
    with Box([image]) as box:
        program = "print(next(l for l in open('/proc/self/status') if l.startswith('CapEff')).split()[1])"
        outcome = box.run(f'/root/grab -I -c "{program}"', user="user")
        # It is not started at all, or with no more than the bounding set has.
        if outcome.code == 0:
            assert int(outcome.output, 16) & ~0x800425FB == 0


def test_the_trap_shows_what_falls_into_it(trap):
    """The check of the checks: a single changed file is noticed."""
    before = snapshot(trap)
    (trap / "null").write_text("touched")
    assert snapshot(trap) != before

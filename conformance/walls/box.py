"""A sandbox of the native tier without a server: a test writes the keeper's orders itself.

Only so can a wall be left out (`without`). Leaving the context takes the sandbox down and fails
when a process, mount, group, device or file of it is left.
"""

import ipaddress
import itertools
import json
import os
import secrets
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import census
import daemon
from daemon import CommandError, Outcome

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(os.environ.get("MAYFLY_PROGRAMS", ROOT / "target" / "release"))

FIRST_ID = 0x6000_0000
# From the far end of the ranges: servers hand them out from the near one.
RANGES = itertools.count(8191, -1)
# A user without an account and without any right, for sandboxes that are built without root.
ORDINARY = 54_321
AS_ORDINARY = {"user": ORDINARY, "group": ORDINARY, "extra_groups": []}
# What a keeper may leave in its directory; the server removes it.
LAST_WORDS = {"spec.json", "door", "keeper", "exit.json"}
PYTHON = "/usr/bin/python3"


class NotStarted(Exception):
    """The keeper refused to build the sandbox, and said why."""


class Box:
    """One sandbox with its keeper."""

    def __init__(
        self,
        layers: list[Path],
        *,
        without: tuple[str, ...] = (),
        first_id: int | None = None,
        host_usr: bool = True,
        home: Path | None = None,
        lifetime: float = 300,
        memory_mib: int = 512,
        processes: int = 128,
        link: dict | None = None,
        disk_mib: int = 2048,
        privilege: str = "root",
    ) -> None:
        self.id = "walls" + secrets.token_hex(6)
        self.without = without
        self.disk_mib = disk_mib
        self.keeper_is = {}
        if privilege == "user":
            first_id = ORDINARY
            self.keeper_is = AS_ORDINARY
        self.first_id = FIRST_ID + next(RANGES) * census.IDS if first_id is None else first_id
        self.own_ids = first_id is None
        self.own_home = home is None
        # A short path: a socket's name has at most 107 bytes.
        self.home = home or Path(tempfile.mkdtemp(prefix="walls-", dir="/tmp"))
        self.state = self.home / self.id
        arguments = ["envd", "--listen-fd", "3"]
        if privilege == "user":
            arguments.append("--one-user")
        else:
            for number in range(census.group_descriptors()):
                arguments += ["--group-fd", str(4 + number)]
        self.spec = {
            "id": self.id,
            "program": str(PROGRAMS / "mayfly-envd"),
            "arguments": arguments,
            "layers": [str(layer) for layer in layers],
            "host_usr": {"over": []} if host_usr else None,
            "privilege": privilege,
            "first_id": self.first_id,
            "limits": {"cpus": 2, "memory_mib": memory_mib, "processes": processes},
            "deadline_ms": int((time.time() + lifetime) * 1000),
            "without": list(without),
        }
        self.blank = self.home / f"{self.id}.blank"
        if privilege == "root":
            self.spec["blank"] = str(self.blank)
        if link:
            number = (self.first_id - FIRST_ID) // census.IDS
            first = ipaddress.IPv4Address(link["outside"]) - 2 * link["number"]
            self.address = str(first + 2 * number + 1)
            self.spec["link"] = {
                "nft": link["nft"],
                "interface": f"{link['prefix']}{number}",
                "outside": str(first + 2 * number),
                "dns": link["dns"],
                "open": link["open"],
            }

    def __enter__(self) -> "Box":
        self.devices = census.devices()
        if "blank" in self.spec:
            make_blank(self.spec["blank"], self.disk_mib)
        self.state.mkdir(mode=0o700)
        (self.state / "spec.json").write_text(json.dumps(self.spec))
        if self.keeper_is:
            os.chmod(self.home, 0o711)
            os.chown(self.state, ORDINARY, ORDINARY)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(self.door))
        listener.listen(64)
        talk = socket.socket(socket.AF_UNIX)
        talk.bind(str(self.state / "keeper"))
        talk.listen(8)
        self.keeper = subprocess.Popen(
            [str(PROGRAMS / "mayfly-keeper"), str(self.state)],
            env={},
            stdin=talk.fileno(),
            stdout=listener.fileno(),
            **self.keeper_is,
        )
        listener.close()
        talk.close()
        try:
            daemon.init(self.door)
        except OSError as cause:
            self.keeper.wait(timeout=10)
            words = self.last_words()
            self.forget()
            raise NotStarted(words.get("detail", "")) from cause
        self.init = census.children(self.keeper.pid)[0]
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.kill()
            left = self.left()
        finally:
            self.forget()
        assert not left, f"left of sandbox {self.id}: {left}"

    @property
    def door(self) -> Path:
        return self.state / "door"

    def run(
        self, line: str, user: str = "root", directory: str | None = None, timeout: float = 60
    ) -> Outcome:
        """Runs a shell line inside."""
        return daemon.start(self.door, ["/bin/bash", "-c", line], user, directory, timeout)

    def python(self, source: str, user: str = "root", timeout: float = 60) -> str:
        """Runs a program inside that must end well, and returns what it printed."""
        outcome = daemon.start(self.door, [PYTHON, "-I", "-c", source], user, "/", timeout)
        if outcome.code != 0:
            raise CommandError(f"{outcome.status}\n{outcome.output}")
        return outcome.output

    def kill(self) -> None:
        """Asks the keeper to end the sandbox, and waits until it has."""
        with socket.socket(socket.AF_UNIX) as talk:
            try:
                talk.connect(str(self.state / "keeper"))
                talk.sendall(b"kill\n")
            except OSError:
                pass  # It is gone already, and the sandbox with it.
        self.keeper.wait(timeout=30)

    def network(self, network: object) -> str:
        """Orders another network, and returns the keeper's answer."""
        with socket.socket(socket.AF_UNIX) as talk:
            talk.settimeout(30)
            talk.connect(str(self.state / "keeper"))
            talk.sendall(b"network " + json.dumps(network).encode() + b"\n")
            return talk.makefile().readline().strip()

    def last_words(self) -> dict:
        try:
            return json.loads((self.state / "exit.json").read_text())
        except OSError:
            return {}

    def left(self) -> dict[str, object]:
        """What is still there of it. What is on its way out gets a moment."""
        left = {}
        for _ in range(100):
            files = set(os.listdir(self.state)) if self.state.exists() else set()
            found = {
                "processes": self.processes(),
                "mounts": census.mounts(str(self.home)),
                "cgroups": census.cgroups(self.id),
                "devices": network_of(census.devices() - self.devices),
                "images": census.images(self.id),
                "files": files - LAST_WORDS,
            }
            left = {kind: things for kind, things in found.items() if things}
            if not left:
                break
            time.sleep(0.05)
        return left

    def processes(self) -> set[int]:
        """Its processes, by ids of its own or by its name."""
        named = census.processes_naming(self.id)
        return named | census.processes_with_ids(self.first_id) if self.own_ids else named

    def forget(self) -> None:
        """Removes what a server would."""
        if self.keeper.poll() is None:
            self.keeper.kill()
            self.keeper.wait()
        place = self.home if self.own_home else self.state
        self.blank.unlink(missing_ok=True)
        # Not in Python: a tree can be deeper than its stack.
        subprocess.run(["rm", "-rf", "--one-file-system", place], check=True)


def network_of(devices: set[str]) -> set[str]:
    """Loop devices are kept for the next sandbox, and are counted with their images."""
    return {name for name in devices if not name.startswith("loop")}


def make_blank(path: str, mib: int) -> None:
    """What a server prepares: a file system that every disk is a copy of."""
    with open(path, "xb") as file:
        file.truncate(mib << 20)
    options = ["-q", "-F", "-m", "0", "-i", "16384", "-O", "^has_journal,uninit_bg,^metadata_csum"]
    lazily = ["-E", "lazy_itable_init=1,nodiscard"]
    subprocess.run(["mkfs.ext4", *options, *lazily, path], check=True, env={"PATH": "/usr/sbin:/sbin"})


def skeleton(place: Path) -> Path:
    """The layer that most tests start from: directories and two users; programs are the host's."""
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        if os.path.islink(f"/{name}"):
            os.makedirs(place, exist_ok=True)
            os.symlink(os.readlink(f"/{name}"), place / name)
    for name in ("usr", "etc", "proc", "sys", "dev", "tmp", "root", "home/user", "run", "var/lib"):
        os.makedirs(place / name)
    os.chmod(place / "tmp", 0o1777)
    os.chown(place / "home/user", 1000, 1000)
    users = "root:x:0:0::/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\n"
    (place / "etc/passwd").write_text(users)
    (place / "etc/group").write_text("root:x:0:\nuser:x:1000:\n")
    return place

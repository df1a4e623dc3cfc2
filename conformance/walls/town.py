"""A host of the test's own with an internet of its own: two network namespaces and a cable.

The calling thread moves into the first one, so that servers and keepers it starts take that for
the host's. Nothing of it touches the network of the machine that the tests run on.
"""

import ctypes
import json
import os
import socket
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
NEW_NETWORK = 0x4000_0000
# A public address of the host, and of three services outside.
HOST = "203.0.113.1"
SERVICE, OTHER_SERVICE, NAMED_SERVICE = "203.0.113.2", "203.0.113.3", "203.0.113.4"
# Addresses that exist outside, and that no sandbox may reach.
METADATA, PRIVATE, CARRIER, NAME_SERVER = "169.254.169.254", "10.77.0.2", "100.64.0.7", "10.77.0.53"
CLOSED = (METADATA, PRIVATE, CARRIER)

libc = ctypes.CDLL(None, use_errno=True)


def run(line: str) -> str:
    done = subprocess.run(line.split(), capture_output=True, text=True)
    assert done.returncode == 0, f"{line}: {done.stderr}"
    return done.stdout


class Town:
    """Entering it moves the calling thread there; leaving moves it back."""

    def __enter__(self) -> "Town":
        self.files = tempfile.TemporaryDirectory(prefix="walls-files-", dir="/tmp")
        self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        assert libc.unshare(NEW_NETWORK) == 0, os.strerror(ctypes.get_errno())
        run("ip link set lo up")
        # Forwarding is the server's to switch on.
        Path("/proc/sys/net/ipv4/ip_forward").write_text("0")
        script = [sys.executable, str(HERE / "internet.py"), self.files.name]
        self.internet = subprocess.Popen(
            ["unshare", "--net", *script, NAME_SERVER, NAMED_SERVICE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.internet.stdout.readline() == "here\n"
        pid = self.internet.pid
        run(f"ip link add cable type veth peer name cable netns {pid}")
        run(f"ip address add {HOST}/24 dev cable")
        run("ip link set cable up")
        inside = f"nsenter --target {pid} --net ip"
        for address in (SERVICE, OTHER_SERVICE, NAMED_SERVICE):
            run(f"{inside} address add {address}/24 dev cable")
        for address in (*CLOSED, NAME_SERVER):
            run(f"{inside} address add {address}/32 dev cable")
        run(f"{inside} link set lo up")
        run(f"{inside} link set cable up")
        for address in (*CLOSED, NAME_SERVER):
            run(f"ip route add {address}/32 via {SERVICE}")
        self.internet.stdin.write("go\n")
        self.internet.stdin.flush()
        assert self.internet.stdout.readline() == "serving\n"
        return self

    def __exit__(self, *_: object) -> None:
        left = (self.links(), self.tables())
        self.internet.kill()
        self.internet.wait()
        self.internet.stdin.close()
        self.internet.stdout.close()
        assert libc.setns(self.home, NEW_NETWORK) == 0
        os.close(self.home)
        self.files.cleanup()
        assert left == (set(), set()), f"left in the host's network: {left}"

    def links(self) -> set[str]:
        """Links of sandboxes."""
        return {name for _, name in socket.if_nameindex()} - {"lo", "cable"}

    def tables(self) -> set[str]:
        return set(run("nft list tables").split("\n")) - {""}

    def heard(self) -> list[str]:
        """Who sent datagrams to the internet."""
        with urllib.request.urlopen(f"http://{SERVICE}/heard", timeout=10) as answer:
            return json.load(answer)


class HostRules:
    """The rules of one server, of which chains can be left out for a while."""

    def __init__(self, town: Town) -> None:
        (table,) = town.tables()
        self.name = table.removeprefix("table ")

    def without(self, *chains: str) -> "HostRules":
        self.chains = chains
        return self

    def __enter__(self) -> None:
        self.text = run(f"nft list table {self.name}")
        for chain in self.chains:
            run(f"nft flush chain {self.name} {chain}")

    def __exit__(self, *_: object) -> None:
        text = f"delete table {self.name}\n{self.text}"
        subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)

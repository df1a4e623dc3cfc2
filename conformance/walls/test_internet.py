"""A sandbox with a network: what it reaches, what it does not, and that nothing of it is left."""

import json
import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

import census
import daemon
from box import Box
from serving import Server
from town import CLOSED, HOST, NAME_SERVER, NAMED_SERVICE, OTHER_SERVICE, PRIVATE, SERVICE
from town import HostRules, Town
from waiting import wait_until

if not any(os.path.exists(f"{place}/nft") for place in ("/usr/sbin", "/sbin")):
    pytest.skip("internet access needs nft", allow_module_level=True)

OPEN = {"internet": {"allow": [], "deny": []}}
REFUSED = "No route to host"
CHANGES = 200
# Raw packets and other people's addresses take all three out of the way.
MIGHTY = ("seccomp", "capabilities", "own_users")


@pytest.fixture(scope="module")
def town():
    with Town() as town:
        yield town


@pytest.fixture
def server(town, data):
    """A server in the town. Ctrl-C at the end: it takes everything along."""
    server = Server(data, "--network", "internet", "--dns", NAME_SERVER)
    yield server
    interrupt(server)


@pytest.fixture
def link(server, data):
    """What a keeper has to know to lay a link beside those of the server."""
    sandbox = server.create()
    link = json.loads((data / "sandboxes" / sandbox / "spec.json").read_text())["link"]
    server.remove(sandbox)
    prefix, number = link["interface"].split("-")
    return link | {"prefix": prefix + "-", "number": int(number)}


class Sandbox:
    """One of the server's, spoken to through its door."""

    def __init__(self, server: Server, data: Path, **wishes: object) -> None:
        body = {"templateID": "base", "timeout": 600, **wishes}
        self.id = server.call("POST", "/v2/sandboxes", body)["sandboxID"]
        self.server, self.door = server, data / "sandboxes" / self.id / "door"

    def python(self, source: str, user: str = "root", timeout: float = 60) -> str:
        outcome = daemon.start(self.door, ["/usr/bin/python3", "-I", "-c", source], user, "/", timeout)
        assert outcome.code == 0, outcome.output
        return outcome.output

    def run(self, line: str, user: str = "root", timeout: float = 60) -> daemon.Outcome:
        return daemon.start(self.door, ["/bin/bash", "-c", line], user, "/", timeout)

    def update(self, **wishes: object) -> None:
        self.server.call("PUT", f"/sandboxes/{self.id}/network", wishes)

    def detail(self) -> dict:
        return self.server.call("GET", f"/sandboxes/{self.id}")


def interrupt(server: Server) -> None:
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait(timeout=60) == 0
    server.__exit__()


def reach(box, address: str, port: int = 80, patience: float = 2) -> str:
    """Tries to connect, and says what came of it."""
    program = f"""
import socket
try:
    socket.create_connection(({address!r}, {port}), {patience}).close()
    print("reached")
except OSError as err:
    print(err.strerror or err)
"""
    return box.python(program).strip()


def test_the_internet_is_reached_from_the_hosts_address(server, data):
    box = Sandbox(server, data)
    fetch = f"import urllib.request as r; print(r.urlopen('http://{SERVICE}/whoami').read().decode())"
    assert box.python(fetch, "user").strip() == HOST
    assert Path("/proc/sys/net/ipv4/ip_forward").read_text() == "1\n"


@pytest.mark.parametrize("without", [(), ("egress_rules",)], ids=["with", "without rules"])
def test_metadata_and_private_ranges_are_refused_at_once(layer, link, without):
    with Box([layer], link=link, without=without) as box:
        assert box.network(OPEN) == "ok"
        for address in CLOSED:
            began = time.monotonic()
            assert reach(box, address) == ("reached" if without else REFUSED), address
            assert without or time.monotonic() - began < 2


def test_no_wish_of_a_client_opens_a_private_range(server, data):
    box = Sandbox(server, data, network={"allowOut": ["0.0.0.0/0", PRIVATE, "10.0.0.0/8"]})
    assert [reach(box, address) for address in CLOSED] == [REFUSED] * len(CLOSED)
    assert reach(box, SERVICE) == "reached"


def test_the_operator_can_open_a_private_range(town, data):
    server = Server(data, "--network", "internet", "--egress-open", "10.77.0.0/24", "--egress-open", "100.64.0.7")
    box = Sandbox(server, data)
    found = [reach(box, address) for address in CLOSED]
    assert found == [REFUSED, "reached", "reached"]
    box.update(denyOut=[PRIVATE])
    assert reach(box, PRIVATE) == REFUSED
    interrupt(server)


def test_a_private_name_server_answers_and_has_no_other_port(server, data):
    box = Sandbox(server, data)
    assert box.run("cat /etc/resolv.conf").output == f"nameserver {NAME_SERVER}\n"
    name = "import socket; print(socket.gethostbyname('a.test'))"
    assert box.python(name, "user").strip() == NAMED_SERVICE
    assert reach(box, NAME_SERVER) == REFUSED
    box.update(allowOut=[SERVICE], denyOut=["0.0.0.0/0"])
    assert "error" in box.python(f"try:\n {name}\nexcept OSError as err:\n print('error', err)")


def test_services_of_the_host_are_out_of_reach_on_all_its_addresses(town, layer, link):
    with socket.create_server(("0.0.0.0", 0)) as listener:
        port = listener.getsockname()[1]
        with Box([layer], link=link) as box, Box([layer], link=link, without=("egress_rules",)) as bare:
            assert [box.network(OPEN), bare.network(OPEN)] == ["ok", "ok"]
            gateway = bare.spec["link"]["outside"]
            assert reach(box, HOST, port, 1) == "timed out"
            assert reach(box, gateway, port, 1) == REFUSED
            assert reach(bare, gateway, port, 1) == "timed out"
            with HostRules(town).without("input"):
                assert reach(box, HOST, port) == "reached"
                assert reach(bare, gateway, port) == "reached"


def test_another_sandbox_is_out_of_reach(town, layer, link):
    bare = {"link": link, "without": ("egress_rules",)}
    with Box([layer], **bare) as one, Box([layer], **bare) as other, Box([layer], link=link) as box:
        assert [each.network(OPEN) for each in (one, other, box)] == ["ok"] * 3
        for server in (other, box):
            server.run("cd /tmp; nohup python3 -m http.server 8000 >/dev/null 2>&1 &")
            assert wait_until(lambda: reach(server, "127.0.0.1", 8000) == "reached")
        assert reach(box, other.address, 8000) == REFUSED
        assert reach(one, other.address, 8000, 1) == "timed out"
        with HostRules(town).without("forward"):
            assert reach(one, other.address, 8000) == "reached"
            # The other's own rules are there still: it takes no calls.
            assert reach(one, box.address, 8000, 1) == "timed out"


@pytest.mark.parametrize("user", ["root", "user"])
def test_a_sandbox_cannot_change_its_network(server, data, user):
    program = """
import fcntl, socket, struct
def try_to(what, work):
    try:
        work()
        print(what)
    except OSError:
        pass
plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
name = b"eth0".ljust(16, b"\\0")
address = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton("203.0.113.99"))
try_to("change its address", lambda: fcntl.ioctl(plain, 0x8916, name + address))
try_to("change a flag", lambda: fcntl.ioctl(plain, 0x8914, name + struct.pack("h14x", 0x1043 | 0x100)))
try_to("send for others", lambda: plain.setsockopt(socket.SOL_IP, 19, 1))
try_to("mark packets", lambda: plain.setsockopt(socket.SOL_SOCKET, 36, 1))
try_to("open a raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 17))
try_to("open a packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
try_to("speak to the filter", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12))
route = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
eth0 = socket.if_nametoindex("eth0")
route.sendto(struct.pack("IHHII", 32, 17, 5, 1, 0) + struct.pack("BBHiII", 0, 0, 0, eth0, 0, 0), (0, 0))
if struct.unpack("i", route.recv(4096)[16:20])[0] >= 0:
    print("remove a link")
"""
    assert Sandbox(server, data).python(program, user) == ""


def test_a_stolen_address_gets_nowhere(town, layer, link):
    """Shown with a root inside that may send what it likes, which none is: the rules hold it alone."""
    program = f"""
import socket, struct
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, 255)
raw.setsockopt(socket.SOL_IP, socket.IP_HDRINCL, 1)
source, target = socket.inet_aton("203.0.113.66"), socket.inet_aton("{SERVICE}")
head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 29, 1, 0, 64, 17, 0, source, target)
try:
    raw.sendto(head + struct.pack(">HHHH", 9, 9, 9, 0) + b"x", ("{SERVICE}", 0))
except OSError:
    pass
"""
    def spoofs(box: Box) -> bool:
        before = len(town.heard())
        box.python(program)
        return wait_until(lambda: len(town.heard()) > before, 1)

    with Box([layer], link=link, without=MIGHTY) as box:
        assert box.network(OPEN) == "ok"
        assert not spoofs(box)
    with Box([layer], link=link, without=(*MIGHTY, "egress_rules")) as box:
        assert box.network(OPEN) == "ok"
        assert not spoofs(box)
        with HostRules(town).without("prerouting"):
            assert spoofs(box)


def test_ipv6_is_not_carried(server, data):
    box = Sandbox(server, data)
    interfaces = box.run("cat /proc/net/if_inet6").output.split()
    assert set(interfaces[5::6]) <= {"lo"}
    assert reach(box, "2001:db8::1") in ("Network is unreachable", REFUSED, "Cannot assign requested address")
    box.update(denyOut=["::/0"])
    assert reach(box, SERVICE) == "reached"


def test_what_is_allowed_wins_over_what_is_denied_and_changes_take_effect(server, data):
    box = Sandbox(server, data)
    check = lambda: (reach(box, SERVICE) == "reached", reach(box, OTHER_SERVICE) == "reached")
    assert check() == (True, True)
    box.update(denyOut=["203.0.113.0/24"], allowOut=[OTHER_SERVICE])
    assert check() == (False, True)
    assert box.detail()["network"] == {"denyOut": ["203.0.113.0/24"], "allowOut": [OTHER_SERVICE]}
    assert box.detail()["allowInternetAccess"] is True
    box.update(denyOut=[OTHER_SERVICE])
    assert check() == (True, False)
    box.update(allow_internet_access=False)
    assert check() == (False, False)
    assert box.detail()["allowInternetAccess"] is False
    assert [name for name in box.run("ls /proc/sys/net/ipv4/conf").output.split() if name == "eth0"] == []
    box.update()
    assert check() == (True, True)
    assert "network" not in box.detail()


def test_a_change_cuts_a_connection_that_is_open(server, data):
    box = Sandbox(server, data)
    program = f"""
import socket, time
talk = socket.create_connection(("{SERVICE}", 80), 5)
talk.settimeout(3)
deadline = time.monotonic() + 60
answers = 0
try:
    while time.monotonic() < deadline:
        talk.sendall(b"GET /whoami HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
        if not talk.recv(4096):
            break
        answers += 1
        open("/tmp/answers", "w").write(str(answers))
        time.sleep(0.01)
    print("ended")
except OSError:
    print("cut")
"""
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(box.python(program, timeout=90)))
    thread.start()
    answers = lambda: int(box.run("cat /tmp/answers 2>/dev/null || echo 0").output or 0)
    assert wait_until(lambda: answers() > 5)
    # One that does not concern it leaves it alone.
    box.update(denyOut=[OTHER_SERVICE])
    before = answers()
    assert wait_until(lambda: answers() > before + 5)
    box.update(denyOut=[SERVICE])
    thread.join(30)
    assert found == ["cut\n"]


def test_no_change_opens_a_gap(town, layer, link):
    """Every one of the changes denies one service and allows the other; so does what is seen."""
    with Box([layer], link=link) as box:
        wishes = [
            {"internet": {"allow": [], "deny": [OTHER_SERVICE]}},
            {"internet": {"allow": [SERVICE], "deny": ["0.0.0.0/0"]}},
            {"internet": {"allow": ["203.0.113.0/31", "203.0.113.2"], "deny": ["203.0.0.0/16"]}},
        ]
        assert box.network(wishes[0]) == "ok"
        before = len(town.heard())
        program = f"""
import os, socket
sent = 0
denied = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while not os.path.exists("/tmp/stop"):
    for _ in range(200):
        try:
            denied.sendto(b"x", ("{OTHER_SERVICE}", 9))
        except OSError:
            pass
        sent += 1
    try:
        socket.create_connection(("{SERVICE}", 80), 5).close()
    except OSError as err:
        print("{SERVICE}", err)
print(sent)
"""
        found: list[str] = []
        poll = threading.Thread(target=lambda: found.append(box.python(program, timeout=300)))
        poll.start()
        answers = {box.network(wishes[number % len(wishes)]) for number in range(CHANGES)}
        box.run("touch /tmp/stop")
        poll.join(60)
        assert answers == {"ok"}
        assert len(found[0].split()) == 1, found[0][:500]
        assert int(found[0]) > CHANGES
        assert len(town.heard()) == before
        # What is not denied is heard: the ears work.
        box.network(OPEN)
        box.run(f"echo x > /dev/udp/{OTHER_SERVICE}/9")
        assert wait_until(lambda: len(town.heard()) == before + 1)


def test_a_network_outlives_the_server_and_is_told_by_the_next(town, data):
    server = Server(data, "--network", "internet")
    box = Sandbox(server, data, network={"denyOut": [OTHER_SERVICE]})
    server.kill()
    server.__exit__()
    assert (reach(box, SERVICE), reach(box, OTHER_SERVICE)) == ("reached", REFUSED)
    box.server = server = Server(data, "--network", "internet")
    assert box.detail()["network"] == {"allowOut": [], "denyOut": [OTHER_SERVICE]}
    assert (reach(box, SERVICE), reach(box, OTHER_SERVICE)) == ("reached", REFUSED)
    box.update(denyOut=[SERVICE])
    assert (reach(box, SERVICE), reach(box, OTHER_SERVICE)) == (REFUSED, "reached")
    interrupt(server)
    assert (town.links(), town.tables()) == (set(), set())


def test_a_server_that_leaves_nobody_leaves_no_rules(town, data):
    with Server(data, "--network", "internet", "--pool", "1") as server:
        server.remove(Sandbox(server, data).id)
        assert len(town.tables()) == 1
    assert (town.links(), town.tables()) == (set(), set())


def test_nothing_is_left_of_a_network(town, data):
    server = Server(data, "--network", "internet", "--pool", "1")
    boxes = [Sandbox(server, data) for _ in range(5)]
    assert len(town.links()) >= 5 and len(town.tables()) == 1
    server.remove(boxes[0].id)
    keeper = next(iter(census.processes_naming(boxes[1].id)))
    link = json.loads((boxes[1].door.parent / "spec.json").read_text())["link"]["interface"]
    os.kill(keeper, signal.SIGKILL)
    assert wait_until(lambda: link not in town.links())
    # SIGTERM leaves sandboxes and their rules; the next server takes them along.
    server.__exit__()
    assert len(town.links()) == 3 and len(town.tables()) == 1
    interrupt(Server(data, "--network", "none"))
    assert (town.links(), town.tables()) == (set(), set())


def test_a_server_without_a_network_says_so(town, data):
    server = Server(data, "--network", "none")
    for wishes in ({"network": {"allowOut": [SERVICE]}}, {"network": {"denyOut": [SERVICE]}}):
        with pytest.raises(RuntimeError, match="400 .*--network internet"):
            Sandbox(server, data, **wishes)
    # What SDKs send unasked, and what is so anyway.
    for wishes in ({"allow_internet_access": True}, {"allow_internet_access": False}, {}):
        box = Sandbox(server, data, **wishes)
        assert box.detail()["allowInternetAccess"] is False
        assert reach(box, SERVICE) == "Network is unreachable"
    assert box.run("cat /etc/resolv.conf").output == "# no network\n"
    with pytest.raises(RuntimeError, match="--network internet|500"):
        box.update(allowOut=[SERVICE])
    assert town.tables() == set()
    interrupt(server)


def test_a_pooled_sandbox_gets_the_network_it_is_claimed_with(town, data):
    server = Server(data, "--network", "internet", "--pool", "2")
    assert wait_until(lambda: len(town.links()) == 2)
    plain, limited = Sandbox(server, data), Sandbox(server, data, network={"denyOut": [SERVICE]})
    none = Sandbox(server, data, allow_internet_access=False)
    assert [reach(box, SERVICE) for box in (plain, limited)] == ["reached", REFUSED]
    assert reach(none, SERVICE) == "Network is unreachable"
    interrupt(server)

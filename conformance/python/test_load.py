"""Two hundred streams at once through the proxy: every byte in order, memory flat."""

import binascii
import http.client
import re
import threading

from e2b import Sandbox

from rpc import frame, shell
from server import daemon_of, resident_bytes

STREAMS = 200
NUMBERS = 100_000
EXPECTED = "".join(f"{number}\n" for number in range(1, NUMBERS + 1)).encode()
DATA = re.compile(rb'"stdout":"([A-Za-z0-9+/=]+)"')
ROUNDS = 6
# What both may use for two hundred busy streams; the output is 118 MB a round.
HOARDING = 160 << 20


def one_stream(server, sandbox, failures: list[str]) -> None:
    headers = {
        "E2b-Sandbox-Id": sandbox.sandbox_id,
        "E2b-Sandbox-Port": "49983",
        "X-Access-Token": sandbox._envd_access_token,
        "Content-Type": "application/connect+json",
    }
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    body = frame(shell(f"seq 1 {NUMBERS}"))
    connection.request("POST", "/process.Process/Start", body=body, headers=headers)
    response = connection.getresponse()
    position, rest = 0, b""
    while piece := response.read(1 << 18):
        # Only whole events are looked at; a cut one waits for its other half.
        rest += piece
        last = 0
        parts = []
        for found in DATA.finditer(rest):
            parts.append(binascii.a2b_base64(found[1]))
            last = found.end()
        data = b"".join(parts)
        if not EXPECTED.startswith(data, position):
            failures.append(f"wrong bytes after {position}")
            break
        position += len(data)
        rest = rest[last:]
    if position != len(EXPECTED):
        failures.append(f"{position} bytes instead of {len(EXPECTED)}")
    if not rest.endswith(b"\x02\0\0\0\x02{}"):
        failures.append(f"no clean end: {rest[-40:]!r}")
    connection.close()


def one_round(server, sandbox, watched: dict[str, int]) -> dict[str, int]:
    """Runs all streams; answers with the most memory each watched process had."""
    failures: list[str] = []
    readers = [
        threading.Thread(target=one_stream, args=(server, sandbox, failures))
        for _ in range(STREAMS)
    ]
    for reader in readers:
        reader.start()
    most = dict.fromkeys(watched, 0)
    for reader in readers:
        while reader.is_alive():
            reader.join(0.1)
            for name, pid in watched.items():
                most[name] = max(most[name], resident_bytes(pid))
    assert not failures, failures[:5]
    return most


def test_two_hundred_streams_arrive_whole_and_memory_stays_flat(server):
    sandbox = Sandbox.create(timeout=900)
    daemon = daemon_of(server.data / "sandboxes" / sandbox.sandbox_id)
    watched = {"server": server.pid, "envd": daemon}
    # Buffers fill up by how many streams wait at once, which is the machine's to say; what leaks
    # grows with every round.
    rounds = [one_round(server, sandbox, watched)]
    while len(rounds) < ROUNDS:
        rounds.append(one_round(server, sandbox, watched))
        most = {name: max(former[name] for former in rounds[:-1]) for name in watched}
        if all(rounds[-1][name] < most[name] * 1.2 for name in watched):
            break
    else:
        raise AssertionError(f"memory grows with every round: {rounds}")
    assert all(used < HOARDING for used in rounds[-1].values()), rounds
    sandbox.kill()

"""A model server: it speaks one dialect and follows a plan, one entry for each request."""

import json
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from dialects import DIALECTS, Asked, Refused, Turn
from host import Exchange, Host


@dataclass
class Refusal:
    """An answer that is no success."""

    status: int
    message: str = "no"
    retry_after: str | None = None


@dataclass
class Broken:
    """A turn whose stream goes wrong behind some of its events."""

    turn: Turn
    events: int
    # What is sent then; nothing is a connection that breaks off.
    instead: bytes = b""


@dataclass
class Slow:
    """A turn whose events come one by one."""

    turn: Turn
    pause: float


class Silence:
    """Nothing at all, until the test is over or the other side hangs up."""


class Mute:
    """A head of an answer, and then nothing."""


Entry = Turn | Refusal | Broken | Slow | Silence | Mute | Callable[[Asked], Turn]


class Model:
    """What is behind one `base_url`. An empty plan says `done`."""

    def __init__(self, host: Host, provider: str, plan: list[Entry]) -> None:
        self.dialect = DIALECTS[provider]()
        self.plan = list(plan)
        self.key = "sk-" + secrets.token_hex(20)
        self.url = host.lodge(self.handle)
        self.asked: list[Asked] = []
        # Requests that never reached the plan: wrong path, wrong key, wrong shape.
        self.complaints: list[str] = []
        self.times: list[float] = []
        self.lock = threading.Lock()
        self.released = threading.Event()

    def config(self, **more: object) -> dict:
        """The `model` of a configuration."""
        provider = self.dialect.provider
        base = {"provider": provider, "name": "test-model", "base_url": self.url}
        return base | {"api_key": self.key} | more

    def handle(self, exchange: Exchange) -> None:
        request = exchange.request
        try:
            if request.line != f"POST {self.dialect.path}":
                raise Refused(f"there is no {request.line}")
            asked = self.dialect.read(request.headers, json.loads(request.body))
            if asked.key != self.key:
                raise Refused(f"the key is {asked.key!r}")
        except (Refused, KeyError, TypeError, ValueError) as reason:
            self.complaints.append(f"{type(reason).__name__}: {reason}")
            self.refuse(exchange, Refusal(400, f"{reason}"))
            return
        with self.lock:
            place = len(self.asked)
            self.asked.append(asked)
            self.times.append(time.monotonic())
            entry = self.plan[place] if place < len(self.plan) else Turn("done")
        if callable(entry):
            entry = entry(asked)
        self.play(exchange, entry, place)

    def play(self, exchange: Exchange, entry: Entry, place: int) -> None:
        match entry:
            case Refusal():
                self.refuse(exchange, entry)
            case Silence():
                exchange.wait(self.released)
            case Mute():
                exchange.begin(200, Content_Type="text/event-stream")
                exchange.wait(self.released)
            case Turn():
                self.stream(exchange, list(self.dialect.write(entry, place)), 0)
            case Slow(turn, pause):
                self.stream(exchange, list(self.dialect.write(turn, place)), pause)
            case Broken(turn, count, instead):
                exchange.begin(200, Content_Type="text/event-stream")
                for event in list(self.dialect.write(turn, place))[:count]:
                    exchange.piece(event)
                if instead:
                    exchange.piece(instead)
                    exchange.end()
                    return
                # What is on its way when a connection breaks may be lost with it.
                time.sleep(0.3)
                exchange.cut()

    def stream(self, exchange: Exchange, events: list[bytes], pause: float) -> None:
        exchange.begin(200, Content_Type="text/event-stream; charset=utf-8")
        if not pause:
            # All at once, and cut anywhere: readers must not rely on the pieces.
            whole = b"".join(events)
            for at in range(0, len(whole), 4_093):
                exchange.piece(whole[at : at + 4_093])
        for event in events if pause else []:
            exchange.piece(event)
            time.sleep(pause)
        exchange.end()

    def refuse(self, exchange: Exchange, refusal: Refusal) -> None:
        error = {"type": "test_error", "message": refusal.message}
        body = json.dumps({"type": "error", "error": error}).encode()
        headers = {"Retry_After": refusal.retry_after} if refusal.retry_after else {}
        exchange.answer(refusal.status, body, Content_Type="application/json", **headers)

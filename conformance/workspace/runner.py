"""A runner that does nothing by itself: the test sees each dispatch and plays the sandbox."""

import json
import secrets
import socket
import threading
import time
from urllib.parse import parse_qs

from api import Answer, fetch, form
from caller import ENVELOPE, RAW
from host import Exchange, Host
from waiting import wait_until

DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"


class Dispatch:
    """One `POST /stream`, whose log the test writes."""

    def __init__(self, body: dict, headers: dict[str, str], kind: str) -> None:
        self.body, self.headers, self.kind = body, headers, kind
        self.run_id = "run_" + "".join(secrets.choice(DIGITS) for _ in range(24))
        self.log: list[bytes] = []
        self.changed = threading.Condition()
        self.ended = self.broken = False
        # The caller went away before the end.
        self.hung_up = threading.Event()
        self.cancelled = threading.Event()
        if kind == RAW:
            self.event("started", run_id=self.run_id, harness="builtin")

    # What a sandbox would do.

    @property
    def agent_url(self) -> str:
        return self.body["agent_url"]

    def ask(self, path: str, otp: str, method: str = "GET") -> Answer:
        return fetch(method, f"{self.agent_url}/{path}", Authorization=otp)

    def env(self) -> dict:
        return self.ask("env", self.body["otp_setup"]).expect(200).json()

    def config(self) -> dict:
        return self.ask("config", self.body["otp_run"]).expect(200).json()

    def write_back(self, *files: tuple[str, bytes], path: str = "results") -> Answer:
        body, kind = form(*files)
        otp = self.body["otp_upload"]
        return fetch("POST", f"{self.agent_url}/{path}", body, Authorization=otp, Content_Type=kind)

    # What a runner would say.

    def event(self, kind: str, **fields: object) -> None:
        """The next entry of a raw log, or the line of an envelope."""
        head = {"seq": len(self.log) + 1} if self.kind == RAW else {}
        line = head | {"ts": int(time.time() * 1000), "type": kind} | fields
        self.line(json.dumps(line).encode() + b"\n")

    def line(self, line: bytes) -> None:
        with self.changed:
            self.log.append(line)
            self.changed.notify_all()

    def say(self, text: str) -> None:
        self.event("text", message_id="said", delta=text)

    def result(self, message: str = "done") -> None:
        self.event("result", message=message)
        self.finish()

    def finish(self, broken: bool = False) -> None:
        """The end of the stream, in order or not."""
        with self.changed:
            self.ended, self.broken = True, broken
            self.changed.notify_all()

    def stream(self, exchange: Exchange, after: int) -> None:
        exchange.begin(200, Content_Type=self.kind, X_Mayfly_Run_Id=self.run_id)
        while True:
            with self.changed:
                self.changed.wait_for(lambda: len(self.log) > after or self.ended, 0.05)
                lines, over = self.log[after:], self.ended
            for line in lines:
                exchange.piece(line)
            after += len(lines)
            if over:
                exchange.cut() if self.broken else exchange.end()
                return
            if not lines and gone(exchange):
                self.hung_up.set()
                return


class Runner:
    """What is behind `SANDBOX_URL`. Whoever asks for the raw log gets `kind`."""

    def __init__(self, host: Host, kind: str = RAW) -> None:
        self.kind = kind
        self.dispatches: list[Dispatch] = []
        # Given to each dispatch as it comes; nothing leaves it to the test.
        self.plan = None
        self.lock = threading.Lock()
        self.url = host.lodge(self.handle)

    def handle(self, exchange: Exchange) -> None:
        request = exchange.request
        if request.line == "POST /stream":
            kind = self.kind if RAW in request.headers.get("accept", "") else ENVELOPE
            dispatch = Dispatch(json.loads(request.body), request.headers, kind)
            with self.lock:
                self.dispatches.append(dispatch)
            if self.plan:
                threading.Thread(target=self.plan, args=[dispatch], daemon=True).start()
            dispatch.stream(exchange, 0)
            return
        for dispatch in self.dispatches:
            if request.line == f"GET /runs/{dispatch.run_id}/stream":
                dispatch.stream(exchange, int(parse_qs(request.query).get("after", ["0"])[0]))
                return
            if request.line == f"POST /runs/{dispatch.run_id}/cancel":
                dispatch.cancelled.set()
                exchange.answer(200, b"{}", Content_Type="application/json")
                return
        exchange.answer(404, b'{"code":404,"message":"no such thing"}', Content_Type="application/json")

    def latest(self, count: int = 1) -> Dispatch:
        """The dispatch that makes it so many."""
        assert wait_until(lambda: len(self.dispatches) >= count), "nothing was dispatched"
        return self.dispatches[count - 1]

    def known(self, chat: str) -> list[Dispatch]:
        """The dispatches of a conversation."""
        return [it for it in list(self.dispatches) if it.body.get("chat_id") == chat]

    def of_chat(self, chat: str, count: int = 1) -> Dispatch:
        """The dispatch that makes it so many of a conversation."""
        assert wait_until(lambda: len(self.known(chat)) >= count), f"nothing was dispatched for {chat}"
        return self.known(chat)[count - 1]

    def release(self) -> None:
        """Lets every stream end, whatever state it is in."""
        for dispatch in self.dispatches:
            dispatch.finish(broken=True)


def gone(exchange: Exchange) -> bool:
    """Whether the other side has closed its end."""
    connection = exchange.handler.connection
    connection.settimeout(0.001)
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except TimeoutError:
        return False
    except OSError:
        return True
    finally:
        connection.settimeout(None)

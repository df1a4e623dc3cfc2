"""One HTTP server on loopback for everything that a run calls outside of its sandbox.

The first part of a path names who answers: a workspace, a model, a bystander. All of
them are threads of the test, so that a test sees each request as it came.
"""

import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

# Nobody waits longer than this for a test to let an answer go.
PATIENCE = 120


@dataclass
class Request:
    """A request as it came, whole."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes
    at: float = field(default_factory=time.monotonic)

    @property
    def line(self) -> str:
        return f"{self.method} {self.path}"


class Exchange:
    """One request and the answer to it. An answer can be given in pieces, late, or never."""

    def __init__(self, handler: "Handler", request: Request) -> None:
        self.handler, self.request = handler, request

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.handler.send_response(status)
        for name, value in headers.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.send_header("Content-Length", str(len(body)))
        self.handler.end_headers()
        self.handler.wfile.write(body)

    def begin(self, status: int, **headers: str) -> None:
        """The head of an answer whose length nobody knows."""
        self.handler.send_response(status)
        for name, value in headers.items():
            self.handler.send_header(name.replace("_", "-"), value)
        self.handler.send_header("Transfer-Encoding", "chunked")
        self.handler.end_headers()
        self.handler.wfile.flush()

    def piece(self, data: bytes) -> None:
        self.handler.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.handler.wfile.flush()

    def end(self) -> None:
        self.handler.wfile.write(b"0\r\n\r\n")
        self.handler.wfile.flush()

    def cut(self) -> None:
        """Breaks the connection off, whatever was promised."""
        self.handler.close_connection = True
        self.handler.connection.shutdown(socket.SHUT_RDWR)

    def wait(self, released: threading.Event) -> None:
        """Says nothing until the test lets go, or the other side has."""
        deadline = time.monotonic() + PATIENCE
        self.handler.connection.settimeout(0.05)
        while not released.is_set() and time.monotonic() < deadline:
            try:
                if not self.handler.connection.recv(1, socket.MSG_PEEK):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        self.handler.connection.settimeout(None)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "Host"

    def handle_any(self) -> None:
        path, _, query = self.path.partition("?")
        name, _, rest = path.lstrip("/").partition("/")
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = Request(self.command, "/" + rest, query, headers, self.read_body())
        answerer = self.server.answerers.get(name)
        exchange = Exchange(self, request)
        if answerer is None:
            self.server.strays.append(f"{self.command} {self.path}")
            exchange.answer(404, b"nobody is there")
            return
        answerer(exchange)

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = handle_any

    def read_body(self) -> bytes:
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            body = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return body
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, TimeoutError, ValueError):
            pass  # The other side went away, as runs that end do.

    def log_message(self, *_: object) -> None:
        pass


class Host(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answerers: dict[str, Callable[[Exchange], None]] = {}
        # Requests for nobody: whoever sends one knows an address that it should not.
        self.strays: list[str] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def lodge(self, answerer: Callable[[Exchange], None]) -> str:
        """Gives an answerer an address of its own."""
        name = secrets.token_hex(6)
        self.answerers[name] = answerer
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"

    def stop(self) -> None:
        self.shutdown()
        self.server_close()

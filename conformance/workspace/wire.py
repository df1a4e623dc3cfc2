"""A wire to a server that can be cut while somebody talks over it."""

import socket
import threading
from urllib.parse import urlsplit


class Wire:
    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self.behind = (place.hostname, place.port)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.open: set[socket.socket] = set()
        self.lock = threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self) -> None:
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return  # It was stopped.
            far = socket.create_connection(self.behind)
            with self.lock:
                self.open |= {near, far}
            for ends in ((near, far), (far, near)):
                threading.Thread(target=self.carry, args=ends, daemon=True).start()

    def carry(self, source: socket.socket, target: socket.socket) -> None:
        try:
            while piece := source.recv(1 << 16):
                target.sendall(piece)
        except OSError:
            pass  # It was cut.
        self.close(source, target)

    def close(self, *ends: socket.socket) -> None:
        for end in ends:
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # The other direction was faster.
            with self.lock:
                self.open.discard(end)

    def cut(self) -> None:
        """Breaks off whatever goes over it. New connections are taken again."""
        with self.lock:
            ends = list(self.open)
        self.close(*ends)

    def stop(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()

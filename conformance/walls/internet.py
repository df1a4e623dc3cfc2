"""What plays the internet in the tests: a program in a network namespace of its own.

It serves a directory by HTTP on every address it has, tells a client its address, answers every
question for a name with one address, and remembers the datagrams that came to one port.
"""

import http.server
import json
import socket
import struct
import sys
import threading

DATAGRAMS = 9
heard: list[str] = []


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files, and two answers of its own."""

    # Connections stay open, so that a test can see one being cut.
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        answers = {"/whoami": self.client_address[0], "/heard": json.dumps(heard)}
        if self.path not in answers:
            return super().do_GET()
        body = answers[self.path].encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def remember_datagrams() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("0.0.0.0", DATAGRAMS))
        while True:
            _, (source, _) = listener.recvfrom(2048)
            heard.append(source)


def answer_names(address: str, every_name_is: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind((address, 53))
        while True:
            question, asker = listener.recvfrom(512)
            # The question ends behind its name, type and class; what follows is an extension.
            end = question.index(b"\0", 12) + 5
            wants_address = question[end - 4 : end - 2] == b"\0\1"
            header = question[:2] + struct.pack(">HHHHH", 0x8180, 1, int(wants_address), 0, 0)
            record = struct.pack(">HHHIH", 0xC00C, 1, 1, 60, 4) + socket.inet_aton(every_name_is)
            answer = header + question[12:end] + (record if wants_address else b"")
            listener.sendto(answer, asker)


def main(directory: str, name_server: str, every_name_is: str) -> None:
    # The namespace is there; whoever started us lays the cable now.
    print("here", flush=True)
    sys.stdin.readline()
    handler = lambda *arguments: Handler(*arguments, directory=directory)
    server = http.server.ThreadingHTTPServer(("0.0.0.0", 80), handler)
    threading.Thread(target=remember_datagrams, daemon=True).start()
    threading.Thread(target=answer_names, args=(name_server, every_name_is), daemon=True).start()
    print("serving", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])

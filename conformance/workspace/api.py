"""A client of the workspace's API: a team's key at a server, or nobody's."""

import http.client
import json
import secrets
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from sse import Events

PATIENCE = 60


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict:
        return json.loads(self.body)

    def expect(self, *statuses: int) -> "Answer":
        assert self.status in statuses, (self.status, self.body[:1000])
        return self

    def problem(self, status: int, code: str | None = None, field: str | None = None) -> dict:
        """A refusal in the one shape that all of them have."""
        self.expect(status)
        problem = self.json()
        assert set(problem) <= {"code", "message", "field"}, problem
        assert isinstance(problem["message"], str) and problem["message"], problem
        assert isinstance(problem["code"], str) and problem["code"], problem
        assert code in (None, problem["code"]), problem
        assert field in (None, problem.get("field")), problem
        return problem


def connect(url: str) -> http.client.HTTPConnection:
    place = urlsplit(url)
    return http.client.HTTPConnection(place.hostname, place.port, timeout=PATIENCE)


def fetch(method: str, url: str, body: bytes | None = None, **headers: str) -> Answer:
    """One request on a connection of its own."""
    place = urlsplit(url)
    connection = connect(url)
    try:
        path = place.path + (f"?{place.query}" if place.query else "")
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, given)
        answer = connection.getresponse()
        names = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, names, answer.read())
    finally:
        connection.close()


def form(*files: tuple[str, bytes], part: str = "file", **fields: str) -> tuple[bytes, str]:
    """A `multipart/form-data` body and its type."""
    boundary = "boundary-" + secrets.token_hex(12)
    body = bytearray()
    for name, value in fields.items():
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n'
        body += head.encode() + value.encode() + b"\r\n"
    for name, content in files:
        escaped = name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{part}"; filename="{escaped}"\r\n'
        body += head.encode() + b"Content-Type: application/octet-stream\r\n\r\n" + content + b"\r\n"
    body += f"--{boundary}--\r\n".encode()
    return bytes(body), f"multipart/form-data; boundary={boundary}"


def unique(word: str) -> str:
    """A name that no other test uses."""
    return f"{word} {secrets.token_hex(4)}"


class Api:
    """The routes of one team."""

    def __init__(self, url: str, key: str) -> None:
        self.url, self.key = url, key

    # Anything.

    def call(self, method: str, path: str, value: object = None, **headers: str) -> Answer:
        body = None if value is None else json.dumps(value).encode()
        if body is not None:
            headers.setdefault("Content_Type", "application/json")
        return fetch(method, self.url + path, body, X_API_Key=self.key, **headers)

    def get(self, path: str) -> dict:
        return self.call("GET", path).expect(200).json()

    def make(self, path: str, **fields: object) -> dict:
        return self.call("POST", path, fields).expect(201).json()

    def every(self, path: str, limit: int = 200) -> list[dict]:
        """All pages of a list."""
        found, cursor = [], ""
        while cursor is not None:
            mark = "&" if "?" in path else "?"
            page = self.get(f"{path}{mark}limit={limit}" + (f"&cursor={quote(cursor)}" if cursor else ""))
            assert set(page) == {"items", "nextCursor"}, page
            assert len(page["items"]) <= limit
            found, cursor = found + page["items"], page["nextCursor"]
        return found

    def send(self, path: str, *files: tuple[str, bytes], part: str = "file", **fields: str) -> Answer:
        """Files as a form."""
        body, kind = form(*files, part=part, **fields)
        return fetch("POST", self.url + path, body, X_API_Key=self.key, Content_Type=kind)

    def sandboxes(self) -> list[dict]:
        return self.get("/sandboxes")

    # Conversations and their bags.

    def conversation(self, **fields: object) -> str:
        return self.make("/api/assistant/conversations", **fields)["id"]

    def messages(self, chat: str) -> list[dict]:
        return self.every(f"/api/assistant/conversations/{chat}/messages")

    def upload(self, chat: str, *files: tuple[str, bytes]) -> list[dict]:
        answer = self.send(f"/api/assistant/conversations/{chat}/files", *files)
        return answer.expect(201).json()["files"]

    def bag(self, chat: str) -> list[dict]:
        return self.every(f"/api/assistant/conversations/{chat}/files")

    def content(self, chat: str, file: str) -> bytes:
        path = f"/api/assistant/conversations/{chat}/files/{file}/content"
        return self.call("GET", path).expect(200).body

    # Turns.

    def say(self, message: str, chat: str | None = None, **more: object) -> Events:
        """A turn whose stream is the answer to the POST."""
        body = {"message": message} | ({"conversationId": chat} if chat else {}) | more
        headers = {"X-API-Key": self.key, "Content-Type": "application/json"}
        headers["Accept"] = "text/event-stream"
        return self.events("POST", "/api/assistant/chat/stream", json.dumps(body).encode(), headers)

    def start(self, message: str, chat: str | None = None, **more: object) -> dict:
        """A turn whose stream is elsewhere, as browsers start one."""
        body = {"message": message} | ({"conversationId": chat} if chat else {}) | more
        answer = self.call("POST", "/api/assistant/chat/stream", body, Accept="application/json")
        return answer.expect(202).json()

    def follow(self, stream_url: str, last: int | None = None) -> Events:
        """As `EventSource` does: no key, and the last id when it comes back."""
        place = urlsplit(stream_url)
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-cache"}
        headers |= {} if last is None else {"Last-Event-ID": str(last)}
        return self.events("GET", f"{place.path}?{place.query}", None, headers)

    def events(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> Events:
        connection = connect(self.url)
        connection.request(method, path, body, headers)
        return Events(connection, connection.getresponse())

    def turn(self, turn: str) -> dict:
        return self.get(f"/api/assistant/turns/{turn}")

    def ended(self, turn: str) -> bool:
        return self.turn(turn)["state"] != "running"

    def trace(self, turn: str) -> list[dict]:
        return self.every(f"/api/assistant/turns/{turn}/trace")

    def cancel(self, turn: str) -> Answer:
        return self.call("POST", f"/api/assistant/turns/{turn}/cancel")


def shell(*commands: str) -> str:
    """A message that the scripted provider runs, one command a round."""
    return "\n".join(f"```sh\n{command}\n```" for command in commands)


def text_of(message: dict) -> str:
    """What a message says."""
    return "".join(block["text"] for block in message["content"] if block["type"] == "text")


def steps_of(message: dict) -> list[dict]:
    return [block for block in message["content"] if block["type"] == "step"]

"""A model for the real agents: it follows a plan and remembers what it was asked.

The wire formats are those of the runs suite. What those check of a request is what our own
loop has to get right; the agents send more than that, so here only the address and the key
are checked.
"""

import json
import secrets
import threading
import time

from dialects import DIALECTS, Responses, Turn
from host import Exchange, Host
from model import Entry, Model, Refusal

# What the agents ask for beside the conversation, with no tools or one: a title for it.
TITLE = Turn("A title")
FEW_TOOLS = 2


class Spaced(Responses):
    """Responses in which a tool's name can have a space before it: `space/name`."""

    def event(self, kind: str, **fields: object) -> bytes:
        item = fields.get("item")
        if isinstance(item, dict) and "/" in item.get("name", ""):
            space, name = item["name"].split("/")
            fields["item"] = item | {"namespace": space, "name": name}
        return super().event(kind, **fields)


class Mind(Model):
    """What is behind one `base_url`. An empty plan says `done`; a plan can go on for ever."""

    def __init__(self, host: Host, provider: str, plan: list[Entry], always: Entry | None) -> None:
        super().__init__(host, provider, plan)
        if provider == "openai-responses":
            self.dialect = Spaced()
        self.always = always or Turn("done")
        # Agents keep what they heard by its id, also across runs and models.
        self.mark = secrets.token_hex(4)
        self.bodies: list[dict] = []
        self.asking = threading.Event()

    def handle(self, exchange: Exchange) -> None:
        request = exchange.request
        if request.method in ("GET", "HEAD"):
            exchange.answer(404)
            return
        if complaint := self.complaint(request.line, request.headers):
            self.complaints.append(complaint)
            self.refuse(exchange, Refusal(400, complaint))
            return
        body = json.loads(request.body)
        if len(body.get("tools", [])) < FEW_TOOLS:
            self.play(exchange, TITLE, f"{self.mark}t{secrets.token_hex(2)}")
            return
        with self.lock:
            place = len(self.bodies)
            self.bodies.append(body)
            self.times.append(time.monotonic())
            entry = self.plan[place] if place < len(self.plan) else self.always
        self.asking.set()
        if callable(entry):
            entry = entry(body)
        self.play(exchange, entry, f"{self.mark}{place}")

    def complaint(self, line: str, headers: dict[str, str]) -> str | None:
        if line != f"POST {self.dialect.path}":
            return f"there is no {line}"
        keys = {headers.get("x-api-key"), headers.get("authorization", "").removeprefix("Bearer ")}
        if keys - {None, ""} != {self.key}:
            return f"the key is {keys}"
        return None

    def heard(self, text: str, request: int = -1) -> bool:
        """Whether a request has the text in it, wherever; the last one if none is named."""
        return text in json.dumps(self.bodies[request], ensure_ascii=False)


assert set(DIALECTS) == {"anthropic", "openai", "openai-responses"}

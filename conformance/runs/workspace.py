"""A workspace as the seeds describe it, and all the ways in which one can be a bad host.

Each dispatch has a `Session`: one-time tokens, an environment, a configuration, skills, a
bag. A session writes down every request in the order in which they came. What a route
answers can be replaced by a `Trouble`.
"""

import hashlib
import hmac
import json
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import multipart
from host import Exchange, Host, Request

BAG_LIFETIME = 300


def mint() -> str:
    return "otp_" + secrets.token_urlsafe(32)


@dataclass
class Otp:
    """Only its hash is kept, as the seed wants it; redeemed at most once."""

    digest: bytes
    used: bool = False

    @classmethod
    def of(cls, token: str) -> "Otp":
        return cls(hashlib.sha256(token.encode()).digest())


@dataclass
class Stored:
    """A file that was written back."""

    name: str
    media_type: str
    content: bytes
    sha256: str


Trouble = Callable[[Exchange], None]


def status(code: int, reason: str = "") -> Trouble:
    """An answer that is no success."""
    body = json.dumps({"code": reason or "no", "message": "this is why"}).encode()
    return lambda exchange: exchange.answer(code, body, Content_Type="application/json")


def garbage(exchange: Exchange) -> None:
    exchange.answer(200, b'{"variables": {"A": ', Content_Type="application/json")


def redirect(to: str) -> Trouble:
    return lambda exchange: exchange.answer(302, b"", Location=to)


def endless(exchange: Exchange) -> None:
    """A body without an end. Stops when the other side hangs up."""
    exchange.begin(200, Content_Type="application/json")
    exchange.piece(b'{"variables": {"A": "')
    # Two GiB at the most: more than anybody may want, and less than for ever.
    for _ in range(32_768):
        exchange.piece(b"x" * 65_536)


def cut(exchange: Exchange) -> None:
    exchange.begin(200, Content_Type="application/json")
    exchange.piece(b'{"variables": {}')
    exchange.cut()


def slow(seconds: float, then: Trouble) -> Trouble:
    def answer(exchange: Exchange) -> None:
        time.sleep(seconds)
        then(exchange)

    return answer


@dataclass
class Session:
    """What one dispatch finds at its `agent_url`."""

    host: Host
    config: dict
    env: dict
    skills: dict[tuple[str, str], bytes] = field(default_factory=dict)
    bag: bytes | None = None
    with_upload: bool = True
    chat_id: str | None = None
    troubles: dict[str, Trouble] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.id = secrets.token_hex(8)
        self.url = self.host.lodge(self.handle)
        self.agent_url = f"{self.url}/api/assistant/sandbox/{self.id}"
        self.tokens = {kind: mint() for kind in ("setup", "run", "upload")}
        self.otps = {kind: Otp.of(token) for kind, token in self.tokens.items()}
        self.bearer = "asbx_" + secrets.token_urlsafe(24)
        self.bag_key = secrets.token_bytes(32)
        self.requests: list[Request] = []
        self.stored: list[Stored] = []
        self.complaints: list[str] = []
        self.lock = threading.Lock()
        self.released = threading.Event()
        prefix = f"/api/assistant/sandbox/{self.id}"
        self.routes = {
            f"GET {prefix}/env": self.give_env,
            f"GET {prefix}/config": self.give_config,
            f"POST {prefix}/results": self.take_results,
            "GET /bag.zip": self.give_bag,
        }
        self.names = {
            f"GET {prefix}/env": "env",
            f"GET {prefix}/config": "config",
            f"POST {prefix}/results": "results",
            "GET /bag.zip": "bag",
        }

    def body(self, prompt: str = "Do it.", **more: object) -> dict:
        """The body of the dispatch."""
        body = {"agent_url": self.agent_url, "prompt": prompt}
        body["otp_setup"], body["otp_run"] = self.tokens["setup"], self.tokens["run"]
        if self.with_upload:
            body["otp_upload"] = self.tokens["upload"]
        if self.chat_id:
            body["chat_id"] = self.chat_id
        return body | more

    def order(self) -> list[str]:
        """Who was asked, in order: env, config, skill, bag, results, workspace."""
        return [self.name_of(request) for request in self.requests]

    def name_of(self, request: Request) -> str:
        if "/skills/" in request.path:
            return "skill"
        if request.path.startswith("/v1/"):
            return "workspace"
        return self.names.get(request.line, request.line)

    def asked(self, name: str) -> list[Request]:
        return [request for request in self.requests if self.name_of(request) == name]

    def never(self, exchange: Exchange) -> None:
        """A trouble: no answer at all until the test is over."""
        exchange.wait(self.released)

    def drip(self, exchange: Exchange) -> None:
        """A trouble: a byte now and then, which is never silence and never an answer."""
        exchange.begin(200, Content_Type="application/json")
        while not self.released.wait(0.5):
            exchange.piece(b" ")

    def handle(self, exchange: Exchange) -> None:
        request = exchange.request
        with self.lock:
            self.requests.append(request)
        name = self.name_of(request)
        if trouble := self.troubles.get(name):
            trouble(exchange)
        elif name == "skill":
            self.give_skill(exchange)
        elif name == "workspace":
            self.serve_api(exchange)
        elif route := self.routes.get(request.line):
            route(exchange)
        else:
            self.complaints.append(f"asked for {request.line}")
            exchange.answer(404)

    def redeem(self, exchange: Exchange, kind: str) -> bool:
        """Checks the token; refuses by the seed's rules."""
        given = exchange.request.headers.get("authorization", "")
        digest = hashlib.sha256(given.removeprefix("Bearer ").encode()).digest()
        otp = self.otps[kind]
        with self.lock:
            known = hmac.compare_digest(digest, otp.digest)
            first, otp.used = known and not otp.used, otp.used or known
        if first:
            return True
        reason = "otp_used" if known else "otp_unknown"
        self.complaints.append(f"{kind}: {reason}")
        status(401, reason)(exchange)
        return False

    def give_env(self, exchange: Exchange) -> None:
        if self.redeem(exchange, "setup"):
            self.give_json(exchange, self.env)

    def give_config(self, exchange: Exchange) -> None:
        if self.redeem(exchange, "run"):
            self.give_json(exchange, self.whole_config())

    def whole_config(self) -> dict:
        config = {
            "session_id": self.id,
            "system_prompt": "You are tested.",
            "messages": [],
            "workspace": {"url": f"{self.url}/v1", "bearer": self.bearer},
        }
        if self.bag is not None:
            config["assets"] = {"url": self.bag_url(), "files": []}
        if self.skills:
            config["skills"] = [
                # Relative addresses: the workspace's usual place.
                {"id": id, "name": id, "version": version, "url": f"/skills/{id}/{version}"}
                for id, version in self.skills
            ]
        return config | self.config

    def bag_url(self, lifetime: int = BAG_LIFETIME) -> str:
        expiry = int(time.time()) + lifetime
        return f"{self.url}/bag.zip?exp={expiry}&sig={self.bag_signature(expiry)}"

    def bag_signature(self, expiry: int) -> str:
        return hmac.new(self.bag_key, f"bag:{expiry}".encode(), "sha256").hexdigest()

    def give_bag(self, exchange: Exchange) -> None:
        query = dict(pair.split("=", 1) for pair in exchange.request.query.split("&"))
        expiry = int(query.get("exp", 0))
        if query.get("sig") != self.bag_signature(expiry) or expiry < time.time():
            self.complaints.append(f"the bag's address {exchange.request.query!r} is not signed")
            exchange.answer(403)
            return
        exchange.answer(200, self.bag, Content_Type="application/zip")

    def give_skill(self, exchange: Exchange) -> None:
        id, version = exchange.request.path.split("/")[-2:]
        content = self.skills.get((id, version))
        if content is None:
            exchange.answer(404)
            return
        exchange.answer(200, content, Content_Type="application/zip")

    def serve_api(self, exchange: Exchange) -> None:
        """The workspace's own API, for skills that call back."""
        if exchange.request.headers.get("authorization") != f"Bearer {self.bearer}":
            exchange.answer(401)
            return
        request = exchange.request
        told = {"method": request.method, "path": request.path, "body": request.body.decode()}
        self.give_json(exchange, told)

    def take_results(self, exchange: Exchange) -> None:
        if not self.redeem(exchange, "upload"):
            return
        request = exchange.request
        try:
            parts = multipart.parse(request.headers.get("content-type", ""), request.body)
        except multipart.Malformed as malformed:
            self.complaints.append(f"results: {malformed}")
            status(400, "malformed")(exchange)
            return
        for name, file, media_type, content in parts:
            if name != "file":
                self.complaints.append(f"results: a part is called {name!r}")
            digest = hashlib.sha256(content).hexdigest()
            self.stored.append(Stored(file, media_type, content, digest))
        files = [self.row(stored) for stored in self.stored]
        self.give_json(exchange, {"files": files})

    def row(self, stored: Stored) -> dict:
        return {
            "id": "file_" + stored.sha256[:8],
            "name": stored.name,
            "mimeType": stored.media_type,
            "size": len(stored.content),
            "sha256": stored.sha256,
            "storageKey": f"assistant-chat-bag/w/{self.id}/{stored.name}",
        }

    def give_json(self, exchange: Exchange, value: object) -> None:
        exchange.answer(200, json.dumps(value).encode(), Content_Type="application/json")

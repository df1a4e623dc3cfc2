"""A real browser without a screen, driven through the pipe that it offers for that.

A page of the test is given to it under an address of the server: requests for that
address are answered here, all others go where they go. So the page has the server's own
origin, and talks to it with nothing in between.
"""

import base64
import itertools
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading

from waiting import wait_until

FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run
--disable-background-networking --disable-component-update --disable-sync
--remote-debugging-pipe"""


class Browser:
    @staticmethod
    def missing() -> str | None:
        """Why there can be none here."""
        return None if shutil.which("chromium") else "Chromium is not installed"

    def __init__(self) -> None:
        self.profile = tempfile.mkdtemp(prefix="browser-", dir="/tmp")
        ours, theirs = os.pipe(), os.pipe()
        command = ["chromium", *FLAGS.split(), f"--user-data-dir={self.profile}", "about:blank"]
        # It reads commands on descriptor 3 and answers on 4.
        wired = f'exec "$@" 3<&{ours[0]} 4>&{theirs[1]}'
        self.process = subprocess.Popen(
            ["bash", "-c", wired, "bash", *command],
            pass_fds=(ours[0], theirs[1]),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # Its helpers write below its home, too.
            env={"PATH": os.environ["PATH"], "HOME": self.profile},
        )
        os.close(ours[0])
        os.close(theirs[1])
        self.commands, self.answers = ours[1], os.fdopen(theirs[0], "rb")
        self.numbers = itertools.count(1)
        self.waiting: dict[int, queue.Queue] = {}
        # Pages of the test, by address.
        self.pages: dict[str, str] = {}
        self.session: str | None = None
        threading.Thread(target=self.read, daemon=True).start()
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.send("Page.enable")
        self.send("Fetch.enable", patterns=[{"urlPattern": "*/page-of-the-test*"}])

    def read(self) -> None:
        """Hands answers to those who wait, and pages to the browser."""
        rest = b""
        while piece := self.answers.raw.read(1 << 16):
            *messages, rest = (rest + piece).split(b"\0")
            for message in map(json.loads, messages):
                if waiting := self.waiting.pop(message.get("id"), None):
                    waiting.put(message)
                elif message.get("method") == "Fetch.requestPaused":
                    self.fulfil(message["params"])

    def fulfil(self, paused: dict) -> None:
        page = self.pages[paused["request"]["url"].partition("#")[0]]
        headers = [{"name": "Content-Type", "value": "text/html; charset=utf-8"}]
        body = base64.b64encode(page.encode()).decode()
        fields = {"requestId": paused["requestId"], "responseCode": 200}
        self.post("Fetch.fulfillRequest", **fields, responseHeaders=headers, body=body)

    def post(self, method: str, **fields: object) -> queue.Queue:
        """A command; its answer comes into the queue."""
        number = next(self.numbers)
        waiting = self.waiting[number] = queue.Queue()
        message = {"id": number, "method": method, "params": fields}
        message |= {"sessionId": self.session} if self.session else {}
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        return waiting

    def send(self, method: str, **fields: object) -> dict:
        """A command and its answer."""
        answer = self.post(method, **fields).get(timeout=20)
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def open(self, origin: str, page: str) -> None:
        """Shows a page of the test as if the server had it."""
        address = f"{origin}/page-of-the-test"
        self.pages[address] = page
        self.send("Page.navigate", url=address)

    def reload(self) -> None:
        """As F5 does. What the page knew is forgotten."""
        self.run("window.beforeReload = true")
        self.send("Page.reload")
        assert wait_until(lambda: self.run("window.beforeReload === undefined"))

    def run(self, script: str) -> object:
        """The value of an expression on the page."""
        fields = {"expression": script, "returnByValue": True, "awaitPromise": True}
        answer = self.send("Runtime.evaluate", **fields)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def stop(self) -> None:
        self.session = None
        self.post("Browser.close")
        try:
            self.process.wait(timeout=10)
        finally:
            self.process.kill()
            self.process.wait()
            os.close(self.commands)
            self.answers.close()
            shutil.rmtree(self.profile, ignore_errors=True)

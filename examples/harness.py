"""Puts a coding agent into a sandbox, watches what it does, and asks it something afterwards.

    mayfly template add-harness claude-code
    export MAYFLY_URL=http://127.0.0.1:3000 MAYFLY_API_KEY=e2b_...
    export MODEL_API_KEY=sk-...         # stays on the server; no sandbox ever has it
    python harness.py claude-code anthropic claude-sonnet-4-5 'Write a haiku to haiku.txt'

Needs nothing but Python. MODEL_BASE_URL names a model server that is not the provider's own.

Expected output, with a model that does as it is told:
    [session 6f1c…]
    I write it.
    -> Bash {"command": "…"}
    <- Bash …
    [create haiku.txt]
    Done.
    [diff] 3 lines added, 0 removed
    --- again, in a fresh sandbox ---
    [session 6f1c…]
    I wrote a haiku.
"""

import json
import os
import sys
import urllib.request
from collections.abc import Iterator


def events(body: dict) -> Iterator[dict]:
    """Dispatches a run and yields its AG-UI events as they come."""
    request = urllib.request.Request(
        os.environ.get("MAYFLY_URL", "http://127.0.0.1:3000") + "/stream",
        data=json.dumps(body).encode(),
        headers={
            "X-API-Key": os.environ["MAYFLY_API_KEY"],
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
        },
    )
    with urllib.request.urlopen(request) as answer:
        for line in answer:
            if line.startswith(b"data:"):
                yield json.loads(line.removeprefix(b"data:"))


class Screen:
    """Prints events. Text comes in pieces, and other things may happen between them."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.within_line = False

    def piece(self, text: str) -> None:
        print(text, end="", flush=True)
        self.within_line = not text.endswith("\n")

    def line(self, text: str) -> None:
        print(("\n" if self.within_line else "") + text, flush=True)
        self.within_line = False

    def show(self, event: dict) -> None:
        match event:
            case {"type": "TEXT_MESSAGE_CONTENT", "delta": delta}:
                self.piece(delta)
            case {"type": "TEXT_MESSAGE_END"} if self.within_line:
                self.piece("\n")
            case {"type": "TOOL_CALL_START", "toolCallId": call, "toolCallName": name}:
                self.names[call] = name
            case {"type": "TOOL_CALL_ARGS", "toolCallId": call, "delta": args}:
                self.line(f"-> {self.names[call]} {args}")
            case {"type": "TOOL_CALL_RESULT", "toolCallId": call, "content": content}:
                self.line(f"<- {self.names[call]} {content}")
            case {"type": "CUSTOM", "name": "sandbox.file", "value": file}:
                self.line(f"[{file['type']} {file['path']}]")
            case {"type": "CUSTOM", "name": "file.changed", "value": {"diff": diff}}:
                lines = diff.splitlines()
                added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
                removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
                self.line(f"[diff] {added} lines added, {removed} removed")
            case {"type": "RUN_ERROR", "message": message}:
                sys.exit(f"failed: {message}")


def run(body: dict) -> str:
    """Shows a whole run; returns the session in which the agent can go on."""
    session, screen = "", Screen()
    for event in events(body):
        if event["type"] == "CUSTOM" and event["name"] == f"{body['harness']}.session-id":
            session = event["value"]["sessionId"]
            screen.line(f"[session {session}]")
        screen.show(event)
    return session


def main() -> None:
    harness, provider, model, prompt = sys.argv[1:]
    config = {"provider": provider, "name": model, "api_key": os.environ["MODEL_API_KEY"]}
    if "MODEL_BASE_URL" in os.environ:
        config["base_url"] = os.environ["MODEL_BASE_URL"]
    body = {"harness": harness, "prompt": prompt, "config": {"model": config}}
    session = run(body)
    print("--- again, in a fresh sandbox ---")
    run(body | {"prompt": "What did you do?", "modelOptions": {"sessionId": session}})


if __name__ == "__main__":
    main()

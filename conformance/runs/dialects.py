"""Three wire formats of models: how an answer streams, and what a request has to look like.

Shapes are those of the public API references of the providers. A request that the real
server would answer with 400 is a `Refused` here too.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field


class Refused(Exception):
    """What the real server would say no to."""


@dataclass
class Turn:
    """What the model says: thoughts, text, calls."""

    text: str = ""
    calls: list[tuple[str, dict]] = field(default_factory=list)
    reasoning: str = ""
    tokens: tuple[int, int] = (11, 7)
    # Arguments as the model wrote them, in place of those of `calls`.
    spoiled: str | None = None


@dataclass
class Asked:
    """A request, in words that all dialects share."""

    system: str
    # Role and text of everything before this answer.
    said: list[tuple[str, str]]
    # Tool results by the id of their call.
    results: dict[str, str]
    tools: dict[str, dict]
    key: str
    body: dict


def need(condition: object, complaint: str) -> None:
    if not condition:
        raise Refused(complaint)


def pieces(text: str) -> list[str]:
    """A text in pieces that end anywhere, as tokens do; those of a huge one are larger."""
    size = max(7, len(text) // 20_000)
    return [text[at : at + size] for at in range(0, len(text), size)]


def event(value: dict, name: str | None = None) -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value)}\n\n".encode()


class Anthropic:
    provider = "anthropic"
    path = "/v1/messages"

    def read(self, headers: dict[str, str], body: dict) -> Asked:
        need(headers.get("anthropic-version") == "2023-06-01", "anthropic-version is missing")
        need("authorization" not in headers, "two kinds of authentication")
        need(type(body.get("max_tokens")) is int and body["max_tokens"] > 0, "max_tokens")
        need(body.get("stream") is True and body.get("model"), "stream and model")
        tools = {}
        for tool in body.get("tools", []):
            need(tool["input_schema"]["type"] == "object", f"schema of {tool['name']}")
            tools[tool["name"]] = tool["input_schema"]
        said, results, waiting = [], {}, set()
        for place, message in enumerate(body["messages"]):
            need(message["role"] == ("user", "assistant")[place % 2], "roles take turns")
            blocks = message["content"]
            if isinstance(blocks, str):
                blocks = [{"type": "text", "text": blocks}]
            need(blocks, "a message is empty")
            answered = {b["tool_use_id"] for b in blocks if b["type"] == "tool_result"}
            need(answered == waiting, f"calls {waiting} and results {answered}")
            waiting = set()
            for block in blocks:
                if block["type"] == "text":
                    need(block["text"].strip(), "a text is empty")
                    said.append((message["role"], block["text"]))
                elif block["type"] == "tool_use":
                    need(isinstance(block["input"], dict), "input of a call")
                    waiting.add(block["id"])
                elif block["type"] == "tool_result":
                    results[block["tool_use_id"]] = text_of(block["content"])
                elif block["type"] == "thinking":
                    need(block.get("signature") == "signed", "thinking without its signature")
        need(not waiting and body["messages"][-1]["role"] == "user", "the user speaks last")
        system = text_of(body.get("system", ""))
        return Asked(system, said, results, tools, headers.get("x-api-key", ""), body)

    def write(self, turn: Turn, place: int) -> Iterator[bytes]:
        usage = {"input_tokens": turn.tokens[0], "output_tokens": 1}
        message = {"id": f"msg_{place}", "type": "message", "role": "assistant", "content": []}
        message |= {"model": "claude-test", "stop_reason": None, "stop_sequence": None}
        yield named({"type": "message_start", "message": message | {"usage": usage}})
        yield named({"type": "ping"})
        index = 0
        if turn.reasoning:
            start = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": p} for p in pieces(turn.reasoning)]
            deltas.append({"type": "signature_delta", "signature": "signed"})
            yield from self.block(index, start, deltas)
            index += 1
        if turn.text:
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(turn.text)]
            yield from self.block(index, {"type": "text", "text": ""}, deltas)
            index += 1
        for number, (name, args) in enumerate(turn.calls):
            start = {"type": "tool_use", "id": f"toolu_{place}_{number}", "name": name, "input": {}}
            written = json.dumps(args) if turn.spoiled is None else turn.spoiled
            deltas = [{"type": "input_json_delta", "partial_json": p} for p in ["", *pieces(written)]]
            yield from self.block(index, start, deltas)
            index += 1
        reason = "tool_use" if turn.calls else "end_turn"
        delta = {"stop_reason": reason, "stop_sequence": None}
        usage = {"output_tokens": turn.tokens[1]}
        yield named({"type": "message_delta", "delta": delta, "usage": usage})
        yield named({"type": "message_stop"})

    def block(self, index: int, start: dict, deltas: list[dict]) -> Iterator[bytes]:
        yield named({"type": "content_block_start", "index": index, "content_block": start})
        for delta in deltas:
            yield named({"type": "content_block_delta", "index": index, "delta": delta})
        yield named({"type": "content_block_stop", "index": index})


class Chat:
    provider = "openai"
    path = "/chat/completions"

    def read(self, headers: dict[str, str], body: dict) -> Asked:
        need(body.get("stream") is True and body.get("model"), "stream and model")
        tools = {}
        for tool in body.get("tools", []):
            need(tool["type"] == "function", "type of a tool")
            tools[tool["function"]["name"]] = tool["function"]["parameters"]
        said, results, waiting, system = [], {}, [], ""
        for message in body["messages"]:
            role = message["role"]
            need(role == "tool" or not waiting, f"calls without results: {waiting}")
            if role == "system":
                system += message["content"]
            elif role == "tool":
                need(message["tool_call_id"] in waiting, "a result without its call")
                waiting.remove(message["tool_call_id"])
                results[message["tool_call_id"]] = text_of(message["content"])
            else:
                if message.get("content"):
                    said.append((role, text_of(message["content"])))
                for call in message.get("tool_calls", []):
                    need(call["type"] == "function", "type of a call")
                    need(isinstance(call["function"]["arguments"], str), "arguments are a text")
                    waiting.append(call["id"])
        need(not waiting, f"calls without results: {waiting}")
        key = headers.get("authorization", "").removeprefix("Bearer ")
        return Asked(system, said, results, tools, key, body)

    def write(self, turn: Turn, place: int) -> Iterator[bytes]:
        yield self.chunk(place, {"role": "assistant", "content": ""})
        for piece in pieces(turn.reasoning):
            yield self.chunk(place, {"reasoning_content": piece})
        for piece in pieces(turn.text):
            yield self.chunk(place, {"content": piece})
        for number, (name, args) in enumerate(turn.calls):
            call = {"index": number, "id": f"call_{place}_{number}", "type": "function"}
            call["function"] = {"name": name, "arguments": ""}
            yield self.chunk(place, {"tool_calls": [call]})
            written = json.dumps(args) if turn.spoiled is None else turn.spoiled
            for piece in pieces(written):
                more = {"index": number, "function": {"arguments": piece}}
                yield self.chunk(place, {"tool_calls": [more]})
        yield self.chunk(place, {}, "tool_calls" if turn.calls else "stop")
        prompt, completion = turn.tokens
        usage = {"prompt_tokens": prompt, "completion_tokens": completion}
        usage["total_tokens"] = prompt + completion
        whole = {"id": f"chatcmpl-{place}", "object": "chat.completion.chunk", "created": 1}
        yield event(whole | {"model": "gpt-test", "choices": [], "usage": usage})
        yield b"data: [DONE]\n\n"

    def chunk(self, place: int, delta: dict, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        whole = {"id": f"chatcmpl-{place}", "object": "chat.completion.chunk", "created": 1}
        return event(whole | {"model": "gpt-test", "choices": [choice], "usage": None})


class Responses:
    provider = "openai-responses"
    path = "/responses"

    def read(self, headers: dict[str, str], body: dict) -> Asked:
        need(body.get("stream") is True and body.get("model"), "stream and model")
        tools = {}
        for tool in body.get("tools", []):
            need(tool["type"] == "function", "type of a tool")
            tools[tool["name"]] = tool["parameters"]
        said, results, waiting = [], {}, []
        for item in body["input"]:
            kind = item.get("type", "message")
            if kind == "message":
                part = "output_text" if item["role"] == "assistant" else "input_text"
                content = item["content"]
                if isinstance(content, list):
                    need(all(c["type"] == part for c in content), f"parts of a {item['role']}")
                    content = "".join(c["text"] for c in content)
                said.append((item["role"], content))
            elif kind == "function_call":
                need(isinstance(item["arguments"], str) and item["name"], "a call")
                waiting.append(item["call_id"])
            elif kind == "function_call_output":
                need(item["call_id"] in waiting, "an output without its call")
                waiting.remove(item["call_id"])
                results[item["call_id"]] = text_of(item["output"])
            else:
                need(kind == "reasoning", f"an item of type {kind}")
        need(not waiting, f"calls without outputs: {waiting}")
        key = headers.get("authorization", "").removeprefix("Bearer ")
        return Asked(body.get("instructions", ""), said, results, tools, key, body)

    def write(self, turn: Turn, place: int) -> Iterator[bytes]:
        self.sequence = 0
        response = {"id": f"resp_{place}", "object": "response", "status": "in_progress"}
        response |= {"output": [], "model": "gpt-test", "created_at": 1}
        yield self.event("response.created", response=response)
        yield self.event("response.in_progress", response=response)
        output = []
        if turn.reasoning:
            item = {"id": f"rs_{place}", "type": "reasoning", "summary": []}
            yield self.event("response.output_item.added", output_index=0, item=item)
            where = {"item_id": item["id"], "output_index": 0, "summary_index": 0}
            part = {"type": "summary_text", "text": ""}
            yield self.event("response.reasoning_summary_part.added", **where, part=part)
            for piece in pieces(turn.reasoning):
                yield self.event("response.reasoning_summary_text.delta", **where, delta=piece)
            yield self.event("response.reasoning_summary_text.done", **where, text=turn.reasoning)
            part = {"type": "summary_text", "text": turn.reasoning}
            done = item | {"summary": [part], "encrypted_content": "sealed"}
            yield self.event("response.output_item.done", output_index=0, item=done)
            output.append(done)
        if turn.text:
            index = len(output)
            item = {"id": f"msg_{place}", "type": "message", "role": "assistant"}
            item |= {"status": "in_progress", "content": []}
            yield self.event("response.output_item.added", output_index=index, item=item)
            where = {"item_id": item["id"], "output_index": index, "content_index": 0}
            part = {"type": "output_text", "text": "", "annotations": []}
            yield self.event("response.content_part.added", **where, part=part)
            for piece in pieces(turn.text):
                yield self.event("response.output_text.delta", **where, delta=piece)
            yield self.event("response.output_text.done", **where, text=turn.text)
            part |= {"text": turn.text}
            yield self.event("response.content_part.done", **where, part=part)
            done = item | {"status": "completed", "content": [part]}
            yield self.event("response.output_item.done", output_index=index, item=done)
            output.append(done)
        for number, (name, args) in enumerate(turn.calls):
            index = len(output)
            item = {"id": f"fc_{place}_{number}", "type": "function_call", "name": name}
            item |= {"call_id": f"call_{place}_{number}", "status": "in_progress", "arguments": ""}
            yield self.event("response.output_item.added", output_index=index, item=item)
            where = {"item_id": item["id"], "output_index": index}
            written = json.dumps(args) if turn.spoiled is None else turn.spoiled
            for piece in pieces(written):
                yield self.event("response.function_call_arguments.delta", **where, delta=piece)
            yield self.event("response.function_call_arguments.done", **where, arguments=written)
            done = item | {"status": "completed", "arguments": written}
            yield self.event("response.output_item.done", output_index=index, item=done)
            output.append(done)
        usage = {"input_tokens": turn.tokens[0], "output_tokens": turn.tokens[1]}
        usage["total_tokens"] = sum(turn.tokens)
        usage["input_tokens_details"] = {"cached_tokens": 0}
        usage["output_tokens_details"] = {"reasoning_tokens": 0}
        response |= {"status": "completed", "output": output, "usage": usage}
        yield self.event("response.completed", response=response)

    def event(self, kind: str, **fields: object) -> bytes:
        self.sequence += 1
        return event({"type": kind, "sequence_number": self.sequence, **fields}, kind)


DIALECTS = {dialect.provider: dialect for dialect in (Anthropic, Chat, Responses)}


def named(value: dict) -> bytes:
    return event(value, value["type"])


def text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    return "".join(part["text"] for part in content)

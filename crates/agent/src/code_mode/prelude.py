"""Runs one program that came from the agent.

Descriptor 3 is where the agent speaks, descriptor 4 where we do: one JSON object a line.
Everything else that the program prints goes to the standard outputs.
"""

import ast
import asyncio
import io
import json
import os
import queue
import sys
import threading
import types

os.set_inheritable(3, False)
os.set_inheritable(4, False)
_input = os.fdopen(3, "rb")
_lock = threading.RLock()
_waiting = {}


def _send(line):
    data = memoryview((line + "\n").encode("utf-8", "backslashreplace"))
    with _lock:
        while data:
            data = data[os.write(4, data) :]


def _say(**message):
    _send(json.dumps(message))


class _Console(io.TextIOBase):
    """An output whose lines are told as they come."""

    encoding = "utf-8"

    def __init__(self, level):
        self.level = level
        self.rest = ""

    def writable(self):
        return True

    def write(self, text):
        with _lock:
            *lines, self.rest = (self.rest + text).split("\n")
            # Lines that come at once are one message.
            if lines:
                _say(type="console", level=self.level, message="\n".join(lines))
            if len(self.rest) > 1 << 16:
                self.finish()
        return len(text)

    def finish(self):
        with _lock:
            rest, self.rest = self.rest, ""
            if rest:
                _say(type="console", level=self.level, message=rest)


class ExternalError(Exception):
    """A tool that did not do what it was asked."""


def _external(name):
    def function(args=None, /, **more):
        arguments = dict(args or {}, **more)
        answer = queue.SimpleQueue()
        with _lock:
            number = len(_waiting) + 1
            _waiting[number] = answer
            _say(type="call", id=number, function=name, args=arguments)
        message = answer.get()
        if "error" in message:
            raise ExternalError(message["error"])
        return message.get("result")

    function.__name__ = name
    return function


def _listen():
    for line in _input:
        message = json.loads(line)
        _waiting[message["id"]].put(message)


def _failed(error, **more):
    line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<program>":
            line = trace.tb_lineno
        trace = trace.tb_next
    message = str(error)
    if isinstance(error, SyntaxError):
        message = f"{error.msg} (line {error.lineno}, column {error.offset})"
    _say(type="failed", name=type(error).__name__, message=message, line=line, **more)


class _Awaits(ast.NodeVisitor):
    """Whether the program itself awaits anything, and not only a function in it."""

    def __init__(self):
        self.found = False

    def generic_visit(self, node):
        inner = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
        if isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)):
            self.found = True
        if isinstance(node, ast.comprehension) and node.is_async:
            self.found = True
        if not isinstance(node, inner):
            super().generic_visit(node)


def _compiled(code):
    """The program as a function, so that it may return. Lines stay what they are."""
    tree = ast.parse(code, "<program>")
    awaits = _Awaits()
    awaits.visit(tree)
    wrapped = ast.parse(("async " if awaits.found else "") + "def program(): pass", "<program>")
    if tree.body:
        wrapped.body[0].body = tree.body
    return compile(wrapped, "<program>", "exec"), awaits.found


def _plain(value):
    for name in ("tolist", "isoformat"):
        if hasattr(value, name):
            return getattr(value, name)()
    if isinstance(value, (set, frozenset)):
        return list(value)
    raise TypeError(f"a value of type {type(value).__name__} is in it")


def _bound_memory(limit):
    try:
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    except (ImportError, OSError, ValueError):
        pass


def _run(given):
    try:
        compiled, is_async = _compiled(given["code"])
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return _failed(error, phase="transpile")
    module = types.ModuleType("__main__")
    module.ExternalError = ExternalError
    for name in given["functions"]:
        setattr(module, name, _external(name))
    sys.modules["__main__"] = module
    # What lies in the working directory can be imported.
    sys.path.insert(0, os.getcwd())
    threading.Thread(target=_listen, daemon=True).start()
    _bound_memory(given["memory"])
    try:
        exec(compiled, module.__dict__)
        value = module.program()
        value = asyncio.run(value) if is_async else value
    except SystemExit as error:
        if error.code not in (None, 0):
            return _failed(error)
        value = None
    except BaseException as error:
        return _failed(error)
    finally:
        sys.stdout.finish()
        sys.stderr.finish()
    try:
        result = json.dumps(value, default=_plain, allow_nan=False)
    except (TypeError, ValueError, RecursionError, MemoryError) as error:
        return _failed(TypeError(f"the result is not JSON: {error}"))
    if len(result) > given["limit"]:
        return _failed(ValueError(f"the result is larger than {given['limit']} bytes"))
    _send('{"type":"done"}' if value is None else '{"type":"done","result":%s}' % result)


_say(type="ready")
_given = json.loads(_input.readline())
sys.stdout, sys.stderr = _Console("log"), _Console("error")
_run(_given)

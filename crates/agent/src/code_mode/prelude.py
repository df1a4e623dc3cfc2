"""Runs one program that came from the agent.

Descriptor 3 is where the agent speaks, descriptor 4 where we do: one JSON object a line.
Everything else that the program prints goes to the standard outputs.
"""

import sys

# A file of the working directory may be named like a module that is needed here. So
# all of them are imported before that directory, which is named by nothing, is a place
# to look for modules.
sys.path[:] = [place for place in sys.path if place]

import ast
import asyncio
import codecs
import io
import json
import os
import queue
import threading
import types

try:
    import resource
except ImportError:
    resource = None

# Longest text of a message; the agent keeps less of it.
_MOST = 1 << 16

os.set_inheritable(3, False)
os.set_inheritable(4, False)
_input = os.fdopen(3, "rb")
_lock = threading.RLock()
_waiting = {}
_is_child = False


def _write(number, data):
    data = memoryview(data)
    with _lock:
        while data:
            data = data[os.write(number, data) :]


def _json(value, **more):
    """A value as bytes. Half a character, which no JSON holds, is replaced."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, **more)
    return text.encode("utf-8", "replace")


def _send(line):
    # The program is one process. What it forks off has nothing to tell the agent.
    if not _is_child:
        _write(4, line + b"\n")


def _say(**message):
    _send(_json(message))


class _Console(io.TextIOBase):
    """An output whose lines are told as they come."""

    encoding = "utf-8"
    errors = "replace"

    def __init__(self, level, number):
        self.level = level
        self.number = number
        self.rest = ""
        self.buffer = _Bytes(self)

    def writable(self):
        return True

    def fileno(self):
        return self.number

    def write(self, text):
        with _lock:
            *lines, self.rest = (self.rest + text).split("\n")
            # Lines that come at once are one message.
            if lines:
                self.tell("\n".join(lines))
            if len(self.rest) > _MOST:
                self.finish()
        return len(text)

    def flush(self):
        # A process that was forked off may end without a further word.
        if _is_child:
            self.finish()

    def finish(self):
        with _lock:
            rest, self.rest = self.rest, ""
            if rest:
                self.tell(rest)

    def tell(self, text):
        if _is_child:
            _write(self.number, (text + "\n").encode("utf-8", "replace"))
        else:
            _say(type="console", level=self.level, message=text[:_MOST])


class _Bytes(io.BufferedIOBase):
    """A console for those who write bytes."""

    def __init__(self, console):
        self.console = console
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def writable(self):
        return True

    def fileno(self):
        return self.console.number

    def write(self, data):
        data = bytes(data)
        self.console.write(self.decoder.decode(data))
        return len(data)

    def flush(self):
        self.console.flush()


_consoles = _Console("log", 1), _Console("error", 2)


def _finish():
    """Tells what has no end of a line yet: nothing is heard after the last message."""
    for console in _consoles:
        console.finish()


def _forked():
    """Makes a process that was forked off print as any other process does."""
    global _lock, _is_child
    # Whoever held it is not in this process.
    _lock = threading.RLock()
    _is_child = True
    for console in _consoles:
        console.rest = ""


class ExternalError(Exception):
    """A tool that did not do what it was asked."""


def _external(name):
    def function(args=None, /, **more):
        if _is_child:
            raise ExternalError(f"{name} can be called in the program's first process only")
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
    _finish()
    line = getattr(error, "lineno", None) if isinstance(error, SyntaxError) else None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<program>":
            line = trace.tb_lineno
        trace = trace.tb_next
    message = str(error)
    if isinstance(error, SyntaxError):
        message = f"{error.msg} (line {error.lineno}, column {error.offset})"
    name = type(error).__name__
    _say(type="failed", name=name[:_MOST], message=message[:_MOST], line=line, **more)


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
    # No function has imports from the future.
    future = [one for one in tree.body if getattr(one, "module", None) == "__future__"]
    rest = [one for one in tree.body if one not in future]
    if rest:
        wrapped.body[0].body = rest
    wrapped.body[:0] = future
    return compile(wrapped, "<program>", "exec"), awaits.found


def _plain(value):
    for name in ("tolist", "isoformat"):
        if hasattr(value, name):
            return getattr(value, name)()
    if isinstance(value, (set, frozenset)):
        return list(value)
    raise TypeError(f"a value of type {type(value).__name__} is in it")


def _bound_memory(limit):
    if resource is None:
        return
    try:
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    except (OSError, ValueError):
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
    _finish()
    try:
        result = _json(value, default=_plain)
    except (TypeError, ValueError, RecursionError, MemoryError) as error:
        return _failed(TypeError(f"the result is not JSON: {error}"))
    if len(result) > given["limit"]:
        return _failed(ValueError(f"the result is larger than {given['limit']} bytes"))
    _send(b'{"type":"done"}' if value is None else b'{"type":"done","result":%s}' % result)


_say(type="ready")
_given = json.loads(_input.readline())
sys.stdout, sys.stderr = _consoles
os.register_at_fork(after_in_child=_forked)
_run(_given)

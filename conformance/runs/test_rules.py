"""The rules that all other tests rely on catch what they are for."""

import json

import pytest

import lines
import multipart

TS = 1_700_000_000_000
LOG = {"type": "log", "level": "info", "message": "Loaded 3 skills", "ts": TS}
RUNNING = {"type": "step", "id": "step_8f3", "name": "recipes/add-node.sh", "status": "running"}
RUNNING |= {"args": {"nodeType": "inference"}, "ts": TS}
DONE = {"type": "step", "id": "step_8f3", "name": "recipes/add-node.sh", "status": "succeeded"}
DONE |= {"result": {"nodeId": "node_"}, "durationMs": 412, "ts": TS}
FAILED = {"type": "step", "id": "step_8f3", "name": "recipes/add-node.sh", "status": "failed"}
FAILED |= {"error": "no", "durationMs": 1}
RESULT = {"type": "result", "message": "Added an Inference node…", "ts": TS}
ERROR = {"type": "error", "code": "model_timeout", "message": "Provider timed out after 60s"}


def stream(*objects: dict) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in objects)


@pytest.mark.parametrize("good", [[RESULT], [LOG, RUNNING, DONE, RESULT], [RUNNING, FAILED, ERROR]])
def test_the_seeds_own_examples_are_valid(good):
    assert lines.envelope(stream(*good)) == good


@pytest.mark.parametrize(
    "bad",
    [
        stream(LOG),
        stream(RESULT, LOG),
        stream(RESULT, RESULT),
        stream(RUNNING, RESULT),
        stream(DONE, RESULT),
        stream(RUNNING, DONE, DONE, RESULT),
        stream(RUNNING, DONE | {"name": "shell"}, RESULT),
        stream(LOG | {"level": "fatal"}, RESULT),
        stream(LOG | {"ts": 1_700_000_000}, RESULT),
        stream(LOG | {"more": 1}, RESULT),
        stream({"type": "text", "delta": "a"}, RESULT),
        stream(RUNNING | {"id": "8f3"}, RESULT),
        stream(ERROR)[:-1],
        b"data: " + stream(RESULT),
        b"[]\n" + stream(RESULT),
        b"\n" + stream(RESULT),
        b'{"type":"result","type":"result","message":""}\n',
        b'{"type":"result","message":NaN}\n',
    ],
)
def test_what_breaks_a_rule_of_the_envelope_is_caught(bad):
    with pytest.raises(lines.Broken):
        lines.envelope(bad)


@pytest.mark.parametrize("seqs", [[2, 3], [1, 3], [1, 1], [1, 2, 3]])
def test_a_gap_or_a_missing_end_in_a_log_is_caught(seqs):
    kinds = ["started", "log", "log"]
    entries = [{"seq": seq, "ts": 1, "type": kind} for seq, kind in zip(seqs, kinds, strict=False)]
    with pytest.raises(lines.Broken):
        lines.raw(stream(*entries))


def test_a_form_is_read_by_the_letter():
    part = b'Content-Disposition: form-data; name="file"; filename="a"\r\n\r\nx\r\n'
    good = b"--b\r\n" + part + b"--b\r\n" + part + b"--b--\r\n"
    kind = "multipart/form-data; boundary=b"
    assert multipart.parse(kind, good) == [("file", "a", "text/plain", b"x")] * 2
    for bad in (good[:-2], good[1:], good.replace(b"\r\n\r\n", b"\n\n"), b"", b"--b--\r\n"):
        with pytest.raises(multipart.Malformed):
            multipart.parse(kind, bad)

"""A dispatch that is wrong is refused by the name of its field, and starts nothing."""

import json

import pytest

GOOD = {
    "agent_url": "http://127.0.0.1:9/x",
    "otp_setup": "otp_a",
    "otp_run": "otp_b",
    "prompt": "Do it.",
}
WITHOUT = object()
INLINE = {"agent_url": WITHOUT, "otp_setup": WITHOUT, "otp_run": WITHOUT, "config": {}}

BAD = [
    ("prompt", {"prompt": WITHOUT}),
    ("prompt", {"prompt": ""}),
    ("prompt", {"prompt": "  \n"}),
    ("prompt", {"prompt": 7}),
    ("prompt", {"prompt": None}),
    ("prompt", {"prompt": ["a"]}),
    ("prompt", {"prompt": "x" * (2 << 20)}),
    ("agent_url", {"agent_url": WITHOUT}),
    ("agent_url", {"agent_url": ""}),
    ("agent_url", {"agent_url": "/relative"}),
    ("agent_url", {"agent_url": "ftp://127.0.0.1/x"}),
    ("agent_url", {"agent_url": "file:///etc/passwd"}),
    ("agent_url", {"agent_url": "http://"}),
    ("agent_url", {"agent_url": "http://user:pass@127.0.0.1/x"}),
    ("agent_url", {"agent_url": "http://127.0.0.1/x?y=1"}),
    ("agent_url", {"agent_url": "http://169.254.169.254/latest"}),
    ("agent_url", {"agent_url": "http://[fe80::1]/x"}),
    ("agent_url", {"agent_url": {"url": "http://127.0.0.1"}}),
    ("otp_setup", {"otp_setup": WITHOUT}),
    ("otp_setup", {"otp_setup": "two words"}),
    ("otp_setup", {"otp_setup": "line\nbreak"}),
    ("otp_run", {"otp_run": WITHOUT}),
    ("otp_run", {"otp_run": 1}),
    ("otp_upload", {"otp_upload": ""}),
    ("otp_upload", {"otp_upload": "ä"}),
    ("config", {"config": {}}),
    ("env", {"env": {}}),
    ("config", INLINE | {"config": 1}),
    ("config", INLINE | {"config": {"model": {"provider": "no-such"}}}),
    ("config", INLINE | {"config": {"messages": [{"role": "system", "content": "x"}]}}),
    ("env", INLINE | {"env": {"variables": {"A": 1}}}),
    ("otp_upload", INLINE | {"otp_upload": "otp_c"}),
    ("chat_id", {"chat_id": 1}),
    ("template", {"template": "no-such-template"}),
    ("template", {"template": "../../etc"}),
    ("harness", {"harness": "no-such-harness"}),
    ("on_disconnect", {"on_disconnect": "explode"}),
    ("on_disconnect", {"on_disconnect": True}),
    ("limits", {"limits": 1}),
    ("limits.max_runtime_sec", {"limits": {"max_runtime_sec": 0}}),
    ("limits.max_runtime_sec", {"limits": {"max_runtime_sec": -1}}),
    ("limits.max_runtime_sec", {"limits": {"max_runtime_sec": "2"}}),
    ("limits.tokens", {"limits": {"tokens": 1.5}}),
    ("limits.no_such", {"limits": {"no_such": 1}}),
    ("tools", {"tools": [{"name": "x"}]}),
]


@pytest.mark.parametrize(("field", "change"), BAD)
def test_a_wrong_field_is_named(caller, field, change):
    body = {name: value for name, value in (GOOD | change).items() if value is not WITHOUT}
    status, answer = caller.refusal(body)
    assert status == 400, answer
    assert field in answer["message"], answer
    assert caller.sandboxes() == []


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_object_is_refused(caller, body):
    status, _ = caller.refusal(body)
    assert status == 400
    assert caller.sandboxes() == []


def test_a_huge_body_is_refused_before_all_of_it_came(caller):
    before = len(caller.runs())
    try:
        stream = caller.dispatch(json.dumps(GOOD | {"prompt": "x" * (64 << 20)}).encode())
        assert stream.status == 413
        stream.rest()
    except ConnectionError:
        pass  # The server answered and hung up while we were still sending.
    assert len(caller.runs()) == before and caller.sandboxes() == []


def test_nothing_is_started_for_a_refused_dispatch(caller, workspace):
    session = workspace()
    before = len(caller.runs())
    caller.refusal(session.body(limits={"max_runtime_sec": 0}))
    assert session.requests == []
    assert len(caller.runs()) == before


def test_without_a_key_or_with_a_wrong_one_nothing_is_served(server, caller, workspace):
    session = workspace()
    for key in ("", "e2b_" + "0" * 40):
        caller.key = key
        status, _ = caller.refusal(session.body())
        assert status == 401
        assert caller.get("/runs")[0] == 401
    assert session.requests == []


def test_names_in_camel_case_and_fields_of_other_callers_are_taken(caller, workspace):
    session = workspace()
    body = session.body(somethingElse={"a": 1})
    body["agentUrl"], body["otpSetup"] = body.pop("agent_url"), body.pop("otp_setup")
    assert caller.run(body).last["type"] == "result"

"""Wrong requests get an answer that says what was wrong, and the next request is served."""

import base64
import json
import socket

import pytest

from rpc import Stream, frame, shell

NO_SUCH_PID = 999999
NOT_FOUND = {"code": "not_found", "message": f"process with pid {NO_SUCH_PID} not found"}


@pytest.fixture(autouse=True)
def still_serving(rpc):
    yield
    assert rpc.shell("echo alive").data() == [b"alive\n"]


def test_an_unknown_pid_is_not_found(rpc):
    process = {"process": {"pid": NO_SUCH_PID}}
    data = base64.b64encode(b"x").decode()
    bodies = {
        "SendSignal": process | {"signal": "SIGNAL_SIGKILL"},
        "SendInput": process | {"input": {"stdin": data}},
        "CloseStdin": process,
        "Update": process | {"pty": {"size": {"cols": 1, "rows": 1}}},
    }
    for method, body in bodies.items():
        answer = rpc.unary(method, body)
        assert (answer.status_code, answer.json()) == (404, NOT_FOUND), method
    stream = rpc.stream("Connect", process)
    assert stream.events == [] and stream.error == NOT_FOUND


@pytest.mark.parametrize("body", [b"{", b'{"process":', b"[]", b"\xff\xfe", b'{"process":7}'])
def test_malformed_json_is_an_invalid_argument(rpc, body):
    answer = rpc.unary("SendSignal", body)
    assert answer.status_code == 400
    assert answer.json()["code"] == "invalid_argument" and answer.json()["message"]
    stream = Stream(rpc.raw_stream("Start", frame(body)))
    assert stream.events == [] and stream.error["code"] == "invalid_argument"


def test_a_malformed_binary_message_is_an_invalid_argument(rpc):
    answer = rpc.unary("SendSignal", b"\xff" * 20, Content_Type="application/proto")
    assert answer.status_code == 400
    assert answer.json()["code"] == "invalid_argument"


@pytest.mark.parametrize("method", ["List", "Start"])
def test_a_wrong_content_type_is_refused(rpc, method):
    answer = rpc.raw_stream(method, b"{}", Content_Type="text/plain")
    assert answer.status_code == 415
    expected = "application/connect+json" if method == "Start" else "application/json"
    assert expected in answer.headers["accept-post"]


def test_a_truncated_envelope_is_an_invalid_argument(rpc):
    whole = frame(shell("true"))
    for cut in [3, 5, len(whole) - 1]:
        stream = Stream(rpc.raw_stream("Start", whole[:cut]))
        assert stream.events == [] and stream.error["code"] == "invalid_argument", cut


def test_an_empty_stream_request_is_an_invalid_argument(rpc):
    assert Stream(rpc.raw_stream("Start", b"")).error["code"] == "invalid_argument"


def test_unknown_flags_are_an_invalid_argument(rpc):
    stream = Stream(rpc.raw_stream("Start", frame(shell("true"), flags=0x40)))
    assert stream.error["code"] == "invalid_argument"


def test_a_compressed_flag_on_plain_bytes_is_an_invalid_argument(rpc):
    stream = Stream(rpc.raw_stream("Start", frame(shell("true"), flags=0x01)))
    assert stream.error["code"] == "invalid_argument"


def test_an_oversized_message_is_resource_exhausted(rpc):
    large = shell("x" * (5 << 20))
    assert Stream(rpc.raw_stream("Start", frame(large))).error["code"] == "resource_exhausted"
    answer = rpc.unary("SendInput", large)
    assert (answer.status_code, answer.json()["code"]) == (429, "resource_exhausted")


def test_a_promised_size_over_the_limit_is_refused_before_it_is_sent(rpc):
    header = b"\0" + (2**32 - 1).to_bytes(4, "big")
    stream = Stream(rpc.raw_stream("Start", header + b"{}"))
    assert stream.error["code"] == "resource_exhausted"


@pytest.mark.parametrize("signal", ["SIGNAL_UNSPECIFIED", "SIGNAL_SIGWINCH", 0, 99])
def test_an_unknown_signal_is_an_invalid_argument(rpc, signal):
    answer = rpc.unary("SendSignal", {"process": {"pid": 1}, "signal": signal})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")


def test_a_request_without_a_selector_is_an_invalid_argument(rpc):
    answer = rpc.unary("CloseStdin", {})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")


def test_a_request_without_a_command_is_an_invalid_argument(rpc):
    assert rpc.stream("Start", {}).error["code"] == "invalid_argument"


def test_a_program_that_does_not_exist_is_named(rpc):
    for program in ["/no/such/program", "no-such-program"]:
        stream = rpc.stream("Start", {"process": {"cmd": program}})
        assert stream.events == [] and stream.error["code"] == "invalid_argument"
        assert program in stream.error["message"]


def test_a_program_that_may_not_be_run_is_named(rpc):
    stream = rpc.stream("Start", {"process": {"cmd": "/etc/passwd"}})
    assert stream.error["code"] in ("invalid_argument", "permission_denied")
    assert "/etc/passwd" in stream.error["message"]


@pytest.mark.parametrize("value", ["soon", "-5", "99999999999999"])
def test_a_malformed_deadline_is_an_invalid_argument(rpc, value):
    assert rpc.shell("true", Connect_Timeout_Ms=value).error["code"] == "invalid_argument"


def test_unknown_methods_and_verbs_are_refused(rpc):
    assert rpc.unary("Restart", {}).status_code in (404, 501)
    answer = rpc.http.get("/process.Process/List")
    assert answer.status_code == 405 and answer.headers["allow"] == "POST"


def test_private_routes_of_the_daemon_are_hidden(rpc):
    for method, path in [("GET", "/control"), ("POST", "/init"), ("POST", "/freeze")]:
        assert rpc.http.request(method, path).status_code == 404, path


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{", "EOF"),
        (b"{}", "cmd"),
        (b'{"cmd":7}', "string"),
        (b'{"cmd":"true","timeout_ms":-1}', "-1"),
        (b'{"cmd":"true","timeout_ms":"soon"}', "soon"),
        (b'{"cmd":"true","colour":"red"}', "colour"),
    ],
)
def test_a_bad_body_of_the_alias_is_explained(api, body, says):
    answer = api.post("/commands", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["code"] == 400
    assert says in answer.json()["message"]


def test_the_alias_names_what_it_cannot_find(api):
    answer = api.post("/commands", json={"cmd": "true", "sandbox_id": "inosuchsandbox"})
    assert answer.status_code == 404
    assert "inosuchsandbox" in answer.json()["message"]
    for method, path in [
        ("GET", f"/commands/{NO_SUCH_PID}"),
        ("GET", f"/commands/{NO_SUCH_PID}?after=0"),
        ("POST", f"/commands/{NO_SUCH_PID}/kill"),
        ("GET", "/sandboxes/inosuchsandbox"),
        ("GET", "/sandboxes/inosuchsandbox/logs"),
        ("DELETE", "/sandboxes/inosuchsandbox"),
        ("GET", "/no/such/route"),
    ]:
        answer = api.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (404, 404), path


def test_a_pid_that_is_no_number_is_refused(api):
    assert api.get("/commands/many").status_code in (400, 404)


@pytest.mark.parametrize("timeout", [0, -5])
def test_a_sandbox_without_time_to_live_is_refused(api, timeout):
    for route in ["/sandboxes", "/v2/sandboxes"]:
        answer = api.post(route, json={"templateID": "base", "timeout": timeout})
        assert (answer.status_code, answer.json()["code"]) == (400, 400)


def test_an_unknown_template_is_named(api):
    answer = api.post("/v2/sandboxes", json={"templateID": "no-such-template"})
    assert answer.status_code in (400, 404)
    assert "no-such-template" in answer.json()["message"]


def test_what_comes_later_answers_not_implemented(api, shared):
    for path in ["pause", "fork", "snapshots"]:
        answer = api.post(f"/sandboxes/{shared.sandbox_id}/{path}", json={})
        assert (answer.status_code, answer.json()["code"]) == (501, 501), path
        assert answer.json()["message"]


@pytest.mark.parametrize(
    "garbage", [b"\x16\x03\x01\x02\x00", b"GET / HTTP/9.9\r\n\r\n", b"\r\n" * 100, b"A" * 100_000]
)
def test_garbage_instead_of_http_is_dropped(server, garbage):
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.settimeout(10)
        try:
            connection.sendall(garbage + b"\r\n\r\n")
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
        except ConnectionError:
            pass  # Refusing by a reset is fine.


def test_a_client_that_leaves_in_the_middle_of_its_request_harms_nobody(server, rpc):
    head = "POST /process.Process/Start HTTP/1.1\r\nHost: x\r\nContent-Type: application/connect+json\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in rpc.headers.items())
    body = frame(shell("true"))
    for cut in [0, 3, len(body) // 2]:
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:cut])


def test_errors_of_the_control_plane_repeat_their_status(api):
    answer = api.post("/v2/sandboxes", content=b"{", headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert json.loads(answer.content)["code"] == 400

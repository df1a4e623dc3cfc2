"""The Connect protocol without an SDK: frames, codecs, events, golden shapes."""

import base64
import gzip
import json
import time

from e2b.envd.process import process_pb

from rpc import END, GZIP, Stream, frame, frames, live_events, shell
from waiting import wait_until


def test_a_stream_has_the_events_of_the_seed_in_order(rpc):
    stream = rpc.shell("echo hello; echo oops >&2")
    assert list(stream.events[0]) == ["start"] and stream.pid > 0
    assert {"data": {"stdout": "aGVsbG8K"}} in stream.events
    assert {"data": {"stderr": "b29wcwo="}} in stream.events
    assert stream.events[-1] == {
        "end": {"exitCode": 0, "exited": True, "status": "exit status 0", "error": ""}
    }
    assert stream.trailer == {}
    assert frames(stream.response.content)[-1] == (END, b"{}")


def test_an_end_names_exit_codes_and_signals(rpc):
    assert rpc.shell("exit 7").end == {
        "exitCode": 7, "exited": True, "status": "exit status 7", "error": "exit status 7"
    }
    assert rpc.shell("kill -9 $$").end == {
        "exitCode": -1, "exited": False, "status": "signal: killed", "error": "signal: killed"
    }


def test_one_data_event_per_line_with_its_newline(rpc):
    stream = rpc.shell("printf 'one\\ntwo\\n\\nfour'")
    assert stream.data() == [b"one\n", b"two\n", b"\n", b"four"]


def test_a_long_line_is_flushed_in_parts(rpc):
    parts = rpc.shell("head -c 100000 /dev/zero | tr '\\0' y; echo").data()
    assert b"".join(parts) == b"y" * 100000 + b"\n"
    assert max(len(part) for part in parts) <= 32 * 1024


def test_a_request_split_into_single_bytes_is_understood(rpc):
    body = frame(shell("echo split"))
    response = rpc.raw_stream("Start", (body[i : i + 1] for i in range(len(body))))
    assert Stream(response).data() == [b"split\n"]


def test_a_compressed_envelope_is_understood(rpc):
    payload = gzip.compress(json.dumps(shell("echo packed")).encode())
    headers = {"Connect_Content_Encoding": "gzip"}
    assert Stream(rpc.raw_stream("Start", frame(payload, GZIP), **headers)).data() == [b"packed\n"]


def test_a_bare_message_is_understood(rpc):
    body = json.dumps(shell("echo bare")).encode()
    assert Stream(rpc.raw_stream("Start", body)).data() == [b"bare\n"]


def test_the_binary_codec_carries_the_same(rpc):
    config = process_pb.ProcessConfig(cmd="/bin/sh", args=["-c", "echo out; echo err >&2; exit 4"])
    request = process_pb.StartRequest(process=config, stdin=False)
    kind = "application/connect+proto"
    response = rpc.raw_stream("Start", frame(request.to_binary()), Content_Type=kind)
    assert response.headers["content-type"] == kind
    *messages, last = frames(response.content)
    assert last == (END, b"{}")
    events = [process_pb.StartResponse.from_binary(body).event.event for _, body in messages]
    assert [event.field for event in events] == ["start", "data", "data", "end"]
    outputs = {event.value.output.field: event.value.output.value for event in events[1:3]}
    assert outputs == {"stdout": b"out\n", "stderr": b"err\n"}
    assert events[3].value.exit_code == 4 and events[3].value.exited


def test_a_unary_call_answers_in_the_codec_it_was_asked_in(rpc):
    response = rpc.unary("List", {})
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    response = rpc.unary("List", b"", Content_Type="application/proto")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/proto"
    process_pb.ListResponse.from_binary(response.content)


def test_a_compressed_unary_body_is_understood(rpc):
    response = rpc.unary("List", gzip.compress(b"{}"), Content_Encoding="gzip")
    assert response.status_code == 200


def test_unknown_fields_are_ignored(rpc):
    message = shell("echo fine") | {"fromTheFuture": {"a": [1]}}
    assert rpc.stream("Start", message).data() == [b"fine\n"]


def test_a_command_can_be_named_by_its_tag(rpc):
    message = shell("sleep 1000") | {"tag": "lamp"}
    with rpc.open("Start", message) as response:
        events = live_events(response)
        pid = next(events)["start"]["pid"]
        processes = rpc.unary("List", {}).json()["processes"]
        assert [entry["tag"] for entry in processes if entry["pid"] == pid] == ["lamp"]
        kill = {"process": {"tag": "lamp"}, "signal": "SIGNAL_SIGTERM"}
        assert rpc.unary("SendSignal", kill).json() == {}
        assert next(events)["end"]["status"] == "signal: terminated"
        assert next(events) == {}
    answer = rpc.unary("SendSignal", {"process": {"tag": "none"}, "signal": "SIGNAL_SIGTERM"})
    assert answer.status_code == 404
    assert answer.json() == {"code": "not_found", "message": "process with tag 'none' not found"}


def check_signal(rpc, body, status):
    with rpc.open("Start", shell("sleep 1000")) as response:
        events = live_events(response)
        pid = next(events)["start"]["pid"]
        assert rpc.unary("SendSignal", body(pid)).status_code == 200
        assert next(events)["end"]["status"] == status
        assert next(events) == {}


def test_a_signal_is_sent_by_name_or_number_nested_or_flat(rpc):
    killed, terminated = "signal: killed", "signal: terminated"
    check_signal(rpc, lambda pid: {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"}, killed)
    check_signal(rpc, lambda pid: {"process": {"pid": pid}, "signal": 15}, terminated)
    check_signal(rpc, lambda pid: {"pid": pid, "signal": "SIGKILL"}, killed)
    check_signal(rpc, lambda pid: {"pid": pid, "signal": 15}, terminated)


def test_a_signalled_command_leaves_the_list_but_not_its_stream(rpc):
    line = "trap 'echo bye; exit 0' TERM; echo ready; while :; do sleep 0.05; done"
    with rpc.open("Start", shell(line)) as response:
        events = live_events(response)
        pid = next(events)["start"]["pid"]
        assert base64.b64decode(next(events)["data"]["stdout"]) == b"ready\n"
        rpc.unary("SendSignal", {"pid": pid, "signal": "SIGTERM"})
        assert pid not in listed(rpc)
        # The shell may also say on stderr that its `sleep` was terminated.
        *data, end, trailer = events
        assert {"data": {"stdout": base64.b64encode(b"bye\n").decode()}} in data
        assert end["end"]["exitCode"] == 0 and trailer == {}


def test_a_command_is_listed_while_it_runs(rpc):
    with rpc.open("Start", shell("sleep 1000")) as response:
        pid = next(live_events(response))["start"]["pid"]
        assert pid in listed(rpc)
    # The client has left; the command has not.
    assert pid in listed(rpc)
    rpc.unary("SendSignal", {"pid": pid, "signal": "SIGKILL"})
    assert pid not in listed(rpc)


def test_a_finished_command_leaves_the_list(rpc):
    assert rpc.shell("true").pid not in listed(rpc)


def test_input_is_fed_and_closed(rpc):
    with rpc.open("Start", shell("cat", stdin=True)) as response:
        events = live_events(response)
        process = {"pid": next(events)["start"]["pid"]}
        data = base64.b64encode(b"fed\n").decode()
        answer = rpc.unary("SendInput", {"process": process, "input": {"stdin": data}})
        assert (answer.status_code, answer.json()) == (200, {})
        assert next(events) == {"data": {"stdout": data}}
        assert rpc.unary("CloseStdin", {"process": process}).json() == {}
        assert next(events)["end"]["exitCode"] == 0


def test_input_can_be_streamed(rpc):
    with rpc.open("Start", shell("cat", stdin=True)) as response:
        events = live_events(response)
        process = {"pid": next(events)["start"]["pid"]}
        data = base64.b64encode(b"piece\n").decode()
        body = frame({"start": {"process": process}})
        body += frame({"data": {"input": {"stdin": data}}}) * 3
        body += frame({"keepalive": {}})
        answer = rpc.raw_stream("StreamInput", body)
        assert frames(answer.content) == [(0, b"{}"), (END, b"{}")]
        assert [next(events) for _ in range(3)] == [{"data": {"stdout": data}}] * 3
        rpc.unary("SendSignal", {"process": process, "signal": "SIGNAL_SIGKILL"})


def test_a_resize_of_a_plain_command_is_accepted_and_ignored(rpc):
    with rpc.open("Start", shell("sleep 1000")) as response:
        pid = next(live_events(response))["start"]["pid"]
        body = {"process": {"pid": pid}, "pty": {"size": {"cols": 100, "rows": 30}}}
        answer = rpc.unary("Update", body)
        assert (answer.status_code, answer.json()) == (200, {})
        rpc.unary("SendSignal", {"pid": pid, "signal": "SIGKILL"})


def test_silence_is_bridged_by_keepalives(rpc):
    with rpc.open("Start", shell("sleep 2.5"), Keepalive_Ping_Interval="1") as response:
        events = list(live_events(response))
    assert events.count({"keepalive": {}}) == 2
    assert list(events[0]) == ["start"] and list(events[-2]) == ["end"] and events[-1] == {}


def test_a_deadline_kills_the_command_even_when_its_client_left(rpc):
    headers = {"Connect_Timeout_Ms": "800"}
    with rpc.open("Start", shell("sleep 1000"), **headers) as response:
        pid = next(live_events(response))["start"]["pid"]
    assert pid in listed(rpc)
    assert wait_until(lambda: pid not in listed(rpc), 5)
    stream = rpc.shell("sleep 1000", **headers)
    assert stream.error["code"] == "deadline_exceeded"


def test_a_deadline_of_a_connection_leaves_the_command(rpc):
    with rpc.open("Start", shell("sleep 1000")) as response:
        pid = next(live_events(response))["start"]["pid"]
        start = time.monotonic()
        stream = rpc.stream("Connect", {"process": {"pid": pid}}, Connect_Timeout_Ms="300")
        assert stream.error["code"] == "deadline_exceeded"
        assert time.monotonic() - start < 5
        assert stream.pid == pid
        assert pid in listed(rpc)
        rpc.unary("SendSignal", {"pid": pid, "signal": "SIGKILL"})


def test_reconnecting_gives_new_output_only(rpc):
    line = "echo early; read x; echo late"
    with rpc.open("Start", shell(line, stdin=True)) as response:
        events = live_events(response)
        pid = next(events)["start"]["pid"]
        next(events)
        with rpc.open("Connect", {"process": {"pid": pid}}) as second:
            again = live_events(second)
            assert next(again) == {"start": {"pid": pid}}
            data = base64.b64encode(b"\n").decode()
            rpc.unary("SendInput", {"process": {"pid": pid}, "input": {"stdin": data}})
            rest = list(again)
    assert [event["data"] for event in rest if "data" in event] == [{"stdout": "bGF0ZQo="}]


def listed(rpc) -> list[int]:
    processes = rpc.unary("List", {}).json().get("processes", [])
    return [process["pid"] for process in processes]

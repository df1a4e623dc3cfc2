"""Commands that outlive the call: handles, reconnecting, standard input, killing."""

import threading
import time

import pytest
from e2b import CommandExitException, NotFoundException, SandboxException, TimeoutException

from waiting import wait_until


NO_SUCH_PID = 999999


def test_a_background_command_has_a_pid_and_can_be_waited_for(shared):
    handle = shared.commands.run("echo $$; exit 0", background=True)
    assert handle.pid > 0
    assert handle.wait().stdout == f"{handle.pid}\n"


def test_waiting_raises_on_another_exit_code(shared):
    handle = shared.commands.run("echo x; exit 3", background=True)
    with pytest.raises(CommandExitException) as raised:
        handle.wait()
    assert raised.value.exit_code == 3 and raised.value.stdout == "x\n"


def test_a_handle_is_iterated_as_output_comes(shared):
    handle = shared.commands.run("echo a; sleep 0.1; echo b >&2; sleep 0.1; echo c", background=True)
    assert list(handle) == [("a\n", None, None), (None, "b\n", None), ("c\n", None, None)]


def test_a_command_survives_its_client_and_can_be_reconnected(shared):
    handle = shared.commands.run("sleep 0.5; echo late; exit 0", background=True)
    handle.disconnect()
    assert handle.pid in [process.pid for process in shared.commands.list()]
    assert shared.commands.connect(handle.pid).wait().stdout == "late\n"


def test_several_clients_see_the_same_output(shared):
    first = shared.commands.run("read x; echo one; echo two", background=True, stdin=True)
    second = shared.commands.connect(first.pid)
    third = shared.commands.connect(first.pid)
    first.send_stdin("go\n")
    results = [handle.wait().stdout for handle in (first, second, third)]
    assert results == ["one\ntwo\n"] * 3


def test_the_exit_of_a_finished_command_stays_connectable(shared):
    handle = shared.commands.run("exit 5", background=True)
    with pytest.raises(CommandExitException):
        handle.wait()
    with pytest.raises(CommandExitException) as raised:
        shared.commands.connect(handle.pid).wait()
    assert raised.value.exit_code == 5


def test_connecting_to_an_unknown_pid_is_not_found(shared):
    with pytest.raises(NotFoundException, match=f"process with pid {NO_SUCH_PID} not found"):
        shared.commands.connect(NO_SUCH_PID)


def test_standard_input_is_fed_and_closed(shared):
    handle = shared.commands.run("cat; echo end", background=True, stdin=True)
    shared.commands.send_stdin(handle.pid, "one\n")
    handle.send_stdin(b"two\n")
    shared.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "one\ntwo\nend\n"


def test_a_conversation_over_standard_input(shared):
    handle = shared.commands.run(
        'while read -r line; do echo "got $line"; done', background=True, stdin=True
    )
    seen = iter(handle)
    for word in ["alpha", "beta", "gamma"]:
        handle.send_stdin(word + "\n")
        assert next(seen) == (f"got {word}\n", None, None)
    handle.close_stdin()
    assert list(seen) == []


def test_large_input_arrives_whole(shared):
    handle = shared.commands.run("wc -c", background=True, stdin=True)
    for _ in range(4):
        handle.send_stdin(b"x" * 500_000)
    handle.close_stdin()
    assert handle.wait().stdout.strip() == "2000000"


def test_input_can_be_streamed_in_pieces(shared):
    handle = shared.commands.run("wc -l", background=True, stdin=True)
    shared.commands.stream_input(handle.pid, (f"line {number}\n" for number in range(1000)))
    handle.close_stdin()
    assert handle.wait().stdout.strip() == "1000"


def test_streaming_input_to_an_unknown_pid_is_not_found(shared):
    with pytest.raises(NotFoundException):
        shared.commands.stream_input(NO_SUCH_PID, ["x"])


def test_input_is_refused_when_there_is_no_pipe(shared):
    handle = shared.commands.run("sleep 30", background=True)
    with pytest.raises(SandboxException):
        handle.send_stdin("x")
    handle.kill()


def test_input_to_an_unknown_pid_is_not_found(shared):
    with pytest.raises(NotFoundException):
        shared.commands.send_stdin(NO_SUCH_PID, "x")
    with pytest.raises(NotFoundException):
        shared.commands.close_stdin(NO_SUCH_PID)


def test_killing_answers_whether_there_was_something_to_kill(shared):
    handle = shared.commands.run("sleep 1000", background=True)
    assert shared.commands.kill(handle.pid) is True
    with pytest.raises(CommandExitException) as raised:
        handle.wait()
    assert raised.value.exit_code == -1
    assert raised.value.error == "signal: killed"
    assert shared.commands.run(f"kill -0 {handle.pid} 2>&1 || echo gone").stdout.endswith("gone\n")
    assert shared.commands.kill(NO_SUCH_PID) is False


def test_killing_takes_the_whole_group(shared):
    handle = shared.commands.run("sleep 7654 & sleep 7654; wait", background=True)
    assert wait_until(lambda: shared.commands.run("pgrep -fcx 'sleep 7654' || true").stdout == "2\n")
    handle.kill()
    assert wait_until(lambda: shared.commands.run("pgrep -fcx 'sleep 7654' || true").stdout == "0\n")


def test_a_list_shows_what_runs(shared):
    handle = shared.commands.run("sleep 1000", background=True, envs={"A": "1"}, cwd="/usr")
    (process,) = [process for process in shared.commands.list() if process.pid == handle.pid]
    assert process.cmd == "/bin/bash"
    assert process.args == ["-l", "-c", "sleep 1000"]
    assert process.envs == {"A": "1"}
    assert process.cwd == "/usr"
    handle.kill()
    # A signalled command leaves the list at once, before it is reaped.
    assert handle.pid not in [process.pid for process in shared.commands.list()]


def test_a_timeout_of_a_connection_leaves_the_command_alone(shared):
    handle = shared.commands.run("sleep 1000", background=True, timeout=0)
    with pytest.raises(TimeoutException):
        shared.commands.connect(handle.pid, timeout=1).wait()
    assert handle.pid in [process.pid for process in shared.commands.list()]
    handle.kill()


def test_a_slow_client_neither_loses_output_nor_stops_the_others(shared):
    handle = shared.commands.run("seq 1 200000", background=True)
    time.sleep(1)
    answers = [shared.commands.run("echo still here").stdout for _ in range(3)]
    assert answers == ["still here\n"] * 3
    assert handle.wait().stdout == "".join(f"{number}\n" for number in range(1, 200001))


def test_input_from_two_clients_does_not_interleave_within_a_message(shared):
    handle = shared.commands.run("cat", background=True, stdin=True)

    def feed(letter: str) -> None:
        for _ in range(20):
            shared.commands.send_stdin(handle.pid, letter * 10_000 + "\n")

    feeders = [threading.Thread(target=feed, args=(letter,)) for letter in "ab"]
    for feeder in feeders:
        feeder.start()
    output = []
    reader = threading.Thread(target=lambda: output.append(handle.wait().stdout))
    reader.start()
    for feeder in feeders:
        feeder.join()
    handle.close_stdin()
    reader.join()
    assert sorted(output[0].split()) == ["a" * 10_000] * 20 + ["b" * 10_000] * 20

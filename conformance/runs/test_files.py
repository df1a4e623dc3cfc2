"""Files in and files out: the bag before the loop, the assets directory after it."""

import hashlib
import os

import pytest

import workspace as trouble
from dialects import Turn
from model import Refusal
from scripts import saying, shell
from zips import HOSTILE, pack


def test_the_bag_lies_in_the_workspace_before_the_loop(caller, workspace):
    files = {"report.txt": "first", "data/ä b.csv": "1,2\n", "empty": ""}
    session = workspace(shell("find . -type f | sort; cat report.txt 'data/ä b.csv'"), bag=pack(files))
    told = caller.run(session.body()).step("shell")["result"]["stdout"]
    assert told == "./data/ä b.csv\n./empty\n./report.txt\nfirst1,2\n"
    assert session.order() == ["env", "config", "bag"]


def test_the_setup_script_finds_the_bag(caller, workspace):
    env = {"variables": {}, "setup_script": "cat in.txt"}
    session = workspace(saying(), env, bag=pack({"in.txt": "from the bag\n"}))
    assert "from the bag" in caller.run(session.body()).logs()


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_bag_is_refused_and_the_model_never_asked(caller, workspace, model, kind):
    thinker = model("anthropic")
    session = workspace({"model": thinker.config()}, bag=HOSTILE[kind])
    caller.run(session.body()).error("assets_rejected")
    assert thinker.asked == []
    assert not os.path.exists("/tmp/owned")


def test_a_bag_whose_address_has_expired_is_not_fetched_quietly(caller, workspace):
    session = workspace(bag=pack({"a": "b"}))
    session.config = saying(assets={"url": session.bag_url(lifetime=-1)})
    caller.run(session.body()).error("bootstrap_failed")
    assert len(session.complaints) == 1
    session.complaints.clear()


def test_what_lies_in_assets_is_written_back_byte_by_byte(caller, workspace):
    commands = [
        "mkdir -p assets/sub && head -c 3000000 /dev/urandom > assets/big.bin",
        "printf 'a\\r\\n--b--\\0\\377' > assets/odd.bin; printf '' > assets/empty",
        "echo in > 'assets/sub/ü \"q\".txt'",
        "sha256sum assets/big.bin assets/odd.bin assets/empty; echo no > outside.txt",
    ]
    session = workspace(shell(*commands))
    outcome = caller.run(session.body())
    sums = outcome.steps("shell")[3]["result"]["stdout"].split()[::2]
    stored = {file.name: file for file in session.stored}
    assert {"big.bin", "odd.bin", "empty"} < stored.keys() and len(stored) == 4
    assert [stored[name].sha256 for name in ("big.bin", "odd.bin", "empty")] == sums
    assert stored["odd.bin"].content == b"a\r\n--b--\0\xff"
    assert "outside.txt" not in stored
    step = outcome.step("writeback")
    assert {file["sha256"] for file in step["result"]["files"]} == {f.sha256 for f in session.stored}
    assert session.order() == ["env", "config", "results"]


def test_the_upload_comes_before_the_terminal_line(caller, workspace):
    session = workspace(shell("mkdir -p assets; echo x > assets/x"))
    session.troubles["results"] = trouble.slow(1, session.take_results)
    outcome = caller.run(session.body())
    assert outcome.lines[-2]["name"] == "writeback"
    assert outcome.times[-1] >= session.asked("results")[0].at + 1


def test_without_files_the_upload_token_is_left_alone(caller, workspace):
    for command in ("true", "mkdir -p assets/deep", "mkdir assets; ln -s /etc/passwd assets/link"):
        session = workspace(shell(command))
        assert caller.run(session.body()).message
        assert session.order() == ["env", "config"], command
        assert not session.otps["upload"].used


def test_what_came_with_the_bag_in_assets_is_among_what_is_written_back(caller, workspace):
    session = workspace(saying(), bag=pack({"assets/old.txt": "old"}))
    caller.run(session.body())
    assert [file.name for file in session.stored] == ["old.txt"]


def test_links_and_devices_in_assets_lead_nowhere(caller, workspace):
    command = "mkdir assets; ln -s /etc/shadow assets/a; mkfifo assets/b; echo x > assets/c; ln -s / assets/d"
    session = workspace(shell(command))
    assert caller.run(session.body()).message
    assert [file.name for file in session.stored] == ["c"]


@pytest.mark.parametrize("refusal", [(401, "otp_expired"), (413, "too_large"), (500, "broken")])
def test_a_refused_upload_is_a_failed_step_and_the_result_still_goes_out(caller, workspace, refusal):
    session = workspace(shell("mkdir assets; echo x > assets/x", text="the answer"))
    session.troubles["results"] = trouble.status(*refusal)
    outcome = caller.run(session.body())
    step = outcome.step("writeback")
    assert step["status"] == "failed"
    assert str(refusal[0]) in step["error"] and refusal[1] in step["error"]
    assert outcome.message == "the answer"
    assert len(session.asked("results")) == 1


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("mkdir assets; for i in $(seq 21); do echo $i > assets/$i; done", "20"),
        ("mkdir assets; head -c 27000000 /dev/zero > assets/a", "26214400"),
        ("mkdir assets; for i in 1 2 3; do head -c 20000000 /dev/zero > assets/$i; done", "52428800"),
    ],
)
def test_files_over_a_limit_are_not_sent_and_the_step_says_why(caller, workspace, command, reason):
    session = workspace(shell(command))
    outcome = caller.run(session.body())
    step = outcome.step("writeback")
    assert step["status"] == "failed" and reason in step["error"]
    assert session.asked("results") == [] and outcome.message == "done"


def test_files_are_written_back_when_the_model_failed(caller, workspace, model):
    thinker = model("anthropic", Turn(calls=[("shell", {"command": "mkdir assets; echo x > assets/x"})]))
    thinker.plan.append(Refusal(400, "no more"))
    session = workspace({"model": thinker.config()})
    caller.run(session.body()).error("model_error")
    assert [file.sha256 for file in session.stored] == [hashlib.sha256(b"x\n").hexdigest()]


def test_the_caller_sees_what_was_stored(caller, workspace):
    session = workspace(shell("mkdir assets; echo x > assets/x"))
    log = caller.run_raw(session.body())
    (uploaded,) = [entry for entry in log if entry["type"] == "uploaded"]
    assert uploaded["files"] == [session.row(session.stored[0])]
    result = caller.json(f"/runs/{log[0]['run_id']}/files/result.json")
    assert result["files"] == uploaded["files"]

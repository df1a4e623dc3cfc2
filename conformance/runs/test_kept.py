"""Files of runs whose caller brought the config itself: the server keeps them."""

import hashlib
import json

from scripts import saying, shell
from waiting import wait_until


def dispatch(caller, *commands):
    return caller.run({"prompt": "go", "config": shell(*commands)})


def test_what_lies_in_assets_is_kept_for_the_caller(caller):
    outcome = dispatch(caller, "printf 'a\\0b' > assets/one.bin; mkdir assets/d; echo x > assets/d/two.txt")
    listed = caller.json(f"/runs/{outcome.run_id}/assets")["files"]
    assert sorted(file["name"] for file in listed) == ["one.bin", "two.txt"]
    assert outcome.step("writeback")["result"]["files"] == listed
    for file in listed:
        status, content = caller.get(f"/runs/{outcome.run_id}/assets/{file['id']}")
        assert status == 200
        assert hashlib.sha256(content).hexdigest() == file["sha256"]
        assert len(content) == file["size"]


def test_a_run_that_leaves_nothing_keeps_nothing(caller):
    outcome = caller.run({"prompt": "go", "config": saying()})
    assert caller.json(f"/runs/{outcome.run_id}/assets") == {"files": []}
    assert outcome.steps("writeback") == []


def test_only_files_of_the_list_are_served(caller):
    outcome = dispatch(caller, "echo x > assets/a")
    for name in ("file_2", "1", "index.json", "..", "%2e%2e%2fstream.jsonl", "file_1%2f..%2f1"):
        assert caller.get(f"/runs/{outcome.run_id}/assets/{name}")[0] == 404, name


def test_another_team_does_not_see_them(server, caller):
    outcome = dispatch(caller, "echo x > assets/a")
    stranger = server.other_team()
    assert stranger.get(f"/runs/{outcome.run_id}/assets")[0] == 404
    assert stranger.get(f"/runs/{outcome.run_id}/assets/file_1")[0] == 404


def upload(*parts: tuple[str, str]) -> str:
    """A shell command that sends files by itself, and shows the answer."""
    forms = " ".join(f"-F '{name}=@-;filename={file}'" for name, file in parts)
    return f"echo x | curl -s -w ' %{{http_code}}' {forms} $AGENT_URL/results"


def test_files_are_taken_once_and_a_broken_upload_leaves_nothing(caller):
    outcome = dispatch(
        caller,
        upload(("other", "a")),
        "curl -s -w ' %{http_code}' -d x $AGENT_URL/results",
        upload(("file", "first")),
        upload(("file", "second")),
    )
    said = [step["result"]["stdout"] for step in outcome.steps("shell")]
    assert [text.rsplit(" ", 1)[1] for text in said] == ["422", "422", "200", "422"]
    assert "already" in json.loads(said[3].rsplit(" ", 1)[0])["error"]["message"]
    listed = caller.json(f"/runs/{outcome.run_id}/assets")["files"]
    assert [file["name"] for file in listed] == ["first"]


def test_an_upload_over_the_limit_is_a_failed_step(caller):
    outcome = dispatch(caller, "for i in $(seq 21); do echo $i > assets/$i; done")
    assert outcome.step("writeback")["status"] == "failed"
    assert outcome.last["type"] == "result"
    assert wait_until(lambda: caller.json(f"/runs/{outcome.run_id}/assets") == {"files": []})

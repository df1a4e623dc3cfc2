"""A sandbox's life through the SDK: create, find, lengthen, end."""

import datetime

import pytest
from e2b import (
    AuthenticationException,
    Sandbox,
    SandboxNotFoundException,
    SandboxQuery,
    SandboxState,
)

from server import processes_of
from waiting import wait_until


def listed(**query) -> set[str]:
    paginator = Sandbox.list(query=SandboxQuery(**query) if query else None)
    found = set()
    while paginator.has_next:
        found |= {info.sandbox_id for info in paginator.next_items()}
    return found


def test_a_created_sandbox_runs_until_it_is_killed(server):
    sandbox = Sandbox.create()
    assert sandbox.sandbox_id.isalnum() and sandbox.sandbox_id.islower()
    assert sandbox.is_running()
    assert sandbox.kill() is True
    assert not sandbox.is_running()
    assert sandbox.kill() is False
    assert Sandbox.kill("inosuchsandbox") is False


def test_info_shows_what_was_asked_for(server):
    with Sandbox.create(timeout=120, metadata={"purpose": "tea & cake"}) as sandbox:
        info = sandbox.get_info()
        assert info.sandbox_id == sandbox.sandbox_id
        assert info.metadata == {"purpose": "tea & cake"}
        assert info.state == SandboxState.RUNNING
        assert 115 < (info.end_at - info.started_at).total_seconds() <= 121
        assert info.cpu_count > 0 and info.memory_mb > 0
    with pytest.raises(SandboxNotFoundException):
        sandbox.get_info()


def test_a_list_can_be_narrowed_by_metadata_and_state(server):
    one = Sandbox.create(metadata={"row": "a b", "side": "left"})
    two = Sandbox.create(metadata={"row": "a b", "side": "right"})
    both = {one.sandbox_id, two.sandbox_id}
    assert both <= listed()
    assert listed(metadata={"row": "a b"}) == both
    assert listed(metadata={"row": "a b", "side": "left"}) == {one.sandbox_id}
    assert listed(metadata={"row": "c"}) == set()
    assert both <= listed(state=[SandboxState.RUNNING])
    assert not both & listed(state=[SandboxState.PAUSED])
    one.kill()
    assert listed(metadata={"row": "a b"}) == {two.sandbox_id}
    two.kill()


def test_a_list_comes_in_pages_newest_first(server):
    sandboxes = [Sandbox.create(metadata={"paged": "yes"}) for _ in range(3)]
    paginator = Sandbox.list(query=SandboxQuery(metadata={"paged": "yes"}), limit=2)
    pages = []
    while paginator.has_next:
        pages.append([info.sandbox_id for info in paginator.next_items()])
    assert pages == [
        [sandboxes[2].sandbox_id, sandboxes[1].sandbox_id],
        [sandboxes[0].sandbox_id],
    ]
    for sandbox in sandboxes:
        sandbox.kill()


def test_a_second_client_connects_to_the_same_sandbox(sandbox):
    sandbox.commands.run("echo kept > note")
    again = Sandbox.connect(sandbox.sandbox_id)
    assert again.commands.run("cat note").stdout == "kept\n"
    with pytest.raises(SandboxNotFoundException):
        Sandbox.connect("inosuchsandbox")


def test_connecting_never_shortens_a_life(sandbox):
    before = sandbox.get_info().end_at
    Sandbox.connect(sandbox.sandbox_id, timeout=5)
    assert sandbox.get_info().end_at == before
    Sandbox.connect(sandbox.sandbox_id, timeout=900)
    assert sandbox.get_info().end_at > before + datetime.timedelta(seconds=500)


def test_a_timeout_can_be_set_both_ways(sandbox):
    before = sandbox.get_info().end_at
    sandbox.set_timeout(1000)
    assert sandbox.get_info().end_at > before
    sandbox.set_timeout(50)
    assert sandbox.get_info().end_at < before
    with pytest.raises(SandboxNotFoundException):
        Sandbox.set_timeout("inosuchsandbox", 10)


def test_a_sandbox_ends_at_its_deadline(server):
    sandbox = Sandbox.create(timeout=1)
    assert wait_until(lambda: not sandbox.is_running(), 10)
    with pytest.raises(SandboxNotFoundException):
        sandbox.get_info()


def test_a_timeout_of_zero_ends_it_at_once(server):
    sandbox = Sandbox.create()
    sandbox.set_timeout(0)
    assert wait_until(lambda: not sandbox.is_running(), 5)


def test_variables_of_the_sandbox_reach_its_commands(server):
    with Sandbox.create(envs={"COLOUR": "green", "SHAPE": "round"}) as sandbox:
        result = sandbox.commands.run("echo $COLOUR $SHAPE", envs={"SHAPE": "flat"})
        assert result.stdout == "green flat\n"


def test_sandboxes_do_not_share_a_home(server):
    with Sandbox.create() as one, Sandbox.create() as two:
        one.commands.run("touch mine")
        assert two.commands.run("ls").stdout == ""


def test_a_wrong_key_is_refused(server):
    with pytest.raises(AuthenticationException):
        Sandbox.create(api_key="e2b_" + "0" * 40)


def test_a_killed_sandbox_leaves_nothing(server):
    sandbox = Sandbox.create()
    sandbox.commands.run("sleep 1000", background=True, timeout=0)
    sandbox.commands.run("setsid sleep 1000 </dev/null >/dev/null 2>&1 &")
    place = server.data / "sandboxes" / sandbox.sandbox_id
    assert place.exists()
    sandbox.kill()
    assert wait_until(lambda: not place.exists(), 5)
    assert not processes_of(place)

"""How a sandbox ends when nobody asks it to: its keeper sees to it, or its leash does."""

import os
import shutil
import signal
import socket

import pytest

import census
from box import Box
from daemon import CommandError
from serving import Server
from waiting import wait_until


def remove_groups(box: Box) -> None:
    """What the next server would do."""
    for group in census.cgroups(box.id):
        for name in ("commands", "init", ""):
            os.rmdir(os.path.join(group, name))


def test_a_deadline_passes_with_no_server_there(layer):
    with Box([layer], lifetime=1.5) as box:
        box.run("sleep 1000 >/dev/null 2>&1 &")
        box.keeper.wait(timeout=10)
        assert box.last_words() == {"cause": "deadline", "detail": ""}
        assert box.left() == {}


def test_a_deadline_can_be_moved(layer):
    with Box([layer], lifetime=300) as box:
        with socket.socket(socket.AF_UNIX) as talk:
            talk.connect(str(box.state / "keeper"))
            talk.sendall(b"deadline 1\n")
            box.keeper.wait(timeout=10)
        assert box.last_words()["cause"] == "deadline"


def test_a_state_directory_that_vanishes_takes_its_sandbox_along(layer):
    with Box([layer]) as box:
        box.run("sleep 1000 >/dev/null 2>&1 &")
        shutil.rmtree(box.state)
        box.keeper.wait(timeout=10)
        assert box.left() == {}


def test_a_state_directory_that_is_moved_away_takes_its_sandbox_along(layer):
    with Box([layer]) as box:
        box.state.rename(box.home / "elsewhere")
        box.keeper.wait(timeout=10)
        assert box.left() == {}


def test_init_that_ends_by_itself_is_said_to_have_exited(layer):
    with Box([layer]) as box:
        with pytest.raises(CommandError, match="broke off"):
            box.run("kill -TERM 1; sleep 60")
        box.keeper.wait(timeout=10)
        assert box.last_words()["cause"] == "exited"


def test_init_cannot_be_killed_from_inside(box):
    box.run("kill -9 1; kill -STOP 1; kill -SEGV 1")
    assert box.run("echo alive").output == "alive\n"


def test_a_killed_keeper_takes_its_sandbox_along_and_the_next_server_clears_up(layer, data):
    home = data / "sandboxes"
    home.mkdir(mode=0o711)
    with Box([layer], home=home) as box:
        box.run("setsid sleep 1000 >/dev/null 2>&1 &")
        os.kill(box.keeper.pid, signal.SIGKILL)
        box.keeper.wait()
        # The leash: init ends when its keeper's end of a pipe closes, and everything with it.
        assert wait_until(lambda: not box.processes())
        assert census.cgroups(box.id), "nobody was there to remove them"
        with Server(data):
            assert not census.cgroups(box.id)
            assert not box.state.exists()


def test_a_stopped_init_does_not_outlive_its_keeper(layer):
    """The leash is a pipe that init listens to; one that does not listen is killed all the same."""
    with Box([layer], lifetime=60) as box:
        os.kill(box.init, signal.SIGSTOP)
        os.kill(box.keeper.pid, signal.SIGKILL)
        box.keeper.wait()
        gone = wait_until(lambda: not box.processes(), 5)
        remove_groups(box)
        assert gone


def test_a_kill_during_a_fork_bomb_leaves_nothing(layer):
    with Box([layer]) as box:
        box.run("bomb() { bomb | bomb & }; (bomb >/dev/null 2>&1 &) ; sleep 0.5")

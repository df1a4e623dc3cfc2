"""The asynchronous SDK: the same server, many things at once."""

import asyncio

import pytest
from e2b import (
    AsyncSandbox,
    CommandExitException,
    NotFoundException,
    PtySize,
    SandboxNotRunningException,
    TimeoutException,
)


def run(scenario) -> None:
    """Gives the scenario a fresh sandbox and an event loop."""

    async def main() -> None:
        sandbox = await AsyncSandbox.create(timeout=300)
        try:
            await asyncio.wait_for(scenario(sandbox), 120)
        finally:
            await sandbox.kill()

    asyncio.run(main())


def test_commands_run_side_by_side(server):
    async def scenario(sandbox):
        runs = [sandbox.commands.run(f"sleep 0.2; echo {number}") for number in range(50)]
        results = await asyncio.gather(*runs)
        assert [result.stdout for result in results] == [f"{number}\n" for number in range(50)]

    run(scenario)


def test_errors_are_the_same(server):
    async def scenario(sandbox):
        with pytest.raises(CommandExitException) as raised:
            await sandbox.commands.run("echo x >&2; exit 9")
        assert (raised.value.exit_code, raised.value.stderr) == (9, "x\n")
        with pytest.raises(TimeoutException):
            await sandbox.commands.run("sleep 1000", timeout=1)
        with pytest.raises(NotFoundException):
            await sandbox.commands.connect(999999)
        assert await sandbox.commands.kill(999999) is False

    run(scenario)


def test_a_background_command_with_input_and_a_second_client(server):
    async def scenario(sandbox):
        seen = []
        handle = await sandbox.commands.run(
            "cat", background=True, stdin=True, on_stdout=seen.append
        )
        other = await sandbox.commands.connect(handle.pid)
        await handle.send_stdin("hello\n")
        await sandbox.commands.close_stdin(handle.pid)
        assert (await handle.wait()).stdout == "hello\n"
        assert (await other.wait()).stdout == "hello\n"
        assert seen == ["hello\n"]

    run(scenario)


def test_a_command_survives_a_disconnect(server):
    async def scenario(sandbox):
        handle = await sandbox.commands.run("sleep 0.5; echo late", background=True)
        await handle.disconnect()
        again = await sandbox.commands.connect(handle.pid)
        assert (await again.wait()).stdout == "late\n"

    run(scenario)


def test_a_terminal(server):
    async def scenario(sandbox):
        shown = bytearray()
        handle = await sandbox.pty.create(PtySize(rows=24, cols=80), on_data=shown.extend)
        await sandbox.pty.send_stdin(handle.pid, b"echo sum-$((20+22)); exit\n")
        await handle.wait()
        assert b"sum-42" in shown

    run(scenario)


def test_a_sandbox_killed_mid_stream(server):
    async def scenario(sandbox):
        handle = await sandbox.commands.run("sleep 1000", background=True, timeout=0)
        assert await sandbox.kill()
        with pytest.raises(SandboxNotRunningException):
            await handle.wait()
        assert not await sandbox.is_running()

    run(scenario)


def test_twenty_sandboxes_at_once(server):
    async def one(number: int) -> str:
        sandbox = await AsyncSandbox.create(timeout=120)
        try:
            return (await sandbox.commands.run(f"echo {number} > n; cat n")).stdout
        finally:
            await sandbox.kill()

    async def main() -> list[str]:
        return await asyncio.gather(*(one(number) for number in range(20)))

    assert asyncio.run(main()) == [f"{number}\n" for number in range(20)]

"""Waiting for what happens soon."""

import time


def wait_until(condition, seconds: float = 30) -> bool:
    """Polls until the condition holds; false when it does not within the time.

    The time is for a machine that is busy with something else: only a failure takes it.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())

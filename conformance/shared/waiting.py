"""Waiting for what happens soon."""

import time


def wait_until(condition, seconds: float = 10) -> bool:
    """Polls until the condition holds; false when it does not within the time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())

"""Configurations of the scripted provider, which calls tools without any model."""


def calling(*rounds: list[tuple[str, dict]], text: str = "done", **more: object) -> dict:
    """A configuration that calls the tools of each round, then says the text."""
    script = [{"tool_calls": [{"name": n, "args": a} for n, a in calls]} for calls in rounds]
    return {"model": {"provider": "scripted", "script": [*script, {"text": text}]}} | more


def shell(*commands: str, text: str = "done", **more: object) -> dict:
    """A configuration that runs the commands, one a round."""
    return calling(*[[("shell", {"command": command})] for command in commands], text=text, **more)


def saying(text: str = "done", **more: object) -> dict:
    return calling(text=text, **more)

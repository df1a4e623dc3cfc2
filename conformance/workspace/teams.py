"""Teams at a server: each is a workspace of its own."""

import json
import secrets
import subprocess

from api import Api
from serving import PROGRAMS, Server


def team(server: Server) -> Api:
    """Makes a team with a key."""
    name = "team-" + secrets.token_hex(4)
    command = [str(PROGRAMS / "mayfly"), "keys", "create", "--team", name, "--json"]
    made = subprocess.run([*command, "--data", str(server.data)], capture_output=True, check=True)
    api = Api(server.url, json.loads(made.stdout)["key"])
    api.team = name
    return api

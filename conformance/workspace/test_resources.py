"""Agents, environments, models, MCP servers, skills, tables: made, checked, kept apart."""

import io
import zipfile

import pytest

from api import fetch, form, shell, steps_of, text_of, unique
from dialects import Turn
from teams import team
from zips import HOSTILE, pack

SAMPLES = {
    "/api/agents": {"systemPrompt": "Be kind."},
    "/api/environments": {"variables": {"A": "1"}, "setupScript": "true"},
    "/api/models": {"provider": "scripted", "modelName": "none"},
    "/api/mcp-servers": {"transport": {"type": "stdio", "command": "true"}},
    "/api/workspace/tables": {"columns": [{"name": "a", "type": "text"}]},
    "/api/workspace/workflows": {
        "blocks": [
            {"id": "start", "type": "start", "inputs": {}},
            {"id": "end", "type": "respond", "inputs": {"data": "x"}},
        ],
        "edges": [{"from": "start", "to": "end"}],
    },
}
every_kind = pytest.mark.parametrize("path", SAMPLES)


@every_kind
def test_each_kind_is_made_listed_changed_and_deleted(player, path):
    made = [player.make(path, name=f"number {n}", **SAMPLES[path]) for n in range(5)]
    in_order = sorted(made, key=lambda row: (row["createdAt"], row["id"]))
    assert [row["id"] for row in player.every(path, limit=2)] == [row["id"] for row in in_order]
    one = f"{path}/{made[0]['id']}"
    assert player.get(one) == made[0]
    changed = player.call("PUT", one, {"name": "renamed"} | SAMPLES[path]).expect(200).json()
    assert changed["name"] == "renamed" and player.get(one)["name"] == "renamed"
    player.call("DELETE", one).expect(204, 200)
    player.call("GET", one).problem(404)
    player.call("PUT", one, {"name": "again"} | SAMPLES[path]).problem(404)
    player.call("DELETE", one).problem(404)


@every_kind
def test_names_are_unique_in_a_workspace_and_kind(player, played, path):
    first = player.make(path, name="taken", **SAMPLES[path])
    body = {"name": "taken"} | SAMPLES[path]
    player.call("POST", path, body).problem(409, "name_taken")
    second = player.make(path, name="free", **SAMPLES[path])
    player.call("PUT", f"{path}/{second['id']}", body).problem(409, "name_taken")
    player.call("PUT", f"{path}/{first['id']}", body).expect(200)
    assert team(played).make(path, **body)["name"] == "taken", "others may use it"


@every_kind
def test_other_teams_neither_see_nor_change_a_thing(player, played, path):
    made = player.make(path, name="mine", **SAMPLES[path])
    stranger, one = team(played), f"{path}/{made['id']}"
    assert stranger.every(path) == []
    stranger.call("GET", one).problem(404)
    stranger.call("PUT", one, {"name": "stolen"} | SAMPLES[path]).problem(404)
    stranger.call("DELETE", one).problem(404)
    assert player.get(one) == made


NOWHERE = "0" * 24
MISTAKES = [
    ("/api/agents", {"name": "", "systemPrompt": "x"}, "name"),
    ("/api/agents", {"name": "x" * 101, "systemPrompt": "x"}, "name"),
    ("/api/agents", {"name": "a\nb", "systemPrompt": "x"}, "name"),
    ("/api/agents", {"name": "a", "systemPrompt": "x", "maxRounds": 0}, "maxRounds"),
    ("/api/agents", {"name": "a", "systemPrompt": "x", "maxRounds": 101}, "maxRounds"),
    ("/api/agents", {"name": "a", "systemPrompt": "x", "harness": "gemini"}, "harness"),
    ("/api/agents", {"name": "a", "systemPrompt": "x", "modelId": f"model_{NOWHERE}"}, "modelId"),
    (
        "/api/agents",
        {"name": "a", "systemPrompt": "x", "skillIds": ["actana_files", "actana_tables", "no"]},
        "skillIds[2]",
    ),
    ("/api/environments", {"name": "e", "variables": {"1A": "x"}}, "variables.1A"),
    ("/api/environments", {"name": "e", "variables": {"A": 7}}, "variables.A"),
    ("/api/models", {"name": "m", "provider": "oracle", "modelName": "x"}, "provider"),
    (
        "/api/models",
        {"name": "m", "provider": "openai", "modelName": "x", "baseUrl": "file:///etc/passwd"},
        "baseUrl",
    ),
    (
        "/api/models",
        {"name": "m", "provider": "openai", "modelName": "x", "script": [{"text": "x"}]},
        "script",
    ),
    ("/api/mcp-servers", {"name": "m", "transport": {"type": "http", "url": "nowhere"}}, "transport.url"),
    ("/api/mcp-servers", {"name": "m", "transport": {"type": "pigeon"}}, "transport"),
    ("/api/workspace/tables", {"name": "t", "columns": [{"name": "a", "type": "blob"}]}, "columns[0].type"),
    (
        "/api/workspace/tables",
        {"name": "t", "columns": [{"name": "a", "type": "text"}, {"name": "a", "type": "text"}]},
        "columns[1].name",
    ),
]


@pytest.mark.parametrize(("path", "body", "field"), MISTAKES, ids=lambda value: str(value)[-30:])
def test_a_mistake_names_its_field(player, path, body, field):
    problem = player.call("POST", path, body).problem(400)
    assert problem.get("field", "").startswith(field), problem
    assert player.every(path) == []


def test_bodies_that_are_no_json_or_too_large_are_refused(player):
    for body, status in ((b"{", 400), (b"[]", 400), (b'{"name":"' + b"x" * (5 << 20) + b'"}', 413)):
        headers = {"X_API_Key": player.key, "Content_Type": "application/json"}
        fetch("POST", player.url + "/api/agents", body, **headers).problem(status)


def test_secrets_go_in_and_never_come_out(player):
    environment = player.make("/api/environments", name="e", variables={"A": "hush-1", "B": "hush-2"})
    model = player.make(
        "/api/models", name="m", provider="openai", modelName="x", apiKey="hush-3", baseUrl="http://x.test"
    )
    stdio = {"type": "stdio", "command": "x", "env": {"K": "hush-4"}}
    http = {"type": "http", "url": "http://x.test/", "headers": {"Authorization": "hush-5"}}
    servers = [player.make("/api/mcp-servers", name=n, transport=t) for n, t in (("s", stdio), ("h", http))]
    assert model["hasApiKey"] is True
    assert set(environment["variables"]) == {"A", "B"}
    shown = [environment, model, *servers]
    shown += [player.every(path) for path in ("/api/environments", "/api/models", "/api/mcp-servers")]
    assert "hush" not in str(shown)


def test_a_secret_that_is_not_sent_again_is_kept(player, runner):
    environment = player.make("/api/environments", name="e", variables={"KEPT": "old", "GONE": "x"})
    body = {"name": "e", "variables": {"KEPT": None, "NEW": "new"}}
    player.call("PUT", f"/api/environments/{environment['id']}", body).expect(200)
    agent = player.make("/api/agents", name="a", systemPrompt="", environmentId=environment["id"])
    player.say("x", player.conversation(agentId=agent["id"])).until("turn")
    assert runner.latest().env()["variables"] == {"KEPT": "old", "NEW": "new"}


def test_what_an_agent_uses_cannot_be_deleted(player):
    bundle = ("s.zip", pack({"SKILL.md": "---\nname: s\ndescription: d\n---\n"}))
    used = {
        "modelId": ("/api/models", player.make("/api/models", name="m", provider="scripted", modelName="x")),
        "environmentId": ("/api/environments", player.make("/api/environments", name="e")),
        "skillIds": ("/api/skills", player.send("/api/skills", bundle, part="bundle").expect(201).json()),
    }
    fields = {"modelId": used["modelId"][1]["id"], "environmentId": used["environmentId"][1]["id"]}
    fields |= {"skillIds": [used["skillIds"][1]["id"]]}
    agent = player.make("/api/agents", name="needs them", systemPrompt="", **fields)
    for path, thing in used.values():
        problem = player.call("DELETE", f"{path}/{thing['id']}").problem(409, "in_use")
        assert "needs them" in problem["message"]
    player.call("DELETE", f"/api/agents/{agent['id']}").expect(204, 200)
    for path, thing in used.values():
        player.call("DELETE", f"{path}/{thing['id']}").expect(204, 200)


def test_an_agent_works_with_what_it_was_given(api, model):
    """Environment, setup script, skill and model, all in one sandbox."""
    recipe = "printf '{\"said\": \"%s %s\"}' \"$ARG_WORD\" \"$GREETING\""
    files = {"SKILL.md": "---\nname: greeter\ndescription: Greets.\n---\n", "recipes/greet.sh": recipe}
    skill = api.send("/api/skills", ("greeter.zip", pack(files)), part="bundle").expect(201).json()
    environment = api.make(
        "/api/environments", name="e", variables={"GREETING": "hello"}, setupScript="echo $GREETING > made"
    )
    call = {"skill": "greeter", "recipe": "greet", "args": {"word": "well"}}
    thinker = model(
        "openai",
        Turn(calls=[("run_recipe", call), ("shell", {"command": "cat made"})]),
        Turn("All is well."),
    )
    endpoint = api.make(
        "/api/models", name="m", provider="openai", modelName="x", baseUrl=thinker.url, apiKey=thinker.key
    )
    agent = api.make(
        "/api/agents",
        name="a",
        systemPrompt="You greet.",
        modelId=endpoint["id"],
        environmentId=environment["id"],
        skillIds=[skill["id"]],
    )
    done = api.say("Greet", api.conversation(agentId=agent["id"])).whole()
    assert done["status"] == "succeeded", done
    assert text_of(done["message"]) == "All is well."
    recipe_step, shell_step = steps_of(done["message"])
    assert recipe_step["result"] == {"said": "well hello"}, recipe_step
    assert shell_step["result"]["stdout"] == "hello\n"
    assert "You greet." in thinker.asked[0].system


def test_a_skill_is_the_same_as_zip_and_as_folder(player):
    files = {"SKILL.md": "---\nname: twin\ndescription: Same.\n---\n"}
    files |= {"recipes/a.sh": "echo a", "x/y.txt": "y"}
    zipped = player.send("/api/skills", ("twin.zip", pack(files)), part="bundle").expect(201).json()
    path = f"/api/skills/{zipped['id']}"
    assert (zipped["name"], zipped["description"]) == ("twin", "Same.")
    folder = [(name, content.encode()) for name, content in reversed(files.items())]
    answer = player.send("/api/skills", *folder, name="other name")
    assert answer.expect(201).json()["version"] == zipped["version"]
    nested = {f"twin/{name}": content for name, content in files.items()}
    answer = player.send("/api/skills", ("n.zip", pack(nested)), part="bundle", name="nested").expect(201)
    assert answer.json()["version"] == zipped["version"]
    bundle = player.call("GET", path + "/bundle").expect(200).body
    assert sorted(zipfile.ZipFile(io.BytesIO(bundle)).namelist()) == sorted(files)


def test_a_new_bundle_is_a_new_version(player):
    bundle = lambda text: ("s.zip", pack({"SKILL.md": f"---\nname: s\ndescription: {text}\n---\n"}))
    skill = player.send("/api/skills", bundle("one"), part="bundle").expect(201).json()
    body, kind = form(bundle("two"), part="bundle")
    url = f"{player.url}/api/skills/{skill['id']}"
    changed = fetch("PUT", url, body, X_API_Key=player.key, Content_Type=kind).expect(200).json()
    assert changed["id"] == skill["id"] and changed["version"] != skill["version"]
    assert changed["description"] == "two"


BAD_BUNDLES = HOSTILE | {"no SKILL.md": pack({"README.md": "x"}), "no zip": b"hello"}


@pytest.mark.parametrize("bundle", BAD_BUNDLES.values(), ids=BAD_BUNDLES.keys())
def test_a_bundle_that_was_made_to_do_harm_is_refused(player, bundle):
    if bundle in (HOSTILE["climbing"], HOSTILE["absolute"], HOSTILE["backslash"]):
        # Refused for its path, and not for what it lacks.
        archive = io.BytesIO(bundle)
        with zipfile.ZipFile(archive, "a") as opened:
            opened.writestr("SKILL.md", "---\nname: s\ndescription: d\n---\n")
        bundle = archive.getvalue()
    answer = player.send("/api/skills", ("s.zip", bundle), part="bundle")
    assert answer.status in (400, 413), (answer.status, answer.body)
    assert player.every("/api/skills") == []


def test_rows_fit_their_columns(player):
    columns = [
        {"name": "title", "type": "text"},
        {"name": "price", "type": "number"},
        {"name": "sold", "type": "boolean"},
        {"name": "more", "type": "json"},
        {"name": "day", "type": "date"},
    ]
    table = player.make("/api/workspace/tables", name=unique("t"), columns=columns)
    rows = f"/api/workspace/tables/{table['id']}/rows"
    good = {"title": "a", "price": 1.5, "sold": True, "more": {"x": [1]}, "day": "2026-11-15"}
    stored = player.call("POST", rows, {"rows": [good] * 3}).expect(201).json()
    assert len(player.every(rows)) == 3, stored
    for wrong in ({"price": "cheap"}, {"sold": "yes"}, {"day": "tomorrow"}, {"title": 7}, {"other": 1}):
        (name,) = wrong
        body = {"rows": [good, good | wrong]}
        problem = player.call("POST", rows, body).problem(400)
        assert problem["field"] == f"rows[1].{name}", problem
    assert len(player.every(rows)) == 3, "all or nothing"
    one = f"{rows}/{player.every(rows)[0]['id']}"
    player.call("PUT", one, {"data": good | {"price": 2}}).expect(200)
    assert player.get(one)["data"]["price"] == 2
    player.call("DELETE", one).expect(204, 200)
    assert len(player.every(rows, limit=1)) == 2
    player.call("DELETE", f"/api/workspace/tables/{table['id']}").expect(204, 200)
    player.call("GET", rows).problem(404)


def test_the_default_assistant_uses_the_only_model_or_the_one_called_default(player, runner):
    first = player.make("/api/models", name="only", provider="scripted", modelName="first")
    player.say("x").until("turn")
    assert runner.latest(1).config()["model"]["name"] == "first"
    player.make("/api/models", name="default", provider="scripted", modelName="second")
    player.say("x").until("turn")
    assert runner.latest(2).config()["model"]["name"] == "second"
    player.call("DELETE", f"/api/models/{first['id']}").expect(204, 200)


def test_a_script_of_a_model_is_followed(api):
    script = [
        {"tool_calls": [{"name": "shell", "args": {"command": "echo scripted"}}]},
        {"text": "By the script."},
    ]
    api.make("/api/models", name="default", provider="scripted", modelName="none", script=script)
    done = api.say(shell("echo not this")).whole()
    assert text_of(done["message"]) == "By the script."
    assert steps_of(done["message"])[0]["result"]["stdout"] == "scripted\n"

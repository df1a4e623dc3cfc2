"""The Assistant's own skills: recipes in a real sandbox change tables, files and workflows."""

import json

import pytest

from api import Api, shell, steps_of
from dialects import Turn


def recipes(api: Api, *calls: tuple[str, str, dict]) -> list[dict]:
    """Runs recipes one after the other in one turn of the default Assistant; their steps."""
    script = [
        {"tool_calls": [{"name": "run_recipe", "args": {"skill": skill, "recipe": recipe, "args": args}}]}
        for skill, recipe, args in calls
    ]
    body = {"name": "default", "provider": "scripted", "modelName": "none"}
    body["script"] = [*script, {"text": "done"}]
    (known,) = api.every("/api/models") or [None]
    if known:
        api.call("PUT", f"/api/models/{known['id']}", body).expect(200)
    else:
        api.make("/api/models", **body)
    done = api.say("Use your skills").whole()
    assert done["status"] == "succeeded", done
    steps = steps_of(done["message"])
    assert len(steps) == len(calls)
    return steps


def results(steps: list[dict]) -> list[object]:
    for step in steps:
        assert step["status"] == "succeeded", step
        assert "exit_code" not in str(step["result"])[:40], step
    return [step["result"] for step in steps]


def test_tables_are_made_and_filled_from_inside(api):
    columns = [{"name": "city", "type": "text"}, {"name": "people", "type": "number"}]
    results(recipes(api, ("actana_tables", "create-table", {"name": "cities", "columns": columns})))
    (table,) = api.every("/api/workspace/tables")
    assert table["name"] == "cities" and len(table["columns"]) == 2
    rows = [{"city": "Bonn", "people": 330_000}, {"city": "Köln", "people": 1_080_000}]
    results(recipes(api, ("actana_tables", "add-rows", {"table": table["id"], "rows": rows})))
    path = f"/api/workspace/tables/{table['id']}/rows"
    stored = api.every(path)
    assert [row["data"] for row in stored] == rows
    changed = {"city": "Bonn", "people": 331_000}
    update = {"table": table["id"], "row": stored[0]["id"], "data": changed}
    listed, shown, *_ = results(
        recipes(
            api,
            ("actana_tables", "list-tables", {}),
            ("actana_tables", "list-rows", {"table": table["id"]}),
            ("actana_tables", "update-row", update),
            ("actana_tables", "delete-row", {"table": table["id"], "row": stored[1]["id"]}),
        )
    )
    assert "cities" in json.dumps(listed) and "Köln" in json.dumps(shown, ensure_ascii=False)
    assert [row["data"] for row in api.every(path)] == [changed]


def test_files_are_saved_read_and_deleted_from_inside(api):
    saved, listed = results(
        recipes(
            api,
            ("actana_files", "save-file", {"name": "poem.txt", "content": "Roses are »red«.\n"}),
            ("actana_files", "list-files", {}),
        )
    )
    (file,) = api.every("/api/workspace/files")
    assert file["name"] == "poem.txt" and file["id"] in json.dumps(listed), (saved, listed)
    content = api.call("GET", f"/api/workspace/files/{file['id']}/content").expect(200).body
    assert content.decode() == "Roses are »red«.\n"
    (read,) = results(recipes(api, ("actana_files", "read-file", {"file": file["id"]})))
    assert "Roses are »red«." in json.dumps(read, ensure_ascii=False)
    results(recipes(api, ("actana_files", "delete-file", {"file": file["id"]})))
    assert api.every("/api/workspace/files") == []


def test_workflows_are_edited_from_inside(api):
    blocks = [
        {"id": "start", "type": "start", "inputs": {}},
        {"id": "answer", "type": "respond", "inputs": {"data": "{{start.input}}"}},
    ]
    edges = [{"from": "start", "to": "answer"}]
    made = {"name": "flow", "blocks": blocks, "edges": edges}
    results(recipes(api, ("actana_workflow_editor", "create-workflow", made)))
    (workflow,) = api.every("/api/workspace/workflows")
    assert workflow["edges"] == edges
    node = {"node": "save", "nodeType": "save_file", "inputs": {"name": "a.txt", "content": "x"}}
    flow = {"workflow": workflow["id"]}
    steps = recipes(
        api,
        ("actana_workflow_editor", "list-workflows", {}),
        ("actana_workflow_editor", "get-workflow", flow),
        ("actana_workflow_editor", "add-node", flow | node | {"after": "start"}),
        ("actana_workflow_editor", "connect-nodes", flow | {"from": "save", "to": "answer"}),
        ("actana_workflow_editor", "update-workflow", flow | {"name": "renamed"}),
    )
    results(steps)
    changed = api.get(f"/api/workspace/workflows/{workflow['id']}")
    assert {block["id"] for block in changed["blocks"]} == {"start", "answer", "save"}
    assert {"from": "save", "to": "answer"} in changed["edges"]
    assert changed["name"] == "renamed"
    results(recipes(api, ("actana_workflow_editor", "remove-node", flow | {"node": "save"})))
    changed = api.get(f"/api/workspace/workflows/{workflow['id']}")
    assert {block["id"] for block in changed["blocks"]} == {"start", "answer"}


@pytest.mark.parametrize(
    ("skill", "recipe", "args"),
    [
        ("actana_tables", "list-rows", {"table": "tbl_" + "0" * 24}),
        ("actana_files", "read-file", {"file": "file_" + "0" * 24}),
        ("actana_workflow_editor", "get-workflow", {"workflow": "wf_" + "0" * 24}),
    ],
)
def test_a_recipe_that_fails_tells_the_model_what_the_workspace_said(api, model, skill, recipe, args):
    call = ("run_recipe", {"skill": skill, "recipe": recipe, "args": args})
    thinker = model("openai", Turn(calls=[call]), Turn("It is not there."))
    endpoint = {"provider": "openai", "modelName": "x", "baseUrl": thinker.url}
    api.make("/api/models", name="default", apiKey=thinker.key, **endpoint)
    done = api.say("Look").whole()
    (step,) = steps_of(done["message"])
    assert step["status"] == "failed", step
    (told,) = thinker.asked[1].results.values()
    assert "was not found" in told, told


def test_a_sandbox_reaches_the_workspace_and_not_the_rest(api):
    """With its bearer, and through the link alone."""
    ask = 'curl -s -o /dev/null -w "%{http_code}" --path-as-is'
    bearer = '-H "Authorization: Bearer $WORKSPACE_API_TOKEN"'
    commands = [
        f"{ask} {bearer} $WORKSPACE_API_URL/tables",
        f"{ask} $WORKSPACE_API_URL/tables",
        f"{ask} {bearer} $WORKSPACE_API_URL/../models",
    ]
    done = api.say(shell(*commands)).whole()
    codes = [step["result"]["stdout"] for step in steps_of(done["message"])]
    assert codes[:2] == ["200", "401"], codes
    assert codes[2] != "200", codes

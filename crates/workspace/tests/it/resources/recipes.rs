//! The recipes of our own skills, run as an agent runs them, against the real
//! API: once with curl and jq, once with python3 alone.

#![expect(clippy::print_stderr, reason = "a test that is skipped says so")]

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use zip::ZipArchive;

use super::place::{Place, answer, refused};

/// What recipes use besides.
const TOOLS: [&str; 12] =
    ["basename", "cat", "cmp", "cp", "dirname", "mkdir", "mktemp", "mv", "rm", "sed", "tr", "wc"];
/// The two ways in which they speak to the API.
const WAYS: [&[&str]; 2] = [&["curl", "jq"], &["python3"]];

/// A sandbox with our skills unpacked in it and one way to speak.
struct Sandbox {
    place: Place,
    directory: TempDir,
    token: String,
}

impl Sandbox {
    /// Nothing when this machine lacks a tool.
    async fn open(way: &[&str]) -> Option<Sandbox> {
        let directory = tempfile::tempdir().unwrap();
        let tools = directory.path().join("tools");
        std::fs::create_dir(&tools).unwrap();
        for tool in TOOLS.iter().chain(way) {
            let Some(found) = installed(tool) else {
                eprintln!("skipped: `{tool}` is not installed");
                return None;
            };
            std::os::unix::fs::symlink(found, tools.join(tool)).unwrap();
        }
        let place = Place::start().await;
        for skill in ["actana_tables", "actana_files", "actana_workflow_editor"] {
            let request = place.request(Method::GET, &format!("/api/skills/{skill}/bundle"));
            let zip =
                request.header("x-api-key", "red").send().await.unwrap().bytes().await.unwrap();
            let mut archive = ZipArchive::new(Cursor::new(zip)).unwrap();
            archive.extract(directory.path().join(skill)).unwrap();
        }
        let token = format!("asbx_{}", place.session(None).await);
        Some(Sandbox { place, directory, token })
    }

    /// Runs a recipe: its JSON, or what it said when it failed.
    async fn run(&self, skill: &str, recipe: &str, args: Value) -> Result<Value, String> {
        let skill = self.directory.path().join(skill);
        let mut child = Command::new("/bin/sh")
            .arg(skill.join("recipes").join(format!("{recipe}.sh")))
            .env_clear()
            .env("PATH", self.directory.path().join("tools"))
            .env("SKILL_DIR", &skill)
            .env("WORKSPACE_API_URL", format!("{}/api/workspace", self.place.base))
            .env("WORKSPACE_API_TOKEN", &self.token)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(args.to_string().as_bytes()).await.unwrap();
        let ended = child.wait_with_output().await.unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
        if !ended.status.success() {
            return Err(said);
        }
        Ok(serde_json::from_slice(&ended.stdout).unwrap_or_else(|_| panic!("no JSON: {said}")))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }
}

fn installed(tool: &str) -> Option<PathBuf> {
    // Not by a wrapper in somebody's home: it would need that one's PATH.
    let places = ["/usr/bin", "/bin", "/usr/local/bin"];
    places.iter().map(|place| Path::new(place).join(tool)).find(|path| path.exists())
}

#[tokio::test]
async fn tables_are_made_and_filled_by_recipes() {
    for way in WAYS {
        let Some(sandbox) = Sandbox::open(way).await else { continue };
        let run = async |recipe, args| sandbox.run("actana_tables", recipe, args).await;
        let columns =
            json!([{"name": "item", "type": "text"}, {"name": "price", "type": "number"}]);
        let args = json!({"name": "Ördér \"x\"", "columns": columns});
        let table = run("create-table", args.clone()).await.unwrap();
        assert_eq!(table["name"], args["name"]);
        assert!(run("create-table", args).await.unwrap_err().contains("is called"));
        let id = &table["id"];
        let rows = json!([{"item": "a\n'b'", "price": 1.5}, {"item": "c"}]);
        let added = run("add-rows", json!({"table": id, "rows": rows})).await.unwrap();
        let row = &added["items"][0]["id"];
        assert_eq!(added["items"][0]["data"], rows[0]);
        let wrong = json!({"table": id, "rows": [{}, {"price": "x"}]});
        let said = run("add-rows", wrong).await.unwrap_err();
        assert_eq!(said, "rows[1].price: is not a number");
        let data = json!({"item": "z", "price": 0});
        let replaced = run("update-row", json!({"table": id, "row": row, "data": data})).await;
        assert_eq!(replaced.unwrap()["data"], data);
        let first = run("list-rows", json!({"table": id, "limit": 1})).await.unwrap();
        assert_eq!(first["items"][0]["data"], data);
        let next = json!({"table": id, "cursor": first["nextCursor"]});
        assert_eq!(run("list-rows", next).await.unwrap()["items"][0]["data"]["item"], "c");
        assert!(run("delete-row", json!({"table": id, "row": row})).await.is_ok());
        assert!(run("delete-row", json!({"table": id, "row": row})).await.is_err());
        assert_eq!(run("list-tables", json!({})).await.unwrap()["items"][0]["id"], *id);
        let said = run("list-rows", json!({})).await.unwrap_err();
        assert_eq!(said, "argument `table` is missing");
        sandbox.place.end().await;
    }
}

#[tokio::test]
async fn files_are_kept_and_read_by_recipes() {
    for way in WAYS {
        let Some(sandbox) = Sandbox::open(way).await else { continue };
        let run = async |recipe, args| sandbox.run("actana_files", recipe, args).await;
        let content = "héllo\n\"x\" \\ y\n\n";
        let kept = run("save-file", json!({"name": "a b.txt", "content": content})).await.unwrap();
        let text = &kept["files"][0]["id"];
        let read = run("read-file", json!({"file": text})).await.unwrap();
        assert_eq!(read, json!({"content": content}));

        let bytes: Vec<u8> = (0..=255).collect();
        std::fs::write(sandbox.path("all bytes.bin"), &bytes).unwrap();
        let kept = run("save-file", json!({"path": sandbox.path("all bytes.bin")})).await.unwrap();
        assert_eq!(kept["files"][0]["name"], "all bytes.bin");
        let binary = &kept["files"][0]["id"];
        let said = run("read-file", json!({"file": binary})).await.unwrap_err();
        assert!(said.contains("not text"), "{said}");
        let to = sandbox.path("new/copy.bin");
        let read = run("read-file", json!({"file": binary, "path": to})).await.unwrap();
        assert_eq!(read["id"], *binary);
        assert_eq!(std::fs::read(to).unwrap(), bytes);

        assert!(run("delete-file", json!({"file": text})).await.is_ok());
        let said = run("read-file", json!({"file": text})).await.unwrap_err();
        assert!(said.contains("not found"), "{said}");
        let listed = run("list-files", json!({})).await.unwrap();
        assert_eq!(listed["items"].as_array().unwrap().len(), 1);
        sandbox.place.end().await;
    }
}

#[tokio::test]
async fn workflows_are_built_and_changed_by_recipes() {
    for way in WAYS {
        let Some(sandbox) = Sandbox::open(way).await else { continue };
        let run = async |recipe, args| sandbox.run("actana_workflow_editor", recipe, args).await;
        let args = json!({
            "name": "Report",
            "blocks": [
                {"id": "start", "type": "start", "inputs": {}},
                {"id": "answer", "type": "respond", "inputs": {"data": "{{start.input}}"}},
            ],
            "edges": [{"from": "start", "to": "answer"}],
        });
        let made = run("create-workflow", args).await.unwrap();
        let id = &made["id"];
        let node = json!({
            "workflow": id, "node": "keep", "nodeType": "save_file",
            "inputs": {"name": "a.txt", "content": "x"}, "after": "start", "before": "answer",
        });
        let changed = run("add-node", node).await.unwrap();
        let expected = json!([{"from": "start", "to": "keep"}, {"from": "keep", "to": "answer"}]);
        assert_eq!(changed["edges"], expected);
        let edge = json!({"workflow": id, "from": "start", "to": "answer"});
        let changed = run("connect-nodes", edge).await.unwrap();
        assert_eq!(changed["edges"].as_array().unwrap().len(), 3);
        let back = json!({"workflow": id, "from": "answer", "to": "keep"});
        assert!(run("connect-nodes", back).await.is_err());
        let changed = run("remove-node", json!({"workflow": id, "node": "keep"})).await.unwrap();
        assert_eq!(changed["edges"], json!([{"from": "start", "to": "answer"}]));
        let renamed =
            run("update-workflow", json!({"workflow": id, "name": "Other"})).await.unwrap();
        assert_eq!((&renamed["name"], &renamed["blocks"]), (&json!("Other"), &changed["blocks"]));
        assert_eq!(run("get-workflow", json!({"workflow": id})).await.unwrap()["name"], "Other");
        let listed = run("list-workflows", json!({})).await.unwrap();
        assert_eq!(listed["items"].as_array().unwrap().len(), 1);
        sandbox.place.end().await;
    }
}

#[tokio::test]
async fn a_sandbox_changes_a_workflow_but_not_where_its_agents_run() {
    const WORKFLOWS: &str = "/api/workspace/workflows";
    let place = Place::start().await;
    let token = format!("asbx_{}", place.session(None).await);
    let ask = async |method: Method, path: &str, body: &Value| {
        let request = place.request(method, path).bearer_auth(&token);
        let request = request.header("content-type", "application/json").body(body.to_string());
        answer(request).await
    };
    let graph = |prompt: &str, url: Option<&str>, variable: Option<&str>| {
        let mut inputs = json!({"agent": "a", "prompt": prompt});
        let mut variables = json!({});
        if let Some(url) = url {
            inputs["sandboxUrl"] = url.into();
        }
        if let Some(url) = variable {
            variables["SANDBOX_URL"] = url.into();
        }
        json!({
            "name": "w", "environment": {"variables": variables},
            "blocks": [
                {"id": "start", "type": "start"}, {"id": "one", "type": "agents", "inputs": inputs},
            ],
            "edges": [{"from": "start", "to": "one"}],
        })
    };
    let foreign = Some("http://evil.test");
    let made = ask(Method::POST, WORKFLOWS, &graph("x", foreign, None)).await;
    refused(&made, 403, "permission_denied", "blocks.one.inputs.sandboxUrl");
    let made = ask(Method::POST, WORKFLOWS, &graph("x", None, foreign)).await;
    refused(&made, 403, "permission_denied", "environment.variables.SANDBOX_URL");

    let ours = Some("http://runner.test");
    let id = place.make(WORKFLOWS, graph("x", ours, None)).await;
    let path = format!("{WORKFLOWS}/{id}");
    assert_eq!(ask(Method::PUT, &path, &graph("changed", ours, None)).await.0, 200);
    let moved = ask(Method::PUT, &path, &graph("changed", foreign, None)).await;
    refused(&moved, 403, "permission_denied", "blocks.one.inputs.sandboxUrl");
    assert_eq!(ask(Method::PUT, &path, &graph("without", None, None)).await.0, 200);
    // Where a reference says it, a sandbox changes nothing that it may refer to.
    let asked = graph("y", Some("{{start.runner}}"), None);
    let changed = place.ask(Method::PUT, &path, asked.clone()).await;
    assert_eq!(changed.0, 200, "{}", changed.1);
    let again = ask(Method::PUT, &path, &asked).await;
    refused(&again, 403, "permission_denied", "blocks.one.inputs.sandboxUrl");
    place.end().await;
}

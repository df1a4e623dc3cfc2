//! Every built-in tool, through the same door as a model's call.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use wire::{
    agent::{AgentLimits, CodeMode},
    run::Outcome,
};

use super::{Builtin, Toolbox, told};
use crate::{
    emit::Emitter,
    mcp::Servers,
    model::{Arguments, ToolCall},
    session::{Session, Skill, Variables},
    skills,
};

/// A session in a directory of its own, and the files that tests want there.
struct Desk {
    directory: TempDir,
    session: Session,
    out: Emitter,
}

impl Desk {
    fn new() -> Desk {
        let directory = tempfile::tempdir().unwrap();
        let workspace = directory.path().join("workspace");
        fs::create_dir_all(workspace.join("src")).unwrap();
        fs::write(workspace.join("notes.txt"), "one\ntwo\nthree two\n").unwrap();
        fs::write(workspace.join("src/main.rs"), "fn main() {}\r\n").unwrap();
        fs::write(workspace.join("binary"), b"\xff\xfe\0two").unwrap();
        // Login shells read profiles at home, and nobody's should be read.
        let home = directory.path().display().to_string();
        let variables =
            [("GREETING".to_owned(), "hello".to_owned()), ("HOME".to_owned(), home)].into();
        let session = Session {
            variables: Variables::new(variables).unwrap(),
            limits: AgentLimits { tool_result_bytes: 4096, ..AgentLimits::STANDARD },
            ..Session::for_test(directory.path(), &workspace)
        };
        Desk { directory, session, out: Emitter::to(io::sink()) }
    }

    fn with_skill(mut self, recipe: &str) -> Desk {
        let skill = self.directory.path().join("skill");
        fs::create_dir_all(skill.join("recipes")).unwrap();
        fs::write(skill.join("recipes/add-node.sh"), recipe).unwrap();
        let (id, name) = ("sk_1".to_owned(), "editor".to_owned());
        self.session.skills = vec![Skill { id, name, directory: skill }];
        self
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.session.workspace_dir.join(name)
    }

    async fn call(&self, tool: &str, args: Value) -> Outcome {
        let skills = skills::open(&self.session.skills);
        let servers = Servers::none();
        let toolbox = Toolbox::new(&self.session, &skills, &servers, &self.out);
        toolbox.call(&call(tool, args)).await
    }

    async fn succeeds(&self, tool: &str, args: Value) -> Value {
        match self.call(tool, args).await {
            Outcome::Succeeded { result, truncated: false } => result,
            other @ (Outcome::Succeeded { .. } | Outcome::Failed { .. } | Outcome::Deferred) => {
                panic!("{tool}: {other:?}")
            }
        }
    }

    async fn fails(&self, tool: &str, args: Value) -> (String, Option<Value>) {
        match self.call(tool, args).await {
            Outcome::Failed { error, result } => (error, result),
            Outcome::Succeeded { result, .. } => panic!("{tool}: {result}"),
            Outcome::Deferred => panic!("{tool} was deferred"),
        }
    }
}

fn call(tool: &str, args: Value) -> ToolCall {
    let Value::Object(fields) = args else { panic!("{args}") };
    ToolCall { id: "1".to_owned(), name: tool.to_owned(), arguments: Arguments::Object(fields) }
}

#[tokio::test]
async fn arguments_that_are_wrong_are_named() {
    let desk = Desk::new();
    let check = async |tool: &str, args: Value, expected: &str| {
        assert_eq!(desk.fails(tool, args).await, (expected.to_owned(), None));
    };
    check("shell", json!({}), "shell: `command` is missing").await;
    check("shell", json!({"command": null}), "shell: `command` is missing").await;
    check("shell", json!({"command": 1}), "shell: `command` is not a string").await;
    check("shell", json!({"command": "a\0b"}), "shell: `command` contains a NUL character").await;
    let timeout = "shell: `timeout_ms` is not a positive integer";
    check("shell", json!({"command": "ls", "timeout_ms": "soon"}), timeout).await;
    check("shell", json!({"command": "ls", "timeout_ms": 0}), timeout).await;
    check("shell", json!({"command": "ls", "timeout_ms": -1}), timeout).await;
    check("shell", json!({"command": "ls", "timeout_ms": 1.5}), timeout).await;
    let unknown = "shell: `cwd` is not an argument of this tool";
    check("shell", json!({"command": "ls", "cwd": "/"}), unknown).await;
    check("write_file", json!({"path": "a"}), "write_file: `content` is missing").await;
    let empty = json!({"path": "notes.txt", "old": "", "new": ""});
    check("edit_file", empty, "edit_file: `old` is empty").await;
    let skill = json!({"skill": "x", "recipe": "y", "args": []});
    check("run_recipe", skill, "run_recipe: `args` is not an object").await;
    let skill = json!({"skill": "x", "recipe": "y"});
    check("run_recipe", skill, "run_recipe: `skill` is none of the attached skills").await;
    check("fly", json!({}), "there is no tool `fly`").await;
}

#[tokio::test]
async fn arguments_that_are_no_object_go_back_to_the_model() {
    let desk = Desk::new();
    let servers = Servers::none();
    let toolbox = Toolbox::new(&desk.session, &[], &servers, &desk.out);
    let arguments = Arguments::Malformed { text: "{".to_owned(), reason: "EOF".to_owned() };
    let call = ToolCall { id: "1".to_owned(), name: "shell".to_owned(), arguments };
    let outcome = toolbox.call(&call).await;
    assert_eq!(told(&outcome), "error: the arguments are no JSON object: EOF");
    assert_eq!(toolbox.shown(&call), ("shell".to_owned(), json!("{")));
}

#[tokio::test]
async fn the_shell_runs_in_the_workspace_with_the_variables() {
    let desk = Desk::new();
    let command = "pwd; echo $GREETING; echo oops >&2; cat";
    let result = desk.succeeds("shell", json!({"command": command})).await;
    let workspace = desk.session.workspace_dir.canonicalize().unwrap();
    assert_eq!(result["stdout"], format!("{}\nhello\n", workspace.display()));
    assert_eq!(result["stderr"], "oops\n");
    assert_eq!(result["exit_code"], 0);
}

#[tokio::test]
async fn an_exit_status_other_than_0_is_a_failure_that_keeps_its_output() {
    let desk = Desk::new();
    let (error, result) = desk.fails("shell", json!({"command": "echo out; exit 3"})).await;
    assert_eq!(error, "exit status 3");
    assert_eq!(result, Some(json!({"exit_code": 3, "stdout": "out\n", "stderr": ""})));
    let (error, result) = desk.fails("shell", json!({"command": "kill -9 $$"})).await;
    assert_eq!(error, "killed by signal 9");
    assert_eq!(result.unwrap()["exit_code"], 137);
}

#[tokio::test]
async fn at_the_time_limit_everything_the_command_started_dies() {
    let desk = Desk::new();
    let command = "echo $$; sleep 300 & sleep 300";
    let began = Instant::now();
    let args = json!({"command": command, "timeout_ms": 2000.0});
    let (error, result) = desk.fails("shell", args).await;
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(error, "timed out after 2000 ms");
    let result = result.unwrap();
    assert_eq!((&result["timed_out"], &result["exit_code"]), (&json!(true), &json!(null)));
    let group: i32 = result["stdout"].as_str().unwrap().trim().parse().unwrap();
    assert!(no_process_of(group));
}

/// Whether nothing of a process group lives. A killed process may take a
/// moment to be seen as dead.
fn no_process_of(group: i32) -> bool {
    let deadline = Instant::now() + Duration::from_secs(5);
    let alive = || {
        fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| fs::read_to_string(entry.ok()?.path().join("stat")).ok())
            .any(|stat| {
                let mut after = stat.rsplit(") ").next().unwrap_or_default().split(' ');
                let state = after.next();
                state != Some("Z") && after.nth(1) == Some(group.to_string().as_str())
            })
    };
    while alive() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

#[tokio::test]
async fn what_is_left_in_the_background_does_not_hold_up_the_call() {
    let desk = Desk::new();
    let began = Instant::now();
    let result = desk.succeeds("shell", json!({"command": "sleep 30 & echo $!"})).await;
    assert!(began.elapsed() < Duration::from_secs(10));
    let pid: i32 = result["stdout"].as_str().unwrap().trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn endless_output_is_bounded_while_it_comes() {
    let desk = Desk::new();
    let command = "echo first; head -c 50000000 /dev/zero | tr '\\0' x; echo last";
    let outcome = desk.call("shell", json!({"command": command})).await;
    let Outcome::Succeeded { result, truncated: true } = outcome else { panic!("{outcome:?}") };
    let stdout = result["stdout"].as_str().unwrap();
    assert!(stdout.starts_with("first\n") && stdout.ends_with("last\n"), "{stdout}");
    assert!(result.to_string().len() <= 4096);
}

#[tokio::test]
async fn files_are_read_written_and_edited() {
    let desk = Desk::new();
    let text = desk.succeeds("read_file", json!({"path": "notes.txt"})).await;
    assert_eq!(text, "one\ntwo\nthree two\n");
    let wrote = desk.succeeds("write_file", json!({"path": "a/b/c", "content": "ü"})).await;
    assert_eq!(wrote["bytes"], 2);
    assert_eq!(fs::read_to_string(desk.path("a/b/c")).unwrap(), "ü");
    let edit = json!({"path": "notes.txt", "old": "three two", "new": "3"});
    desk.succeeds("edit_file", edit).await;
    assert_eq!(fs::read_to_string(desk.path("notes.txt")).unwrap(), "one\ntwo\n3\n");
    let absolute = json!({"path": desk.path("a/b/c")});
    assert_eq!(desk.succeeds("read_file", absolute).await, "ü");
}

#[tokio::test]
async fn what_is_no_text_file_is_refused_without_waiting() {
    let desk = Desk::new();
    let check = async |tool: &str, path: &str, expected: &str| {
        let mut args = json!({"path": path});
        if tool == "write_file" {
            args["content"] = json!("x");
        }
        let (error, _) = desk.fails(tool, args).await;
        assert!(error.ends_with(expected), "{path}: {error}");
    };
    let pipe = desk.path("pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    check("read_file", "pipe", "is not a regular file").await;
    check("write_file", "pipe", "is not a regular file").await;
    check("read_file", "/dev/zero", "is not a regular file").await;
    check("read_file", "src", "is not a regular file").await;
    check("read_file", "binary", "is not a text file").await;
    check("read_file", "missing", "No such file or directory (os error 2)").await;
    check("write_file", "notes.txt/x", "File exists (os error 17)").await;
}

#[tokio::test]
async fn a_long_file_is_cut_and_says_so() {
    let desk = Desk::new();
    fs::write(desk.path("long"), "é".repeat(3000)).unwrap();
    let outcome = desk.call("read_file", json!({"path": "long"})).await;
    let Outcome::Succeeded { result, truncated: true } = outcome else { panic!("{outcome:?}") };
    assert!(result.as_str().unwrap().starts_with("ééé"));
    assert!(result.to_string().len() <= 4096);
}

#[tokio::test]
async fn directories_are_listed_in_order() {
    let desk = Desk::new();
    std::os::unix::fs::symlink("/", desk.path("link")).unwrap();
    let listed = desk.succeeds("list_files", json!({})).await;
    assert_eq!(
        listed["entries"],
        json!([
            {"name": "binary", "type": "file", "size": 6},
            {"name": "link", "type": "symlink"},
            {"name": "notes.txt", "type": "file", "size": 18},
            {"name": "src", "type": "directory"},
        ])
    );
    let below = desk.succeeds("list_files", json!({"path": "src"})).await;
    assert_eq!(below["entries"][0]["name"], "main.rs");
    let (error, _) = desk.fails("list_files", json!({"path": "nowhere"})).await;
    assert!(error.contains("nowhere"), "{error}");
}

#[tokio::test]
async fn text_is_found_and_binary_files_are_left_out() {
    let desk = Desk::new();
    fs::create_dir_all(desk.path(".git")).unwrap();
    fs::write(desk.path(".git/config"), "two").unwrap();
    std::os::unix::fs::symlink(".", desk.path("circle")).unwrap();
    let found = desk.succeeds("search_files", json!({"pattern": "tw[o0]$"})).await;
    assert_eq!(
        found["matches"],
        json!([
            {"path": "notes.txt", "line": 2, "text": "two"},
            {"path": "notes.txt", "line": 3, "text": "three two"},
        ])
    );
    let in_file = desk.succeeds("search_files", json!({"pattern": "main", "path": "src/main.rs"}));
    let expected = json!([{"path": "src/main.rs", "line": 1, "text": "fn main() {}"}]);
    assert_eq!(in_file.await["matches"], expected);
    let (error, _) = desk.fails("search_files", json!({"pattern": "("})).await;
    assert!(error.starts_with("search_files: `pattern` is invalid"), "{error}");
    fs::write(desk.path("many"), "match\n".repeat(600)).unwrap();
    let many = desk.call("search_files", json!({"pattern": "match"})).await;
    assert!(matches!(many, Outcome::Succeeded { truncated: true, .. }));
}

#[tokio::test]
async fn a_recipe_gets_its_arguments_and_is_a_step_of_its_own_name() {
    let desk = Desk::new().with_skill(
        "[ \"$ARG_NODE_TYPE\" = inference ] && [ -d \"$SKILL_DIR/recipes\" ] || exit 4\n\
         printf '{\"got\": %s}' \"$(cat)\"",
    );
    let args = json!({"skill": "editor", "recipe": "add-node", "args": {"nodeType": "inference"}});
    let result = desk.succeeds("run_recipe", args.clone()).await;
    assert_eq!(result, json!({"got": {"nodeType": "inference"}}));

    let skills = skills::open(&desk.session.skills);
    let servers = Servers::none();
    let toolbox = Toolbox::new(&desk.session, &skills, &servers, &desk.out);
    let shown = toolbox.shown(&call("run_recipe", args));
    assert_eq!(shown, ("recipes/add-node.sh".to_owned(), json!({"nodeType": "inference"})));

    let (error, _) = desk.fails("run_recipe", json!({"skill": "sk_1", "recipe": "add-node"})).await;
    assert_eq!(error, "exit status 4");
    let other = json!({"skill": "editor", "recipe": "../../etc/passwd"});
    let (error, _) = desk.fails("run_recipe", other).await;
    let known = "run_recipe: `recipe` is none of this skill's recipes: recipes/add-node.sh";
    assert_eq!(error, known);
}

#[tokio::test]
async fn a_recipe_without_json_is_returned_as_the_shell_does() {
    let desk = Desk::new().with_skill("echo done; echo note >&2");
    let result =
        desk.succeeds("run_recipe", json!({"skill": "editor", "recipe": "add-node"})).await;
    assert_eq!(result, json!({"exit_code": 0, "stdout": "done\n", "stderr": "note\n"}));
    // Recipes need no permission to run: archives lose it.
    let recipe = desk.session.skills[0].directory.join("recipes/add-node.sh");
    assert_eq!(mode(&recipe) & 0o111, 0);
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode()
}

#[tokio::test]
async fn recipes_and_programs_are_offered_only_where_there_are_any() {
    let names = |desk: &Desk| {
        let skills = skills::open(&desk.session.skills);
        let servers = Servers::none();
        let specs = Toolbox::new(&desk.session, &skills, &servers, &desk.out).specs();
        specs.into_iter().map(|spec| spec.name).collect::<Vec<String>>()
    };
    let all: Vec<&str> = Builtin::ALL.iter().map(|tool| tool.name()).collect();
    assert_eq!(names(&Desk::new()), all[..6]);
    let mut desk = Desk::new().with_skill("");
    assert_eq!(names(&desk), all[..7]);
    desk.session.code_mode = CodeMode::On;
    assert_eq!(names(&desk), all);
}

#[tokio::test]
async fn a_policy_rules_on_every_tool() {
    let mut desk = Desk::new().with_skill("echo done");
    let policy = json!({
        "commands": {"allow": ["echo *"], "deny": ["rm *"]},
        "capabilities": {"fileWrite": "deny"},
        "approvals": {"builtin:tool:recipes/add-node.sh": "allow"},
    });
    desk.session.policy = serde_json::from_value(policy).unwrap();
    desk.succeeds("shell", json!({"command": "echo yes"})).await;
    desk.succeeds("read_file", json!({"path": "notes.txt"})).await;
    desk.succeeds("run_recipe", json!({"skill": "editor", "recipe": "add-node"})).await;
    let check = async |tool: &str, args: Value, expected: &str| {
        let (error, result) = desk.fails(tool, args).await;
        assert!(error.starts_with(expected), "{error}");
        assert_eq!(result, None);
    };
    let denied = "the policy denies the command `rm notes.txt` by its rule `rm *`";
    check("shell", json!({"command": "rm notes.txt"}), denied).await;
    let asked = "the policy wants somebody to agree to the command `make` first";
    check("shell", json!({"command": "make"}), asked).await;
    let written = json!({"path": "notes.txt", "content": ""});
    check("write_file", written, "the policy denies writing `notes.txt`").await;
    let edited = json!({"path": "notes.txt", "old": "one", "new": "1"});
    check("edit_file", edited, "the policy denies writing `notes.txt`").await;
    check("shell", json!({}), "shell: `command` is missing").await;
    check("fly", json!({}), "the policy wants somebody to agree to the tool `fly` first").await;
    assert_eq!(fs::read_to_string(desk.path("notes.txt")).unwrap(), "one\ntwo\nthree two\n");
}

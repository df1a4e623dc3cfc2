//! Programs that mean well, and programs that do not.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{Interpreter, Language};
use crate::emit::kept::Kept;
use crate::policy::Gate;
use crate::session::Session;
use crate::tools::{Returned, ToolError};

use Language::{Python, TypeScript};

const LONG: Duration = Duration::from_secs(30);

/// A place where programs run.
struct Place {
    directory: TempDir,
    session: Session,
    kept: Kept,
}

impl Place {
    fn new() -> Place {
        let directory = tempfile::tempdir().unwrap();
        let session = Session::for_test(directory.path(), directory.path());
        Place { directory, session, kept: Kept::default() }
    }

    async fn run(&self, language: Language, code: &str, limit: Duration) -> Value {
        let out = self.kept.emitter();
        let gate = Gate::new(&self.session, &out);
        let interpreter = Interpreter { session: &self.session, out: &out, gate: &gate };
        match interpreter.run(language, code, limit).await {
            Ok(Returned { value, .. }) => value,
            Err(ToolError { result, .. }) => result.unwrap(),
        }
    }

    /// The last program's end as it was told.
    fn finished(&self) -> Value {
        self.kept.customs("code_mode:execution_finished").pop().unwrap()
    }
}

async fn check(language: Language, code: &str, expected: Value) {
    let shown = Place::new().run(language, code, LONG).await;
    assert_eq!(shown, expected, "{code}");
}

#[tokio::test]
async fn a_program_returns_what_is_json() {
    let returned = |value: Value| json!({"success": true, "result": value});
    check(
        TypeScript,
        "const a: number[] = [1]; return { a, b: await 2 }",
        returned(json!({"a": [1], "b": 2})),
    )
    .await;
    check(TypeScript, "return", json!({"success": true})).await;
    check(TypeScript, "return null", returned(json!(null))).await;
    check(TypeScript, "import { sep } from 'node:path'\nreturn sep", returned(json!("/"))).await;
    check(TypeScript, "return require('node:path').sep", returned(json!("/"))).await;
    check(Python, "return {'a': [1, None], 'b': {2}}", returned(json!({"a": [1, null], "b": [2]})))
        .await;
    check(Python, "x = 1", json!({"success": true})).await;
    check(Python, "import asyncio\nawait asyncio.sleep(0)\nreturn 'é'", returned(json!("é"))).await;
    check(
        Python,
        "import asyncio\nasync def f(): return 1\nreturn asyncio.run(f())",
        returned(json!(1)),
    )
    .await;
    check(Python, "import sys\nsys.exit()", json!({"success": true})).await;
}

#[tokio::test]
async fn what_is_printed_is_in_the_logs_and_told() {
    let place = Place::new();
    let code = "console.log('a', {b: 1}); console.warn('w'); console.error('e'); console.info('i')";
    let shown = place.run(TypeScript, code, LONG).await;
    assert_eq!(shown["logs"], json!(["a { b: 1 }", "WARN: w", "ERROR: e", "INFO: i"]));
    let told = place.kept.customs("code_mode:console");
    let told: Vec<_> = told.iter().map(|one| (&one["level"], &one["message"])).collect();
    assert_eq!(told[1], (&json!("warn"), &json!("w")));
    assert_eq!(place.finished()["logCount"], 4);
    let code = "import os, sys\nprint('a', 1)\nprint('é', end='')\nprint('x\\ny', file=sys.stderr)\nos.system('echo sub')";
    let logs = place.run(Python, code, LONG).await["logs"].clone();
    let mut logs: Vec<String> = serde_json::from_value(logs).unwrap();
    // Another program's output comes its own way.
    logs.sort_unstable();
    assert_eq!(logs, ["ERROR: x", "ERROR: y", "a 1", "sub", "é"]);
}

#[tokio::test]
async fn what_is_wrong_has_its_name_and_its_line() {
    let place = Place::new();
    let check = async |language, code: &str, name: &str, line: Value, phase: &str| {
        let shown = place.run(language, code, LONG).await;
        assert_eq!(
            (&shown["success"], &shown["error"]["name"]),
            (&json!(false), &json!(name)),
            "{shown}"
        );
        assert_eq!(shown["error"]["line"], line, "{shown}");
        let finished = place.finished();
        assert_eq!((&finished["phase"], &finished["success"]), (&json!(phase), &json!(false)));
        assert_eq!(finished["error"]["name"], name);
    };
    check(TypeScript, "type A = 1\n\nthrow new TypeError('no')", "TypeError", json!(3), "execute")
        .await;
    check(
        TypeScript,
        "const f = () => {\n  missing()\n}\nf()",
        "ReferenceError",
        json!(2),
        "execute",
    )
    .await;
    check(TypeScript, "\nlet a = ;", "SyntaxError", json!(2), "transpile").await;
    check(TypeScript, "return 1n", "TypeError", json!(null), "execute").await;
    check(TypeScript, "await Promise.reject('text')", "Error", json!(null), "execute").await;
    check(
        TypeScript,
        "setTimeout(() => { throw new RangeError('x') }); await new Promise(() => {})",
        "RangeError",
        json!(1),
        "execute",
    )
    .await;
    check(TypeScript, "await new Promise(() => {})", "Error", json!(null), "execute").await;
    check(TypeScript, "process.exit(3)", "Error", json!(null), "execute").await;
    check(Python, "x = 1\n\nraise KeyError('no')", "KeyError", json!(3), "execute").await;
    check(Python, "def f():\n  1 / 0\nf()", "ZeroDivisionError", json!(2), "execute").await;
    check(Python, "\nx = (", "SyntaxError", json!(2), "transpile").await;
    check(Python, "return object()", "TypeError", json!(null), "execute").await;
    check(Python, "import os\nos._exit(3)", "Error", json!(null), "execute").await;
    check(TypeScript, " ", "ValidationError", json!(null), "validate-input").await;
    check(Python, &"#".repeat(100_000), "ValidationError", json!(null), "validate-input").await;
}

#[tokio::test]
async fn without_an_interpreter_it_is_said_so() {
    let mut place = Place::new();
    place.session.variables.set("PATH", "/nowhere");
    for (language, program) in [(TypeScript, "node"), (Python, "python3")] {
        let shown = place.run(language, "return 1", LONG).await;
        let message = shown["error"]["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("`{program}` is not in this template")), "{message}");
        assert_eq!(place.finished()["phase"], "create-context");
    }
}

#[tokio::test]
async fn all_that_a_program_started_ends_at_its_time_and_with_it() {
    let place = Place::new();
    let spawned = "require('child_process').spawn('sh', ['-c', 'sleep 60; touch late'], {detached: true, stdio: 'inherit'}).unref()";
    let endless = format!("{spawned}; for (;;) {{}}");
    let began = Instant::now();
    let shown = place.run(TypeScript, &endless, Duration::from_secs(2)).await;
    assert_eq!(
        shown["error"],
        json!({"name": "TimeoutError", "message": "timed out after 2000 ms"})
    );
    let shown = place.run(TypeScript, &format!("{spawned}; return 1"), LONG).await;
    assert_eq!(shown["result"], 1);
    let popen = "import subprocess\nsubprocess.Popen(['sleep', '61'], start_new_session=True)\n";
    let shown = place.run(Python, &format!("{popen}return 2"), LONG).await;
    assert_eq!(shown["result"], 2);
    assert!(began.elapsed() < Duration::from_secs(20));
    let left = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let directory = std::fs::read_link(entry.ok()?.path().join("cwd")).ok()?;
        (directory == place.directory.path()).then_some(())
    });
    assert_eq!(left.count(), 0);
}

#[tokio::test]
async fn a_program_that_says_too_much_is_told_in_part() {
    let place = Place::new();
    for (language, code) in [
        (TypeScript, "for (let i = 0; i < 50000; i++) console.log('x'.repeat(100)); return 1"),
        (Python, "for i in range(50000): print('x' * 100)\nreturn 1"),
        (Python, "import os\nos.system('yes | head -c 3000000')\nreturn 1"),
        (Python, "import os\nos.system('head -c 3000000 /dev/zero')\nreturn 1"),
        (TypeScript, "console.log('x'.repeat(3000000)); return 1"),
    ] {
        let shown = place.run(language, code, LONG).await;
        assert_eq!(shown["result"], 1, "{code}");
        assert!(shown.to_string().len() < 600_000, "{code}");
    }
    let shown = place.run(TypeScript, "return 'x'.repeat(1 << 22)", LONG).await;
    assert_eq!(shown["error"]["name"], "RangeError");
    let shown = place.run(Python, "return 'x' * 2000000", LONG).await;
    assert!(shown["result"].as_str().unwrap().len() < 600_000);
    let shown = place
        .run(TypeScript, "const all = []; for (;;) all.push(new Array(1e5).fill({}))", LONG)
        .await;
    assert_eq!(shown["success"], false);
}

#[tokio::test]
async fn a_hostile_program_is_ended_or_passed_over() {
    let place = Place::new();
    let raw = |line: &str| format!("import os, time\nos.write(4, {line})\ntime.sleep(30)");
    let check = async |line: &str, message: &str| {
        let began = Instant::now();
        let shown = place.run(Python, &raw(line), LONG).await;
        assert!(shown["error"]["message"].as_str().unwrap().contains(message), "{line} {shown}");
        assert!(began.elapsed() < Duration::from_secs(10));
    };
    check(r"b'no message\n'", "no message").await;
    check(r"b'\xff\x00\n'", "no message").await;
    check(r"b'[' * 100000 + b'\n'", "no message").await;
    check(r#"b'{"type":"failed","name":"A","message":"b"}\n'"#, "b").await;
    let call = r#"b'{"type":"call","id":1,"function":"external_x"}\n' * 1001"#;
    check(call, "more than 1000 calls").await;
    // A line without an end takes no memory, and ends with the program.
    let endless = "import os\nwhile True: os.write(4, b'x' * 65536)";
    let shown = place.run(Python, endless, Duration::from_secs(2)).await;
    assert_eq!(shown["error"]["name"], "TimeoutError");
    // Who calls and does not listen holds up nobody but itself.
    let deaf = "import os, time\nfor i in range(900): os.write(4, b'{\"type\":\"call\",\"id\":%d,\"function\":\"external_x\"}\\n' % i)\ntime.sleep(1)\nreturn 5";
    assert_eq!(place.run(Python, deaf, LONG).await["result"], 5);
    assert_eq!(
        place.run(TypeScript, "require('fs').closeSync(3); return 6", LONG).await["result"],
        6
    );
}

//! Programs that mean well, and programs that do not.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use wire::agent::HostTool;

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

    /// A place with a tool that nobody can reach.
    fn with_tool() -> Place {
        let mut place = Place::new();
        let (description, parameters) = (String::new(), json!({}));
        let tool = HostTool { name: "look".to_owned(), description, parameters, deferred: false };
        place.session.tools.push(tool);
        place
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
    let shown = place.run(Python, "print('begun', end='')\nraise ValueError()", LONG).await;
    assert_eq!(shown["logs"], json!(["begun"]));
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

#[tokio::test]
async fn half_a_character_is_replaced_wherever_it_is() {
    let place = Place::with_tool();
    let code = r"const half = 'a🎉'.slice(0, 2); console.log(half, '\\ud83c');
        await external_look({ [half]: half }).catch(() => {}); return { [half]: half }";
    let shown = place.run(TypeScript, code, LONG).await;
    let replaced = json!({"a\u{fffd}": "a\u{fffd}"});
    assert_eq!(shown["logs"], json!(["a\u{fffd} \\ud83c"]), "{shown}");
    assert_eq!(shown["result"], replaced);
    assert_eq!(place.kept.customs("code_mode:external_call")[0]["args"], replaced);
    let shown = place.run(TypeScript, "throw new Error('a🎉'.slice(0, 2))", LONG).await;
    assert_eq!(shown["error"]["message"], "a\u{fffd}");
    let code = r"import os
open(b'caf\xe9', 'w').close()
[name] = os.listdir()
print(name)
try: external_look({name: name})
except ExternalError: pass
return {name: name}";
    let shown = place.run(Python, code, LONG).await;
    let replaced = json!({"caf?": "caf?"});
    assert_eq!(shown["logs"], json!(["caf?"]), "{shown}");
    assert_eq!(shown["result"], replaced);
    assert_eq!(place.kept.customs("code_mode:external_call")[1]["args"], replaced);
    let shown = place.run(Python, r"raise ValueError('caf\udce9')", LONG).await;
    assert_eq!(shown["error"]["message"], "caf?", "{shown}");
}

#[tokio::test]
async fn what_cannot_be_taken_says_what_to_change() {
    let place = Place::with_tool();
    let check = async |language, code: &str, name: &str, message: &str, line: Value| {
        let error = place.run(language, code, LONG).await["error"].clone();
        assert_eq!((&error["name"], &error["line"]), (&json!(name), &line), "{code} {error}");
        assert!(error["message"].as_str().unwrap().contains(message), "{code} {error}");
    };
    let code = "x = 1\nexternal_look(x=float('nan'))";
    check(Python, code, "ValueError", "not JSON compliant", json!(2)).await;
    let large = "the result cannot be taken: a number is out of range";
    check(Python, "return 10**400", "TypeError", large, json!(null)).await;
    let large = "the arguments of a call cannot be taken: a number is out of range";
    check(Python, "external_look(x=10**400)", "TypeError", large, json!(null)).await;
    let deep = "nested more than 100 deep";
    for depth in [101, 140] {
        let code = format!("let a = []; for (let i = 1; i < {depth}; i++) a = [a]; return a");
        check(TypeScript, &code, "TypeError", deep, json!(null)).await;
        let code = format!("a = []\nfor i in range(1, {depth}): a = [a]\nreturn a");
        check(Python, &code, "TypeError", deep, json!(null)).await;
    }
    let code = "a = []\nfor i in range(1, 110): a = [a]\nexternal_look(a=a)";
    check(Python, code, "ExternalError", deep, json!(3)).await;
    let code = "a = []\nfor i in range(1, 100): a = [a]\nreturn a";
    assert_eq!(place.run(Python, code, LONG).await["success"], true);
}

#[tokio::test]
async fn a_call_that_fails_has_the_line_of_the_caller() {
    let place = Place::with_tool();
    let code = "const x: number = 1\n\nawait external_look({ x })";
    let error = place.run(TypeScript, code, LONG).await["error"].clone();
    assert_eq!((&error["name"], &error["line"]), (&json!("Error"), &json!(3)), "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("the tool cannot be"), "{message}");
    let code = "await external_look().catch((error) => console.log(error))";
    let log = place.run(TypeScript, code, LONG).await["logs"][0].clone();
    assert!(log.as_str().unwrap().starts_with(&format!("Error: {message}\n")), "{log}");
    let code = "x = 1\n\nexternal_look(x=x)";
    let error = place.run(Python, code, LONG).await["error"].clone();
    assert_eq!((&error["name"], &error["line"]), (&json!("ExternalError"), &json!(3)), "{error}");
}

#[tokio::test]
async fn files_that_are_named_like_modules_are_not_in_the_way() {
    let place = Place::new();
    for name in ["types", "json", "ast", "token", "queue", "resource", "codecs", "own"] {
        std::fs::write(place.directory.path().join(format!("{name}.py")), "x = 1").unwrap();
    }
    let code = "import asyncio, json, own\nawait asyncio.sleep(0)\nreturn json.dumps([own.x])";
    let shown = place.run(Python, code, LONG).await;
    assert_eq!(shown, json!({"success": true, "result": "[1]"}));
}

#[tokio::test]
async fn a_long_text_is_cut_and_ends_no_program() {
    let place = Place::new();
    for (language, code) in [
        (TypeScript, "console.log('x'.repeat(5 << 20))\nthrow new Error('x'.repeat(5 << 20))"),
        (Python, "print('x' * (5 << 20))\nraise ValueError('x' * (5 << 20))"),
    ] {
        let shown = place.run(language, code, LONG).await;
        assert!(shown["logs"][0].as_str().unwrap().starts_with("xxx"), "{}", shown["error"]);
        let message = shown["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("xxx") && message.ends_with('…'), "{message}");
        assert_eq!(shown["error"]["line"], 2);
    }
}

#[tokio::test]
async fn the_console_of_python_is_a_file_like_any_other() {
    let code = r"import subprocess, sys
subprocess.run(['echo', 'hi'], stdout=sys.stdout)
subprocess.run(['sh', '-c', 'echo ho >&2'], stderr=sys.stderr)
sys.stdout.buffer.write(b'caf\xc3')
sys.stdout.buffer.write(b'\xa9')
sys.stdout.flush()
sys.stdout = None";
    let logs = Place::new().run(Python, code, LONG).await["logs"].clone();
    let mut logs: Vec<String> = serde_json::from_value(logs).unwrap();
    logs.sort_unstable();
    assert_eq!(logs, ["café", "hi", "ho"]);
}

#[tokio::test]
async fn a_program_may_import_from_the_future() {
    let code = "'About it.'
from __future__ import annotations
def f(x: Missing) -> int: return 1
return f(1)";
    check(Python, code, json!({"success": true, "result": 1})).await;
    check(Python, "from __future__ import annotations", json!({"success": true})).await;
}

#[tokio::test]
async fn what_is_forked_off_prints_and_says_nothing_else() {
    let place = Place::with_tool();
    let code = "import multiprocessing
def work(n):
    for i in range(100): print('line', n, i)
    print('end', end='')
print('mine', end='')
fork = multiprocessing.get_context('fork')
all = [fork.Process(target=work, args=(n,)) for n in range(4)]
for one in all: one.start()
for one in all: one.join()
return 1";
    let shown = place.run(Python, code, LONG).await;
    assert_eq!(shown["result"], 1, "{shown}");
    let logs: Vec<String> = serde_json::from_value(shown["logs"].clone()).unwrap();
    let count = |start: &str| logs.iter().filter(|log| log.starts_with(start)).count();
    assert_eq!((count("line "), count("end"), count("mine"), logs.len()), (400, 4, 1, 405));
    let code = "import os
child = os.fork()
if child == 0:
    try: external_look()
    except ExternalError as error: print(error)
    return 'child'
os.waitpid(child, 0)
return 'parent'";
    let shown = place.run(Python, code, LONG).await;
    assert_eq!(shown["result"], "parent", "{shown}");
    assert!(shown["logs"][0].as_str().unwrap().contains("first process only"), "{shown}");
}

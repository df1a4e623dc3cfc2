//! What becomes of programs.

use super::{Script, transpile};

async fn check(source: &str, expected: &str) {
    let Script { code, .. } = transpile(source).await.unwrap();
    let code = code.strip_prefix("\"use strict\";").unwrap();
    assert_eq!(code.trim(), expected, "{source}");
}

async fn refused(source: &str, line: u64, place: &str) {
    let fault = transpile(source).await.unwrap_err();
    assert_eq!((fault.name.as_str(), fault.line), ("SyntaxError", Some(line)), "{fault:?}");
    assert!(fault.message.contains(place), "{fault:?}");
}

#[tokio::test]
async fn types_are_dropped_and_what_they_stand_for_stays() {
    check("const a: number = 1; return a as any", "const a = 1;\nreturn a;").await;
    check("interface A { b: string }\ntype C = A;\nreturn 1", "return 1;").await;
    check(
        "function f<T>(x: T, y?: T): T { return x! }\nreturn f<number>(1)",
        "function f(x, y) {\n\treturn x;\n}\nreturn f(1);",
    )
    .await;
    check("return await Promise.all([1 satisfies number])", "return await Promise.all([1]);").await;
    let Script { code, .. } = transpile("enum E { A, B }\nreturn E.B").await.unwrap();
    assert!(code.contains("E[\"A\"] = 0"), "{code}");
    let Script { code, .. } =
        transpile("class P { constructor(private x: number) {} }\nreturn new P(1)").await.unwrap();
    assert!(code.contains("this.x = x"), "{code}");
}

#[tokio::test]
async fn imports_are_awaited() {
    let module = "await import(\"node:fs\")";
    check(
        "import fs from 'node:fs'\nfs.x()",
        &format!("const {{ default: fs }} = {module};\nfs.x();"),
    )
    .await;
    check(
        "import { a, b as c } from 'node:fs'\na(c)",
        &format!("const {{ \"a\": a, \"b\": c }} = {module};\na(c);"),
    )
    .await;
    check("import * as fs from 'node:fs'\nfs.x()", &format!("const fs = {module};\nfs.x();")).await;
    check("import 'node:fs'", &format!("{module};")).await;
    check("import type { A } from 'a'\nconst x: A = 1", "const x = 1;").await;
    check("export {}\nf()", "f();").await;
}

#[tokio::test]
async fn what_is_no_program_is_refused_with_its_place() {
    refused("const a = ;", 1, "(line 1, column 11)").await;
    refused("f()\n  let é = 'é', b = @;", 2, "(line 2, column ").await;
    refused("let a = 1\nlet a = 2", 1, "`a`").await;
    refused("f()\nexport const a = 1", 2, "no exports").await;
    refused("export default 1", 1, "no exports").await;
    refused("if (", 1, "(line 1").await;
}

#[tokio::test]
async fn lines_are_those_of_the_source() {
    let source =
        "interface A {\n  b: string\n}\n\nconst a = 1;\n\n// Why.\nthrow new Error(`${a}`)";
    let script = transpile(source).await.unwrap();
    let at = script.code.lines().position(|line| line.starts_with("throw")).unwrap() as u64 + 1;
    assert_eq!(script.source_line(at), Some(8), "{script:?}");
    assert_eq!(script.source_line(0), None);
    assert_eq!(script.source_line(1), None);
    assert_eq!(script.source_line(99), None);
}

#[tokio::test]
async fn no_program_nests_deeper_than_the_stack() {
    for (piece, end) in [
        ("(", ""),
        ("[", ""),
        ("{", ""),
        ("!", "a"),
        ("a=>", "a"),
        ("a=", "a"),
        ("1+", "1"),
        ("a?a:", "a"),
        ("if(a);else ", ";"),
        ("a.", "a"),
        ("`${", ""),
        ("await ", "a"),
        ("new ", "a"),
        ("type A=", ""),
        ("let a:A<", ""),
    ] {
        // Whether it is a program is all the same.
        let _ = transpile(&format!("{}{end}", piece.repeat((1 << 16) / piece.len()))).await;
    }
    for (open, close) in [("(", ")"), ("[", "]"), ("{", "}"), ("(()=>", ")"), ("{a(){", "}}")] {
        let count = (1 << 16) / (open.len() + close.len());
        let _ = transpile(&format!("{}{}", open.repeat(count), close.repeat(count))).await;
    }
}

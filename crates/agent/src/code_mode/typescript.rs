//! TypeScript becomes JavaScript: types are dropped, enums and the like are made
//! into what they mean. Nothing is checked but the syntax.
//!
//! The program is the body of an asynchronous function, so that it may return
//! and await. Its imports, which no function has, become awaited ones.

use std::path::Path;
use std::thread;
use std::time::Duration;

use oxc_allocator::Allocator;
use oxc_ast::ast::{
    ImportDeclaration, ImportDeclarationSpecifier, ModuleDeclaration, Program, Statement,
};
use oxc_codegen::{Codegen, CodegenOptions};
use oxc_diagnostics::OxcDiagnostic;
use oxc_parser::{ParseOptions, Parser};
use oxc_semantic::SemanticBuilder;
use oxc_span::{GetSpan, SourceType};
use oxc_transformer::{TransformOptions, Transformer};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::Fault;

/// Stack for every byte of a program: each may nest one deeper, and the parser
/// and all who walk the tree go along. It costs addresses, not memory.
const STACK_PER_BYTE: usize = 8 << 10;
/// Stack that even the shortest program gets.
const LEAST_STACK: usize = 8 << 20;

/// How long a program may take to be transpiled; most take a millisecond.
const PATIENCE: Duration = Duration::from_secs(10);

/// A program that an engine takes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Script {
    /// The body of an asynchronous function.
    pub(super) code: String,
    /// The line in the source for each line of the code.
    lines: Vec<u32>,
}

impl Script {
    /// Where a line of the code comes from; both are counted from 1.
    pub(super) fn source_line(&self, line: u64) -> Option<u64> {
        let at = usize::try_from(line.checked_sub(1)?).ok()?;
        self.lines.get(at).map(|line| u64::from(*line)).filter(|line| *line > 0)
    }
}

/// Makes JavaScript of a program, on a thread whose stack it cannot exhaust. A
/// few lines can keep a parser busy for minutes: a thread that takes too long is
/// left to itself, and ends with its work or with the run.
pub(super) async fn transpile(source: &str) -> Result<Script, Fault> {
    let stack = LEAST_STACK + source.len() * STACK_PER_BYTE;
    let source = source.to_owned();
    let (done, made) = oneshot::channel();
    let work = move || {
        // Nobody waits for what took too long.
        let _ = done.send(translate(&source));
    };
    if let Err(err) = thread::Builder::new().stack_size(stack).spawn(work) {
        return Err(Fault::new("Error", format!("there is no memory to transpile it: {err}")));
    }
    match timeout(PATIENCE, made).await {
        Ok(Ok(made)) => made,
        // The thread is gone without an answer, which is not the program's fault.
        Ok(Err(_)) => Err(Fault::new("Error", "the transpiler failed")),
        Err(_) => {
            let message = format!("not transpiled within {} s", PATIENCE.as_secs());
            Err(Fault::new("TimeoutError", message))
        }
    }
}

fn translate(source: &str) -> Result<Script, Fault> {
    let allocator = Allocator::default();
    let options = ParseOptions { allow_return_outside_function: true, ..ParseOptions::default() };
    let kind = SourceType::ts().with_module(true);
    let parsed = Parser::new(&allocator, source, kind).with_options(options).parse();
    refuse(source, parsed.diagnostics.iter())?;
    let mut program = parsed.program;
    let known = SemanticBuilder::new().with_check_syntax_error(true).with_enum_eval(true);
    let known = known.build(&program);
    refuse(source, known.diagnostics.iter())?;
    let options = TransformOptions::default();
    let transformer = Transformer::new(&allocator, Path::new("program.ts"), &options);
    let done = transformer.build_with_scoping(known.semantic.into_scoping(), &mut program);
    refuse(source, done.diagnostics.iter())?;
    let imports = take_imports(source, &mut program)?;
    let options =
        CodegenOptions { source_map_path: Some("program.ts".into()), ..CodegenOptions::default() };
    let printed = Codegen::new().with_options(options).build(&program);
    let mut lines = vec![0];
    for token in printed.map.iter().flat_map(|map| map.get_tokens()) {
        // The first line of the code is that of the imports.
        let at = token.get_dst_line() as usize + 1;
        if at >= lines.len() {
            // A line of the code that has no token goes on with the one before.
            let before = lines.last().copied().unwrap_or_default();
            lines.resize(at, before);
            lines.push(token.get_src_line() + 1);
        }
    }
    Ok(Script { code: format!("\"use strict\";{imports}\n{}", printed.code), lines })
}

/// Fails by the first thing that is wrong.
fn refuse<'a>(
    source: &str,
    mut wrong: impl Iterator<Item = &'a OxcDiagnostic>,
) -> Result<(), Fault> {
    match wrong.next() {
        None => Ok(()),
        Some(wrong) => {
            let at = wrong.labels.first().map_or(0, |label| label.offset() as usize);
            Err(syntax(source, at, &wrong.message))
        }
    }
}

fn syntax(source: &str, at: usize, message: &str) -> Fault {
    let before = &source[..source.floor_char_boundary(at)];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    let message = format!("{message} (line {line}, column {column})");
    Fault { line: Some(line as u64), ..Fault::new("SyntaxError", message) }
}

/// Takes the imports out of a program. Those that were of types alone are gone.
fn take_imports(source: &str, program: &mut Program<'_>) -> Result<String, Fault> {
    let mut imports = String::new();
    for declaration in program.body.iter().filter_map(Statement::as_module_declaration) {
        match declaration {
            ModuleDeclaration::ImportDeclaration(import) => imports.push_str(&awaited(import)),
            // `export {}` only says that something is a module.
            ModuleDeclaration::ExportNamedDeclaration(export) if export.specifiers.is_empty() => {}
            ModuleDeclaration::ExportAllDeclaration(_)
            | ModuleDeclaration::ExportDefaultDeclaration(_)
            | ModuleDeclaration::ExportDeclaration(_)
            | ModuleDeclaration::ExportNamedDeclaration(_)
            | ModuleDeclaration::ExportFromDeclaration(_)
            | ModuleDeclaration::TSExportAssignment(_)
            | ModuleDeclaration::TSNamespaceExportDeclaration(_) => {
                let message = "a program has no exports; it returns a value";
                return Err(syntax(source, declaration.span().start as usize, message));
            }
        }
    }
    program.body.retain(|statement| statement.as_module_declaration().is_none());
    Ok(imports)
}

fn awaited(import: &ImportDeclaration<'_>) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let module = format!("await import({})", quoted(&import.source.value));
    let mut named = Vec::new();
    let mut whole = None;
    for specifier in import.specifiers.iter().flatten() {
        let local = &specifier.local().name;
        match specifier {
            ImportDeclarationSpecifier::ImportSpecifier(one) => {
                named.push(format!("{}: {local}", quoted(&one.imported.name())));
            }
            ImportDeclarationSpecifier::ImportDefaultSpecifier(_) => {
                named.push(format!("default: {local}"));
            }
            ImportDeclarationSpecifier::ImportNamespaceSpecifier(_) => whole = Some(local),
        }
    }
    let names = named.join(", ");
    match whole {
        None if named.is_empty() => format!("{module};"),
        None => format!("const {{ {names} }} = {module};"),
        Some(whole) if named.is_empty() => format!("const {whole} = {module};"),
        Some(whole) => format!("const {whole} = {module}; const {{ {names} }} = {whole};"),
    }
}

#[cfg(test)]
mod tests;

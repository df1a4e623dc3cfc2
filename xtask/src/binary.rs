//! Building the programs. All of them end up in `target/release`, and the ones
//! in and beside sandboxes are always static there, whatever cargo did before.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::step::{cargo, root, run};

/// Builds every program of the workspace.
pub(crate) fn build_all() -> Result<()> {
    run(&mut cargo(["build", "--release", "--workspace"])?)?;
    build_static()
}

/// Builds what serving needs and becomes the server. Returns only on failure.
pub(crate) fn serve(arguments: &[String]) -> anyhow::Error {
    let root = match build_server().and_then(|()| root()) {
        Ok(root) => root,
        Err(error) => return error,
    };
    let program = root.join("target/release/mayfly");
    let mut command = Command::new(&program);
    command.arg("serve").args(arguments);
    // The server takes this process's place, so that Ctrl-C reaches it alone.
    let error = command.exec();
    anyhow::Error::new(error).context(format!("cannot start {}", program.display()))
}

fn build_server() -> Result<()> {
    // Every program and no test. Those inside are built once, as static ones.
    let mut command = cargo(["build", "--release", "--workspace", "--bins"])?;
    command.args(["--exclude", "xtask", "--exclude", "mayfly-envd", "--exclude", "mayfly-agent"]);
    run(&mut command)?;
    build_static()
}

/// Packages and programs that are built static.
const STATIC: [(&str, &str); 3] = [
    ("mayfly-envd", "mayfly-envd"),
    ("mayfly-agent", "mayfly-agent"),
    ("mayfly-isolate", "mayfly-keeper"),
];

/// Builds the daemon and the agent inside sandboxes, which may have no C
/// library, and their keeper, which starts faster without. They come last:
/// every other cargo command that touches their packages puts dynamic ones in
/// their place.
pub(crate) fn build_static() -> Result<()> {
    for (package, program) in STATIC {
        let mut command = cargo(["rustc", "--release"])?;
        command.args(["--package", package, "--bin", program]);
        run(command.args(["--", "-C", "target-feature=+crt-static"]))?;
        require_static(&root()?.join("target/release").join(program))?;
    }
    Ok(())
}

fn require_static(program: &Path) -> Result<()> {
    let image =
        std::fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
    match interpreter(&image) {
        Ok(None) => Ok(()),
        Ok(Some(interpreter)) => bail!(
            "{} is not static: it asks for {interpreter}. It must run in sandboxes that have no \
             C library; is the toolchain without crt-static?",
            program.display()
        ),
        Err(NotElf) => bail!("{} is not a 64-bit ELF program", program.display()),
    }
}

#[derive(Debug, PartialEq, Eq)]
struct NotElf;

/// The dynamic loader that a 64-bit little-endian ELF program asks for. A
/// static position-independent program has a dynamic section, so only the
/// loader tells the two apart.
fn interpreter(image: &[u8]) -> Result<Option<String>, NotElf> {
    const INTERPRETER: u32 = 3;
    if image.get(..6) != Some(b"\x7fELF\x02\x01") {
        return Err(NotElf);
    }
    let table = number(image, 32, 8)?;
    let size = number(image, 54, 2)?;
    let count = number(image, 56, 2)?;
    for index in 0..count {
        let header = table + index * size;
        if number(image, header, 4)? == INTERPRETER as usize {
            let start = number(image, header + 8, 8)?;
            let length = number(image, header + 32, 8)?;
            let path = image.get(start..start.saturating_add(length)).ok_or(NotElf)?;
            return Ok(Some(String::from_utf8_lossy(path).trim_end_matches('\0').to_owned()));
        }
    }
    Ok(None)
}

fn number(image: &[u8], offset: usize, length: usize) -> Result<usize, NotElf> {
    let bytes = image.get(offset..offset.saturating_add(length)).ok_or(NotElf)?;
    let value = bytes.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
    usize::try_from(value).map_err(|_| NotElf)
}

#[cfg(test)]
mod tests {
    use super::{NotElf, interpreter};

    #[test]
    fn a_dynamic_program_names_its_loader() {
        let shell = std::fs::read("/bin/sh").unwrap();
        assert!(interpreter(&shell).unwrap().unwrap().contains("ld-"));
    }

    #[test]
    fn other_files_are_not_programs() {
        assert_eq!(interpreter(b"#!/bin/sh\n"), Err(NotElf));
        assert_eq!(interpreter(b"\x7fELF\x02\x01"), Err(NotElf));
    }
}

//! What the commands print: text on stdout, complaints on stderr, tables.
//!
//! `println!` is not used: it panics when the reader has gone.

use std::io::{self, Write};

use serde::Serialize;

/// Prints text as it is.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

/// Prints a value as indented JSON and ends the line.
pub(crate) fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Says on stderr what went wrong, with everything that led to it.
pub(crate) fn complain(err: &anyhow::Error) {
    // With stderr gone too there is nobody left to tell.
    drop(writeln!(io::stderr().lock(), "error: {err:#}"));
}

/// Says something on stderr beside the answer.
pub(crate) fn note(text: &str) {
    // With stderr gone there is nobody to tell.
    drop(writeln!(io::stderr().lock(), "{text}"));
}

/// Lines up columns with two spaces between them. The last one is not padded.
pub(crate) fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(&format!("{cell:width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn a_table_lines_up_by_characters_and_not_by_bytes() {
        let rows = [["id", "hint", "x"], ["key_1", "e2b_…", ""], ["k", "é", "last"]];
        let text = table(&rows.map(|row| row.map(str::to_owned)));
        assert_eq!(text, "id     hint   x\nkey_1  e2b_…\nk      é      last\n");
    }
}

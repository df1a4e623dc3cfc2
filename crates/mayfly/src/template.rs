//! `mayfly template`: works on the data directory, beside a running server or not.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use chrono::{DateTime, SecondsFormat, Utc};
use sandbox::{Label, Progress, TemplateInfo, Templates};
use serde::Serialize;
use store::{DATABASE_FILE, SandboxRow, Store};

use crate::cli::{TemplateArguments, TemplateCommand};
use crate::output;

/// A template as JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TemplateView<'a> {
    name: &'a str,
    label: Label,
    size_bytes: u64,
    created_at: DateTime<Utc>,
    user: &'a str,
    workdir: &'a str,
}

/// Does what was asked.
pub(crate) fn command(arguments: TemplateArguments) -> anyhow::Result<ExitCode> {
    let data = arguments.place.directory()?;
    let templates = Templates::open(data.join("templates"))?;
    let json = arguments.place.json;
    match arguments.command {
        TemplateCommand::Import { name, source } => {
            let mut bar = Bar::new();
            templates.import(&name, &source, &mut |progress| bar.show(&progress))?;
            bar.finish();
            let made = templates.list()?.into_iter().find(|info| info.name == name);
            show(made.as_slice(), json)?;
        }
        TemplateCommand::List => show(&templates.list()?, json)?,
        TemplateCommand::Remove { name } => {
            templates.remove(&name, &living(&data)?)?;
            if !json {
                output::print(&format!("Removed {name}.\n"))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The sandboxes of the server whose data this is, whether it runs or not.
fn living(data: &Path) -> anyhow::Result<Vec<SandboxRow>> {
    if !data.join(DATABASE_FILE).exists() {
        return Ok(Vec::new());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = Store::open(data).await?;
        let living = store.living_sandboxes().await;
        store.close().await;
        Ok(living?)
    })
}

fn show(infos: &[TemplateInfo], json: bool) -> anyhow::Result<()> {
    if json {
        return output::print_json(&infos.iter().map(view).collect::<Vec<_>>());
    }
    let head = ["NAME", "LABEL", "SIZE", "USER", "CREATED"].map(str::to_owned);
    let rows = infos.iter().map(|info| {
        [
            info.name.clone(),
            label(info.label).to_owned(),
            megabytes(info.size_bytes),
            info.defaults.user.clone(),
            info.created_at.to_rfc3339_opts(SecondsFormat::Secs, true),
        ]
    });
    output::print(&output::table(&std::iter::once(head).chain(rows).collect::<Vec<_>>()))
}

fn view(info: &TemplateInfo) -> TemplateView<'_> {
    TemplateView {
        name: &info.name,
        label: info.label,
        size_bytes: info.size_bytes,
        created_at: info.created_at,
        user: &info.defaults.user,
        workdir: &info.defaults.workdir,
    }
}

fn label(label: Label) -> &'static str {
    match label {
        Label::Dev => "dev",
        Label::Imported => "imported",
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{} MB", bytes / 1_000_000)
}

/// A progress bar on stderr, where there is a terminal to show it.
struct Bar {
    shown: Option<Instant>,
    is_terminal: bool,
}

impl Bar {
    const WIDTH: u64 = 30;

    fn new() -> Bar {
        Bar { shown: None, is_terminal: io::stderr().is_terminal() }
    }

    fn show(&mut self, progress: &Progress) {
        let soon = self.shown.is_some_and(|shown| shown.elapsed() < Duration::from_millis(100));
        if !self.is_terminal || soon {
            return;
        }
        self.shown = Some(Instant::now());
        let total = progress.total_bytes.max(1);
        let done = (progress.read_bytes.min(total) * Self::WIDTH / total) as usize;
        let bar = format!("{}{}", "=".repeat(done), " ".repeat(Self::WIDTH as usize - done));
        let (read, total) = (megabytes(progress.read_bytes), megabytes(total));
        let entries = progress.entries;
        drop(write!(io::stderr(), "\r[{bar}] {read} of {total}, {entries} files"));
    }

    fn finish(&self) {
        if self.shown.is_some() {
            drop(writeln!(io::stderr()));
        }
    }
}

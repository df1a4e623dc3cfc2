//! `mayfly template`: works on the data directory, beside a running server or not.

mod add;
mod download;
mod program;

use std::process::ExitCode;

use chrono::{DateTime, SecondsFormat, Utc};
use sandbox::{Addition, Label, TemplateInfo, Templates};
use serde::Serialize;
use store::SandboxRow;

use crate::bar::{Bar, megabytes};
use crate::cli::{TemplateArguments, TemplateCommand};
use crate::output;
use crate::place::Place;

pub(crate) use program::HarnessProgram;

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
    #[serde(skip_serializing_if = "Option::is_none")]
    harness: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<&'a str>,
}

/// Does what was asked.
pub(crate) fn command(arguments: TemplateArguments) -> anyhow::Result<ExitCode> {
    let place = arguments.place.place()?;
    let templates = Templates::open(place.data.join("templates"))?;
    let json = arguments.place.json;
    match arguments.command {
        TemplateCommand::Import { name, source } => {
            let mut bar = Bar::new();
            templates.import(&name, &source, &mut |progress| {
                bar.show(progress.read_bytes, progress.total_bytes, progress.entries);
            })?;
            bar.finish();
            let made = templates.list()?.into_iter().find(|info| info.name == name);
            show(made.as_slice(), json)?;
        }
        TemplateCommand::AddHarness(wanted) => {
            let made = add::add(&templates, &place, wanted)?;
            show(&[made], json)?;
        }
        TemplateCommand::List => show(&templates.list()?, json)?,
        TemplateCommand::Remove { name } => {
            templates.remove(&name, &living(&place)?)?;
            if !json {
                output::print(&format!("Removed {name}.\n"))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The sandboxes of the server whose data this is, whether it runs or not.
fn living(place: &Place) -> anyhow::Result<Vec<SandboxRow>> {
    if !place.is_there() {
        return Ok(Vec::new());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = place.open().await?;
        let living = store.living_sandboxes().await;
        store.close().await;
        Ok(living?)
    })
}

fn show(infos: &[TemplateInfo], json: bool) -> anyhow::Result<()> {
    if json {
        return output::print_json(&infos.iter().map(view).collect::<Vec<_>>());
    }
    let head = ["NAME", "LABEL", "SIZE", "USER", "CREATED", "WITH"].map(str::to_owned);
    let rows = infos.iter().map(|info| {
        [
            info.name.clone(),
            label(info.label).to_owned(),
            megabytes(info.size_bytes),
            info.defaults.user.clone(),
            info.created_at.to_rfc3339_opts(SecondsFormat::Secs, true),
            info.addition.as_ref().map(with).unwrap_or_default(),
        ]
    });
    output::print(&output::table(&std::iter::once(head).chain(rows).collect::<Vec<_>>()))
}

/// What lies over what.
fn with(addition: &Addition) -> String {
    let Addition { harness, version, base, .. } = addition;
    format!("{harness} {version} over {base}")
}

fn view(info: &TemplateInfo) -> TemplateView<'_> {
    let addition = info.addition.as_ref();
    TemplateView {
        name: &info.name,
        label: info.label,
        size_bytes: info.size_bytes,
        created_at: info.created_at,
        user: &info.defaults.user,
        workdir: &info.defaults.workdir,
        harness: addition.map(|addition| addition.harness.as_str()),
        version: addition.map(|addition| addition.version.as_str()),
        base: addition.map(|addition| addition.base.as_str()),
    }
}

fn label(label: Label) -> &'static str {
    match label {
        Label::Dev => "dev",
        Label::Imported => "imported",
        Label::Harness => "harness",
    }
}

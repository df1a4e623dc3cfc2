//! `mayfly doctor`: what this host can do, what it cannot, what would help.
//!
//! A check is a function that gives one row. Checks look and try; they leave
//! nothing behind and change nothing.

mod host;
mod kernel;
mod network;
mod programs;
mod tiers;

use std::process::ExitCode;

use isolate::Privilege;
use serde::Serialize;

use crate::cli::DoctorArguments;
use crate::config::{self, Layer};
use crate::output;

/// One row of the report.
#[derive(Debug, Serialize)]
struct Check {
    check: &'static str,
    state: State,
    detail: String,
    remedy: Option<String>,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// There, but less than Mayfly can use.
    Limited,
    Missing,
}

/// All rows, and the one thing a script wants to know.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    version: &'static str,
    can_serve: bool,
    checks: Vec<Check>,
}

/// Runs every check and prints the report.
pub(crate) fn command(arguments: &DoctorArguments) -> anyhow::Result<ExitCode> {
    let flags =
        Layer { data: arguments.data.clone(), envd: arguments.envd.clone(), ..Layer::default() };
    let settings = config::read(flags, arguments.config.clone())?;
    let data = settings.data();
    let envd = settings.envd(&config::beside_executable()?);

    let needed = [host::envd(&envd), host::data_directory(&data)];
    let mut checks = vec![
        kernel::cgroups(),
        kernel::user_namespaces(),
        kernel::overlay(),
        kernel::seccomp(),
        kernel::landlock(),
        programs::nft(),
        network::forwarding(),
        network::foreign_rules(),
        programs::runsc(),
        programs::runc(),
        programs::bubblewrap(),
        programs::npm(),
        host::harnesses(&data),
        host::free_disk(&data),
        host::disk_limit(),
        host::open_files(),
    ];
    let privilege = Privilege::of_process();
    let all: Vec<&Check> = needed.iter().chain(&checks).collect();
    let mut rows = vec![
        tiers::native(&all, privilege),
        tiers::process(&needed),
        tiers::gvisor(&all, privilege),
        tiers::runc(&all, privilege),
        tiers::kubernetes(),
    ];
    let can_serve = rows.iter().take(1).all(|tier| tier.state != State::Missing);
    rows.extend(needed);
    rows.append(&mut checks);

    let report = Report { version: env!("CARGO_PKG_VERSION"), can_serve, checks: rows };
    if arguments.json {
        output::print_json(&report)?;
    } else {
        output::print(&text(&report))?;
    }
    Ok(if report.can_serve { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Check {
    fn ok(check: &'static str, detail: impl Into<String>) -> Check {
        Check { check, state: State::Ok, detail: detail.into(), remedy: None }
    }

    fn limited(check: &'static str, detail: impl Into<String>, remedy: &str) -> Check {
        let remedy = Some(remedy.to_owned());
        Check { check, state: State::Limited, detail: detail.into(), remedy }
    }

    fn missing(check: &'static str, detail: impl Into<String>, remedy: &str) -> Check {
        let remedy = Some(remedy.to_owned());
        Check { check, state: State::Missing, detail: detail.into(), remedy }
    }
}

impl State {
    fn name(self) -> &'static str {
        match self {
            State::Ok => "ok",
            State::Limited => "limited",
            State::Missing => "missing",
        }
    }

    /// Whether a tier can build on it.
    fn is_usable(self) -> bool {
        match self {
            State::Ok | State::Limited => true,
            State::Missing => false,
        }
    }
}

/// A remedy gets a line of its own below the detail it belongs to.
fn text(report: &Report) -> String {
    let mut rows = Vec::new();
    for check in &report.checks {
        rows.push([check.state.name().to_owned(), check.check.to_owned(), check.detail.clone()]);
        if let Some(remedy) = &check.remedy {
            rows.push([String::new(), String::new(), format!("-> {remedy}")]);
        }
    }
    let verdict = if report.can_serve {
        "`mayfly serve` can work here."
    } else {
        "`mayfly serve` cannot work here yet."
    };
    format!("{}\n{verdict}\n", output::table(&rows))
}

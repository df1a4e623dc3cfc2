//! What can be typed, and the help that teaches it.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::config::{self, ConfigError, DatabaseUrl, Layer};
use crate::place::Place;
use crate::probe::Subject;
use crate::run::RunArguments;
use crate::runs::RunsArguments;
use crate::template::HarnessProgram;

const EXAMPLES: &str = "\
Examples:
  mayfly serve                      serve on 127.0.0.1:3000 and print an API key
  mayfly keys create --name laptop  make another API key
  mayfly doctor                     see what this host can do, and why not

Settings come from flags, then MAYFLY_* variables, then the file named by
--config. `mayfly serve --help` lists them all.";

const SERVE_EXAMPLES: &str = "\
Examples:
  mayfly serve
  mayfly serve --listen 127.0.0.1:8080 --data /var/lib/mayfly
  MAYFLY_API_KEY=e2b_$(openssl rand -hex 20) mayfly serve
  mayfly serve --config mayfly.toml

The file has the flags' names as keys:
  listen = \"127.0.0.1:3000\"
  data = \"/var/lib/mayfly\"
  max-sandboxes = 50

Other variables:
  MAYFLY_API_KEY  the first API key; without it one is made on the first start
  SANDBOX_API_KEY
                  our key at the runner that --sandbox-url names
  MAYFLY_LOG      what is logged, on stderr: `info` (default), `debug`,
                  `gateway=debug,info`";

const KEYS_EXAMPLES: &str = "\
Examples:
  mayfly keys create --team research --name laptop
  mayfly keys list --json
  mayfly keys rotate key_0123456789ab
  mayfly keys revoke key_0123456789ab

A running server sees every change within a second. Keys are stored as hashes: a lost
key cannot be shown again, only rotated.";

const RUN_EXAMPLES: &str = "\
Examples:
  mayfly run 'Count to three:
  ```sh
  seq 1 3 | tee assets/three.txt
  ```' --output .
  mayfly run --provider anthropic --model claude-sonnet-4-5 'Write a haiku to assets/haiku.txt'
  mayfly run --provider openai --base-url http://127.0.0.1:11434/v1 --model qwen3 'Say hello'
  mayfly run 'Say hello' | jq -r 'select(.type == \"result\").message'
  mayfly run --detach - < prompt.txt

Needs a server (`mayfly serve`) and its key in MAYFLY_API_KEY. On a terminal steps
are shown as they run; elsewhere the stream is NDJSON: log, step, result, error.
Exits with 0 after a result, 1 after an error, 130 after Ctrl-C, which cancels.";

const RUNS_EXAMPLES: &str = "\
Examples:
  mayfly runs
  mayfly runs --json | jq -r '.runs[].id'
  mayfly runs follow run_0123456789abcdefghijklmn
  mayfly runs files run_0123456789abcdefghijklmn --output results";

const TEMPLATE_EXAMPLES: &str = "\
Examples:
  mmdebstrap --variant=minbase bookworm rootfs.tar
  mayfly template import debian rootfs.tar
  mayfly template add-harness claude-code
  mayfly template list --json
  mayfly template remove debian

`dev` is always there, also under the name `base`: it shows the host's own /usr
and is for development. Import a `base` to take its place.

`add-harness` downloads a coding agent with npm and lays it over a template; runs
with `\"harness\": \"claude-code\"` use the template of that name.";

const BACKUP_EXAMPLES: &str = "\
Examples:
  mayfly backup mayfly.tar --data /var/lib/mayfly
  mayfly restore mayfly.tar --data /var/lib/mayfly-new
  mayfly serve --data /var/lib/mayfly-new

Rows, files, logs of runs and the server's key are saved; templates are not. Rows in
PostgreSQL are saved with pg_dump, files in S3 by whoever runs it. An older
directory is brought up to date by the first `serve` of a newer version.";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  mayfly doctor
  mayfly doctor --json | jq '.checks[] | select(.state != \"ok\")'

Exits with 0 when `mayfly serve` can work here with the default tier, else 1.";

const COMPLETION_EXAMPLES: &str = "\
Examples:
  mayfly completion bash > /etc/bash_completion.d/mayfly
  mayfly completion zsh > \"${fpath[1]}/_mayfly\"
  mayfly completion fish > ~/.config/fish/completions/mayfly.fish";

/// Sandboxes for AI agents, from one program on your own machine.
///
/// The E2B SDKs and plain curl can drive them.
#[derive(Debug, Parser)]
#[command(name = "mayfly", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The roles of the program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve sandboxes until SIGTERM or Ctrl-C
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(ServeArguments),
    /// Stop the server, if it runs, and end every sandbox
    ///
    /// A server that is stopped by SIGTERM leaves its sandboxes alone, and the
    /// next one finds them again. This ends them.
    Down(ServeArguments),
    /// Put an agent into a fresh sandbox and watch it work
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArguments),
    /// List, follow and cancel runs, and fetch what they left
    #[command(after_help = RUNS_EXAMPLES)]
    Runs(RunsArguments),
    /// Import, list and remove what sandboxes start from
    #[command(after_help = TEMPLATE_EXAMPLES)]
    Template(TemplateArguments),
    /// Make, list, revoke and rotate API keys
    #[command(after_help = KEYS_EXAMPLES)]
    Keys(KeysArguments),
    /// Save rows, files and logs of runs to one file, also while the server runs
    #[command(after_help = BACKUP_EXAMPLES)]
    Backup(BackupArguments),
    /// Unpack a backup into an empty data directory
    #[command(after_help = BACKUP_EXAMPLES)]
    Restore(RestoreArguments),
    /// Say what this host can do, what it cannot, and what would help
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArguments),
    /// Print a completion script for a shell
    #[command(after_help = COMPLETION_EXAMPLES)]
    Completion {
        /// The shell that will read it
        shell: Shell,
    },
    /// Try one thing out and exit with 0 if it works; `doctor` runs it
    #[command(hide = true)]
    Probe {
        /// What to try
        subject: Subject,
    },
}

/// What `serve` takes.
#[derive(Debug, Args)]
pub(crate) struct ServeArguments {
    /// TOML file with settings [env: MAYFLY_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) flags: Layer,
}

/// What every command takes that works on a server's data, beside it or not.
#[derive(Debug, Args)]
pub(crate) struct DataArguments {
    /// Directory of the server's data [env: MAYFLY_DATA] [default: ./mayfly-data]
    #[arg(long, value_name = "DIR", global = true)]
    pub(crate) data: Option<PathBuf>,
    /// The server's database, when it is not in that directory [env: MAYFLY_DATABASE]
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) database: Option<DatabaseUrl>,
    /// TOML file with settings [env: MAYFLY_CONFIG]
    #[arg(long, value_name = "FILE", global = true)]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

impl DataArguments {
    /// Directory and database, by flag, variable or file.
    pub(crate) fn place(&self) -> Result<Place, ConfigError> {
        let (data, database) = (self.data.clone(), self.database.clone());
        let flags = Layer { data, database, ..Layer::default() };
        let settings = config::read(flags, self.config.clone())?;
        Ok(Place { data: settings.data(), database: settings.database })
    }
}

/// What `template` takes.
#[derive(Debug, Args)]
pub(crate) struct TemplateArguments {
    #[command(subcommand)]
    pub(crate) command: TemplateCommand,
    #[command(flatten)]
    pub(crate) place: DataArguments,
}

/// What can be done to templates.
#[derive(Debug, Subcommand)]
pub(crate) enum TemplateCommand {
    /// Make a template of a root file system: a directory, a .tar or a .tar.gz
    Import {
        /// What to call it: lowercase letters, digits, `-` and `_`
        name: String,
        /// Where the root file system is
        source: PathBuf,
    },
    /// Lay a coding agent over a template; it is downloaded with npm, once
    AddHarness(AddHarnessArguments),
    /// List all templates
    List,
    /// Remove a template that was imported or made
    Remove {
        /// Its name
        name: String,
    },
}

/// What `template add-harness` takes.
#[derive(Debug, Args)]
pub(crate) struct AddHarnessArguments {
    /// The agent
    pub(crate) harness: HarnessProgram,
    /// Its release [default: the one that this version of Mayfly was tested with]
    #[arg(long, value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// The template below
    #[arg(long, value_name = "TEMPLATE", default_value = "base")]
    pub(crate) from: String,
    /// What to call the new one [default: the agent's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Make it again if it is there
    #[arg(long)]
    pub(crate) force: bool,
}

/// What `keys` takes.
#[derive(Debug, Args)]
pub(crate) struct KeysArguments {
    #[command(subcommand)]
    pub(crate) command: KeysCommand,
    #[command(flatten)]
    pub(crate) place: DataArguments,
}

/// What can be done to keys.
#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Make a key and show it, once
    Create {
        /// Owner of everything the key makes
        #[arg(long, default_value = "default", value_parser = NonEmptyStringValueParser::new())]
        team: String,
        /// What to call the key
        #[arg(long, default_value = "unnamed", value_parser = NonEmptyStringValueParser::new())]
        name: String,
    },
    /// List all keys, revoked ones too
    List,
    /// Make a key open nothing from now on
    Revoke {
        /// The key's id, as `list` shows it
        id: String,
    },
    /// Replace a key: a new one for the same team and name, the old one revoked
    Rotate {
        /// The key's id, as `list` shows it
        id: String,
    },
}

/// What `backup` takes.
#[derive(Debug, Args)]
pub(crate) struct BackupArguments {
    /// The tar file to write; it holds the server's key, so keep it private
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) place: DataArguments,
}

/// What `restore` takes.
#[derive(Debug, Args)]
pub(crate) struct RestoreArguments {
    /// A file that `backup` wrote
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) place: DataArguments,
}

/// What `doctor` takes.
#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    /// Directory the server would use [env: MAYFLY_DATA] [default: ./mayfly-data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The daemon the server would start [env: MAYFLY_ENVD]
    /// [default: mayfly-envd beside this program]
    #[arg(long, value_name = "PATH")]
    pub(crate) envd: Option<PathBuf>,
    /// TOML file with settings [env: MAYFLY_CONFIG]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Prints the script that completes all of this. What the help hides is left
/// out by hand: the generator would offer it.
pub(crate) fn completion(shell: Shell) -> anyhow::Result<ExitCode> {
    let whole = Cli::command();
    let offered = whole.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut shown =
        clap::Command::new("mayfly").version(env!("CARGO_PKG_VERSION")).subcommands(offered);
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut shown, "mayfly", &mut script);
    io::Write::write_all(&mut io::stdout().lock(), &script)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::Cli;
    use crate::config::VARIABLES;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_help_of_serve_names_every_variable() {
        let mut cli = Cli::command();
        let serve = cli.find_subcommand_mut("serve").unwrap();
        let help = serve.render_long_help().to_string();
        for variable in VARIABLES {
            assert!(help.contains(variable), "{variable} is not in:\n{help}");
        }
    }
}

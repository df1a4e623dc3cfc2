//! A run as a person at a terminal sees it: a spinner per running step, a line
//! with its duration when it is over, the agent's words as they come. Elsewhere
//! the lines are passed on as they are.

use std::cell::Cell;
use std::collections::HashMap;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use reqwest::{Method, Response};
use serde_json::Value;
use wire::run::{Event, Level, Outcome, RunEvent, StepId, custom};

use crate::client::{Lines, Server};

/// How long the server may take to end a run that was cancelled.
const FAREWELL: Duration = Duration::from_secs(5);
/// Characters of a step's arguments that are shown.
const SHOWN: usize = 72;

/// How a run ended, as far as we saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// With a result.
    Done,
    /// With an error, which has been shown.
    Failed,
    /// By Ctrl-C.
    Cancelled,
}

impl Ending {
    pub(crate) fn exit_code(self) -> ExitCode {
        match self {
            Ending::Done => ExitCode::SUCCESS,
            Ending::Failed => ExitCode::FAILURE,
            // What shells say of a program that SIGINT ended.
            Ending::Cancelled => ExitCode::from(130),
        }
    }
}

/// Shows the stream of run `id` until its end. Ctrl-C cancels the run.
pub(crate) async fn follow(
    server: &Server,
    id: &str,
    answer: Response,
    live: bool,
) -> anyhow::Result<Ending> {
    let mut lines = Lines::new(answer);
    let mut show = if live { Show::Screen(Screen::new()) } else { Show::Plain };
    // The run may end before the answer to our wish has come.
    let cancelled = Cell::new(false);
    let interrupted = async {
        tokio::signal::ctrl_c().await?;
        cancelled.set(true);
        let cancel = server.request(Method::POST, &format!("/runs/{id}/cancel"));
        server.send(cancel).await.map(drop)
    };
    tokio::pin!(interrupted);
    let mut asked = false;
    let goodbye = tokio::time::sleep(Duration::from_secs(u32::MAX.into()));
    tokio::pin!(goodbye);
    loop {
        let line = tokio::select! {
            line = lines.next() => line?,
            taken = &mut interrupted, if !asked => {
                taken?;
                asked = true;
                goodbye.as_mut().reset(tokio::time::Instant::now() + FAREWELL);
                continue;
            }
            () = &mut goodbye => return Ok(Ending::Cancelled),
        };
        let Some(line) = line else { bail!("the stream ended without a result") };
        if let Some(ending) = show.line(&line)? {
            // To the very end: nothing of the run is left then.
            while lines.next().await?.is_some() {}
            return Ok(if cancelled.get() { Ending::Cancelled } else { ending });
        }
    }
}

/// Where lines go.
enum Show {
    Plain,
    Screen(Screen),
}

impl Show {
    /// Takes one line of the stream; says how the run ended if this was its last.
    fn line(&mut self, line: &[u8]) -> anyhow::Result<Option<Ending>> {
        match self {
            Show::Plain => {
                let mut stdout = io::stdout().lock();
                stdout.write_all(line)?;
                stdout.flush()?;
                Ok(ending(line))
            }
            Show::Screen(screen) => {
                let event = RunEvent::parse_line(line)
                    .context("the server sent a line that is no event")?;
                screen.show(event.event)
            }
        }
    }
}

/// How the run ended, if this line says so. Both formats say it alike.
fn ending(line: &[u8]) -> Option<Ending> {
    #[derive(serde::Deserialize)]
    struct Typed {
        r#type: String,
    }
    match serde_json::from_slice::<Typed>(line).ok()?.r#type.as_str() {
        "result" => Some(Ending::Done),
        "error" => Some(Ending::Failed),
        _ => None,
    }
}

/// The terminal: finished lines scroll away above, running steps stay below.
struct Screen {
    bars: MultiProgress,
    running: HashMap<StepId, ProgressBar>,
    /// What the agent said since its last whole line.
    words: String,
    /// The agent's last message, as far as it has come.
    message: (String, String),
}

impl Screen {
    fn new() -> Screen {
        let bars = MultiProgress::new();
        let message = Default::default();
        Screen { bars, running: HashMap::new(), words: String::new(), message }
    }

    fn show(&mut self, event: Event) -> anyhow::Result<Option<Ending>> {
        match event {
            Event::Started { run_id, harness, model, .. } => {
                let model = model.map_or_else(String::new, |model| format!(", {model}"));
                self.line(&dim(&format!("{run_id} ({harness}{model})")))?;
            }
            Event::Log { level: Level::Debug, .. } | Event::Usage { .. } => {}
            Event::Log { level: Level::Info, message } => self.line(&dim(&plain(&message)))?,
            Event::Log { level: Level::Warn | Level::Error, message } => {
                self.line(&format!("\x1b[33m! {}\x1b[0m", plain(&message)))?;
            }
            Event::Text { message_id, delta } => self.say(message_id, &delta)?,
            // What `run --session` goes on with.
            Event::Custom { name, value } if custom::is_session_id(&name) => {
                let id = value["sessionId"].as_str().unwrap_or_default();
                self.line(&dim(&format!("session {}", cut(&plain(id)))))?;
            }
            Event::Reasoning { .. } | Event::Custom { .. } => {}
            Event::StepStarted { id, name, args } => {
                self.end_words()?;
                let bar = self.bars.add(ProgressBar::new_spinner());
                bar.set_style(ProgressStyle::with_template("{spinner} {msg} {elapsed}")?);
                bar.set_message(step(&name, &args));
                bar.enable_steady_tick(Duration::from_millis(100));
                self.running.insert(id, bar);
            }
            Event::StepEnded { id, outcome, duration_ms } => {
                let Some(bar) = self.running.remove(&id) else { return Ok(None) };
                let took = format!("{:.1}s", duration_ms as f64 / 1000.0);
                let what = bar.message();
                bar.finish_and_clear();
                match outcome {
                    Outcome::Succeeded { .. } => {
                        self.line(&format!("\x1b[32m✓\x1b[0m {what} {}", dim(&took)))?;
                    }
                    Outcome::Deferred => {
                        self.line(&format!("… {what} {}", dim("is left to the caller")))?;
                    }
                    Outcome::Failed { error, .. } => {
                        let error = cut(&plain(&error));
                        self.line(&format!("\x1b[31m✗\x1b[0m {what} {} {error}", dim(&took)))?;
                    }
                }
            }
            Event::File { path, .. } => self.line(&dim(&format!("  {}", plain(&path))))?,
            Event::Uploaded { files } => {
                for file in files {
                    let line = format!("  {} ({} bytes)", plain(&file.name), file.size);
                    self.line(&line)?;
                }
            }
            Event::Result { message } => {
                self.end_words()?;
                // Usually it has been shown as it came.
                if self.message.1 != message {
                    self.line(&plain(&message))?;
                }
                return Ok(Some(Ending::Done));
            }
            Event::Error { code, message } => {
                self.end_words()?;
                self.line(&format!("\x1b[31m✗ {code}\x1b[0m {}", plain(&message)))?;
                return Ok(Some(Ending::Failed));
            }
        }
        Ok(None)
    }

    fn say(&mut self, message_id: String, delta: &str) -> io::Result<()> {
        if self.message.0 != message_id {
            self.end_words()?;
            self.message = (message_id, String::new());
        }
        self.message.1.push_str(delta);
        self.words.push_str(&plain(delta));
        if let Some(at) = self.words.rfind('\n') {
            let whole: String = self.words.drain(..=at).collect();
            self.line(whole.trim_end_matches('\n'))?;
        }
        Ok(())
    }

    fn end_words(&mut self) -> io::Result<()> {
        if self.words.is_empty() {
            return Ok(());
        }
        let words = std::mem::take(&mut self.words);
        self.line(&words)
    }

    /// Prints above the spinners.
    fn line(&self, text: &str) -> io::Result<()> {
        self.bars.suspend(|| writeln!(io::stdout().lock(), "{text}"))
    }
}

fn dim(text: &str) -> String {
    format!("\x1b[2m{text}\x1b[0m")
}

/// A step by its name and the argument that says most.
fn step(name: &str, args: &Value) -> String {
    let telling = ["command", "path", "pattern"].iter().find_map(|key| args.get(key)?.as_str());
    let shown = match telling {
        Some(text) => text.to_owned(),
        None if args.as_object().is_some_and(serde_json::Map::is_empty) => String::new(),
        None => args.to_string(),
    };
    format!("\x1b[1m{}\x1b[0m {}", plain(name), cut(&plain(&shown)))
}

/// One line of a length that fits.
fn cut(text: &str) -> String {
    let text = text.trim_end();
    let line = text.lines().next().unwrap_or_default();
    let short: String = line.chars().take(SHOWN).collect();
    if short.len() == text.len() { short } else { format!("{short}…") }
}

/// What a sandbox says must not move a person's cursor or rename their window.
fn plain(text: &str) -> String {
    text.chars().filter(|one| !one.is_control() || matches!(one, '\n' | '\t')).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Ending, cut, ending, plain, step};

    #[test]
    fn a_terminal_line_of_either_format_ends_the_stream() {
        let check = |line: &[u8], expected| assert_eq!(ending(line), expected);
        check(br#"{"type":"result","message":"x","ts":1}"#, Some(Ending::Done));
        check(
            br#"{"seq":9,"ts":1,"type":"error","code":"internal","message":""}"#,
            Some(Ending::Failed),
        );
        check(br#"{"type":"log","level":"info","message":"result"}"#, None);
        check(b"nonsense", None);
    }

    #[test]
    fn a_sandbox_cannot_speak_to_the_terminal() {
        assert_eq!(plain("a\x1b]0;owned\x07b\r\n"), "a]0;ownedb\n");
    }

    #[test]
    fn a_step_is_one_short_line() {
        let shown = step("shell", &json!({"command": "echo 1\necho 2"}));
        assert_eq!(shown, "\x1b[1mshell\x1b[0m echo 1…");
        assert_eq!(cut(&"x".repeat(100)).chars().count(), 73);
    }
}

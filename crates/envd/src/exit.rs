//! How a command ended, in the words of Go's `os.ProcessState`: E2B's daemon is
//! written in Go, and clients show its words.

use rustix::process::WaitStatus;
use wire::{CommandReason, Outcome, process::process_event::EndEvent};

/// What a shell makes of a program that got SIGKILL.
const SHELL_KILLED: i32 = 128 + 9;
/// The bit of a wait status that says a core was dumped; see wait(2).
const CORE_DUMPED: i32 = 0x80;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// By itself.
    Code(i32),
    /// By a signal.
    Signal { number: i32, core_dumped: bool },
}

impl Exit {
    /// Reads a wait status; `None` for one that is not an end.
    pub(crate) fn of(status: WaitStatus) -> Option<Exit> {
        if let Some(code) = status.exit_status() {
            return Some(Exit::Code(code));
        }
        let number = status.terminating_signal()?;
        Some(Exit::Signal { number, core_dumped: status.as_raw() & CORE_DUMPED != 0 })
    }

    /// The exit code on the wire: -1 when there is none.
    pub(crate) fn code(self) -> i32 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal { .. } => -1,
        }
    }

    /// How to book a command that nobody killed through us.
    pub(crate) fn outcome(self) -> Outcome {
        match self {
            Exit::Code(0) => Outcome::Ok,
            Exit::Code(_) | Exit::Signal { .. } => Outcome::Error,
        }
    }

    /// Whether it, or the last program it waited for, got SIGKILL.
    pub(crate) fn was_killed(self) -> bool {
        match self {
            Exit::Code(code) => code == SHELL_KILLED,
            Exit::Signal { number, .. } => number == 9,
        }
    }

    /// The event that clients get of an end for which there is a reason.
    pub(crate) fn event_with(self, reason: CommandReason) -> EndEvent {
        EndEvent { error: Some(reason.name().to_owned()), ..self.event() }
    }

    /// The event that clients get.
    pub(crate) fn event(self) -> EndEvent {
        let status = self.status();
        let error = if self == Exit::Code(0) { String::new() } else { status.clone() };
        EndEvent {
            exit_code: self.code(),
            exited: matches!(self, Exit::Code(_)),
            status,
            error: Some(error),
        }
    }

    fn status(self) -> String {
        match self {
            Exit::Code(code) => format!("exit status {code}"),
            Exit::Signal { number, core_dumped } => {
                let core = if core_dumped { " (core dumped)" } else { "" };
                match signal_name(number) {
                    Some(name) => format!("signal: {name}{core}"),
                    None => format!("signal: signal {number}{core}"),
                }
            }
        }
    }
}

/// Go's names. Its table for Linux ends at 15 too.
fn signal_name(number: i32) -> Option<&'static str> {
    const NAMES: [&str; 15] = [
        "hangup",
        "interrupt",
        "quit",
        "illegal instruction",
        "trace/breakpoint trap",
        "aborted",
        "bus error",
        "floating point exception",
        "killed",
        "user defined signal 1",
        "segmentation fault",
        "user defined signal 2",
        "broken pipe",
        "alarm clock",
        "terminated",
    ];
    NAMES.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
}

#[cfg(test)]
mod tests {
    use wire::{Codec, Outcome};

    use super::Exit;

    #[track_caller]
    fn check(exit: Exit, outcome: Outcome, expected: &str) {
        assert_eq!(exit.outcome(), outcome);
        let text = String::from_utf8(exit.event().encode_response(Codec::Json).into()).unwrap();
        let seen: serde_json::Value = serde_json::from_str(&text).unwrap();
        let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
        assert_eq!(seen["event"]["end"], expected);
    }

    fn signal(number: i32) -> Exit {
        Exit::Signal { number, core_dumped: false }
    }

    #[test]
    fn an_end_reads_as_go_writes_it() {
        check(
            Exit::Code(0),
            Outcome::Ok,
            r#"{"exitCode":0,"exited":true,"status":"exit status 0","error":""}"#,
        );
        check(
            Exit::Code(7),
            Outcome::Error,
            r#"{"exitCode":7,"exited":true,"status":"exit status 7","error":"exit status 7"}"#,
        );
        check(
            signal(9),
            Outcome::Error,
            r#"{"exitCode":-1,"exited":false,"status":"signal: killed","error":"signal: killed"}"#,
        );
    }

    #[test]
    fn a_reason_takes_the_place_of_the_error_alone() {
        let event = signal(9).event_with(wire::CommandReason::OutOfMemory);
        assert_eq!(event.error.as_deref(), Some("out_of_memory"));
        assert_eq!((event.exit_code, event.status.as_str()), (-1, "signal: killed"));
        assert!(signal(9).was_killed() && Exit::Code(137).was_killed());
        assert!(!signal(15).was_killed() && !Exit::Code(9).was_killed());
    }

    #[test]
    fn signals_have_gos_names() {
        assert_eq!(signal(15).status(), "signal: terminated");
        assert_eq!(signal(1).status(), "signal: hangup");
        assert_eq!(signal(34).status(), "signal: signal 34");
        let aborted = Exit::Signal { number: 6, core_dumped: true };
        assert_eq!(aborted.status(), "signal: aborted (core dumped)");
    }
}

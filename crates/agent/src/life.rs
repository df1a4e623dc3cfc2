//! The life of an agent, from its standard input to its terminal event.
//!
//! ```text
//! stdin ──► env ──► config ──► skills ──► bag ──► setup ──► baseline of files
//!                  terminal ◄── writeback ◄── what changed ◄── harness ◄──┘
//! ```
//!
//! Whatever happens on the way, exactly one terminal event goes out, last. The
//! files of a turn that failed are written back too: the workspace takes them
//! or leaves them, but a sandbox that is gone has none.

use std::io::{self, Read};
use std::process::ExitCode;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tokio::runtime;
use wire::agent::Bootstrap;
use wire::run::{ErrorCode, Terminal};

use crate::bootstrap::{self, Ready};
use crate::emit::Emitter;
use crate::failure::Failure;
use crate::files::Files;
use crate::harness;
use crate::json;
use crate::writeback;

/// Largest document on standard input.
const BOOTSTRAP_BYTES: u64 = 16 << 20;

/// Lives one run. The exit code is 0 whenever a terminal event was written.
pub fn live() -> ExitCode {
    // Tools run as the same user: they shall not read tokens out of our memory.
    // Where this is not allowed, the tokens are still used before a tool runs.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let out = Emitter::stdout();
    let terminal = match begin(&out) {
        Ok(message) => Terminal::Result { message },
        Err(failure) => failure.into(),
    };
    out.end(terminal);
    ExitCode::SUCCESS
}

fn begin(out: &Emitter) -> Result<String, Failure> {
    let bootstrap = read_bootstrap(io::stdin().lock())?;
    // One thread is enough: the work is done by models, tools and kernels.
    let runtime = runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|err| Failure::new(ErrorCode::Internal, format!("no runtime: {err}")))?;
    let outcome = runtime.block_on(work(bootstrap, out));
    // A tool's thread that hangs in the kernel must not hold up the end.
    runtime.shutdown_background();
    outcome
}

async fn work(bootstrap: Bootstrap, out: &Emitter) -> Result<String, Failure> {
    let Ready { session, upload, _background } = bootstrap::prepare(bootstrap, out).await?;
    let files = Files::begin(&session, out).await;
    let outcome = harness::run(&session, out).await;
    files.finish(out).await;
    if let Some(taker) = upload {
        writeback::write_back(&session, &taker, out).await;
    }
    outcome
}

fn read_bootstrap(input: impl Read) -> Result<Bootstrap, Failure> {
    let failed = |message: String| Failure::new(ErrorCode::BootstrapFailed, message);
    let mut document = Vec::new();
    input
        .take(BOOTSTRAP_BYTES + 1)
        .read_to_end(&mut document)
        .map_err(|err| failed(format!("cannot read standard input: {err}")))?;
    if u64::try_from(document.len()).unwrap_or(u64::MAX) > BOOTSTRAP_BYTES {
        return Err(failed(format!("standard input has more than {BOOTSTRAP_BYTES} bytes")));
    }
    json::parse(&document)
        .map_err(|wrong| failed(format!("standard input: {}", wrong.without_values())))
}

#[cfg(test)]
mod tests {
    use wire::run::ErrorCode;

    use super::{BOOTSTRAP_BYTES, read_bootstrap};

    #[test]
    fn a_wrong_document_is_refused_without_showing_its_secrets() {
        let check = |document: &str, message: &str| {
            let failure = read_bootstrap(document.as_bytes()).unwrap_err();
            assert_eq!(failure.code, ErrorCode::BootstrapFailed);
            assert!(failure.message.contains(message), "{}", failure.message);
            assert!(!failure.message.contains("otp_secret"), "{}", failure.message);
        };
        check("", "line 1");
        check("{\"run_id\": 1}", "`run_id`");
        check("{\"prompt\": [\"otp_secret\"]}", "`prompt`");
        check("{\"run_id\": \"otp_secret\"}", "`run_id`");
    }

    #[test]
    fn an_endless_document_is_refused() {
        let failure = read_bootstrap(std::io::repeat(b' ')).unwrap_err();
        assert!(failure.message.contains(&BOOTSTRAP_BYTES.to_string()));
    }
}

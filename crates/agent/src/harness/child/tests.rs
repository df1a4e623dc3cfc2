//! CLIs that behave, and others.

use std::time::Duration;

use rustix::process::{Pid, test_kill_process};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use super::{Child, LINE_BYTES};

fn shell(script: &str) -> Child {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    Child::spawn(command).unwrap()
}

async fn number(child: &mut Child) -> Pid {
    let line = child.line().await.unwrap().unwrap();
    Pid::from_raw(line.trim().parse().unwrap()).unwrap()
}

/// A process that was killed may take a moment to be gone.
async fn assert_gone(pid: Pid) {
    let gone = async {
        while test_kill_process(pid).is_ok() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(5), gone).await.unwrap();
}

#[tokio::test]
async fn lines_go_in_and_come_out() {
    let mut child =
        shell("while read line; do echo \"<$line>\"; done; printf rest; echo oops >&2; exit 3");
    for word in ["one", "two"] {
        child.write_line(word).await.unwrap();
        assert_eq!(child.line().await.unwrap(), Some(format!("<{word}>")));
    }
    child.close_stdin();
    assert_eq!(child.line().await.unwrap().as_deref(), Some("rest"));
    assert_eq!(child.line().await.unwrap(), None);
    assert!(child.write_line("late").await.is_err());
    let ended = child.end().await;
    assert_eq!(ended.status.unwrap().code(), Some(3));
    assert_eq!(ended.stderr_tail, "oops");
    let failure = ended.without_result("cli");
    assert_eq!(failure.message, "`cli` ended without a result (exit status: 3): oops");
}

#[tokio::test]
async fn a_line_that_is_too_long_is_skipped() {
    let long = LINE_BYTES + 100_000;
    let mut child = shell(&format!("echo a; head -c {long} /dev/zero; echo; echo b"));
    assert_eq!(child.line().await.unwrap().as_deref(), Some("a"));
    assert_eq!(child.line().await.unwrap().as_deref(), Some("b"));
    assert_eq!(child.line().await.unwrap(), None);
}

#[tokio::test]
async fn nobody_waits_for_who_else_holds_the_output() {
    let mut child = shell("sleep 300 & echo $!");
    let sleeper = number(&mut child).await;
    let began = Instant::now();
    assert_eq!(child.line().await.unwrap(), None);
    assert!(child.end().await.status.unwrap().success());
    assert!(began.elapsed() < Duration::from_secs(5));
    assert_gone(sleeper).await;
}

#[tokio::test]
async fn no_descendant_outlives_a_cli() {
    // One below it, one orphan in a session of its own, and one without even
    // the environment.
    let mut child = shell(
        "sleep 300 & echo $!; \
         setsid sh -c 'sleep 300 & echo $!; sleep 300' & sleep 0.2; \
         (env -i setsid sh -c 'echo $$; exec sleep 300' &); sleep 300",
    );
    let mut sleepers = Vec::new();
    for _ in 0..3 {
        sleepers.push(number(&mut child).await);
    }
    drop(child);
    for sleeper in sleepers {
        assert_gone(sleeper).await;
    }
}

#[tokio::test]
async fn a_descendant_whose_name_is_no_text_does_not_hide_by_it() {
    let mut child =
        shell("setsid sh -c 'printf \"\\377\" > /proc/$$/comm; echo $$; sleep 300; :' & sleep 300");
    let hidden = number(&mut child).await;
    drop(child);
    assert_gone(hidden).await;
}

#[tokio::test]
async fn what_ran_before_a_cli_lives_on() {
    let mut before = Command::new("sleep").arg("300").kill_on_drop(true).spawn().unwrap();
    drop(shell("sleep 300"));
    assert!(before.try_wait().unwrap().is_none());
}

//! The tier with plain programs in the place of envd: it must not matter.

use std::{path::Path, time::Duration};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::SandboxId;

use super::{Process, Running};
use crate::walls::Instance;

struct Lab {
    root: tempfile::TempDir,
    tier: Process,
}

impl Lab {
    fn new() -> Lab {
        let root = tempfile::tempdir().unwrap();
        let tier = Process::open(root.path().join("sandboxes")).unwrap();
        Lab { root, tier }
    }

    fn start(&self, script: &str) -> Running {
        let id = SandboxId::parse("itest").unwrap();
        let arguments = ["bash", "-c", script].map(str::to_owned);
        self.tier.prepare(&id).unwrap().start(Path::new("/bin/bash"), &arguments).unwrap()
    }

    fn directory(&self) -> std::path::PathBuf {
        self.root.path().join("sandboxes/itest")
    }
}

fn alive(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.trim_start().starts_with('Z'))
}

async fn read_pid(path: &Path) -> String {
    loop {
        let text = tokio::fs::read_to_string(path).await.unwrap_or_default();
        if text.ends_with('\n') {
            return text.trim().to_owned();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_child_answers_on_the_socket_it_was_handed() {
    let lab = Lab::new();
    let echo = "import socket\n\
        s = socket.socket(fileno=1)\n\
        c, _ = s.accept()\n\
        c.sendall(c.recv(10).upper())\n";
    let id = SandboxId::parse("itest").unwrap();
    let arguments = ["python3", "-c", echo].map(str::to_owned);
    let prepared = lab.tier.prepare(&id).unwrap();
    let instance = prepared.start(Path::new("python3"), &arguments).unwrap();
    let mut stream = instance.dial().await.unwrap();
    stream.write_all(b"hello").await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "HELLO");
    instance.kill().await.unwrap();
}

#[tokio::test]
async fn killing_twice_is_not_an_error() {
    let lab = Lab::new();
    let instance = lab.start("read -r line");
    instance.kill().await.unwrap();
    instance.kill().await.unwrap();
    assert!(!lab.directory().exists());
}

#[tokio::test]
async fn a_child_that_ignores_its_leash_is_killed_with_all_its_descendants() {
    let lab = Lab::new();
    let pid_file = lab.root.path().join("pid");
    // The outer shell is no subreaper, so its child stays its child here; the
    // daemon that is one is tested where it lives.
    let script = format!(
        "(setsid sleep 1000 & echo $! > {}; wait) & while :; do sleep 1; done",
        pid_file.display()
    );
    let instance = lab.start(&script);
    let pid = read_pid(&pid_file).await;
    assert!(alive(&pid));
    instance.kill().await.unwrap();
    assert!(!alive(&pid), "process {pid} is left");
    assert!(!lab.directory().exists());
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named_and_leaves_nothing() {
    let lab = Lab::new();
    let id = SandboxId::parse("itest").unwrap();
    let program = Path::new("/no/such/program");
    let Err(error) = lab.tier.prepare(&id).unwrap().start(program, &[]) else {
        panic!("it started");
    };
    assert_eq!(error.to_string(), "cannot start /no/such/program");
    assert!(!lab.directory().exists());
}

#[tokio::test]
async fn opening_again_removes_what_a_former_life_left() {
    let lab = Lab::new();
    std::fs::create_dir_all(lab.directory().join("home/deep")).unwrap();
    Process::open(lab.root.path().join("sandboxes")).unwrap();
    assert!(!lab.directory().exists());
}

//! A process and everything that descends from it, by `/proc`.
//!
//! The root is a child subreaper, so a descendant whose parent dies comes back
//! to it: while the root is stopped but alive, no descendant can leave the tree.

use std::{fs, time::Duration};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Ends the tree below and including `root`. Returns how many processes were
/// still there when it gave up.
pub(crate) async fn kill_tree(root: Pid) -> usize {
    // Stopped rather than killed: alive it goes on collecting orphans, and
    // stopped it starts nothing new.
    let _ = kill(root, Signal::SIGSTOP);
    let mut survivors = 0;
    for _ in 0..200 {
        let living = descendants(root);
        survivors = living.len();
        if living.is_empty() {
            break;
        }
        for pid in living {
            let _ = kill(pid, Signal::SIGKILL);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let _ = kill(root, Signal::SIGKILL);
    survivors
}

/// Every living descendant. Zombies do not count: they hold nothing, and a
/// stopped root cannot reap them.
fn descendants(root: Pid) -> Vec<Pid> {
    let mut found = Vec::new();
    let mut frontier = vec![root];
    while let Some(parent) = frontier.pop() {
        for child in children(parent) {
            frontier.push(child);
            if !is_zombie(child) {
                found.push(child);
            }
        }
    }
    found
}

fn children(parent: Pid) -> Vec<Pid> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{parent}/task")) else {
        return Vec::new();
    };
    tasks
        .flatten()
        .filter_map(|task| fs::read_to_string(task.path().join("children")).ok())
        .flat_map(|list| list.split_whitespace().filter_map(parse_pid).collect::<Vec<_>>())
        .collect()
}

fn parse_pid(text: &str) -> Option<Pid> {
    text.parse().ok().map(Pid::from_raw)
}

fn is_zombie(pid: Pid) -> bool {
    // The state is the first word after the last `)`: a name may hold anything.
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| Some(stat.rsplit_once(')')?.1.trim_start().starts_with('Z')))
        .unwrap_or(true)
}

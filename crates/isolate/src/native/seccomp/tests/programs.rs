//! Whole programs under the filters, in a user namespace of their own and with
//! the sandbox's capabilities: what the launcher does, without its mounts.

use std::{
    fs,
    io::{self, Write},
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Command, Output},
};

use super::super::{load, program};
use crate::native::capabilities::restrict;

#[test]
fn a_shell_forks_pipes_and_waits() {
    check(
        "bash",
        &["-c", "set -e; (echo a; echo b) | sort -r | tr '\\n' ' '; sleep 0 & wait"],
        "b a ",
    );
}

#[test]
fn python_has_threads_children_sockets_and_multiprocessing() {
    let script = r#"
import multiprocessing, socket, subprocess, threading
seen = []
threads = [threading.Thread(target=seen.append, args=(n,)) for n in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
assert sorted(seen) == list(range(8))
assert subprocess.check_output(["echo", "child"]) == b"child\n"
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(abs, [-1, -2]) == [1, 2]
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
client.sendall(b"hello"); assert server.accept()[0].recv(5) == b"hello"
socket.getaddrinfo("localhost", 80); socket.if_nameindex(); socket.socketpair()
try: socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
except OSError: pass
else: raise SystemExit("not refused")
print("fine", end="")
"#;
    check("python3", &["-c", script], "fine");
}

#[test]
fn node_has_workers_children_and_servers() {
    let script = r#"
const { Worker } = require("worker_threads");
const { execFileSync } = require("child_process");
require("os").networkInterfaces();
if (execFileSync("echo", ["child"]).toString() !== "child\n") process.exit(2);
const work = "require('worker_threads').parentPort.postMessage(1)";
new Worker(work, { eval: true }).on("message", () => {
  const server = require("net").createServer((socket) => socket.end("fine"));
  server.listen(0, "127.0.0.1", () => {
    require("net").connect(server.address().port).on("data", (data) => {
      require("fs").promises.readFile("/proc/self/status").then(() => {
        process.stdout.write(data); server.close();
      });
    });
  });
});
"#;
    check("node", &["-e", script], "fine");
}

#[test]
fn an_executed_program_has_the_kept_capabilities_and_may_gain_privileges() {
    let fields = "^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):";
    let none = "0000000000000000";
    let kept = "00000000800425fb";
    let expected = format!(
        "CapInh:\t{none}\nCapPrm:\t{kept}\nCapEff:\t{kept}\nCapBnd:\t{kept}\nCapAmb:\t{none}\n\
         NoNewPrivs:\t0\nSeccomp:\t2\n"
    );
    check("grep", &["-E", fields, "/proc/self/status"], &expected);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_32_bit_call_kills() {
    let Some(mut command) = walled("true") else { return };
    let call = || {
        // SAFETY: the 32-bit getpid touches no memory.
        unsafe { std::arch::asm!("int 0x80", inout("eax") 20 => _) };
        Ok(())
    };
    // SAFETY: one system call is fine between fork and exec.
    unsafe { command.pre_exec(call) };
    let status = command.status().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGSYS), "{status}");
}

/// Runs a program behind the walls and compares what it prints.
fn check(program: &str, arguments: &[&str], expected: &str) {
    let Some(mut command) = walled(program) else { return };
    match command.args(arguments).output() {
        Ok(Output { status, stdout, stderr }) => {
            let errors = String::from_utf8_lossy(&stderr);
            assert!(status.success(), "{program}: {status}: {errors}");
            assert_eq!(String::from_utf8_lossy(&stdout), expected, "{errors}");
        }
        Err(err) if err.kind() == io::ErrorKind::NotFound => {
            println!("skipped: no {program} here");
        }
        Err(err) => panic!("{program}: {err}"),
    }
}

/// A command that will run as user 0 of a new user namespace, filtered and
/// with few capabilities; nothing where such namespaces cannot be had.
fn walled(name: &str) -> Option<Command> {
    let filters = program().unwrap();
    let map = format!("0 {} 1", rustix::process::geteuid().as_raw());
    let mut trial = Command::new("true");
    let mut command = Command::new(name);
    let namespace = move || {
        // SAFETY: takes no pointer; the child has one thread.
        if unsafe { libc::unshare(libc::CLONE_NEWUSER) } != 0 {
            return Err(io::Error::last_os_error());
        }
        fs::File::options().write(true).open("/proc/self/uid_map")?.write_all(map.as_bytes())
    };
    // SAFETY: opening and writing a file makes only system calls; a path this
    // short is not copied to the heap.
    unsafe { trial.pre_exec(namespace.clone()) };
    if let Err(err) = trial.status() {
        println!("skipped: no user namespace: {err}");
        return None;
    }
    let walls = move || {
        namespace()?;
        load(&filters)?;
        restrict()
    };
    // SAFETY: as above; both calls promise not to allocate.
    unsafe { command.pre_exec(walls) };
    Some(command)
}

//! One filter of the two lists: it looks up the number of a call and, only
//! where the answer depends on them, its arguments.
//!
//! ```text
//! load the number
//! below 16?   allow                    one pair for each run of calls
//! below 17?   go to the conditions     with the same answer
//! …
//! no such call                         above the last one, x32 calls too
//! conditions                           as compiled by seccompiler
//! ```
//!
//! Written by hand because of the price of a start: seccompiler compares with
//! one number after the other, and the kernel tries a new filter with every
//! number there is. That took 0.8 ms for each sandbox; this way it takes 0.2.

use std::collections::BTreeSet;

use libc::c_long;
use seccompiler::{BackendError, BpfProgram, SeccompAction, sock_filter};

use super::{
    allowed::{self, LISTMOUNT, NEWEST, STATMOUNT},
    compile, conditional,
};

/// Calls that are said not to exist, because programs have a second way that
/// they take after ENOSYS only. EPERM would end them. A call newer than the
/// list is answered so for the same reason: a C library may try it first.
const ABSENT: [c_long; 3] = [
    // glibc and Go go on with `clone`, whose flags a filter can see.
    libc::SYS_clone3,
    // libmount goes on with mountinfo.
    STATMOUNT,
    LISTMOUNT,
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Allow,
    Refuse,
    Absent,
    LookAtArguments,
}

/// The filter. It does not look at the architecture before the number: the
/// filter loaded after it kills calls of another one.
pub(super) fn filter() -> Result<BpfProgram, BackendError> {
    let rules = conditional::rules()?;
    let runs = runs(&rules.keys().copied().collect());
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let conditions = compile(rules, SeccompAction::Allow, refuse)?;

    // The number of the call is the first word of what a filter is given.
    let mut filter = vec![instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
    let count = runs.len() as u32;
    for (index, (answer, end)) in (0..count).zip(runs) {
        filter.push(instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, end as u32, 1));
        filter.push(match answer {
            Answer::Allow => answer_with(libc::SECCOMP_RET_ALLOW),
            Answer::Refuse => answer_with(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            Answer::Absent => answer_with(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
            Answer::LookAtArguments => {
                // Over the pairs that are left and the last answer.
                let distance = 2 * (count - index - 1) + 1;
                instruction(libc::BPF_JMP | libc::BPF_JA, distance, 0)
            }
        });
    }
    filter.push(answer_with(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32));
    filter.extend(conditions);
    Ok(filter)
}

/// Neighbours with the same answer, each run with the first number after it.
fn runs(conditional: &BTreeSet<c_long>) -> Vec<(Answer, c_long)> {
    let allowed: BTreeSet<_> = allowed::calls().collect();
    let mut runs: Vec<(Answer, c_long)> = Vec::new();
    for call in 0..=NEWEST {
        let answer = if ABSENT.contains(&call) {
            Answer::Absent
        } else if conditional.contains(&call) {
            Answer::LookAtArguments
        } else if allowed.contains(&call) {
            Answer::Allow
        } else {
            Answer::Refuse
        };
        match runs.last_mut() {
            Some((last, end)) if *last == answer => *end = call + 1,
            _ => runs.push((answer, call + 1)),
        }
    }
    runs
}

fn answer_with(action: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, action, 0)
}

fn instruction(code: u32, operand: u32, jump_if_true: u8) -> sock_filter {
    sock_filter { code: code as u16, jt: jump_if_true, jf: 0, k: operand }
}

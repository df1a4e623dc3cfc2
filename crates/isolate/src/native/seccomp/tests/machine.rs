//! The machine the kernel runs filters on, as far as ours use it: a test can
//! ask for architectures and privileges that the machine below it has not.

use libc::c_long;
use seccompiler::sock_filter;

use super::super::Program;

/// `AUDIT_ARCH_*` of this architecture and of its 32-bit sister.
#[cfg(target_arch = "x86_64")]
pub(super) const NATIVE: u32 = 0xc000_003e;
#[cfg(target_arch = "x86_64")]
pub(super) const FOREIGN: u32 = 0x4000_0003;
#[cfg(target_arch = "aarch64")]
pub(super) const NATIVE: u32 = 0xc000_00b7;
#[cfg(target_arch = "aarch64")]
pub(super) const FOREIGN: u32 = 0x4000_0028;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Allow,
    Errno(i32),
    Kill,
}

/// What all filters together say: the hardest answer, and among equals the
/// one of the filter loaded last.
pub(super) fn decide(program: &Program, arch: u32, call: c_long, arguments: [u64; 6]) -> Verdict {
    let mut data = [0; 64];
    data[0..4].copy_from_slice(&(call as u32).to_ne_bytes());
    data[4..8].copy_from_slice(&arch.to_ne_bytes());
    for (slot, argument) in data[16..].chunks_mut(8).zip(arguments) {
        slot.copy_from_slice(&argument.to_ne_bytes());
    }
    let answers = program.0.iter().rev().map(|filter| run(filter, &data));
    // The kernel compares actions as signed numbers, so killing is lowest.
    let hardest = answers.min_by_key(|answer| (answer & 0xffff_0000).cast_signed()).unwrap();
    match hardest & 0xffff_0000 {
        libc::SECCOMP_RET_ALLOW => Verdict::Allow,
        libc::SECCOMP_RET_ERRNO => Verdict::Errno((hardest & 0xffff) as i32),
        libc::SECCOMP_RET_KILL_PROCESS => Verdict::Kill,
        other => panic!("unexpected action {other:x}"),
    }
}

fn run(filter: &[sock_filter], data: &[u8; 64]) -> u32 {
    let mut accumulator = 0_u32;
    let mut at = 0;
    loop {
        let instruction = &filter[at];
        let operand = instruction.k;
        at += 1;
        let jump = |taken| usize::from(if taken { instruction.jt } else { instruction.jf });
        match instruction.code {
            0x20 => {
                let word = &data[operand as usize..operand as usize + 4];
                accumulator = u32::from_ne_bytes(word.try_into().unwrap());
            }
            0x54 => accumulator &= operand,
            0x05 => at += operand as usize,
            0x15 => at += jump(accumulator == operand),
            0x25 => at += jump(accumulator > operand),
            0x35 => at += jump(accumulator >= operand),
            0x06 => return operand,
            code => panic!("unexpected instruction {code:x}"),
        }
    }
}

"""The rows of the threat model: what is tried from inside, and which walls hold it back.

A probe is a program that runs in the sandbox and prints a line for every breach it finds: nothing
printed means that the walls hold. It only ever asks: it opens without writing and passes arguments
that no kernel acts on, because it is also run with the walls left out.
"""

from dataclasses import dataclass

from calls import PRIVILEGED, REFUSED

BOTH = ("root", "user")
ROOT = ("root",)
# Docker's fourteen without AUDIT_WRITE and MKNOD.
KEPT_CAPABILITIES = 0x800425FB

PRELUDE = """
import ctypes, errno, os, signal, socket, stat, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def breach(*words):
    print(*words)

def errno_of(number, *arguments):
    # In a child: a call that succeeds must not change what the next one meets.
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        result = libc.syscall(*map(ctypes.c_long, (number, *arguments)))
        os.write(writing, struct.pack("i", 0 if result >= 0 else ctypes.get_errno()))
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    answer = os.read(reading, 4)
    return struct.unpack("i", answer)[0] if answer else None

def can_open(path, flags):
    try:
        os.close(os.open(path, flags | os.O_NONBLOCK))
        return True
    except OSError:
        return False

def status(name):
    with open("/proc/self/status") as lines:
        return next(line.split(":")[1].strip() for line in lines if line.startswith(name + ":"))
"""


@dataclass(frozen=True)
class Row:
    """One thing that must not be possible."""

    sentence: str
    probe: str
    # All walls that hold it back: with these left out the probe finds a breach.
    held_by: tuple[str, ...]
    # As whom the breach shows then. The row itself is tried as both users.
    shown_as: tuple[str, ...] = BOTH
    # Done inside before the probe in place of leaving walls out, where there is no single wall.
    imitation: str = ""

    def breaches(self, box, user: str, imitation: str = "") -> list[str]:
        return box.python(PRELUDE + imitation + self.probe, user).splitlines()


POWERLESS = ("seccomp", "capabilities", "own_users")

ROWS = [
    Row(
        "no process of the host can be seen",
        """
pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
names = {open(f"/proc/{pid}/comm").read().strip() for pid in pids if os.path.exists(f"/proc/{pid}/comm")}
if len(pids) > 8 or "mayfly-keeper" in names:
    breach("processes:", len(pids), sorted(names)[:5])
""",
        ("own_processes",),
    ),
    Row(
        "no path and no device of the host is in mountinfo",
        """
for name in ("mountinfo", "mounts", "mountstats"):
    for line in open(f"/proc/self/{name}"):
        if any(word in line for word in ("/tmp/", "/home/", "sandboxes", "walls-", "/dev/vd", "/dev/sd", "/dev/loop", "ext4")):
            breach(name, line.strip())
kinds = {line.split(" - ")[1].split()[0] for line in open("/proc/self/mountinfo")}
for kind in kinds - {"overlay", "proc", "tmpfs", "devpts"}:
    breach("a file system of kind", kind)
""",
        ("own_tree",),
    ),
    Row(
        "the parent of the root directory is the root directory",
        """
if os.path.exists("/../proc/1/root/etc/fstab") or os.stat("/..").st_ino != os.stat("/").st_ino:
    breach("/.. leads out")
if os.stat("/..").st_dev != os.stat("/").st_dev:
    breach("/.. is another file system")
""",
        ("own_tree",),
    ),
    Row(
        "init's program, directory, descriptors, environment and memory are closed to all",
        """
for name in ("exe", "cwd", "root"):
    try:
        breach(name, os.readlink(f"/proc/1/{name}"))
    except OSError:
        pass
for name in ("environ", "auxv", "maps", "mem", "syscall", "stack"):
    try:
        with open(f"/proc/1/{name}", "rb") as file:
            if name != "mem" and file.read(64):
                breach(name, "was read")
            elif name == "mem":
                breach(name, "was opened")
    except OSError:
        pass
# Root may count the descriptors of init, which tells nothing, but not follow one.
for number in range(64):
    try:
        breach("fd", number, os.readlink(f"/proc/1/fd/{number}"))
    except OSError:
        pass
""",
        ("capabilities",),
        # An ordinary user is kept out by init's being another one, besides.
        ROOT,
    ),
    Row(
        "init cannot be traced",
        """
PTRACE_SEIZE = 0x4206
if errno_of(101, PTRACE_SEIZE, 1, 0, 0) == 0:
    breach("ptrace")
local = ctypes.create_string_buffer(8)
if errno_of(310, 1, 0, 0, 0, 0, 0) == 0:
    # Nothing is asked for, but the right to look is checked all the same.
    vector = (ctypes.c_size_t * 2)(ctypes.addressof(local), 8)
    remote = (ctypes.c_size_t * 2)(4096, 8)
    if errno_of(310, 1, ctypes.addressof(vector), 1, ctypes.addressof(remote), 1, 0) != errno.EPERM:
        breach("process_vm_readv")
""",
        ("capabilities",),
        ROOT,
    ),
    Row(
        "no visible program can be opened for writing, and init's not at all",
        """
for pid in filter(str.isdigit, os.listdir("/proc")):
    if can_open(f"/proc/{pid}/exe", os.O_WRONLY):
        breach(pid, "for writing")
if can_open("/proc/1/exe", os.O_RDONLY):
    breach("init's for reading")
""",
        # Writing is held by the read-only mount of the program as well.
        ("capabilities",),
        ROOT,
    ),
    Row(
        "a command has the descriptors 0, 1 and 2 and no others",
        """
for name in os.listdir("/proc/self/fd"):
    try:
        target = os.readlink(f"/proc/self/fd/{name}")
    except OSError:
        continue  # The listing's own.
    if int(name) > 2:
        breach(name, target)
    elif not target.startswith(("pipe:", "/dev/null")):
        breach(name, target)
""",
        (),
        imitation="os.dup2(os.open('/', os.O_RDONLY), 17)\n",
    ),
    Row(
        "the capability sets are exactly those of the specification",
        f"""
kept = 0x{KEPT_CAPABILITIES:x}
root = os.geteuid() == 0
wanted = {{"CapInh": 0, "CapAmb": 0, "CapBnd": kept}}
wanted |= {{"CapPrm": kept if root else 0, "CapEff": kept if root else 0}}
for name, value in wanted.items():
    if int(status(name), 16) != value:
        breach(name, status(name))
""",
        ("capabilities",),
    ),
    Row(
        "every command is under the system call filter",
        """
if status("Seccomp") != "2":
    breach("Seccomp", status("Seccomp"))
""",
        ("seccomp",),
    ),
    Row(
        "no_new_privs is off, so that sudo works, and no wall needs it",
        """
if status("NoNewPrivs") != "0":
    breach("NoNewPrivs", status("NoNewPrivs"))
""",
        (),
        imitation="libc.prctl(38, 1, 0, 0, 0)\n",
    ),
    Row(
        "user 0 is one of 65,536 ids that no user of the host has",
        """
if not open("/proc/self/uid_map").read().split()[1:] == open("/proc/self/gid_map").read().split()[1:]:
    breach("the two maps differ")
inside, outside, count = map(int, open("/proc/self/uid_map").read().split())
if outside < 0x60000000 or count != 65536:
    breach("uid_map", inside, outside, count)
""",
        ("own_users",),
    ),
    Row(
        "nothing can be typed into a terminal",
        """
import fcntl, pty, termios
for request in (termios.TIOCSTI, 0x541C, 0x5423):
    child, terminal = pty.fork()
    if child == 0:
        try:
            fcntl.ioctl(0, request, b"\\0\\0\\0\\0")
            answer = 0
        except OSError as err:
            answer = err.errno
        os._exit(answer)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    os.close(terminal)
    if code != errno.EPERM:
        breach(hex(request), errno.errorcode.get(code, code))
""",
        ("seccomp",),
    ),
    Row(
        "nothing below /proc/sys can be opened for writing",
        """
for base, _, names in os.walk("/proc/sys"):
    for name in names:
        path = os.path.join(base, name)
        if can_open(path, os.O_WRONLY):
            breach(path)
""",
        # The read-only mount, and the ids: the files belong to the host's root.
        ("read_only_kernel", "own_users"),
    ),
    Row(
        "nothing in /proc that steers the kernel can be opened for writing",
        """
for name in ("sysrq-trigger", "mtrr", "irq/default_smp_affinity", "latency_stats", "timer_stats",
             "acpi/wakeup", "bus/pci/00/00.0", "fs/xfs", "scsi/scsi", "sys/kernel/core_pattern",
             "sys/kernel/modprobe", "sys/fs/binfmt_misc/register", "sys/vm/panic_on_oom"):
    if can_open("/proc/" + name, os.O_WRONLY):
        breach(name)
""",
        ("read_only_kernel", "proc_masks", "own_users"),
        ROOT,
    ),
    Row(
        "nothing below /sys can be written, and only processors are there",
        """
if os.listdir("/sys") != ["devices"] or os.listdir("/sys/devices") != ["system"]:
    breach(os.listdir("/sys"))
for base, _, names in os.walk("/sys"):
    if os.access(base, os.W_OK) or any(os.access(os.path.join(base, name), os.W_OK) for name in names):
        breach(base)
""",
        ("read_only_kernel", "own_users"),
        # Without a user namespace an ordinary user may still not write what belongs to root.
        ROOT,
    ),
    Row(
        "what /proc tells about the host's kernel is empty",
        """
for name in ("kcore", "kallsyms", "kmsg", "keys", "interrupts", "timer_list", "sched_debug", "latency_stats"):
    path = "/proc/" + name
    if not os.path.exists(path):
        continue
    if os.stat(path).st_size or not stat.S_ISREG(os.stat(path).st_mode) or os.statvfs(path).f_blocks == 0:
        breach(name, os.stat(path).st_size)
    elif open(path, "rb").read(1):
        breach(name)
for name in ("acpi", "asound", "scsi"):
    if os.path.exists("/proc/" + name) and os.listdir("/proc/" + name):
        breach(name)
""",
        ("proc_masks",),
    ),
    Row(
        "/dev has the listed nodes and no others",
        """
listed = {"null": (1, 3), "zero": (1, 5), "full": (1, 7), "random": (1, 8), "urandom": (1, 9), "tty": (5, 0)}
others = {"fd", "stdin", "stdout", "stderr", "ptmx", "pts", "shm"}
for name in os.listdir("/dev"):
    found = os.lstat("/dev/" + name)
    if stat.S_ISCHR(found.st_mode) and (os.major(found.st_rdev), os.minor(found.st_rdev)) == listed.get(name):
        continue
    if name not in others or stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode):
        breach(name)
""",
        (),
        ROOT,
        imitation="os.mkfifo('/dev/sda')\nimport atexit\natexit.register(os.unlink, '/dev/sda')\n",
    ),
    Row(
        "no device can be made",
        """
for place in ("/tmp", "/dev", "/dev/shm"):
    for kind, number in ((stat.S_IFCHR, (1, 1)), (stat.S_IFBLK, (8, 0)), (stat.S_IFCHR, (10, 200))):
        path = f"{place}/probe-{os.getpid()}"
        try:
            os.mknod(path, kind | 0o600, os.makedev(*number))
            os.unlink(path)
            breach(place, number)
        except OSError:
            pass
""",
        ("capabilities", "own_users"),
        ROOT,
    ),
    Row(
        "there is no cgroup file system and none can be mounted, so no release_agent",
        """
if any(" - cgroup" in line for line in open("/proc/self/mountinfo")):
    breach("it is in mountinfo")
os.makedirs(f"/tmp/groups-{os.getpid()}")
place = f"/tmp/groups-{os.getpid()}".encode()
for kind, options in ((b"cgroup", b"memory"), (b"cgroup", b"none,name=probe"), (b"cgroup2", None), (b"tmpfs", None)):
    if libc.mount(b"none", place, kind, 0, options) == 0:
        libc.umount2(place, 2)
        breach(kind)
os.rmdir(place)
""",
        POWERLESS,
        ROOT,
    ),
    Row(
        "a nested user namespace cannot be made, by any of the three calls",
        """
NEWUSER = 0x10000000
if errno_of(272, NEWUSER) != errno.EPERM:
    breach("unshare")
if errno_of(435, 0, 0) != errno.ENOSYS:
    breach("clone3")
result = libc.syscall(ctypes.c_long(56), ctypes.c_long(NEWUSER | signal.SIGCHLD), *[ctypes.c_long(0)] * 4)
if result == 0:
    os._exit(0)
if result > 0:
    breach("clone")
""",
        ("seccomp",),
    ),
    Row(
        "sockets are of four families and none of them is raw",
        """
PACKET, ALG, VSOCK, XDP, NETFILTER, GENERIC, AUDIT = 17, 38, 40, 44, 12, 16, 9
tried = [(PACKET, socket.SOCK_RAW, 0), (ALG, socket.SOCK_SEQPACKET, 0), (VSOCK, socket.SOCK_STREAM, 0), (XDP, socket.SOCK_RAW, 0)]
tried += [(socket.AF_NETLINK, socket.SOCK_RAW, protocol) for protocol in (NETFILTER, GENERIC, AUDIT)]
tried += [(socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_INET6, socket.SOCK_RAW, 58), (socket.AF_INET, socket.SOCK_STREAM, 132)]
for one in tried:
    try:
        socket.socket(*one).close()
        breach(one)
    except OSError:
        pass
""",
        ("seccomp",),
    ),
    Row(
        "calls of another architecture end the process",
        """
import mmap
child = os.fork()
if child == 0:
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")  # getpid as 32-bit programs make it
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    os._exit(0)
_, ended = os.waitpid(child, 0)
if not os.WIFSIGNALED(ended) or os.WTERMSIG(ended) != signal.SIGSYS:
    breach("ended with", ended)
""",
        ("seccomp",),
    ),
    Row(
        "there is no network but its own loopback, and no way to the metadata address",
        """
names = [name for _, name in socket.if_nameindex()]
if names != ["lo"]:
    breach("devices", names)
for address in ("169.254.169.254", "10.0.0.1", "172.17.0.1", "192.168.0.1", "100.100.100.200", "1.1.1.1"):
    attempt = socket.socket()
    attempt.settimeout(0.5)
    try:
        attempt.connect((address, 80))
        breach(address, "answered")
    except OSError as err:
        if err.errno != errno.ENETUNREACH:
            breach(address, err)
    attempt.close()
""",
        ("own_network",),
    ),
]

for _name, _arguments in REFUSED.items():
    _probe = f"""
answer = errno_of{_arguments}
if answer != errno.EPERM:
    breach("answered with", errno.errorcode.get(answer, answer))
"""
    _walls = POWERLESS if _name in PRIVILEGED else ("seccomp",)
    _shown_as = ROOT if _name in PRIVILEGED else BOTH
    ROWS.append(Row(f"{_name} is refused", _probe, _walls, _shown_as))

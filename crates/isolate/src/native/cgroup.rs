//! Limits on memory, processes and processor time, on hosts of every layout.
//!
//! ```text
//! v2      /sys/fs/cgroup/mayfly/<id>/{init,commands}
//! v1      /sys/fs/cgroup/<controller>/mayfly/<id>/{init,commands}, one tree each
//! hybrid  v1, as its v2 tree has no controllers
//! ```
//!
//! The sandbox's init is in one group and its commands in another: when memory
//! or process numbers run out it is a command that suffers, and init goes on.
//! Init gets descriptors of the commands' groups, opened here as the host's
//! root, and can put processes there and nowhere else.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::spec::{Limits, Privilege};

/// Memory that init may use besides what its commands have: two hundred busy
/// streams take about 100 MiB of it.
const INIT_MIB: u64 = 256;
/// Processes and threads init may use.
const INIT_PROCESSES: u32 = 64;

/// What this host has mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// One tree with all controllers.
    Unified(PathBuf),
    /// A tree per controller: memory, pids and cpu, as far as they are there.
    Split(Vec<(Controller, PathBuf)>),
}

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Controller {
    Memory,
    Processes,
    Processor,
}

impl Controller {
    const ALL: [Controller; 3] = [Controller::Memory, Controller::Processes, Controller::Processor];

    fn name(self) -> &'static str {
        match self {
            Controller::Memory => "memory",
            Controller::Processes => "pids",
            Controller::Processor => "cpu",
        }
    }
}

impl Layout {
    /// Reads the layout from the host's mounts. A user can make no groups, so
    /// to one there are no trees.
    pub(crate) fn of_host(privilege: Privilege) -> io::Result<Layout> {
        match privilege {
            Privilege::Root => Ok(Layout::parse(&fs::read_to_string("/proc/self/mountinfo")?)),
            Privilege::User => Ok(Layout::Split(Vec::new())),
        }
    }

    fn parse(mountinfo: &str) -> Layout {
        let mut unified = None;
        let mut split = Vec::new();
        for line in mountinfo.lines() {
            let Some((place, kind)) = line.split_once(" - ") else { continue };
            let Some(path) = place.split(' ').nth(4).map(PathBuf::from) else { continue };
            let mut words = kind.split(' ');
            match words.next() {
                Some("cgroup2") => unified = Some(path),
                Some("cgroup") => {
                    let options = words.next_back().unwrap_or_default();
                    for controller in Controller::ALL {
                        let named = options.split(',').any(|option| option == controller.name());
                        if named {
                            split.push((controller, path.clone()));
                        }
                    }
                }
                _ => {}
            }
        }
        match unified {
            Some(root) if split.is_empty() => Layout::Unified(root),
            _ => Layout::Split(split),
        }
    }

    /// How many trees there are.
    pub(crate) fn trees(&self) -> usize {
        match self {
            Layout::Unified(_) => 1,
            Layout::Split(trees) => trees.len(),
        }
    }

    /// Whether it tells who was killed for memory.
    pub(crate) fn counts_memory_kills(&self) -> bool {
        match self {
            Layout::Unified(_) => true,
            Layout::Split(trees) => trees.iter().any(|(one, _)| *one == Controller::Memory),
        }
    }

    /// The directories of one sandbox, one per tree.
    fn directories(&self, id: &str) -> Vec<(Option<Controller>, PathBuf)> {
        let below = |root: &Path| root.join("mayfly").join(id);
        match self {
            Layout::Unified(root) => vec![(None, below(root))],
            Layout::Split(trees) => {
                trees.iter().map(|(controller, root)| (Some(*controller), below(root))).collect()
            }
        }
    }
}

/// The groups of one sandbox.
pub(crate) struct Cgroup {
    directories: Vec<(Option<Controller>, PathBuf)>,
}

impl Cgroup {
    /// Makes the groups and sets the limits. On error nothing is left behind.
    pub(crate) fn create(layout: &Layout, id: &str, limits: Limits) -> io::Result<Cgroup> {
        let cgroup = Cgroup { directories: layout.directories(id) };
        let made = cgroup.make(limits);
        if made.is_err() {
            cgroup.remove();
        }
        made.map(|()| cgroup)
    }

    /// The groups of a sandbox that somebody else made.
    pub(crate) fn of(layout: &Layout, id: &str) -> Cgroup {
        Cgroup { directories: layout.directories(id) }
    }

    fn make(&self, limits: Limits) -> io::Result<()> {
        for (controller, directory) in &self.directories {
            if controller.is_none() {
                enable(directory)?;
            }
            for group in ["", "init", "commands"] {
                fs::create_dir_all(directory.join(group))?;
            }
            if controller.is_none() {
                delegate(directory)?;
            }
            for one in Controller::ALL {
                if controller.is_none_or(|controller| controller == one) {
                    limit(one, directory, limits, controller.is_none())?;
                }
            }
        }
        Ok(())
    }

    /// Puts the calling process into init's groups.
    pub(crate) fn join(&self) -> io::Result<()> {
        for (controller, directory) in &self.directories {
            fs::write(directory.join("init").join(self.members(controller)), "0")?;
        }
        Ok(())
    }

    /// Descriptors through which init moves its commands to their groups, and
    /// behind them the one that counts which of them were killed for memory.
    pub(crate) fn doors(&self) -> io::Result<Vec<File>> {
        let open = |members: &PathBuf| OpenOptions::new().write(true).open(members);
        let counter = self.memory_counter("commands").map(File::open);
        self.ways_in().iter().map(open).chain(counter).collect()
    }

    /// The file that counts a group's kills for memory.
    fn memory_counter(&self, group: &str) -> Option<PathBuf> {
        self.directories.iter().find_map(|(controller, directory)| match controller {
            None => Some(directory.join(group).join("memory.events")),
            Some(Controller::Memory) => Some(directory.join(group).join("memory.oom_control")),
            Some(Controller::Processes | Controller::Processor) => None,
        })
    }

    /// The files through which a process with one thread joins the commands.
    pub(crate) fn ways_in(&self) -> Vec<PathBuf> {
        let members = |(controller, directory): &(Option<Controller>, PathBuf)| {
            directory.join("commands").join(self.members(controller))
        };
        self.directories.iter().map(members).collect()
    }

    /// The file that a process joins by. In a v1 tree it is the one for single
    /// threads: a process with one thread that moves itself through it need not
    /// wait for all processors, which takes milliseconds.
    fn members(&self, controller: &Option<Controller>) -> &'static str {
        if controller.is_some() { "tasks" } else { "cgroup.procs" }
    }

    /// How often memory ran out and something was killed for it.
    pub(crate) fn memory_kills(&self) -> u64 {
        let counters = ["init", "commands"].iter().filter_map(|group| self.memory_counter(group));
        let kills = counters.map(|counter| {
            let text = fs::read_to_string(counter).unwrap_or_default();
            let mut lines = text.lines();
            let count = lines.find_map(|line| line.strip_prefix("oom_kill ")?.trim().parse().ok());
            count.unwrap_or(0u64)
        });
        kills.sum()
    }

    /// Removes the groups and says what could not be. Processes that were just
    /// killed may take a moment to leave.
    pub(crate) fn remove(&self) -> Vec<PathBuf> {
        let mut left = Vec::new();
        for (_, directory) in &self.directories {
            for group in ["commands", "init", ""] {
                let path = directory.join(group);
                if !remove_group(&path) {
                    left.push(path);
                }
            }
        }
        left
    }
}

fn remove_group(path: &Path) -> bool {
    for _ in 0..400 {
        match fs::remove_dir(path) {
            Ok(()) => return true,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return true,
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
    }
    false
}

/// Hands the controllers of a v2 tree down to where sandboxes are.
fn enable(directory: &Path) -> io::Result<()> {
    let parent = directory.parent().unwrap_or(directory);
    fs::create_dir_all(parent)?;
    if let Some(root) = parent.parent() {
        fs::write(root.join("cgroup.subtree_control"), "+memory +pids +cpu")?;
    }
    fs::write(parent.join("cgroup.subtree_control"), "+memory +pids +cpu")
}

fn delegate(directory: &Path) -> io::Result<()> {
    fs::write(directory.join("cgroup.subtree_control"), "+memory +pids")
}

fn limit(
    controller: Controller,
    directory: &Path,
    limits: Limits,
    unified: bool,
) -> io::Result<()> {
    let commands = directory.join("commands");
    let init = directory.join("init");
    let bytes = u64::from(limits.memory_mib) << 20;
    match (controller, unified) {
        (Controller::Memory, true) => {
            fs::write(commands.join("memory.max"), bytes.to_string())?;
            fs::write(init.join("memory.max"), (INIT_MIB << 20).to_string())?;
            no_swap(&commands.join("memory.swap.max"), 0)?;
            no_swap(&init.join("memory.swap.max"), 0)
        }
        (Controller::Memory, false) => {
            fs::write(commands.join("memory.limit_in_bytes"), bytes.to_string())?;
            fs::write(init.join("memory.limit_in_bytes"), (INIT_MIB << 20).to_string())?;
            // Here the limit is on memory and swap together, so it is the same.
            no_swap(&commands.join("memory.memsw.limit_in_bytes"), bytes)?;
            no_swap(&init.join("memory.memsw.limit_in_bytes"), INIT_MIB << 20)
        }
        (Controller::Processes, _) => {
            fs::write(commands.join("pids.max"), limits.processes.to_string())?;
            fs::write(init.join("pids.max"), INIT_PROCESSES.to_string())
        }
        (Controller::Processor, true) => {
            fs::write(directory.join("cpu.max"), format!("{} 100000", limits.cpus * 100_000))
        }
        (Controller::Processor, false) => {
            fs::write(directory.join("cpu.cfs_quota_us"), (limits.cpus * 100_000).to_string())
        }
    }
}

/// Keeps a sandbox out of the host's swap, which its limit on memory would
/// otherwise only push it into. A kernel that counts no swap has no such file.
fn no_swap(file: &Path, bytes: u64) -> io::Result<()> {
    match fs::write(file, bytes.to_string()) {
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::{Controller, Layout};

    const V1: &str = "35 1 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
36 1 0:31 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory
37 1 0:32 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct
38 1 0:33 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
";

    #[test]
    fn a_hybrid_host_is_used_through_its_v1_trees() {
        let unified = "39 1 0:34 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let expected = vec![
            (Controller::Processor, "/sys/fs/cgroup/cpu".into()),
            (Controller::Memory, "/sys/fs/cgroup/memory".into()),
            (Controller::Processes, "/sys/fs/cgroup/pids".into()),
        ];
        assert_eq!(Layout::parse(&format!("{V1}{unified}")), Layout::Split(expected));
    }

    #[test]
    fn a_host_with_v2_alone_has_one_tree() {
        let line = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
        assert_eq!(Layout::parse(line), Layout::Unified("/sys/fs/cgroup".into()));
    }

    #[test]
    fn cpu_and_cpuacct_in_one_mount_are_told_apart() {
        let line = "30 1 0:26 / /c rw - cgroup cgroup rw,cpu,cpuacct\n";
        assert_eq!(Layout::parse(line), Layout::Split(vec![(Controller::Processor, "/c".into())]));
    }
}

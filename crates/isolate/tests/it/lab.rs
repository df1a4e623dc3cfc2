//! One tier, ready to build in, with a file tree made of this host's `/usr`.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::Arc,
    sync::atomic::{AtomicU32, Ordering},
};

use isolate::{
    Birth, Error, HostUsr, Identities, Instance, Limits, Listen, Native, Oci, Plan, Privilege,
    Process, Root, Runtime, Walls, Wiring,
};
use wire::SandboxId;

use crate::traces::{self, Traces};

/// Size of a sandbox's disk, where it has one.
pub(crate) const DISK_MIB: u32 = 128;
/// Makes names differ.
static COUNT: AtomicU32 = AtomicU32::new(0);

pub(crate) struct Lab {
    place: tempfile::TempDir,
    pub(crate) walls: Box<dyn Walls>,
    /// The limit on disks; 0 where there is none.
    disk_mib: u32,
}

impl Lab {
    pub(crate) fn process() -> Option<Lab> {
        Lab::new(|root| Ok(Box::new(Process::open(root)?)))
    }

    /// With root or without it, and then without a network.
    pub(crate) fn native() -> Option<Lab> {
        Lab::new(|root| {
            let keeper = PathBuf::from(env!("CARGO_BIN_EXE_mayfly-keeper"));
            let nft = match Privilege::of_process() {
                Privilege::Root => isolate::find_nft(&Path::exists),
                Privilege::User => None,
            };
            let wiring = nft.map(|nft| Wiring { nft, dns: Vec::new(), open: Vec::new() });
            let wired = wiring.map(|wiring| wiring.prepare(&root)).transpose()?;
            Ok(Box::new(Native::open(root, keeper, wired)?))
        })
    }

    pub(crate) fn gvisor() -> Option<Lab> {
        as_root("gvisor")?;
        Lab::new(|root| Ok(Box::new(Oci::open(root, Runtime::Runsc)?)))
    }

    pub(crate) fn runc() -> Option<Lab> {
        as_root("runc")?;
        Lab::new(|root| Ok(Box::new(Oci::open(root, Runtime::Runc)?)))
    }

    fn new(open: impl FnOnce(PathBuf) -> Result<Box<dyn Walls>, Error>) -> Option<Lab> {
        let place = tempfile::tempdir().unwrap();
        let walls = match open(place.path().join("sandboxes")) {
            Ok(walls) => walls,
            Err(reason @ (Error::Unavailable { .. } | Error::NotWithoutRoot { .. })) => {
                eprintln!("skipped: {reason}");
                return None;
            }
            Err(err) => panic!("{err}"),
        };
        envd()?;
        let disk_mib = if walls.limit_disks(DISK_MIB).is_ok() { DISK_MIB } else { 0 };
        let lab = Lab { place, walls, disk_mib };
        make_layer(&lab.layer());
        Some(lab)
    }

    fn layer(&self) -> PathBuf {
        self.place.path().join("layer")
    }

    /// A name that no other sandbox has, in this test run or another.
    pub(crate) fn name(&self) -> SandboxId {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        SandboxId::parse(&format!("itest{}x{count}", std::process::id())).unwrap()
    }

    /// A plan for envd, or for another program in its place.
    pub(crate) fn plan<'a>(&self, id: &'a SandboxId, program: &'a Path) -> Plan<'a> {
        Plan {
            id,
            program,
            arguments: &arguments,
            root: Root { layers: vec![self.layer()], host_usr: Some(HostUsr { over: Vec::new() }) },
            limits: Limits { cpus: 2, memory_mib: 512, processes: 256, disk_mib: self.disk_mib },
            deadline_ms: u64::MAX >> 1,
        }
    }

    /// A sandbox with an envd that answers.
    pub(crate) async fn start(&self, id: &SandboxId) -> Arc<dyn Instance> {
        let envd = envd().unwrap();
        let instance = self.walls.build(self.plan(id, &envd)).await.unwrap();
        crate::client::init(instance.as_ref()).await;
        instance
    }

    /// What the sandbox's keeper was asked for.
    pub(crate) fn orders(&self, id: &SandboxId) -> String {
        let state = self.place.path().join("sandboxes").join(id.as_str());
        fs::read_to_string(state.join("spec.json")).unwrap()
    }

    /// What there is of a sandbox on this host.
    pub(crate) fn traces(&self, id: &SandboxId) -> Traces {
        Traces::of(id, &self.place.path().join("sandboxes"))
    }

    /// Loop devices with an image of ours.
    pub(crate) fn loop_devices(&self) -> Vec<String> {
        traces::loop_devices(&self.place.path().join("sandboxes"))
    }

    pub(crate) async fn close(self) {
        self.walls.close().await;
        assert_eq!(self.loop_devices(), Vec::<String>::new());
    }
}

/// The daemon beside the other programs that were built.
pub(crate) fn envd() -> Option<PathBuf> {
    let envd = Path::new(env!("CARGO_BIN_EXE_mayfly-keeper")).with_file_name("mayfly-envd");
    if !envd.exists() {
        eprintln!("skipped: there is no mayfly-envd; `cargo xtask build` makes it");
        return None;
    }
    Some(envd)
}

fn as_root(tier: &str) -> Option<()> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: tier `{tier}` needs root");
        return None;
    }
    Some(())
}

fn arguments(birth: &Birth) -> Vec<String> {
    let mut arguments = vec!["envd".to_owned()];
    match birth.listen {
        Listen::Descriptor(number) => {
            arguments.extend(["--listen-fd".to_owned(), number.to_string()]);
        }
        Listen::Tunnel => arguments.push("--tunnel".to_owned()),
    }
    for group in &birth.groups {
        arguments.extend(["--group-fd".to_owned(), group.to_string()]);
    }
    if let Some(home) = &birth.home {
        arguments.extend(["--home".to_owned(), home.to_string_lossy().into_owned()]);
    }
    match birth.identities {
        Identities::Many => {}
        Identities::One => arguments.push("--one-user".to_owned()),
    }
    arguments
}

/// The least that programs in `/usr` need around them.
fn make_layer(layer: &Path) {
    for name in ["dev", "etc", "home", "proc", "root", "run", "sys", "tmp", "usr", "var"] {
        fs::create_dir_all(layer.join(name)).unwrap();
    }
    fs::set_permissions(layer.join("tmp"), fs::Permissions::from_mode(0o1777)).unwrap();
    for name in ["bin", "lib", "lib64", "sbin"] {
        symlink(format!("usr/{name}"), layer.join(name)).unwrap();
    }
    fs::write(layer.join("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
    fs::write(layer.join("etc/group"), "root:x:0:\n").unwrap();
}

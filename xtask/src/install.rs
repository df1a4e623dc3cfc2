//! What the tests need besides Rust: Python with the SDKs, Node with its SDK, the
//! AG-UI clients and an MCP server, curl and jq, the runtimes of the tiers that use
//! one, what makes a root file system, PostgreSQL, and a browser. Each part is left
//! alone when it is there already.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::step::{root, run, works};

/// The Python environments: the newest SDK, and the last one that speaks the
/// first version of the create and connect routes.
const ENVIRONMENTS: [(&str, &str); 2] =
    [(".venv", "conformance/requirements.txt"), (".venv-old", "conformance/requirements-old.txt")];

/// Installs everything that is missing.
pub(crate) fn install_missing() -> Result<()> {
    let root = root()?;
    tools()?;
    engines();
    extras();
    for (environment, requirements) in ENVIRONMENTS {
        python(&root.join(environment), &root.join(requirements))?;
    }
    for packages in ["conformance/js", "conformance/agui", "conformance/runs"] {
        node(&root.join(packages))?;
    }
    Ok(())
}

/// Programs of the distribution: how to see that one is there, and the Debian
/// packages that bring it.
fn tools() -> Result<()> {
    let wanted: [(&str, &[&str], &[&str]); 9] = [
        ("python3", &["-c", "import venv, ensurepip"], &["python3", "python3-venv"]),
        ("npm", &["--version"], &["nodejs", "npm"]),
        ("curl", &["--version"], &["curl"]),
        ("jq", &["--version"], &["jq"]),
        (
            "sh",
            &["-c", "PATH=$PATH:/usr/sbin:/sbin; nft --version && ip -V"],
            &["nftables", "iproute2"],
        ),
        ("sh", &["-c", "PATH=$PATH:/usr/sbin:/sbin; mkfs.ext4 -V"], &["e2fsprogs"]),
        // The default template shows the host's: runs compare files with git, and tests
        // install packages with the others.
        ("git", &["--version"], &["git"]),
        ("sudo", &["--version"], &["sudo"]),
        ("/usr/bin/python3", &["-m", "pip", "--version"], &["python3-pip"]),
    ];
    let missing = wanted.iter().filter(|(program, probe, _)| !works(program, probe));
    let packages: Vec<&str> =
        missing.flat_map(|(_, _, packages)| packages.iter().copied()).collect();
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if !has_apt() {
        bail!("the tests need the Debian packages `{list}` or what your system calls them");
    }
    run(&mut apt(&["update", "--quiet"]))?;
    run(apt(&["install", "--yes", "--quiet", "--no-install-recommends"]).args(&packages))
}

/// Runtimes that one tier each needs. Where they cannot be had, their tests
/// skip and say so.
fn engines() {
    if !has_apt() || (works("runsc", &["--version"]) && works("runc", &["--version"])) {
        return;
    }
    // The runsc of bookworm itself is too old: it lacks the systrap platform.
    let installed = add_backports().and_then(|()| {
        run(&mut apt(&["update", "--quiet"]))?;
        run(&mut apt(&["install", "--yes", "--quiet", "--no-install-recommends", "runc"]))?;
        let suite = ["--target-release", "bookworm-backports"];
        run(apt(&["install", "--yes", "--quiet", "--no-install-recommends", "runsc"]).args(suite))
    });
    if let Err(error) = installed {
        println!("    without runsc or runc, whose tests will skip: {error:#}");
    }
}

/// What single tests need: something that makes a root file system to import,
/// a database server, a browser. Where one cannot be had, its tests skip and say so.
fn extras() {
    // The tests start a server of their own; one that the package starts is not theirs.
    let postgres = "ls /usr/lib/postgresql/*/bin/initdb || command -v initdb";
    let wanted = [
        ("mmdebstrap", works("mmdebstrap", &["--version"])),
        ("postgresql", works("sh", &["-c", postgres])),
        ("chromium", works("chromium", &["--version"])),
    ];
    for (package, _) in wanted.into_iter().filter(|(_, is_there)| !is_there && has_apt()) {
        let installed = run(&mut apt(&["update", "--quiet"])).and_then(|()| {
            run(&mut apt(&["install", "--yes", "--quiet", "--no-install-recommends", package]))
        });
        if let Err(error) = installed {
            println!("    without {package}, whose tests will skip: {error:#}");
        }
    }
}

/// Adds Debian's backports from the mirror that apt already uses.
fn add_backports() -> Result<()> {
    let sources = Path::new("/etc/apt/sources.list.d");
    if works("sh", &["-c", "apt-cache policy | grep -q bookworm-backports"]) {
        return Ok(());
    }
    let debian = std::fs::read_to_string(sources.join("debian.sources"))
        .context("no debian.sources to take the mirror from")?;
    let mirror = debian.lines().find(|line| line.starts_with("URIs:"));
    let mirror = mirror.context("debian.sources names no mirror")?;
    let text = format!(
        "Types: deb\n{mirror}\nSuites: bookworm-backports\nComponents: main\n\
         Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
    );
    std::fs::write(sources.join("mayfly-backports.sources"), text).context("cannot add a source")
}

fn has_apt() -> bool {
    works("sh", &["-c", "test $(id -u) = 0 && command -v apt-get"])
}

fn apt(arguments: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Makes the environment hold exactly what the file pins. A copy of the file
/// inside the environment says what was installed last.
fn python(environment: &Path, requirements: &Path) -> Result<()> {
    let wanted = std::fs::read_to_string(requirements)
        .with_context(|| format!("cannot read {}", requirements.display()))?;
    let stamp = environment.join(".installed");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(environment))?;
    // Newer Pythons write this file themselves: the directory ignores itself.
    std::fs::write(environment.join(".gitignore"), "*\n")
        .with_context(|| format!("cannot write into {}", environment.display()))?;
    let mut pip = Command::new(environment.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
    run(pip.arg(requirements))?;
    std::fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))
}

/// Installs the locked packages. `npm ci` starts from nothing each time, so a
/// copy of the lock file says whether it has to run.
fn node(directory: &Path) -> Result<()> {
    let recent = "const [major, minor] = process.versions.node.split('.').map(Number);\
                  process.exit(major > 20 || (major === 20 && minor >= 18) ? 0 : 1)";
    if !works("node", &["-e", recent]) {
        bail!("the JavaScript SDK needs Node 20.18 or newer; `node --version` says what is here");
    }
    let lock = directory.join("package-lock.json");
    let wanted = std::fs::read_to_string(&lock)
        .with_context(|| format!("cannot read {}", lock.display()))?;
    let stamp = directory.join("node_modules/.installed");
    if std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let mut command = Command::new("npm");
    command.args(["ci", "--no-audit", "--no-fund"]).current_dir(directory);
    run(&mut command)?;
    std::fs::write(&stamp, wanted).with_context(|| format!("cannot write {}", stamp.display()))
}

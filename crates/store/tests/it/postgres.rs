//! A real PostgreSQL: one server for all tests of this binary, one database for
//! each case. And what only this database promises.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use store::{OpenError, Store};
use wire::Secret;

/// Makes a server below `$2` with the programs in `$1`, says so, and takes all
/// of it away once nobody holds the other end of its input any more: that is
/// when the tests have ended, in whatever way.
const SUPERVISOR: &str = r#"
    exec 2>&1
    chown postgres "$2"
    cd "$2"
    as_postgres() { runuser -u postgres -- "$@"; }
    as_postgres "$1/initdb" --auth trust --no-sync --pgdata data > initdb.log &&
        as_postgres "$1/pg_ctl" start --silent --wait --pgdata data --log server.log --options \
            "-k $2 -c listen_addresses= -c max_connections=400 -c fsync=off" &&
        echo ready
    read -r _
    as_postgres "$1/pg_ctl" stop --silent --mode immediate --pgdata data > /dev/null
    cd /
    rm -r "$2"
"#;

/// The server, or why there is none.
static SERVER: LazyLock<Result<Server, &'static str>> = LazyLock::new(start);
static DATABASES: AtomicU32 = AtomicU32::new(0);

struct Server {
    programs: PathBuf,
    directory: PathBuf,
    /// Its input is open as long as this program runs.
    _supervisor: Child,
}

/// One database of the server; dropped with it.
pub(crate) struct Database {
    server: &'static Server,
    name: String,
}

/// A store in a database of its own, or `None` where there is no PostgreSQL.
pub(crate) async fn fresh() -> Option<(Store, Database)> {
    let database = empty()?;
    let store = Store::connect(&database.address()).await.unwrap();
    Some((store, database))
}

/// A database without any table.
pub(crate) fn empty() -> Option<Database> {
    match &*SERVER {
        Ok(server) => {
            let number = DATABASES.fetch_add(1, Ordering::Relaxed);
            let database = Database { server, name: format!("case_{number}") };
            server.run("createdb", &[&database.name]);
            Some(database)
        }
        Err(reason) => {
            println!("skipped: {reason}");
            None
        }
    }
}

impl Database {
    /// What the server is reached by.
    pub(crate) fn address(&self) -> Secret<String> {
        let directory = self.server.directory.display();
        Secret::new(format!("postgres:///{}?host={directory}&user=postgres", self.name))
    }

    /// Everything in it, as text.
    pub(crate) fn dump(&self) -> String {
        self.server.run("pg_dump", &[&self.name])
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        self.server.run("dropdb", &["--force", &self.name]);
    }
}

impl Server {
    fn run(&self, program: &str, arguments: &[&str]) -> String {
        let done = Command::new(self.programs.join(program))
            .arg("--host")
            .arg(&self.directory)
            .args(["--username", "postgres"])
            .args(arguments)
            .output()
            .unwrap();
        let complaint = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{program}: {complaint}");
        String::from_utf8(done.stdout).unwrap()
    }
}

fn start() -> Result<Server, &'static str> {
    let programs = programs().ok_or("there is no PostgreSQL; `cargo xtask test` installs it")?;
    let root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    if !root {
        return Err("PostgreSQL is started as its own user, which needs root");
    }
    let directory = tempfile::Builder::new().prefix("mayfly-pg").tempdir().unwrap().keep();
    let mut supervisor = Command::new("sh")
        .args(["-c", SUPERVISOR, "sh"])
        .args([&programs, &directory])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // A Ctrl-C is for the tests; the supervisor has to outlive them.
        .process_group(0)
        .spawn()
        .unwrap();
    let said = BufReader::new(supervisor.stdout.take().unwrap()).lines().next().unwrap().unwrap();
    assert_eq!(said, "ready");
    Ok(Server { programs, directory, _supervisor: supervisor })
}

/// Where PostgreSQL's programs are; Debian keeps most of them out of `PATH`.
fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten();
    let debian = debian.flatten().map(|version| version.path().join("bin"));
    let all = |place: &PathBuf| ["initdb", "pg_ctl", "pg_dump"].iter().all(|it| is_in(place, it));
    debian.chain(std::env::split_paths(&path)).find(all)
}

fn is_in(place: &Path, program: &str) -> bool {
    place.join(program).is_file()
}

#[tokio::test]
async fn rows_are_there_after_a_reconnect() {
    let Some((store, database)) = fresh().await else { return };
    let (key, secret) = store.create_key(crate::keys::new_key("red")).await.unwrap();
    drop(store);
    let store = Store::connect(&database.address()).await.unwrap();
    assert_eq!(store.list_keys().await.unwrap(), [key]);
    assert!(store.team_of(secret.expose()).await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_first_starts_on_one_database_both_succeed() {
    let Some(database) = empty() else { return };
    let address = database.address();
    let (one, two) = tokio::join!(Store::connect(&address), Store::connect(&address));
    one.unwrap().create_key(crate::keys::new_key("red")).await.unwrap();
    assert!(two.unwrap().has_live_key().await.unwrap());
}

#[tokio::test]
async fn what_is_wrong_with_an_address_is_said_without_its_password() {
    let nonsense = Store::connect(&Secret::new("hunter2".to_owned())).await.unwrap_err();
    assert!(matches!(nonsense, OpenError::Address), "{nonsense:?}");
    // Nobody listens on port 1.
    let address = "postgres://somebody:hunter2@127.0.0.1:1/rows".to_owned();
    let refused = Store::connect(&Secret::new(address)).await.unwrap_err();
    assert_eq!(refused.to_string(), "cannot open the database `postgres://127.0.0.1:1/rows`");
    assert!(!format!("{nonsense:?} {refused:?}").contains("hunter2"));
}

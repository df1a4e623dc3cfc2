//! What a person sees at start: where the server is, the key, and lines to
//! copy. On a terminal headings are bold; the lines are the same elsewhere.

use std::net::SocketAddr;
use std::path::Path;

use isolate::{Privilege, Tier};

use super::first_key::FirstKey;

/// What goes into the banner.
pub(super) struct Banner<'a> {
    pub(super) address: SocketAddr,
    pub(super) tier: Tier,
    pub(super) privilege: Privilege,
    pub(super) network: &'a str,
    pub(super) data: &'a Path,
    pub(super) key: &'a FirstKey,
}

/// Where the banner goes.
#[derive(Clone, Copy)]
pub(super) enum Paper {
    /// A file, a pipe or a log.
    Plain,
    /// A terminal, which understands bold.
    Terminal,
}

/// The SDKs refuse to start without a key, and old ones check its form.
const ANY_KEY: &str = "e2b_0000000000000000000000000000000000000000";

/// What a server without root has, and has not.
const WITHOUT_ROOT: &str = "native, without root (namespaces, a system call filter)
           no limit on memory, processors or disk, no network
           one user, no sudo, /usr of the host read-only, no packages to install";

impl Banner<'_> {
    /// The banner as text.
    pub(super) fn render(&self, paper: Paper) -> String {
        let bold = |text: &str| match paper {
            Paper::Plain => text.to_owned(),
            Paper::Terminal => format!("\x1b[1m{text}\x1b[0m"),
        };
        let url = format!("http://{}", self.address);
        let data = self.data.display();
        let tier = match (self.tier, self.privilege) {
            (Tier::Process, _) => "process (no walls: for development, with code you trust)",
            (Tier::Native, Privilege::Root) => {
                "native (namespaces, own ids, cgroups, a system call filter)"
            }
            (Tier::Native, Privilege::User) => WITHOUT_ROOT,
            (Tier::Gvisor, _) => "gvisor (a kernel of its own in user space, by runsc)",
            (Tier::Runc, _) => "runc (a container as Docker makes it, without ids of its own)",
        };
        let (about, key) = match self.key {
            FirstKey::Made(key) => (
                format!("{} (made now and not shown again: store it)", key.expose()),
                key.expose().as_str(),
            ),
            FirstKey::Given(key) => {
                (format!("{} (from MAYFLY_API_KEY)", key.expose()), key.expose().as_str())
            }
            FirstKey::Stored => (
                format!("one you have; `mayfly keys create --data {data}` makes another"),
                "$E2B_API_KEY",
            ),
            FirstKey::NotNeeded => ("none asked for (--insecure)".to_owned(), ANY_KEY),
        };
        let variables = format!("E2B_API_URL={url} E2B_SANDBOX_URL={url} E2B_API_KEY={key}");
        format!(
            "{title} is listening on {url}\n\
             \x20 tier     {tier}\n\
             \x20 network  {network}\n\
             \x20 data     {data}\n\
             \x20 API key  {about}\n\
             \n\
             {copy}\n\
             \n\
             curl -N {url}/commands -H \"X-API-Key: {key}\" \
             -H 'Content-Type: application/json' -d '{{\"cmd\":\"echo hello\"}}'\n\
             \n\
             curl -N {url}/stream -H \"X-API-Key: {key}\" \
             -H 'Content-Type: application/json' -d '{AGENT}'\n\
             \n\
             {variables} python3 -c '{PYTHON}'\n\
             \n\
             {variables} node -e '{JAVASCRIPT}'\n\
             \n",
            network = self.network,
            title = bold(concat!("Mayfly ", env!("CARGO_PKG_VERSION"))),
            copy = bold("Copy one of these (pip install e2b, npm install e2b):"),
        )
    }
}

/// A run that needs no model: the scripted provider runs the prompt's blocks.
const AGENT: &str =
    r#"{"config":{},"prompt":"```sh\necho hello from an agent | tee assets/hello.txt\n```"}"#;

const PYTHON: &str = "from e2b import Sandbox; sandbox = Sandbox.create(); \
    print(sandbox.commands.run(\"echo hello\").stdout); sandbox.kill()";

const JAVASCRIPT: &str = "import(\"e2b\").then(async ({ Sandbox }) => { \
    const sandbox = await Sandbox.create(); \
    console.log((await sandbox.commands.run(\"echo hello\")).stdout); await sandbox.kill() })";

#[cfg(test)]
mod tests {
    use std::path::Path;

    use isolate::{Privilege, Tier};
    use wire::Secret;

    use super::{ANY_KEY, Banner, FirstKey, Paper};

    fn render(key: &FirstKey, paper: Paper) -> String {
        let address = "127.0.0.1:3000".parse().unwrap();
        let data = Path::new("./mayfly-data");
        let (tier, privilege, network) = (Tier::Process, Privilege::Root, "the host's");
        Banner { address, tier, privilege, network, data, key }.render(paper)
    }

    #[test]
    fn without_root_the_banner_says_what_is_missing() {
        let address = "127.0.0.1:3000".parse().unwrap();
        let (tier, privilege, network) = (Tier::Native, Privilege::User, "none");
        let (data, key) = (Path::new("./mayfly-data"), &FirstKey::Stored);
        let banner = Banner { address, tier, privilege, network, data, key }.render(Paper::Plain);
        for missing in ["no limit on memory, processors or disk", "no network", "no sudo"] {
            assert!(banner.contains(missing), "{banner}");
        }
    }

    #[test]
    fn the_banner_has_the_address_the_key_and_lines_to_copy() {
        let key = Secret::new("e2b_12".to_owned());
        assert_eq!(
            render(&FirstKey::Made(key), Paper::Plain),
            r#"Mayfly 0.1.0 is listening on http://127.0.0.1:3000
  tier     process (no walls: for development, with code you trust)
  network  the host's
  data     ./mayfly-data
  API key  e2b_12 (made now and not shown again: store it)

Copy one of these (pip install e2b, npm install e2b):

curl -N http://127.0.0.1:3000/commands -H "X-API-Key: e2b_12" -H 'Content-Type: application/json' -d '{"cmd":"echo hello"}'

curl -N http://127.0.0.1:3000/stream -H "X-API-Key: e2b_12" -H 'Content-Type: application/json' -d '{"config":{},"prompt":"```sh\necho hello from an agent | tee assets/hello.txt\n```"}'

E2B_API_URL=http://127.0.0.1:3000 E2B_SANDBOX_URL=http://127.0.0.1:3000 E2B_API_KEY=e2b_12 python3 -c 'from e2b import Sandbox; sandbox = Sandbox.create(); print(sandbox.commands.run("echo hello").stdout); sandbox.kill()'

E2B_API_URL=http://127.0.0.1:3000 E2B_SANDBOX_URL=http://127.0.0.1:3000 E2B_API_KEY=e2b_12 node -e 'import("e2b").then(async ({ Sandbox }) => { const sandbox = await Sandbox.create(); console.log((await sandbox.commands.run("echo hello")).stdout); await sandbox.kill() })'

"#
        );
    }

    #[test]
    fn without_a_key_to_show_the_banner_says_what_to_use() {
        let stored = render(&FirstKey::Stored, Paper::Plain);
        assert!(stored.contains("`mayfly keys create --data ./mayfly-data` makes another"));
        assert!(stored.contains("X-API-Key: $E2B_API_KEY"));
        assert!(render(&FirstKey::NotNeeded, Paper::Plain).contains(ANY_KEY));
    }

    #[test]
    fn a_terminal_gets_the_same_lines_with_bold_headings() {
        let plain = render(&FirstKey::Stored, Paper::Plain);
        let bold = render(&FirstKey::Stored, Paper::Terminal);
        assert!(!plain.contains('\x1b') && bold.contains('\x1b'));
        assert_eq!(bold.replace("\x1b[1m", "").replace("\x1b[0m", ""), plain);
    }
}

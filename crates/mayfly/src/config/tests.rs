//! The merge and the checks, as tables.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use clap::Parser;
use isolate::{Privilege, Tier};
use wire::Secret;

use super::{
    Access, Chosen, ConfigError, GivenKeys, Layer, LogFormat, Network, ServeConfig, Surroundings,
    VARIABLES, WebOrigin,
};

/// The flags alone, as clap reads them.
#[derive(Parser)]
struct Flags {
    #[command(flatten)]
    layer: Layer,
}

fn flags(text: &str) -> Layer {
    let words = std::iter::once("mayfly").chain(text.split_whitespace());
    Flags::try_parse_from(words).map(|flags| flags.layer).unwrap()
}

fn environment(text: &str) -> Result<Layer, ConfigError> {
    let variables: BTreeMap<String, OsString> = text
        .split_whitespace()
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), OsString::from(value)))
        .collect();
    Layer::from_environment(&|name| variables.get(name).cloned())
}

#[test]
fn without_root_there_is_native_without_a_network_and_process() {
    let privilege = Privilege::User;
    let surroundings = Surroundings { beside: Path::new("/opt/bin"), exists: &|_| true, privilege };
    for (flag, tier) in [("--tier gvisor", "gvisor"), ("--tier runc", "runc")] {
        let refused =
            flags(flag).resolve(GivenKeys::default(), &surroundings).unwrap_err().to_string();
        assert!(refused.contains(&format!("tier `{tier}` needs root")), "{refused}");
        assert!(refused.contains("use --tier native"), "{refused}");
    }
    let config = flags("").resolve(GivenKeys::default(), &surroundings).unwrap();
    assert_eq!((config.tier, config.privilege), (Tier::Native, Privilege::User));
    assert_eq!(config.network, Network::None("it takes root to give one"));
    let refused =
        flags("--network internet").resolve(GivenKeys::default(), &surroundings).unwrap_err();
    assert!(refused.to_string().contains("it takes root to give one"), "{refused}");
    assert!(flags("--tier process").resolve(GivenKeys::default(), &surroundings).is_ok());
}

fn resolve(layer: Layer) -> Result<ServeConfig, ConfigError> {
    let exists = |path: &Path| !path.to_string_lossy().contains("nothing");
    let surroundings =
        Surroundings { beside: Path::new("/opt/bin"), exists: &exists, privilege: Privilege::Root };
    layer.resolve(GivenKeys::default(), &surroundings)
}

fn merged(flag: &str, variable: &str, file: &str) -> ServeConfig {
    let environment = environment(variable).unwrap();
    let file = Layer::from_toml(file).unwrap();
    resolve(flags(flag).over(environment).over(file)).unwrap()
}

/// One setting: flag, variable, line of the file, how it is read, and what is
/// read with all three, with the last two, with the file alone, with none.
type Row = (&'static str, &'static str, &'static str, Read, [&'static str; 4]);

type Read = fn(&ServeConfig) -> String;

fn dns_and_open(config: &ServeConfig) -> (Vec<Ipv4Addr>, Vec<String>) {
    match &config.network {
        Network::None(_) | Network::OfHost => panic!("{:?}", config.network),
        Network::Internet { dns, open, .. } => {
            (dns.clone(), open.iter().map(ToString::to_string).collect())
        }
    }
}

#[test]
fn internet_is_the_default_where_it_can_be_had_and_refused_where_it_cannot() {
    let decide = |flag: &str, nft: bool| {
        let exists = |path: &Path| nft || !path.ends_with("nft");
        let surroundings = Surroundings {
            beside: Path::new("/opt/bin"),
            exists: &exists,
            privilege: Privilege::Root,
        };
        flags(flag).resolve(GivenKeys::default(), &surroundings).map(|config| config.network)
    };
    let found = decide("", true).unwrap();
    assert!(matches!(found, Network::Internet { chosen: Chosen::ByDefault, .. }));
    let found = decide("--network internet", true).unwrap();
    assert!(matches!(found, Network::Internet { chosen: Chosen::Explicitly, .. }));
    assert!(matches!(decide("", false).unwrap(), Network::None(_)));
    assert!(matches!(decide("--network none", true).unwrap(), Network::None(_)));
    assert!(matches!(decide("--tier gvisor", true).unwrap(), Network::None(_)));
    assert_eq!(decide("--tier process", true).unwrap(), Network::OfHost);
    let refused = decide("--network internet", false).unwrap_err().to_string();
    assert!(refused.contains("install nftables"), "{refused}");
    let refused = decide("--network internet --tier runc", true).unwrap_err().to_string();
    assert!(refused.contains("tier `runc`"), "{refused}");
}

#[test]
fn flags_win_over_the_environment_and_that_over_the_file() {
    let rows: [Row; VARIABLES.len()] = [
        (
            "--listen localhost:1",
            "MAYFLY_LISTEN=127.0.0.1:2",
            "listen = '[::1]:3'",
            |config| config.listen.to_string(),
            ["127.0.0.1:1", "127.0.0.1:2", "[::1]:3", "127.0.0.1:3000"],
        ),
        (
            "--data /flag",
            "MAYFLY_DATA=/variable",
            "data = '/file'",
            |config| config.data.display().to_string(),
            ["/flag", "/variable", "/file", "./mayfly-data"],
        ),
        (
            "--tier process",
            "MAYFLY_TIER=process",
            "tier = 'process'",
            |config| config.tier.to_string(),
            ["process", "process", "process", "native"],
        ),
        (
            "--network none",
            "MAYFLY_NETWORK=internet",
            "network = 'none'",
            |config| matches!(config.network, Network::Internet { .. }).to_string(),
            ["false", "true", "false", "true"],
        ),
        (
            "--dns 1.1.1.1 --dns 2.2.2.2",
            "MAYFLY_DNS=3.3.3.3,4.4.4.4",
            "dns = ['5.5.5.5']",
            |config| format!("{:?}", dns_and_open(config).0),
            ["[1.1.1.1, 2.2.2.2]", "[3.3.3.3, 4.4.4.4]", "[5.5.5.5]", "[]"],
        ),
        (
            "--egress-open 10.0.0.0/8",
            "MAYFLY_EGRESS_OPEN=10.0.0.1,10.0.0.2",
            "egress-open = ['192.168.0.0/16']",
            |config| dns_and_open(config).1.join(" "),
            ["10.0.0.0/8", "10.0.0.1 10.0.0.2", "192.168.0.0/16", ""],
        ),
        (
            "--domain flag.test",
            "MAYFLY_DOMAIN=variable.test",
            "domain = 'file.test'",
            |config| config.domain.clone().unwrap_or_default(),
            ["flag.test", "variable.test", "file.test", ""],
        ),
        (
            "--envd /flag",
            "MAYFLY_ENVD=/variable",
            "envd = '/file'",
            |config| config.envd.display().to_string(),
            ["/flag", "/variable", "/file", "/opt/bin/mayfly-envd"],
        ),
        (
            "--agent /flag",
            "MAYFLY_AGENT=/variable",
            "agent = '/file'",
            |config| config.agent.clone().unwrap_or_default().display().to_string(),
            ["/flag", "/variable", "/file", "/opt/bin/mayfly-agent"],
        ),
        (
            "--jexec /flag",
            "MAYFLY_JEXEC=/variable",
            "jexec = '/file'",
            |config| config.jexec.clone().unwrap_or_default().display().to_string(),
            ["/flag", "/variable", "/file", "/usr/sbin/jexec"],
        ),
        (
            "--max-sandboxes 1",
            "MAYFLY_MAX_SANDBOXES=2",
            "max-sandboxes = 3",
            |config| config.max_sandboxes.to_string(),
            ["1", "2", "3", "200"],
        ),
        (
            "--disk-mib 100",
            "MAYFLY_DISK_MIB=200",
            "disk-mib = 0",
            |config| config.disk_mib.to_string(),
            ["100", "200", "0", "5120"],
        ),
        (
            "--pool 1",
            "MAYFLY_POOL=2",
            "pool = 3",
            |config| config.pool.to_string(),
            ["1", "2", "3", "0"],
        ),
        (
            "--max-runtime-sec 1",
            "ASSISTANT_SANDBOX_MAX_RUNTIME_SEC=2",
            "max-runtime-sec = 3",
            |config| config.max_runtime.as_secs().to_string(),
            ["1", "2", "3", "28800"],
        ),
        (
            "--keep-runs-days 1",
            "MAYFLY_KEEP_RUNS_DAYS=2",
            "keep-runs-days = 0",
            |config| config.keep_runs.num_days().to_string(),
            ["1", "2", "0", "7"],
        ),
        (
            "--callback-allow 10.0.0.0/8",
            "MAYFLY_CALLBACK_ALLOW=192.0.2.7,fd00::/8",
            "callback-allow = ['10.0.0.0/8']",
            |config| {
                let allows = |text: &str| config.callbacks.allows(text.parse().unwrap());
                format!("{} {} {}", allows("10.1.2.3"), allows("192.0.2.7"), allows("fd00::1"))
            },
            ["true false false", "false true true", "true false false", "true true true"],
        ),
        (
            "--cors-origin http://flag:1,https://other.test",
            "MAYFLY_CORS_ORIGIN=*",
            "cors-origin = ['https://file.test']",
            |config| {
                let text = |origin: &WebOrigin| match origin {
                    WebOrigin::Any => "*".to_owned(),
                    WebOrigin::One(origin) => origin.to_str().unwrap().to_owned(),
                };
                config.cors_origins.iter().map(text).collect::<Vec<String>>().join(" ")
            },
            ["http://flag:1 https://other.test", "*", "https://file.test", ""],
        ),
        (
            "--file-hook-url http://flag/x?key=1",
            "MAYFLY_FILE_HOOK_URL=http://variable/",
            "file-hook-url = 'https://file/'",
            |config| {
                config.file_hook.as_ref().map_or(String::new(), |hook| hook.0.expose().clone())
            },
            ["http://flag/x?key=1", "http://variable/", "https://file/", ""],
        ),
        (
            "--model-provider openai --model-name x",
            "MAYFLY_MODEL_PROVIDER=anthropic",
            "model-provider = 'openai-responses'\nmodel-name = 'x'",
            |config| config.model.as_ref().map_or("", |model| model.provider.as_str()).to_owned(),
            ["openai", "anthropic", "openai-responses", ""],
        ),
        (
            "--model-provider openai --model-name flag",
            "MAYFLY_MODEL_NAME=variable",
            "model-provider = 'openai'\nmodel-name = 'file'",
            |config| config.model.as_ref().map_or("", |model| &model.name).to_owned(),
            ["flag", "variable", "file", ""],
        ),
        (
            "--model-provider scripted --model-base-url http://flag.test/v1",
            "MAYFLY_MODEL_BASE_URL=http://variable.test",
            "model-provider = 'scripted'\nmodel-base-url = 'http://file.test'",
            |config| {
                let model = config.model.as_ref();
                model.and_then(|model| model.base_url.clone()).unwrap_or_default()
            },
            ["http://flag.test/v1", "http://variable.test", "http://file.test", ""],
        ),
        (
            "--database postgres://flag",
            "MAYFLY_DATABASE=postgres://variable",
            "database = 'postgresql://file'",
            |config| match &config.database {
                Some(database) => database.0.expose().clone(),
                None => String::new(),
            },
            ["postgres://flag", "postgres://variable", "postgresql://file", ""],
        ),
        (
            "--blobs s3://flag",
            "MAYFLY_BLOBS=s3://variable",
            "blobs = 's3://file/x'",
            |config| config.blobs.as_ref().map_or(String::new(), |blobs| blobs.0.clone()),
            ["s3://flag", "s3://variable", "s3://file/x", ""],
        ),
        (
            "--public-url http://flag",
            "MAYFLY_PUBLIC_URL=http://variable/",
            "public-url = 'https://file'",
            |config| config.public_url.as_ref().map_or(String::new(), ToString::to_string),
            ["http://flag", "http://variable", "https://file", ""],
        ),
        (
            "--sandbox-url http://flag",
            "SANDBOX_URL=http://variable ASSISTANT_SANDBOX_URL=http://weaker",
            "sandbox-url = 'http://file'",
            |config| config.other_runner.as_ref().map_or(String::new(), |it| it.url.to_string()),
            ["http://flag", "http://variable", "http://file", ""],
        ),
        (
            "--bag-url-ttl-sec 1",
            "CHAT_BAG_ZIP_URL_TTL_SECONDS=2",
            "bag-url-ttl-sec = 3",
            |config| config.bag_url_ttl.as_secs().to_string(),
            ["1", "2", "3", "300"],
        ),
        (
            "--listener-grace-sec 1",
            "MAYFLY_LISTENER_GRACE_SEC=0",
            "listener-grace-sec = 3",
            |config| config.listener_grace.as_secs().to_string(),
            ["1", "0", "3", "10"],
        ),
        (
            "--insecure=false",
            "MAYFLY_INSECURE=1",
            "insecure = false",
            |config| matches!(config.access, Access::Insecure).to_string(),
            ["false", "true", "false", "false"],
        ),
        (
            "--log-format json",
            "MAYFLY_LOG_FORMAT=text",
            "log-format = 'json'",
            |config| matches!(config.log_format, LogFormat::Json).to_string(),
            ["true", "false", "true", "false"],
        ),
    ];
    for (flag, variable, file, read, [all, two, one, none]) in rows {
        assert_eq!(read(&merged(flag, variable, file)), all, "{flag}");
        assert_eq!(read(&merged("", variable, file)), two, "{variable}");
        assert_eq!(read(&merged("", "", file)), one, "{file}");
        assert_eq!(read(&merged("", "", "")), none, "default of {flag}");
        assert_eq!(read(&merged(flag, "", file)), all, "{flag} over {file}");
        assert_eq!(read(&merged(flag, variable, "")), all, "{flag} over {variable}");
    }
}

#[test]
fn what_must_not_be_served_is_refused_with_what_to_do() {
    let check = |flag: &str, message: &str| {
        let refused = resolve(flags(flag)).unwrap_err().to_string();
        assert!(refused.contains(message), "{flag}: {refused}");
    };
    check("--tier process --listen 0.0.0.0:3000", "use --listen 127.0.0.1:3000");
    check("--tier process --listen [::]:80", "tier `process` has no walls");
    check("--listen 192.168.1.5:80 --insecure", "leave --insecure out");
    check("--domain http://x.test", "not a domain");
    check("--domain x.test:3000", "not a domain");
    check("--domain=-x.test", "not a domain");
    check("--envd /nothing", "there is no envd at `/nothing`");
    check("--agent /nothing", "there is no agent at `/nothing`");
    check("--tier process --jexec /nothing", "there is no jexec at `/nothing`");
    check("--model-name x", "--model-name is of no use without --model-provider");
    check("--model-base-url http://x.test", "--model-base-url is of no use without");
    check("--model-provider openai", "--model-provider is of no use without --model-name");
}

#[test]
fn a_wrong_variable_is_named() {
    let check = |pair: &str, message: &str| {
        let refused = environment(pair).unwrap_err().to_string();
        assert_eq!(refused, message);
    };
    check("MAYFLY_INSECURE=yes", "MAYFLY_INSECURE is `yes`: give true or false");
    check(
        "MAYFLY_LISTEN=3000",
        "MAYFLY_LISTEN is `3000`: give an address and a port, such as 127.0.0.1:3000",
    );
    check(
        "ASSISTANT_SANDBOX_URL=runner:3000",
        "ASSISTANT_SANDBOX_URL is `runner:3000`: give an address as http://host:port, without \
         query or user",
    );
    let other = environment("ASSISTANT_SANDBOX_URL=http://runner").unwrap().sandbox_url;
    assert_eq!(other.unwrap().to_string(), "http://runner");
    assert!(environment("MAYFLY_MAX_SANDBOXES=0").is_err());
    assert!(environment("MAYFLY_TIER=kubernetes").is_err());
    // Set to nothing is not set.
    assert!(environment("MAYFLY_LISTEN=").unwrap().listen.is_none());
}

#[test]
fn a_wrong_file_is_shown_with_its_line_and_key() {
    let check = |text: &str, parts: &[&str]| {
        let refused = Layer::from_toml(text).unwrap_err().to_string();
        for part in parts {
            assert!(refused.contains(part), "`{part}` is not in: {refused}");
        }
    };
    check("data = 'x'\nlisen = 'y'", &["line 2", "unknown field `lisen`", "`listen`"]);
    check("tier = 'kubernetes'", &["line 1", "tier = ", "not in this version"]);
    check("listen = 'here'", &["line 1", "such as 127.0.0.1:3000"]);
    check("disk-mib = 5", &["line 1", "from 64 to"]);
    check("max-sandboxes = 0", &["line 1", "max-sandboxes"]);
    check("data = ", &["line 1"]);
}

#[test]
fn jexec_and_agent_are_used_only_when_they_are_there_and_a_given_key_is_kept() {
    let exists = |path: &Path| path == Path::new("/opt/bin/mayfly-envd");
    let surroundings =
        Surroundings { beside: Path::new("/opt/bin"), exists: &exists, privilege: Privilege::Root };
    let given = GivenKeys { own: Some(Secret::new("e2b_00".to_owned())), ..GivenKeys::default() };
    let process = flags("--tier process");
    let config = process.resolve(given, &surroundings).unwrap();
    assert_eq!(config.jexec, None::<PathBuf>);
    assert_eq!(config.agent, None::<PathBuf>);
    let Access::Keys { given: Some(key) } = config.access else { panic!("no key kept") };
    assert_eq!(key.expose(), "e2b_00");
}

//! The merge and the checks, as tables.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Parser;
use wire::Secret;

use super::{Access, ConfigError, Layer, LogFormat, ServeConfig, Surroundings, VARIABLES};

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
fn the_native_tier_needs_root_and_says_what_else_there_is() {
    let surroundings =
        Surroundings { beside: Path::new("/opt/bin"), exists: &|_| true, is_root: false };
    let refused = Layer::default().resolve(None, &surroundings).unwrap_err().to_string();
    assert!(refused.contains("use --tier process"), "{refused}");
    assert!(flags("--tier process").resolve(None, &surroundings).is_ok());
}

fn resolve(layer: Layer) -> Result<ServeConfig, ConfigError> {
    let exists = |path: &Path| !path.to_string_lossy().contains("nothing");
    let surroundings =
        Surroundings { beside: Path::new("/opt/bin"), exists: &exists, is_root: true };
    layer.resolve(None, &surroundings)
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
            "--pool 1",
            "MAYFLY_POOL=2",
            "pool = 3",
            |config| config.pool.to_string(),
            ["1", "2", "3", "0"],
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
    check("--tier process --jexec /nothing", "there is no jexec at `/nothing`");
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
    check("max-sandboxes = 0", &["line 1", "max-sandboxes"]);
    check("data = ", &["line 1"]);
}

#[test]
fn jexec_is_used_only_when_it_is_there_and_a_given_key_is_kept() {
    let exists = |path: &Path| path == Path::new("/opt/bin/mayfly-envd");
    let surroundings =
        Surroundings { beside: Path::new("/opt/bin"), exists: &exists, is_root: true };
    let given = Some(Secret::new("e2b_00".to_owned()));
    let process = flags("--tier process");
    let config = process.resolve(given, &surroundings).unwrap();
    assert_eq!(config.jexec, None::<PathBuf>);
    let Access::Keys { given: Some(key) } = config.access else { panic!("no key kept") };
    assert_eq!(key.expose(), "e2b_00");
}

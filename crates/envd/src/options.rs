//! The command line. It has eight options, so it is read by hand: the daemon is
//! in every sandbox and stays small.

use std::{ffi::OsString, os::fd::RawFd, path::PathBuf};

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Invocation {
    /// Print the version.
    Version,
    /// Serve.
    Serve(Options),
}

/// How to serve.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    /// Where connections come from.
    pub listen: Listen,
    /// Home of commands that run as our own user; the passwd file's when absent.
    pub home: Option<PathBuf>,
    /// Who commands can be.
    pub identities: Identities,
    /// Inherited `cgroup.procs` files: every command joins these groups.
    pub groups: Vec<RawFd>,
    /// Inherited file of those groups that counts who was killed for memory.
    pub memory: Option<RawFd>,
    /// Put before every command's arguments, such as `jexec -l -U root e2b-7`.
    pub wrap: Vec<OsString>,
}

/// Who commands can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identities {
    /// Any account, if we are root, and else our own.
    Many,
    /// Our own user, by the name and with the home of any account: there is no
    /// other id to become.
    One,
}

/// Where connections come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// An inherited Unix socket that listens.
    Descriptor(RawFd),
    /// A tunnel over standard input and output.
    Tunnel,
}

/// Why the command line was not understood.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum OptionsError {
    /// An option without what it needs.
    #[error("option {0} needs a value")]
    NoValue(&'static str),
    /// Standard input is the leash and standard error carries diagnostics, so
    /// the socket is elsewhere. Standard output is free for it.
    #[error("{0} wants the number of an inherited descriptor: 1, or 3 and higher")]
    Descriptor(&'static str),
    /// The home is used by commands that run elsewhere, so it cannot be relative.
    #[error("--home wants an absolute path")]
    RelativeHome,
    /// Nothing to serve on.
    #[error("--listen-fd or --tunnel is required")]
    NoListener,
    /// An option that does not exist.
    #[error(
        "option {0:?} is not known; there are --listen-fd, --tunnel, --group-fd, --memory-fd, \
         --home, --one-user, --wrap and --version"
    )]
    Unknown(OsString),
}

impl Options {
    /// Reads the arguments that follow the program's name.
    pub fn parse(
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Invocation, OptionsError> {
        let mut arguments = arguments.into_iter();
        let mut listen = None;
        let mut groups = Vec::new();
        let mut memory = None;
        let mut home = None;
        let mut identities = Identities::Many;
        let mut wrap = Vec::new();
        while let Some(argument) = arguments.next() {
            match argument.to_str() {
                Some("--version") => return Ok(Invocation::Version),
                Some("--listen-fd") => {
                    let number = descriptor("--listen-fd", arguments.next())?;
                    listen = Some(Listen::Descriptor(number));
                }
                Some("--tunnel") => listen = Some(Listen::Tunnel),
                Some("--group-fd") => {
                    groups.push(descriptor("--group-fd", arguments.next())?);
                }
                Some("--memory-fd") => {
                    memory = Some(descriptor("--memory-fd", arguments.next())?);
                }
                Some("--home") => {
                    let value = arguments.next().ok_or(OptionsError::NoValue("--home"))?;
                    let path = PathBuf::from(value);
                    if !path.is_absolute() {
                        return Err(OptionsError::RelativeHome);
                    }
                    home = Some(path);
                }
                Some("--one-user") => identities = Identities::One,
                Some("--wrap") => {
                    wrap.push(arguments.next().ok_or(OptionsError::NoValue("--wrap"))?);
                }
                Some(_) | None => return Err(OptionsError::Unknown(argument)),
            }
        }
        let listen = listen.ok_or(OptionsError::NoListener)?;
        Ok(Invocation::Serve(Options { listen, home, identities, groups, memory, wrap }))
    }
}

fn descriptor(option: &'static str, value: Option<OsString>) -> Result<RawFd, OptionsError> {
    let value = value.ok_or(OptionsError::NoValue(option))?;
    let number = value.to_str().and_then(|text| text.parse().ok());
    number.filter(|number| *number == 1 || *number > 2).ok_or(OptionsError::Descriptor(option))
}

#[cfg(test)]
mod tests {
    use super::{Identities, Invocation, Listen, Options, OptionsError};

    #[track_caller]
    fn check(line: &str, expected: Result<Invocation, OptionsError>) {
        assert_eq!(Options::parse(line.split_whitespace().map(Into::into)), expected, "{line}");
    }

    #[test]
    fn the_command_line_is_read() {
        check("--version", Ok(Invocation::Version));
        let options = Options {
            listen: Listen::Descriptor(3),
            groups: vec![4, 5],
            memory: Some(6),
            home: Some("/home/user".into()),
            identities: Identities::One,
            wrap: vec!["jexec".into(), "-l".into()],
        };
        check(
            "--wrap jexec --listen-fd 3 --group-fd 4 --home /home/user --group-fd 5 --wrap -l \
             --memory-fd 6 --one-user",
            Ok(Invocation::Serve(options)),
        );
    }

    #[test]
    fn a_tunnel_takes_the_place_of_a_socket() {
        let options = Options {
            listen: Listen::Tunnel,
            groups: Vec::new(),
            memory: None,
            home: None,
            identities: Identities::Many,
            wrap: Vec::new(),
        };
        check("--tunnel", Ok(Invocation::Serve(options)));
    }

    #[test]
    fn a_wrong_command_line_says_what_is_wrong() {
        check("", Err(OptionsError::NoListener));
        check("--listen-fd", Err(OptionsError::NoValue("--listen-fd")));
        check("--listen-fd 0", Err(OptionsError::Descriptor("--listen-fd")));
        check("--listen-fd 2", Err(OptionsError::Descriptor("--listen-fd")));
        check("--listen-fd x", Err(OptionsError::Descriptor("--listen-fd")));
        check("--listen-fd 3 --home x", Err(OptionsError::RelativeHome));
        check("--listen-fd 3 --port 1", Err(OptionsError::Unknown("--port".into())));
    }
}

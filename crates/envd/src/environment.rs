//! What a command starts with: its variables, its working directory, and the
//! file that is executed.
//!
//! Nothing of envd's own environment reaches a command but `PATH`.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    io,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
};

use crate::users::Identity;

/// Where commands are looked for when envd itself was started without a `PATH`.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Why a command's surroundings cannot be had.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum EnvironmentError {
    #[error("cmd is empty")]
    NoCommand,
    #[error("cmd, args, envs and cwd must not contain NUL")]
    Nul,
    #[error("'{0}' is not a name for a variable")]
    VariableName(String),
    #[error("cwd '{0}' does not exist")]
    NoDirectory(String),
    #[error("cwd '{0}' is not a directory")]
    NotDirectory(String),
    #[error("command '{0}' was not found in PATH")]
    NotInPath(String),
    #[error("command '{command}' cannot be executed: {cause}")]
    NotExecutable { command: String, cause: &'static str },
}

/// The variables of a command, in order of rising precedence: the user's, the
/// sandbox's, the call's.
pub(crate) fn variables<'a>(
    own_path: Option<OsString>,
    identity: &Identity,
    sandbox: &'a BTreeMap<String, String>,
    call: impl IntoIterator<Item = (&'a String, &'a String)>,
) -> Result<BTreeMap<OsString, OsString>, EnvironmentError> {
    let mut variables: BTreeMap<OsString, OsString> = BTreeMap::new();
    variables.insert("PATH".into(), own_path.unwrap_or_else(|| DEFAULT_PATH.into()));
    variables.insert("HOME".into(), identity.home.clone().into());
    variables.insert("USER".into(), identity.name.clone().into());
    variables.insert("LOGNAME".into(), identity.name.clone().into());
    for (name, value) in sandbox.iter().chain(call) {
        if name.is_empty() || name.contains('=') {
            return Err(EnvironmentError::VariableName(name.clone()));
        }
        if name.contains('\0') || value.contains('\0') {
            return Err(EnvironmentError::Nul);
        }
        variables.insert(name.into(), value.into());
    }
    Ok(variables)
}

/// The directory a command starts in: the home, or `cwd` seen from there.
pub(crate) fn directory(home: &Path, cwd: Option<&str>) -> Result<PathBuf, EnvironmentError> {
    let wanted = cwd.unwrap_or_default();
    if wanted.contains('\0') {
        return Err(EnvironmentError::Nul);
    }
    let below_home = match wanted.strip_prefix('~') {
        Some("") => "",
        Some(rest) if rest.starts_with('/') => rest.trim_start_matches('/'),
        // `~name` is another user's home to a shell; to us it is a plain name.
        Some(_) | None => wanted,
    };
    // Joining an absolute path replaces the home; joining nothing keeps it.
    let path = if below_home.is_empty() { home.to_owned() } else { home.join(below_home) };
    let shown = || path.display().to_string();
    match path.metadata() {
        Ok(metadata) if metadata.is_dir() => Ok(path),
        Ok(_) => Err(EnvironmentError::NotDirectory(shown())),
        // The user of the command may see what we may not: `chdir` will tell.
        Err(err) if err.kind() == io::ErrorKind::PermissionDenied => Ok(path),
        Err(_) => Err(EnvironmentError::NoDirectory(shown())),
    }
}

/// The file to execute: `command` itself when it is a path, else what the
/// command's own `PATH` has under that name.
pub(crate) fn program(
    command: &OsStr,
    path: &OsStr,
    directory: &Path,
) -> Result<PathBuf, EnvironmentError> {
    if command.is_empty() {
        return Err(EnvironmentError::NoCommand);
    }
    if command.as_bytes().contains(&b'/') {
        let file = directory.join(command);
        return match executable(&file) {
            Ok(()) => Ok(file),
            Err(cause) => Err(not_executable(command, cause)),
        };
    }
    let mut refused = None;
    for entry in std::env::split_paths(path) {
        // An empty entry is the working directory, as it is to a shell.
        let file = directory.join(entry).join(command);
        match executable(&file) {
            Ok(()) => return Ok(file),
            Err(NotExecutable::Missing) => {}
            Err(cause) => refused = Some(cause),
        }
    }
    Err(match refused {
        Some(cause) => not_executable(command, cause),
        None => EnvironmentError::NotInPath(command.to_string_lossy().into_owned()),
    })
}

enum NotExecutable {
    Missing,
    Directory,
    NoPermission,
}

fn executable(file: &Path) -> Result<(), NotExecutable> {
    match file.metadata() {
        Ok(metadata) if metadata.is_dir() => Err(NotExecutable::Directory),
        Ok(metadata) if metadata.permissions().mode() & 0o111 == 0 => {
            Err(NotExecutable::NoPermission)
        }
        Ok(_) => Ok(()),
        Err(err) if err.kind() == io::ErrorKind::PermissionDenied => {
            Err(NotExecutable::NoPermission)
        }
        Err(_) => Err(NotExecutable::Missing),
    }
}

fn not_executable(command: &OsStr, cause: NotExecutable) -> EnvironmentError {
    let cause = match cause {
        NotExecutable::Missing => "no such file",
        NotExecutable::Directory => "it is a directory",
        NotExecutable::NoPermission => "permission denied",
    };
    EnvironmentError::NotExecutable { command: command.to_string_lossy().into_owned(), cause }
}

#[cfg(test)]
mod tests;

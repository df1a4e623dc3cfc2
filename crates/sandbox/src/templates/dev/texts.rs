//! The settings we write ourselves, because the host's are the host's own.

/// Files that anybody may read, by their path.
pub(super) const SETTINGS: [(&str, &str); 10] = [
    // The launcher writes the sandbox's own name and resolver over these three.
    ("etc/hostname", "sandbox\n"),
    ("etc/hosts", HOSTS),
    ("etc/resolv.conf", "# Written when the sandbox starts.\n"),
    ("etc/bash.bashrc", BASHRC),
    ("etc/environment", ""),
    ("etc/fstab", ""),
    // Empty means: to be made on first use, and another one in every sandbox.
    ("etc/machine-id", ""),
    ("etc/nsswitch.conf", NSSWITCH),
    ("etc/pip.conf", PIP),
    ("etc/profile", PROFILE),
];

/// Files of a fresh home, by their name.
pub(super) const HOME: [(&str, &str); 2] = [(".bashrc", HOME_BASHRC), (".profile", HOME_PROFILE)];

pub(super) const SUDOERS: &str = r#"Defaults env_reset
Defaults secure_path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
root ALL=(ALL:ALL) ALL
%sudo ALL=(ALL:ALL) ALL
@includedir /etc/sudoers.d
"#;

pub(super) const SUDOERS_USER: &str = "user ALL=(ALL:ALL) NOPASSWD: ALL\n";

const HOSTS: &str = "127.0.0.1 localhost
127.0.1.1 sandbox
::1 localhost ip6-localhost ip6-loopback
";

const NSSWITCH: &str = "passwd: files
group: files
shadow: files
gshadow: files
hosts: files dns
networks: files
protocols: files
services: files
ethers: files
rpc: files
";

/// Debian's pip refuses to touch the system's packages. Here they are one
/// sandbox's own, and there is nobody to break them for.
const PIP: &str = "[install]
break-system-packages = true
";

/// Every command of a sandbox runs in a login shell, so this starts no process.
/// A caller's own `PATH` is kept.
const PROFILE: &str = r#"# Read by login shells, before ~/.profile.
case "$PATH" in
  # Nobody said anything, or bash made one up, which ends in the current directory.
  "" | *:.) PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ;;
esac
export PATH
export PS1='\w $ '
if [ -d /etc/profile.d ]; then
  for file in /etc/profile.d/*.sh; do
    if [ -r "$file" ]; then . "$file"; fi
  done
  unset file
fi
if [ -n "$BASH_VERSION" ] && [ -n "$HOME" ] && [ -r "$HOME/.bashrc" ]; then
  . "$HOME/.bashrc"
fi
"#;

const BASHRC: &str = r"# Read by interactive shells, before ~/.bashrc.
PS1='\w $ '
shopt -s checkwinsize
";

const HOME_BASHRC: &str = r"# Read by every shell: login shells reach it through /etc/profile.
PS1='\w $ '
";

const HOME_PROFILE: &str = r#"# Read by login shells.
if [ -d "$HOME/.local/bin" ]; then
  PATH="$HOME/.local/bin:$PATH"
fi
"#;

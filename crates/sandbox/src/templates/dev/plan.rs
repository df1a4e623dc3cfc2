//! A list of what a layer will hold, which can be named before it is written.

use std::{
    fs::OpenOptions,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use super::host::Screen;
use crate::templates::layer::{Attributes, Layer, LayerError, Modified, Owners};

/// Raised when the same plan is to be written differently.
const FORMAT: u32 = 1;

/// Enough to tell the generations of one host apart.
const STAMP_BYTES: usize = 8;

/// What a layer will hold, in the order it is written.
#[derive(Debug, Default)]
pub(super) struct Plan {
    items: Vec<Item>,
}

#[derive(Debug)]
struct Item {
    path: PathBuf,
    uid: u32,
    gid: u32,
    mode: u32,
    content: Content,
}

#[derive(Debug)]
enum Content {
    Directory,
    Text(String),
    Link(PathBuf),
    Host(HostFile),
}

/// A file to be copied. Its length and time stand for its content.
#[derive(Debug)]
pub(super) struct HostFile {
    pub(super) source: PathBuf,
    pub(super) length: u64,
    pub(super) modified: Modified,
    pub(super) screen: Screen,
}

impl Plan {
    pub(super) fn new() -> Plan {
        Plan::default()
    }

    pub(super) fn directory(&mut self, path: &str, mode: u32) -> &mut Plan {
        self.add(path.into(), mode, Content::Directory)
    }

    pub(super) fn file(&mut self, path: &str, mode: u32, text: impl Into<String>) -> &mut Plan {
        self.add(path.into(), mode, Content::Text(text.into()))
    }

    pub(super) fn link(&mut self, path: &str, target: impl Into<PathBuf>) -> &mut Plan {
        self.add(path.into(), 0o777, Content::Link(target.into()))
    }

    pub(super) fn host_directory(&mut self, path: &Path, mode: u32) -> &mut Plan {
        self.add(path.to_owned(), mode, Content::Directory)
    }

    pub(super) fn host_link(&mut self, path: &Path, target: PathBuf) -> &mut Plan {
        self.add(path.to_owned(), 0o777, Content::Link(target))
    }

    pub(super) fn host_file(&mut self, path: &Path, mode: u32, file: HostFile) -> &mut Plan {
        self.add(path.to_owned(), mode, Content::Host(file))
    }

    /// Gives what was added last to somebody else than root.
    pub(super) fn owned_by(&mut self, uid: u32, gid: u32) -> &mut Plan {
        if let Some(item) = self.items.last_mut() {
            (item.uid, item.gid) = (uid, gid);
        }
        self
    }

    /// Writes it all. A file of the host that vanished meanwhile, or that its
    /// screen holds back, is left out.
    pub(super) fn write(&self, layer: &mut Layer) -> Result<(), LayerError> {
        for item in &self.items {
            let mut attributes = Attributes {
                uid: item.uid.into(),
                gid: item.gid.into(),
                mode: item.mode,
                modified: None,
                xattrs: Vec::new(),
            };
            match &item.content {
                Content::Directory => layer.directory(&item.path, &attributes)?,
                Content::Text(text) => {
                    layer.file(&item.path, &attributes, &mut text.as_bytes())?;
                }
                Content::Link(target) => {
                    layer.symlink(&item.path, &attributes, target.as_os_str())?;
                }
                Content::Host(file) => {
                    let content = file
                        .read()
                        .map_err(|source| LayerError::Store { path: item.path.clone(), source })?;
                    if let Some(content) = content {
                        attributes.modified = Some(file.modified);
                        layer.file(&item.path, &attributes, &mut content.as_slice())?;
                    }
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, path: PathBuf, mode: u32, content: Content) -> &mut Plan {
        self.items.push(Item { path, uid: 0, gid: 0, mode, content });
        self
    }
}

impl HostFile {
    fn read(&self) -> io::Result<Option<Vec<u8>>> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        let file = options.read(true).custom_flags(flags.bits().cast_signed()).open(&self.source);
        let mut file = match file {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut content = Vec::new();
        file.read_to_end(&mut content)?;
        Ok(self.screen.admit(content))
    }
}

impl Item {
    /// All that tells it apart, as text.
    fn fingerprint(&self) -> String {
        let Item { path, uid, gid, mode, content } = self;
        let content = match content {
            Content::Directory => "directory".to_owned(),
            Content::Text(text) => format!("text {text:?}"),
            Content::Link(target) => format!("link {target:?}"),
            Content::Host(HostFile { source, length, modified, screen }) => {
                format!("host {source:?} {length} {modified:?} {screen:?}")
            }
        };
        format!("{path:?} {uid} {gid} {mode:o} {content}\n")
    }
}

/// One name for several plans on one `system`. Our version is part of it.
pub(super) fn stamp(system: &str, plans: &[&Plan]) -> String {
    let (version, owners) = (env!("CARGO_PKG_VERSION"), Owners::possible());
    let mut digest = Sha256::new();
    digest.update(format!("{version} {FORMAT} {owners:?} {system:?}\n"));
    for plan in plans {
        digest.update(format!("{} items\n", plan.items.len()));
        plan.items.iter().for_each(|item| digest.update(item.fingerprint()));
    }
    wire::hex(&digest.finalize()[..STAMP_BYTES])
}

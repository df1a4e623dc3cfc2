//! What sandboxes start from: read-only layers on disk, and their defaults.
//!
//! ```text
//! <directory>/dev/<stamp>/{rootfs,usr,template.json}   made from this host, one per state of it
//! <directory>/<name>/{rootfs,template.json}            imported
//! <directory>/<name>/{layer,template.json}             laid over another one
//! <directory>/<name>.partial, <name>.removed           under way; swept when nobody works on it
//! ```
//!
//! A template appears and vanishes with one rename. The directory is ours
//! alone (0700): an imported set-uid file is nothing to the host's users.
//! Several processes may use it; a lock on the directory keeps changes apart.
//! Mounting layers is the launcher's, who may use one is the registry's.

mod dev;
mod disk;
mod draft;
mod import;
mod layer;
mod name;
mod record;
#[cfg(test)]
mod tests;

use std::{
    fs::{self, DirBuilder, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use chrono::{DateTime, Utc};
use isolate::remove_tree;
use store::SandboxRow;
use tracing::warn;
use wire::SandboxId;

use self::{
    dev::DevTemplate,
    disk::{Lock, PARTIAL, REMOVED, Scratch},
    name::{BASE, DEV, TemplateName},
    record::Record,
};
pub use self::{
    dev::HostError,
    draft::{Draft, DraftError, Replace},
    import::{ImportError, Progress},
    name::BadTemplateName,
    record::{Addition, Defaults, Label},
};

/// The one layer of an imported template.
const ROOTFS: &str = "rootfs";

/// All templates of this server.
#[derive(Debug)]
pub struct Templates {
    directory: PathBuf,
    /// The generation of `dev` that fits the host as it was when we opened.
    dev: PathBuf,
}

/// What a sandbox is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Its own name, also when it was asked for by another.
    pub name: String,
    /// The layers of the root, top first.
    pub layers: Vec<PathBuf>,
    /// Layers to lay over the host's own `/usr`, top first, for a template that
    /// shows it.
    pub host_usr_layers: Option<Vec<PathBuf>>,
    /// What its sandboxes start with.
    pub defaults: Defaults,
    /// Memory of its sandboxes, where that is not what most get.
    pub memory_mib: Option<u32>,
}

/// What there is to say about a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateInfo {
    /// Its name.
    pub name: String,
    /// Where it came from.
    pub label: Label,
    /// How many layers it has of its own; the host's `/usr` is not counted.
    pub layers: usize,
    /// How long its files are together; the host's `/usr` is not counted.
    pub size_bytes: u64,
    /// Since when it is here.
    pub created_at: DateTime<Utc>,
    /// What its sandboxes start with.
    pub defaults: Defaults,
    /// What it lays over which other one, if it does.
    pub addition: Option<Addition>,
}

/// Why something could not be done with a template.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    /// That cannot be anybody's name.
    #[error(transparent)]
    Name(#[from] BadTemplateName),
    /// Nobody has that name.
    #[error("template `{0}` does not exist")]
    Unknown(String),
    /// Somebody has it already.
    #[error("template `{0}` exists; remove it first")]
    Exists(String),
    /// It is ours.
    #[error("template `{DEV}` is made from this host; it is neither imported nor removed")]
    Reserved,
    /// Its layers are somebody's root.
    #[error("template `{name}` is in use by {}; end them first", quoted(sandboxes))]
    InUse {
        /// Its name.
        name: String,
        /// By whom.
        sandboxes: Vec<SandboxId>,
    },
    /// Other templates are laid over it.
    #[error("template `{name}` is below {}; remove them first", quoted(above))]
    Below {
        /// Its name.
        name: String,
        /// Which.
        above: Vec<String>,
    },
    /// What it was laid over is not there any more.
    #[error("template `{name}` is laid over `{base}`, which is gone; make `{name}` again")]
    Baseless {
        /// Its name.
        name: String,
        /// What it was laid over.
        base: String,
    },
    /// Two changes at once.
    #[error("another template is being made or removed")]
    Busy,
    /// It cannot be laid over another one.
    #[error(transparent)]
    Draft(#[from] DraftError),
    /// The source does not do.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The host does not do.
    #[error("the template `{DEV}` cannot be made")]
    Host(#[from] HostError),
    /// What is written down about it is not readable.
    #[error("the record of template `{name}` is damaged; remove the template")]
    Record {
        /// Whose.
        name: String,
        /// How.
        source: io::Error,
    },
    /// Our own directory fails us.
    #[error("cannot store templates in {}", path.display())]
    Storage {
        /// The directory.
        path: PathBuf,
        /// How.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl Template {
    /// Whether `/usr` is the host's own.
    pub fn host_usr(&self) -> bool {
        self.host_usr_layers.is_some()
    }
}

impl Templates {
    /// Opens the templates in `directory`, and makes the `dev` template if the
    /// host is not what it was.
    pub fn open(directory: PathBuf) -> Result<Templates, TemplateError> {
        Templates::open_on(directory, Path::new("/"))
    }

    /// `open`, with the host's files below `host_root`.
    fn open_on(directory: PathBuf, host_root: &Path) -> Result<Templates, TemplateError> {
        let plan = DevTemplate::plan(host_root)?;
        let dev = directory.join(DEV).join(plan.stamp());
        let templates = Templates { directory, dev };
        templates.prepare(&plan).map_err(|source| templates.storage(source))?;
        Ok(templates)
    }

    /// The template of that name. `base` is `dev`, unless one was imported as
    /// `base`.
    pub fn get(&self, name: &str) -> Result<Template, TemplateError> {
        let name = TemplateName::parse(name)?;
        let home = self.home(&name);
        if name.as_str() == DEV || (name.as_str() == BASE && !Record::is_in(&home)) {
            let record = read_record(DEV, &self.dev)?;
            return Ok(Template {
                name: DEV.to_owned(),
                layers: vec![self.dev.join(dev::ROOT_LAYER)],
                host_usr_layers: Some(vec![self.dev.join(dev::USR_LAYER)]),
                defaults: record.defaults,
                memory_mib: None,
            });
        }
        if !home.is_dir() {
            return Err(TemplateError::Unknown(name.as_str().to_owned()));
        }
        let Record { addition, defaults, .. } = read_record(name.as_str(), &home)?;
        match addition {
            None => Ok(imported(&name, &home, defaults)),
            Some(addition) => self.laid_over(&name, addition, defaults),
        }
    }

    /// All templates, `dev` first, then by name.
    pub fn list(&self) -> Result<Vec<TemplateInfo>, TemplateError> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(|error| self.storage(error.into()))? {
            let entry = entry.map_err(|error| self.storage(error.into()))?;
            let name = entry.file_name();
            match name.to_str().map(TemplateName::parse) {
                Some(Ok(name)) if name.as_str() != DEV => names.push(name),
                Some(Ok(_) | Err(BadTemplateName)) | None => {}
            }
        }
        names.sort_by(|one, two| one.as_str().cmp(two.as_str()));
        let mut infos = vec![info(DEV, read_record(DEV, &self.dev)?)];
        for name in names {
            infos.push(info(name.as_str(), read_record(name.as_str(), &self.home(&name))?));
        }
        Ok(infos)
    }

    /// Makes a template of the root file system in `source`: a tarball, plain
    /// or gzipped, or a directory. After an error nothing of it is left. Without
    /// root all its files are ours, as they are root's in a sandbox without root.
    pub fn import(
        &self,
        name: &str,
        source: &Path,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Template, TemplateError> {
        let name = TemplateName::parse(name)?;
        if name.as_str() == DEV {
            return Err(TemplateError::Reserved);
        }
        let _lock = self.try_lock()?;
        let home = self.home(&name);
        if home.exists() {
            return Err(TemplateError::Exists(name.as_str().to_owned()));
        }
        let partial = Scratch::make(self.directory.join(format!("{}.{PARTIAL}", name.as_str())))
            .map_err(|error| self.storage(error.into()))?;
        let rootfs = partial.path.join(ROOTFS);
        fs::create_dir(&rootfs).map_err(|error| self.storage(error.into()))?;
        let import::Imported { size_bytes, skipped, defaults } =
            import::fill(&rootfs, source, progress)?;
        if skipped > 0 {
            warn!(
                template.name = name.as_str(),
                skipped,
                "template {}: {skipped} device nodes, pipes or sockets were left out",
                name.as_str(),
            );
        }
        let record = Record::new(Label::Imported, size_bytes, defaults.clone());
        record
            .write(&partial.path)
            .and_then(|()| partial.publish(&home))
            .map_err(|error| self.storage(error.into()))?;
        Ok(imported(&name, &home, defaults))
    }

    /// Removes an imported template that none of the `living` is made from: its
    /// files go too.
    pub fn remove(&self, name: &str, living: &[SandboxRow]) -> Result<(), TemplateError> {
        let name = TemplateName::parse(name)?;
        if name.as_str() == DEV {
            return Err(TemplateError::Reserved);
        }
        let _lock = self.try_lock()?;
        let home = self.home(&name);
        if !home.is_dir() {
            return Err(TemplateError::Unknown(name.as_str().to_owned()));
        }
        let above = self.above(&name)?;
        in_use_by_none(&name, &above, living)?;
        if !above.is_empty() {
            return Err(TemplateError::Below { name: name.as_str().to_owned(), above });
        }
        self.take_away(&name)
            .and_then(|removed| remove_tree(&removed))
            .map_err(|error| self.storage(error.into()))
    }

    /// Removes the generations of `dev` that are neither current nor the home
    /// of a layer that is `in_use`.
    pub fn prune(&self, in_use: &[PathBuf]) -> Result<(), TemplateError> {
        let _lock = self.try_lock()?;
        let prune = || {
            for entry in fs::read_dir(self.directory.join(DEV))? {
                let generation = entry?.path();
                let used = in_use.iter().any(|layer| layer.starts_with(&generation));
                if generation != self.dev && !used {
                    remove_tree(&generation)?;
                }
            }
            Ok(())
        };
        prune().map_err(|error: io::Error| self.storage(error.into()))
    }

    /// A template with its own layer over what its base is now.
    fn laid_over(
        &self,
        name: &TemplateName,
        addition: Addition,
        defaults: Defaults,
    ) -> Result<Template, TemplateError> {
        let Addition { base, memory_mib, .. } = addition;
        let mut template = self.get(&base).map_err(|error| {
            if matches!(error, TemplateError::Unknown(_)) {
                return TemplateError::Baseless { name: name.as_str().to_owned(), base };
            }
            error
        })?;
        let layer = self.home(name).join(draft::LAYER);
        match &mut template.host_usr_layers {
            // What lies in the root's own `/usr` would be hidden by the host's.
            Some(layers) => layers.insert(0, layer.join("usr")),
            None => template.layers.insert(0, layer),
        }
        let memory_mib = Some(template.memory_mib.unwrap_or(0).max(memory_mib));
        Ok(Template { name: name.as_str().to_owned(), defaults, memory_mib, ..template })
    }

    /// The templates that are laid over this one, or over those.
    fn above(&self, name: &TemplateName) -> Result<Vec<String>, TemplateError> {
        let infos = self.list()?;
        let mut above: Vec<String> = Vec::new();
        loop {
            let is_next = |info: &&TemplateInfo| {
                let base = info.addition.as_ref().map(|addition| addition.base.as_str());
                let over =
                    |base: &str| base == name.as_str() || above.iter().any(|one| one == base);
                base.is_some_and(over) && !above.contains(&info.name)
            };
            let Some(next) = infos.iter().find(is_next) else { return Ok(above) };
            above.push(next.name.clone());
        }
    }

    /// Takes a template out of sight; answers with where its files are now.
    fn take_away(&self, name: &TemplateName) -> io::Result<PathBuf> {
        let removed = self.directory.join(format!("{}.{REMOVED}", name.as_str()));
        remove_tree(&removed)?;
        fs::rename(self.home(name), &removed)?;
        Ok(removed)
    }

    /// The directory as it must be: ours alone, without leftovers, with `dev`.
    fn prepare(&self, plan: &DevTemplate) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.directory.join(DEV))?;
        fs::set_permissions(&self.directory, Permissions::from_mode(0o700))?;
        if Record::is_in(&self.dev) {
            // Somebody who holds the lock sweeps up behind themselves.
            if let Some(_lock) = Lock::try_take(&self.directory)? {
                disk::sweep(&self.directory)?;
            }
            return Ok(());
        }
        let _lock = Lock::take(&self.directory)?;
        disk::sweep(&self.directory)?;
        if Record::is_in(&self.dev) {
            return Ok(());
        }
        let partial = Scratch::make(self.directory.join(format!("{DEV}.{PARTIAL}")))?;
        let size_bytes = plan.write(&partial.path)?;
        Record::new(Label::Dev, size_bytes, DevTemplate::defaults()).write(&partial.path)?;
        partial.publish(&self.dev)?;
        Ok(())
    }

    /// Keeps other changes out while the lock lives.
    fn try_lock(&self) -> Result<Lock, TemplateError> {
        Lock::try_take(&self.directory)
            .map_err(|error| self.storage(error.into()))?
            .ok_or(TemplateError::Busy)
    }

    fn home(&self, name: &TemplateName) -> PathBuf {
        self.directory.join(name.as_str())
    }

    fn storage(&self, source: Box<dyn std::error::Error + Send + Sync>) -> TemplateError {
        TemplateError::Storage { path: self.directory.clone(), source }
    }
}

/// An error if one of the `living` is made from the template, or from one above it.
fn in_use_by_none(
    name: &TemplateName,
    above: &[String],
    living: &[SandboxRow],
) -> Result<(), TemplateError> {
    let uses = |row: &&SandboxRow| row.template == name.as_str() || above.contains(&row.template);
    let sandboxes: Vec<SandboxId> = living.iter().filter(uses).map(|row| row.id.clone()).collect();
    if sandboxes.is_empty() {
        return Ok(());
    }
    Err(TemplateError::InUse { name: name.as_str().to_owned(), sandboxes })
}

fn quoted(names: &[impl std::fmt::Display]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

fn read_record(name: &str, home: &Path) -> Result<Record, TemplateError> {
    Record::read(home).map_err(|source| TemplateError::Record { name: name.to_owned(), source })
}

fn imported(name: &TemplateName, home: &Path, defaults: Defaults) -> Template {
    Template {
        name: name.as_str().to_owned(),
        layers: vec![home.join(ROOTFS)],
        host_usr_layers: None,
        defaults,
        memory_mib: None,
    }
}

fn info(name: &str, record: Record) -> TemplateInfo {
    let Record { label, size_bytes, created_at, defaults, addition } = record;
    let name = name.to_owned();
    TemplateInfo { name, label, layers: 1, size_bytes, created_at, defaults, addition }
}

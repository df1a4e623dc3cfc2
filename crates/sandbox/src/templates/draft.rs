//! A template that is being made: programs over another template.
//!
//! ```text
//! <name>.partial/staging           where whoever makes it may put what it needs
//! <name>.partial/layer/usr/local   what stays
//! ```
//!
//! Nobody sees it before it is published, and what is not published is gone
//! with the draft. Until then other changes of templates are kept out.

use std::{
    fs::{self, DirBuilder},
    io::{self, Read},
    os::unix::fs::{DirBuilderExt, PermissionsExt},
    path::{Path, PathBuf},
};

use isolate::remove_tree;
use store::SandboxRow;

use super::{
    Template, TemplateError, Templates,
    disk::{Lock, PARTIAL, Scratch},
    in_use_by_none,
    layer::{Attributes, Layer, LayerError, Owners},
    name::{DEV, TemplateName},
    read_record,
    record::{Addition, Record},
};

/// The files of a template that is laid over another one.
pub(super) const LAYER: &str = "layer";
const STAGING: &str = "staging";
/// Where programs go: it is on every `PATH`, and nobody's package manager's.
const PROGRAMS: [&str; 3] = ["usr", "usr/local", "usr/local/bin"];
/// The mode of a directory that the base does not have.
const DIRECTORY: u32 = 0o755;

/// Whether a template of that name may be there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replace {
    /// It may not.
    Never,
    /// One that was made so too is replaced; an imported one never is.
    Harness,
}

/// Why a template was not laid over another one. Nothing of it is left then.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// It would be below itself.
    #[error("template `{name}` cannot be laid over `{base}`, which is laid over it")]
    Circle {
        /// Its name.
        name: String,
        /// What it was to be laid over.
        base: String,
    },
    /// The base has something else where programs go.
    #[error("`/{path}` is not a directory in template `{base}`")]
    NoDirectory {
        /// Where.
        path: &'static str,
        /// In which template.
        base: String,
    },
    /// One of its files cannot be had.
    #[error(transparent)]
    File(Box<dyn std::error::Error + Send + Sync>),
}

/// A template before it is published.
#[derive(Debug)]
pub struct Draft<'a> {
    templates: &'a Templates,
    name: TemplateName,
    partial: Scratch,
    staging: PathBuf,
    layer: Layer,
    base: Template,
    addition: Addition,
    /// Let go of last, so that nobody meets what is being swept up.
    _lock: Lock,
}

impl Templates {
    /// Begins a template of programs over `addition.base`. None of the `living`
    /// may be made from the one that it replaces.
    pub fn draft(
        &self,
        name: &str,
        addition: Addition,
        replace: Replace,
        living: &[SandboxRow],
    ) -> Result<Draft<'_>, TemplateError> {
        let name = TemplateName::parse(name)?;
        if name.as_str() == DEV {
            return Err(TemplateError::Reserved);
        }
        let lock = self.try_lock()?;
        self.check_replaced(&name, replace)?;
        let above = self.above(&name)?;
        in_use_by_none(&name, &above, living)?;
        let base = self.get(&addition.base)?;
        if base.name == name.as_str() || above.contains(&base.name) {
            let (name, base) = (name.as_str().to_owned(), base.name);
            return Err(DraftError::Circle { name, base }.into());
        }
        // `base` may be another template tomorrow.
        let addition = Addition { base: base.name.clone(), ..addition };
        let storage = |error: io::Error| self.storage(error.into());
        let path = self.directory.join(format!("{}.{PARTIAL}", name.as_str()));
        let partial = Scratch::make(path).map_err(storage)?;
        let [staging, root] = [STAGING, LAYER].map(|part| partial.path.join(part));
        for path in [&staging, &root] {
            DirBuilder::new().mode(0o700).create(path).map_err(storage)?;
        }
        let mut layer = Layer::open(&root, Owners::possible()).map_err(file)?;
        for path in PROGRAMS {
            let mode = mode_in(&base, path)?;
            layer.directory(Path::new(path), &roots(mode)).map_err(file)?;
        }
        Ok(Draft { templates: self, name, partial, staging, layer, base, addition, _lock: lock })
    }

    /// What lies over other templates in `directory`, by name. It is only looked
    /// at: templates that cannot be read, or none at all, are nothing to say.
    pub fn additions_in(directory: &Path) -> Vec<(String, Addition)> {
        let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
        let addition = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            TemplateName::parse(&name).ok()?;
            Some((name, Record::read(&entry.path()).ok()?.addition?))
        };
        let mut found: Vec<_> = entries.filter_map(|entry| addition(entry.ok()?)).collect();
        found.sort_by(|one, two| one.0.cmp(&two.0));
        found
    }

    /// An error if a template has the name that must not be replaced.
    fn check_replaced(&self, name: &TemplateName, replace: Replace) -> Result<(), TemplateError> {
        let home = self.home(name);
        if !home.exists() {
            return Ok(());
        }
        let made_so = read_record(name.as_str(), &home)?.addition.is_some();
        match replace {
            Replace::Harness if made_so => Ok(()),
            Replace::Harness | Replace::Never => {
                Err(TemplateError::Exists(name.as_str().to_owned()))
            }
        }
    }
}

impl Draft<'_> {
    /// A directory of our own, gone with the draft.
    pub fn staging(&self) -> &Path {
        &self.staging
    }

    /// Puts a program where all commands find it, for all to execute.
    pub fn program(&mut self, name: &str, content: &mut dyn Read) -> Result<(), TemplateError> {
        let path = Path::new("usr/local/bin").join(name);
        self.layer.file(&path, &roots(0o755), content).map_err(file)?;
        Ok(())
    }

    /// Makes a template of it; an earlier one of that name is gone then.
    pub fn publish(self) -> Result<Template, TemplateError> {
        let storage = |error: io::Error| self.templates.storage(error.into());
        remove_tree(&self.staging).map_err(storage)?;
        let Draft { templates, name, partial, layer, base, addition, .. } = &self;
        Record::of_addition(addition.clone(), layer.size_bytes(), base.defaults.clone())
            .write(&partial.path)
            .map_err(storage)?;
        let home = templates.home(name);
        if home.exists() {
            let removed = templates.take_away(name).map_err(storage)?;
            partial.publish(&home).map_err(storage)?;
            remove_tree(&removed).map_err(storage)?;
        } else {
            partial.publish(&home).map_err(storage)?;
        }
        templates.get(name.as_str())
    }
}

/// A directory that is in two layers has the attributes of the upper one, so
/// ours takes those of the base: `/usr/local` of `dev` is open to all.
fn mode_in(base: &Template, path: &'static str) -> Result<u32, TemplateError> {
    let places: Vec<PathBuf> = match &base.host_usr_layers {
        Some(layers) => {
            let inside = Path::new(path).strip_prefix("usr").unwrap_or(Path::new(path));
            let layers = layers.iter().map(PathBuf::as_path).chain([Path::new("/usr")]);
            layers.map(|layer| layer.join(inside)).collect()
        }
        None => base.layers.iter().map(|layer| layer.join(path)).collect(),
    };
    match places.iter().find_map(|place| fs::symlink_metadata(place).ok()) {
        None => Ok(DIRECTORY),
        Some(facts) if facts.is_dir() => Ok(facts.permissions().mode()),
        Some(_) => Err(DraftError::NoDirectory { path, base: base.name.clone() }.into()),
    }
}

fn roots(mode: u32) -> Attributes {
    Attributes { uid: 0, gid: 0, mode, modified: None, xattrs: Vec::new() }
}

fn file(error: LayerError) -> DraftError {
    DraftError::File(Box::new(error))
}

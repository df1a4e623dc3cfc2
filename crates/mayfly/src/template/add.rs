//! `mayfly template add-harness`: a coding agent over a template, made once.

use std::io::Read;

use anyhow::{Context, bail};
use sandbox::{Addition, Replace, TemplateInfo, Templates};

use super::download;
use super::program::Processor;
use crate::bar::Spinner;
use crate::cli::AddHarnessArguments;
use crate::output;
use crate::place::Place;

/// Memory of sandboxes with an agent in them: the agents are large, and do not
/// know how much they have before they are killed for it.
const MEMORY_MIB: u32 = 2048;

/// Makes the template, unless it is there as it was asked for.
pub(super) fn add(
    templates: &Templates,
    place: &Place,
    wanted: AddHarnessArguments,
) -> anyhow::Result<TemplateInfo> {
    let AddHarnessArguments { harness: program, version, from, name, force } = wanted;
    let harness = program.harness().name();
    let name = name.unwrap_or_else(|| harness.to_owned());
    let version = version.unwrap_or_else(|| program.tested_version().to_owned());
    check_version(&version)?;
    let base = templates.get(&from)?.name;
    let addition = Addition { harness: harness.to_owned(), version, base, memory_mib: MEMORY_MIB };
    if let Some(there) = find(templates, &name)?
        && !force
    {
        return unchanged(there, &addition);
    }
    let processor = Processor::of_host().with_context(|| {
        format!("{harness} is not made for this processor ({})", std::env::consts::ARCH)
    })?;
    let replace = if force { Replace::Harness } else { Replace::Never };
    let package = format!("{}@{}", program.package(), addition.version);
    let mut draft = templates.draft(&name, addition, replace, &super::living(place)?)?;
    let spinner = Spinner::new(&format!("npm downloads {package}"));
    let modules = download::install(&package, draft.staging(), &mut |bytes| spinner.show(bytes))?;
    for part in program.programs(processor) {
        let mut take = |content: &mut dyn Read| Ok(draft.program(part.name, content)?);
        download::open(&modules, &part, &mut take)?;
    }
    drop(spinner);
    draft.publish()?;
    find(templates, &name)?.with_context(|| format!("template `{name}` is gone again"))
}

/// What to do with a template that is there already.
fn unchanged(there: TemplateInfo, wanted: &Addition) -> anyhow::Result<TemplateInfo> {
    let name = &there.name;
    match &there.addition {
        Some(has) if has == wanted => {
            let Addition { harness, version, base, .. } = has;
            output::note(&format!("`{name}` is there: {harness} {version} over `{base}`."));
            Ok(there)
        }
        Some(has) => bail!(
            "template `{name}` is there with {} {} over `{}`; add --force to make it again, or \
             --name to make another",
            has.harness,
            has.version,
            has.base
        ),
        None => bail!("template `{name}` was imported; give the new one another --name"),
    }
}

fn find(templates: &Templates, name: &str) -> anyhow::Result<Option<TemplateInfo>> {
    Ok(templates.list()?.into_iter().find(|info| info.name == name))
}

/// A release, a range of them or a tag; never a path or an address, which npm
/// would take as well.
fn check_version(version: &str) -> anyhow::Result<()> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+');
    if version.is_empty() || !version.bytes().all(plain) {
        bail!("`{version}` is not a release; write it as in 1.2.3");
    }
    Ok(())
}

//! `mayfly backup` and `mayfly restore`: what outlives a server, in one tar file.
//!
//! A backup may be made while the server runs. The rows are copied first, as of
//! one moment, and files after them: a file is never changed once a row names
//! it, so every row of the copy finds its file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use serde::Serialize;
use store::DATABASE_FILE;
use tar::{Archive, Builder};

use crate::bar::{Bar, megabytes};
use crate::cli::{BackupArguments, RestoreArguments};
use crate::output;
use crate::place::Place;

/// What a backup holds besides the rows. Templates are not in it: they are
/// imported again from where they came.
const KEPT: [&str; 3] = ["server.key", "blobs", "runs"];

/// What was done, for scripts.
#[derive(Serialize)]
struct Done<'a> {
    file: &'a Path,
    files: u64,
    bytes: u64,
}

/// Writes the backup.
pub(crate) fn backup(arguments: BackupArguments) -> anyhow::Result<ExitCode> {
    let place = arguments.place.place()?;
    if !place.is_there() {
        let data = place.data.display();
        bail!("there is no Mayfly data in `{data}`; name the server's directory with --data");
    }
    let file = &arguments.file;
    let part = part_of(file);
    let written = write(&place, &part).inspect_err(|_| {
        // Half a backup is none.
        drop(fs::remove_file(&part));
    });
    let (files, bytes) = written?;
    fs::rename(&part, file).with_context(|| format!("cannot make `{}`", file.display()))?;
    if arguments.place.json {
        output::print_json(&Done { file, files, bytes })?;
    } else {
        let (name, size) = (file.display(), megabytes(bytes));
        output::print(&format!("Saved {files} files ({size}) to {name}.\n"))?;
        if place.database.is_some() {
            output::print("The rows are in PostgreSQL: save them with `pg_dump`.\n")?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Unpacks a backup into a data directory that holds nothing yet.
pub(crate) fn restore(arguments: RestoreArguments) -> anyhow::Result<ExitCode> {
    let data = arguments.place.place()?.data;
    let taken = fs::read_dir(&data).is_ok_and(|mut entries| entries.next().is_some());
    if taken {
        bail!("`{}` is not empty; name a directory that is, with --data", data.display());
    }
    let source = &arguments.file;
    let file = File::open(source).with_context(|| format!("cannot read `{}`", source.display()))?;
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&data)
        .with_context(|| format!("cannot make `{}`", data.display()))?;
    let mut bar = Bar::new();
    let total = file.metadata()?.len();
    let mut archive = Archive::new(BufReader::new(file));
    let (mut files, mut bytes) = (0, 0);
    for entry in archive.entries().context("the file is no backup")? {
        let mut entry = entry.context("the backup is cut off or damaged")?;
        let path = entry.path()?.into_owned();
        // It says no to paths that lead out of the directory.
        if !entry.unpack_in(&data).with_context(|| format!("cannot unpack `{}`", path.display()))? {
            bail!("the backup has a path that leads out of it: `{}`", path.display());
        }
        files += u64::from(entry.header().entry_type().is_file());
        bytes += entry.size();
        bar.show(bytes, total, files);
    }
    bar.finish();
    if arguments.place.json {
        output::print_json(&Done { file: source, files, bytes })?;
    } else {
        let (name, size) = (data.display(), megabytes(bytes));
        output::print(&format!("Restored {files} files ({size}) into {name}.\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Beside the file that it becomes, so that it can be renamed.
fn part_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

fn write(place: &Place, part: &Path) -> anyhow::Result<(u64, u64)> {
    // The server's key and every secret that it seals are in there.
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(part);
    let file = file.with_context(|| format!("cannot write `{}`", part.display()))?;
    let mut tar = Builder::new(BufWriter::new(file));
    tar.follow_symlinks(false);
    let mut tally = Tally { bar: Bar::new(), files: 0, bytes: 0, total: 0 };
    if place.database.is_none() {
        let rows = part.with_extension("rows");
        let copied = copy_rows(place, &rows)
            .and_then(|()| tally.add(&mut tar, &rows, Path::new(DATABASE_FILE)));
        drop(fs::remove_file(&rows));
        copied?;
    }
    // Found only now: what a row of the copy names is there by now.
    let mut found = Vec::new();
    for name in KEPT {
        collect(&place.data, Path::new(name), &mut found)?;
    }
    tally.total = tally.bytes + found.iter().map(|(_, size)| size).sum::<u64>();
    for (path, _) in &found {
        tally.add(&mut tar, &place.data.join(path), path)?;
    }
    tally.bar.finish();
    tar.into_inner()?.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    Ok((tally.files, tally.bytes))
}

fn copy_rows(place: &Place, into: &Path) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = place.open().await?;
        let copied = store.copy_into(into).await;
        store.close().await;
        Ok(copied?)
    })
}

/// Every plain file below `path`, relative to `data`.
fn collect(data: &Path, path: &Path, found: &mut Vec<(PathBuf, u64)>) -> anyhow::Result<()> {
    let whole = data.join(path);
    let Ok(about) = fs::symlink_metadata(&whole) else { return Ok(()) };
    if about.is_file() {
        found.push((path.to_owned(), about.len()));
    } else if about.is_dir() {
        let entries = fs::read_dir(&whole);
        let entries = entries.with_context(|| format!("cannot read `{}`", whole.display()))?;
        for entry in entries {
            collect(data, &path.join(entry?.file_name()), found)?;
        }
    }
    Ok(())
}

struct Tally {
    bar: Bar,
    files: u64,
    bytes: u64,
    total: u64,
}

impl Tally {
    fn add<W: Write>(
        &mut self,
        tar: &mut Builder<W>,
        path: &Path,
        name: &Path,
    ) -> anyhow::Result<()> {
        let file = match File::open(path) {
            Ok(file) => file,
            // Pruned meanwhile: an upload that was given up, a log past its days.
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(err) => {
                return Err(err).with_context(|| format!("cannot read `{}`", path.display()));
            }
        };
        let about = file.metadata()?;
        let mut header = tar::Header::new_gnu();
        header.set_metadata(&about);
        header.set_mode(0o600);
        // A log that grows meanwhile is taken as long as it was.
        let content = file.take(about.len());
        tar.append_data(&mut header, name, content)
            .with_context(|| format!("cannot save `{}`", path.display()))?;
        self.files += 1;
        self.bytes += about.len();
        self.bar.show(self.bytes, self.total, self.files);
        Ok(())
    }
}

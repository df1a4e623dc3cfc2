//! An index of ours: what it takes in, and what it cannot.
//!
//! Repositories below the workspace are directories like any other. Where an
//! index has one as a link to a commit, the link makes way for the files.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::SystemTime;

use super::cut::Extent;
use super::disk::{Weight, may_hold_links, weigh, weigh_below};
use super::git::{Call, Git, GitError};
use super::halves::{Halves, Refused};

/// The index that the whole difference is made with.
pub(super) const INDEX: &str = "index";
/// Most bytes of a list of paths.
pub(super) const LIST_BYTES: usize = 64 << 20;
/// Repositories below the workspace whose files count.
pub(super) const NESTED: usize = 64;
/// Most bytes of files that git is given at once: it copies them all, and the
/// disk is the agent's to fill. Those beyond are too large to compare.
const TAKEN_BYTES: u64 = if cfg!(test) { 64 << 20 } else { 512 << 20 };
/// The mode of a link to a commit, in a list of what an index has.
const LINK: &[u8] = b"160000 ";

/// Files that are not compared, with size and time.
pub(super) type Large = BTreeMap<PathBuf, (u64, Option<SystemTime>)>;

/// What was not compared at the start.
#[derive(Debug, Default)]
pub(super) struct Before {
    pub(super) large: Large,
    /// Repositories that the commit has as links. Of the first of them the files
    /// of the start are compared with, of the rest nothing is.
    pub(super) links: Vec<PathBuf>,
}

/// What is there and was not taken in.
#[derive(Debug)]
pub(super) struct Left {
    /// Those that are too large to compare, and those that were so before.
    pub(super) large: Large,
    pub(super) refused: Vec<Refused>,
    /// Whether all repositories were looked into.
    pub(super) extent: Extent,
}

/// Puts all files of now into the index.
pub(super) async fn take_all(git: &Git, before: &Before) -> Result<Left, GitError> {
    let refused = match git.repository.join(INDEX).exists() {
        true => take_tracked(git).await?,
        false => Vec::new(),
    };
    let mut left = take_untracked(git, vec![PathBuf::new()], before).await?;
    left.refused.extend(refused);
    Ok(left)
}

/// Puts untracked files into the index, of these directories.
pub(super) async fn take_untracked(
    git: &Git,
    directories: Vec<PathBuf>,
    before: &Before,
) -> Result<Left, GitError> {
    let (paths, extent) = untracked(git, directories, &before.links).await?;
    let mut large = Large::new();
    let mut taken = Vec::new();
    let mut room = TAKEN_BYTES;
    for path in paths {
        match weigh(&git.work.join(&path)) {
            Weight::Fine(size, time) if before.large.contains_key(&path) || size > room => {
                large.insert(path, (size, time));
            }
            Weight::Large(size, time) => {
                large.insert(path, (size, time));
            }
            Weight::Fine(size, _) => {
                room -= size;
                taken.push(path);
            }
            Weight::NotOurs | Weight::Gone => {}
        }
    }
    let refused = take(git, taken).await?;
    Ok(Left { large, refused, extent })
}

/// Takes links to commits out of an index, and says where they were.
pub(super) async fn drop_links(git: &Git, index: &str) -> Result<Vec<PathBuf>, GitError> {
    if !may_hold_links(&git.repository.join(index)) {
        return Ok(Vec::new());
    }
    let args = ["ls-files", "-z", "--stage"];
    let answer = git.call(Call { args: &args, index, input: b"", most: LIST_BYTES }).await?;
    let mut links = Vec::new();
    for line in answer.bytes.split(|byte| *byte == 0) {
        let tab = line.iter().position(|byte| *byte == b'\t');
        if let (true, Some(tab)) = (line.starts_with(LINK), tab) {
            links.push(PathBuf::from(OsStr::from_bytes(&line[tab + 1..])));
        }
    }
    remove(git, index, &links).await?;
    Ok(links)
}

/// Puts files into an index as they are now.
pub(super) async fn update(git: &Git, index: &str, paths: &[PathBuf]) -> Result<(), GitError> {
    let args = ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"];
    give(git, index, &args, paths).await
}

/// Takes files out of an index, whatever is in their place now.
pub(super) async fn remove(git: &Git, index: &str, paths: &[PathBuf]) -> Result<(), GitError> {
    give(git, index, &["update-index", "-z", "--force-remove", "--stdin"], paths).await
}

pub(super) async fn read_tree(git: &Git, index: &str, tree: &str) -> Result<(), GitError> {
    let args = ["read-tree", tree];
    git.call(Call { args: &args, index, input: b"", most: LIST_BYTES }).await.map(|_| ())
}

pub(super) async fn write_tree(git: &Git, index: &str) -> Result<String, GitError> {
    // A clone need not have all that its commits have.
    let args = ["write-tree", "--missing-ok"];
    let call = Call { args: &args, index, input: b"", most: LIST_BYTES };
    let answer = git.call(call).await?;
    Ok(String::from_utf8_lossy(&answer.bytes).trim().to_owned())
}

/// Paths that end with a zero each.
pub(super) fn names(bytes: &[u8]) -> Vec<PathBuf> {
    let names = bytes.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| PathBuf::from(OsStr::from_bytes(name))).collect()
}

pub(super) fn list(paths: &[PathBuf]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for path in paths {
        bytes.extend_from_slice(path.as_os_str().as_bytes());
        bytes.push(0);
    }
    bytes
}

/// Takes in what became of the files that the index has.
async fn take_tracked(git: &Git) -> Result<Vec<Refused>, GitError> {
    let args = ["add", "--update", "--ignore-errors", "--", "."];
    match git.call(Call { args: &args, index: INDEX, input: b"", most: LIST_BYTES }).await {
        // Some could not be read, and it says so by its status.
        Ok(_) | Err(GitError::Failed { status: Some(1), .. }) => return Ok(Vec::new()),
        // There are errors that it does not ignore.
        Err(GitError::Failed { .. }) => {}
        Err(err) => return Err(err),
    }
    let args = ["diff-files", "-z", "--name-only", "--no-renames"];
    let call = Call { args: &args, index: INDEX, input: b"", most: LIST_BYTES };
    let answer = git.call(call).await?;
    let (mut taken, mut gone) = (Vec::new(), Vec::new());
    for path in names(&answer.bytes) {
        match weigh_below(&git.work, &path) {
            Weight::Fine(..) | Weight::Large(..) => taken.push(path),
            Weight::Gone => gone.push(path),
            Weight::NotOurs => {}
        }
    }
    remove(git, INDEX, &gone).await?;
    take(git, taken).await
}

/// Takes files in, except those that git fails for: one that is shorter than
/// it was a moment ago, or that is not encoded as its attributes say.
async fn take(git: &Git, paths: Vec<PathBuf>) -> Result<Vec<Refused>, GitError> {
    let mut halves = Halves::of(paths);
    while let Some(paths) = halves.next() {
        if let Err(err) = update(git, INDEX, &paths).await {
            halves.failed(paths, err)?;
        }
    }
    Ok(halves.refused())
}

/// Untracked files that are not ignored, those in repositories of their own
/// included.
async fn untracked(
    git: &Git,
    mut waiting: Vec<PathBuf>,
    links: &[PathBuf],
) -> Result<(Vec<PathBuf>, Extent), GitError> {
    let args = ["ls-files", "-z", "--others", "--exclude-standard"];
    let args = [&args[..], &["--exclude=node_modules", "--exclude=.mayfly"]].concat();
    let (mut found, mut extent) = (Vec::new(), Extent::Whole);
    let mut asked = 0;
    while let Some(directory) = waiting.pop() {
        let inside = git.work.join(&directory);
        // Of a repository in ours nothing is known yet.
        let index = if directory.as_os_str().is_empty() { INDEX } else { "no-index" };
        let call = Call { args: &args, index, input: b"", most: LIST_BYTES };
        let answer = git.call_in(&inside, call).await?;
        for name in names(&answer.bytes) {
            let is_repository = name.as_os_str().as_bytes().ends_with(b"/");
            let path = directory.join(name);
            if !is_repository {
                found.push(path);
                continue;
            }
            let place = links.iter().position(|link| *link == path).unwrap_or_else(|| {
                asked += 1;
                asked - 1
            });
            match place < NESTED {
                true => waiting.push(path),
                false => extent = Extent::Cut,
            }
        }
    }
    Ok((found, extent))
}

async fn give(git: &Git, index: &str, args: &[&str], paths: &[PathBuf]) -> Result<(), GitError> {
    if paths.is_empty() {
        return Ok(());
    }
    let input = list(paths);
    git.call(Call { args, index, input: &input, most: LIST_BYTES }).await.map(|_| ())
}

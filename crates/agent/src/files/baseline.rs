//! The state that a run started from, and the difference to it.
//!
//! | workspace at the start | what the difference is to |
//! |---|---|
//! | nothing in it | nothing; `git` is not even started until there is a file |
//! | a repository with a commit | that commit, whatever is committed since |
//! | anything else | all files as they were, kept outside of the tree |
//!
//! Untracked files count, ignored ones do not, and repositories below the
//! workspace are directories like any other.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tokio::sync::{Mutex, OnceCell};
use tokio::time::timeout;

use super::cut::{Extent, Text};
use super::disk::{Weight, copy_with_time, holds_anything, weigh};
use super::git::{Answer, Call, FILES_INDEX, Git, GitError, Lender};
use super::{OURS, parts};

/// The index that the whole difference is made with.
const INDEX: &str = "index";
/// Most bytes of a list of paths.
const LIST_BYTES: usize = 64 << 20;
/// Repositories below the workspace whose files count.
const NESTED: usize = 64;
/// Most bytes of the differences of several files.
const PARTS_BYTES: usize = 16 << 20;
/// Most bytes of files that git is given at once: it copies them all, and the
/// disk is the agent's to fill. Those beyond are too large to compare.
const TAKEN_BYTES: u64 = if cfg!(test) { 64 << 20 } else { 512 << 20 };
/// Most bytes of files that git has copied for differences of single ones. A file
/// that is written to all day is compared a few times a second.
const COPIED_BYTES: u64 = 64 << 20;
/// How long all of it may take. Each call has an end, but there may be many.
const PATIENCE: Duration = Duration::from_secs(90);

/// What a run started from.
#[derive(Debug)]
pub(super) struct Baseline {
    git: Git,
    base: Base,
    /// What is compared with, once it is known.
    tree: OnceCell<String>,
    /// How many bytes were copied with the index for single files, if it is there.
    files_index: Mutex<Option<u64>>,
    large: Large,
}

#[derive(Debug)]
enum Base {
    Nothing,
    Commit { index: PathBuf },
    Files,
}

/// Files that are too large to compare, with size and time.
type Large = BTreeMap<PathBuf, (u64, Option<SystemTime>)>;

impl Baseline {
    /// Takes down what is there. Of an attempt that fails nothing is left: it may
    /// have failed for want of room.
    pub(super) async fn take(work: &Path, home: &Path) -> Result<Baseline, GitError> {
        let repository = home.join(OURS).join("baseline");
        let taken =
            Baseline::attempt(Git { repository: repository.clone(), work: work.to_owned() });
        let taken = timeout(PATIENCE, taken).await.unwrap_or(Err(GitError::TooMuch));
        if taken.is_err() {
            let _ = fs::remove_dir_all(repository);
        }
        taken
    }

    async fn attempt(git: Git) -> Result<Baseline, GitError> {
        let work = &git.work;
        let (tree, files_index) = (OnceCell::new(), Mutex::new(None));
        if !holds_anything(work) {
            let large = Large::new();
            return Ok(Baseline { git, base: Base::Nothing, tree, files_index, large });
        }
        if let Some(commit) = commit_of_user(&git).await? {
            let Commit { id, objects, index } = commit;
            let lender = Lender::Objects { directory: &objects, id_digits: id.len() };
            git.make(lender)?;
            tree.set(id).ok();
            let (base, large) = (Base::Commit { index }, Large::new());
            return Ok(Baseline { git, base, tree, files_index, large });
        }
        git.make(Lender::Nobody)?;
        let large = take_all(&git, &Large::new()).await?;
        tree.set(write_tree(&git, INDEX).await?).ok();
        Ok(Baseline { git, base: Base::Files, tree, files_index, large })
    }

    /// Whether there may be a difference though no file was touched since.
    pub(super) fn may_differ_from_the_start(&self) -> bool {
        match self.base {
            // What was not committed at the start.
            Base::Commit { .. } => true,
            Base::Nothing | Base::Files => false,
        }
    }

    /// The whole difference, as far as it fits; nothing if there is none.
    pub(super) async fn difference(&self, most: usize) -> Result<Option<Text>, GitError> {
        let compared = timeout(PATIENCE, self.compare(most)).await;
        compared.unwrap_or(Err(GitError::TooMuch))
    }

    async fn compare(&self, most: usize) -> Result<Option<Text>, GitError> {
        let large = match &self.base {
            Base::Nothing if !holds_anything(&self.git.work) => return Ok(None),
            Base::Nothing => {
                self.tree().await?;
                take_all(&self.git, &self.large).await?
            }
            Base::Files => take_all(&self.git, &self.large).await?,
            Base::Commit { index } => self.take_with_index_of_user(index).await?,
        };
        let mut args = vec!["diff-index", "--cached", "--patch", "--find-renames"];
        args.extend(["--no-ext-diff", "--no-textconv", "--no-color", self.tree().await?, "--"]);
        args.extend([".", ":(exclude,glob)**/node_modules/**", ":(exclude,glob)**/.mayfly/**"]);
        let call = Call { args: &args, index: INDEX, input: b"", most };
        let Answer { mut bytes, extent } = self.git.call(call).await?;
        for (path, seen) in &large {
            if self.large.get(path) != Some(seen) {
                bytes.extend(parts::of_large_file(path, self.large.contains_key(path)));
            }
        }
        Ok((!bytes.is_empty()).then(|| Text::of(&bytes, extent, most)))
    }

    /// Differences of single files, in the order of their paths. One without
    /// any, or that is ignored, has an empty one.
    pub(super) async fn differences(
        &self,
        paths: &[PathBuf],
        most: usize,
    ) -> Result<Vec<(PathBuf, Text)>, GitError> {
        let tree = self.tree().await?;
        let mut index = self.files_index.lock().await;
        if index.is_none_or(|copied| copied > COPIED_BYTES) {
            self.prepare_files_index(tree).await?;
            *index = Some(0);
        }
        let ignored = self.ignored(paths).await?;
        let mut large = Vec::new();
        let mut shown = Vec::new();
        for path in paths.iter().filter(|path| !ignored.contains(path)) {
            match weigh(&self.git.work.join(path)) {
                Weight::Large(..) => large.push(path),
                Weight::Fine(..) if self.large.contains_key(path) => large.push(path),
                Weight::Fine(size, _) => {
                    *index = index.map(|copied| copied.saturating_add(size));
                    shown.push(path.clone());
                }
                Weight::Gone => shown.push(path.clone()),
                Weight::NotOurs => {}
            }
        }
        let input = list(&shown);
        update_index(&self.git, FILES_INDEX, &input).await?;
        let found = self.parts(tree, shown).await?;
        let text = |path: &PathBuf| match found.get(path) {
            Some((bytes, extent)) => Text::of(bytes, *extent, most),
            None if large.contains(&path) => Text::of(b"", Extent::Cut, most),
            None => Text::of(b"", Extent::Whole, most),
        };
        Ok(paths.iter().map(|path| (path.clone(), text(path))).collect())
    }

    /// What to compare with. For nothing that is a tree without files.
    async fn tree(&self) -> Result<&str, GitError> {
        let make = || async {
            self.git.make(Lender::Nobody)?;
            write_tree(&self.git, INDEX).await
        };
        self.tree.get_or_try_init(make).await.map(String::as_str)
    }

    /// All files of now, with the user's index to know quickly which ones did
    /// not change. One that git cannot read is made up from the commit.
    async fn take_with_index_of_user(&self, index: &Path) -> Result<Large, GitError> {
        let ours = self.git.repository.join(INDEX);
        if copy_with_time(index, &ours).is_ok()
            && let Ok(large) = take_all(&self.git, &self.large).await
        {
            return Ok(large);
        }
        match fs::remove_file(&ours) {
            Err(err) if err.kind() != ErrorKind::NotFound => return Err(err.into()),
            Ok(()) | Err(_) => {}
        }
        read_tree(&self.git, INDEX, self.tree().await?).await?;
        take_all(&self.git, &self.large).await
    }

    /// Makes the index for single files anew, and lets go of all that was copied
    /// with it.
    async fn prepare_files_index(&self, tree: &str) -> Result<(), GitError> {
        self.git.make_objects_of_files()?;
        match fs::remove_file(self.git.repository.join(FILES_INDEX)) {
            Err(err) if err.kind() != ErrorKind::NotFound => return Err(err.into()),
            Ok(()) | Err(_) => {}
        }
        match self.base {
            Base::Nothing => Ok(()),
            Base::Commit { .. } | Base::Files => read_tree(&self.git, FILES_INDEX, tree).await,
        }
    }

    async fn ignored(&self, paths: &[PathBuf]) -> Result<Vec<PathBuf>, GitError> {
        let input = list(paths);
        let args = ["check-ignore", "-z", "--stdin"];
        let call = Call { args: &args, index: FILES_INDEX, input: &input, most: LIST_BYTES };
        match self.git.call(call).await {
            Ok(answer) => Ok(names(&answer.bytes)),
            // None of them is.
            Err(GitError::Failed { status: Some(1), .. }) => Ok(Vec::new()),
            Err(err) => Err(err),
        }
    }

    /// The parts of a difference, by path. A list whose parts are too much at
    /// once is taken in halves.
    async fn parts(&self, tree: &str, paths: Vec<PathBuf>) -> Result<parts::Parts, GitError> {
        let mut waiting = vec![paths];
        let mut found = parts::Parts::new();
        while let Some(mut paths) = waiting.pop() {
            let names: Vec<String> = paths.iter().filter_map(|path| text(path)).collect();
            if names.is_empty() {
                continue;
            }
            let mut args = vec!["--literal-pathspecs", "diff-index", "--cached"];
            args.extend(["--patch-with-raw", "-z", "--no-renames", "--full-index"]);
            args.extend(["--no-ext-diff", "--no-textconv", "--no-color", tree, "--"]);
            args.extend(names.iter().map(String::as_str));
            let call = Call { args: &args, index: FILES_INDEX, input: b"", most: PARTS_BYTES };
            let answer = self.git.call(call).await?;
            if answer.extent == Extent::Cut && paths.len() > 1 {
                waiting.push(paths.split_off(paths.len() / 2));
                waiting.push(paths);
                continue;
            }
            found.extend(parts::parse(&answer.bytes, answer.extent));
        }
        Ok(found)
    }
}

/// Where the user's repository stands.
struct Commit {
    id: String,
    objects: PathBuf,
    index: PathBuf,
}

async fn commit_of_user(git: &Git) -> Result<Option<Commit>, GitError> {
    let repository = git.work.join(".git");
    if fs::symlink_metadata(&repository).is_err() {
        return Ok(None);
    }
    let args = ["rev-parse", "--git-path", "objects", "--git-path", "index", "HEAD^{commit}"];
    let answer = match git.ask_user(&repository, &args).await {
        Ok(answer) => answer,
        // Without a commit, or no repository at all.
        Err(GitError::Failed { .. }) => return Ok(None),
        Err(err) => return Err(err),
    };
    let text = String::from_utf8_lossy(&answer.bytes).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    let [objects, index, id] = lines[..] else { return Ok(None) };
    let (objects, index) = (git.work.join(objects), git.work.join(index));
    Ok(Some(Commit { id: id.to_owned(), objects, index }))
}

/// Puts all files of now into the index; those that are too large are returned,
/// and those that were so before.
async fn take_all(git: &Git, before: &Large) -> Result<Large, GitError> {
    if git.repository.join(INDEX).exists() {
        let args = ["add", "--update", "--ignore-errors", "--", "."];
        let call = Call { args: &args, index: INDEX, input: b"", most: LIST_BYTES };
        match git.call(call).await {
            // Some could not be read, and it says so by its status.
            Ok(_) | Err(GitError::Failed { status: Some(1), .. }) => {}
            Err(err) => return Err(err),
        }
    }
    let mut large = Large::new();
    let mut input = Vec::new();
    let mut left = TAKEN_BYTES;
    for path in untracked(git).await? {
        match weigh(&git.work.join(&path)) {
            Weight::Fine(size, time) if before.contains_key(&path) || size > left => {
                large.insert(path, (size, time));
            }
            Weight::Large(size, time) => {
                large.insert(path, (size, time));
            }
            Weight::Fine(size, _) => {
                left -= size;
                input.extend_from_slice(path.as_os_str().as_bytes());
                input.push(0);
            }
            Weight::NotOurs | Weight::Gone => {}
        }
    }
    update_index(git, INDEX, &input).await?;
    Ok(large)
}

/// Untracked files that are not ignored, those in repositories of their own
/// included.
async fn untracked(git: &Git) -> Result<Vec<PathBuf>, GitError> {
    let args = ["ls-files", "-z", "--others", "--exclude-standard"];
    let args = [&args[..], &["--exclude=node_modules", "--exclude=.mayfly"]].concat();
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::new()];
    let mut asked = 0;
    while let Some(directory) = waiting.pop() {
        let inside = git.work.join(&directory);
        // Of a repository in ours nothing is known yet.
        let index = if directory.as_os_str().is_empty() { INDEX } else { "no-index" };
        let call = Call { args: &args, index, input: b"", most: LIST_BYTES };
        let answer = git.call_in(&inside, call).await?;
        for name in names(&answer.bytes) {
            // A repository is listed as a directory.
            match name.as_os_str().as_bytes().ends_with(b"/") {
                false => found.push(directory.join(name)),
                true if asked < NESTED => {
                    asked += 1;
                    waiting.push(directory.join(name));
                }
                true => {}
            }
        }
    }
    Ok(found)
}

async fn update_index(git: &Git, index: &str, input: &[u8]) -> Result<(), GitError> {
    if input.is_empty() {
        return Ok(());
    }
    let args = ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"];
    git.call(Call { args: &args, index, input, most: LIST_BYTES }).await.map(|_| ())
}

async fn read_tree(git: &Git, index: &str, tree: &str) -> Result<(), GitError> {
    let args = ["read-tree", tree];
    git.call(Call { args: &args, index, input: b"", most: LIST_BYTES }).await.map(|_| ())
}

async fn write_tree(git: &Git, index: &str) -> Result<String, GitError> {
    let call = Call { args: &["write-tree"], index, input: b"", most: LIST_BYTES };
    let answer = git.call(call).await?;
    Ok(String::from_utf8_lossy(&answer.bytes).trim().to_owned())
}

/// Paths that end with a zero each.
fn names(bytes: &[u8]) -> Vec<PathBuf> {
    let names = bytes.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names.map(|name| PathBuf::from(std::ffi::OsStr::from_bytes(name))).collect()
}

fn list(paths: &[PathBuf]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for path in paths {
        bytes.extend_from_slice(path.as_os_str().as_bytes());
        bytes.push(0);
    }
    bytes
}

/// A path as an argument; one that is not Unicode cannot be asked for by itself.
fn text(path: &Path) -> Option<String> {
    path.to_str().map(str::to_owned)
}

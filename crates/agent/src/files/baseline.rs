//! The state that a run started from, and the difference to it.
//!
//! | workspace at the start | what the difference is to |
//! |---|---|
//! | nothing in it | nothing; `git` is not even started until there is a file |
//! | a repository with a commit | that commit, whatever is committed since |
//! | anything else | all files as they were, kept outside of the tree |
//!
//! Untracked files count, ignored ones do not, and repositories below the
//! workspace are directories like any other. Those that the commit has as links,
//! submodules, are compared with their files of the start.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::{Mutex, OnceCell};
use tokio::time::timeout;

use super::cut::{Extent, Text};
use super::disk::{Weight, copy_with_time, holds_anything, may_hold_links, weigh, weigh_below};
use super::git::{Answer, Call, FILES_INDEX, Git, GitError, Lender};
use super::halves::{Halves, Refused};
use super::index::{
    Before, INDEX, LIST_BYTES, Large, Left, NESTED, drop_links, list, names, read_tree, remove,
    take_all, take_untracked, update, write_tree,
};
use super::{OURS, parts};

/// Most bytes of the differences of several files.
const PARTS_BYTES: usize = 16 << 20;
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
    before: Before,
    /// Files of the start that git failed for.
    refused: Vec<Refused>,
}

/// The whole difference, as far as it is known.
#[derive(Debug)]
pub(super) struct Difference {
    /// Nothing if there is none.
    pub(super) text: Option<Text>,
    /// Files that git failed for.
    pub(super) refused: Vec<Refused>,
    /// Whether all repositories below the workspace were looked into.
    pub(super) extent: Extent,
}

/// Differences of single files.
#[derive(Debug)]
pub(super) struct Differences {
    /// In the order of their paths.
    pub(super) found: Vec<(PathBuf, Text)>,
    /// Files that git failed for.
    pub(super) refused: Vec<Refused>,
}

#[derive(Debug)]
enum Base {
    Nothing,
    Commit { index: PathBuf },
    Files,
}

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
        let (tree, files_index) = (OnceCell::new(), Mutex::new(None));
        if !holds_anything(&git.work) {
            let (base, before, refused) = (Base::Nothing, Before::default(), Vec::new());
            return Ok(Baseline { git, base, tree, files_index, before, refused });
        }
        let commit = commit_of_user(&git).await?;
        let (base, id, links, left) = match commit {
            Some(Commit { id, objects, index }) => {
                git.make(Lender::Objects { directory: &objects, id_digits: id.len() })?;
                let (id, links, left) = tree_without_links(&git, id, &index).await?;
                (Base::Commit { index }, id, links, left)
            }
            None => {
                git.make(Lender::Nobody)?;
                let left = take_all(&git, &Before::default()).await?;
                (Base::Files, write_tree(&git, INDEX).await?, Vec::new(), left)
            }
        };
        tree.set(id).ok();
        let Left { mut large, refused, .. } = left;
        for Refused { path, .. } in &refused {
            if let Weight::Fine(size, time) = weigh(&git.work.join(path)) {
                // At the end it would seem to be new.
                large.insert(path.clone(), (size, time));
            }
        }
        let before = Before { large, links };
        Ok(Baseline { git, base, tree, files_index, before, refused })
    }

    /// Files of the start that git failed for: of those it is known at most that
    /// they differ.
    pub(super) fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// Whether there may be a difference though no file was touched since.
    pub(super) fn may_differ_from_the_start(&self) -> bool {
        match self.base {
            // What was not committed at the start.
            Base::Commit { .. } => true,
            Base::Nothing | Base::Files => false,
        }
    }

    /// The whole difference, as far as it fits.
    pub(super) async fn difference(&self, most: usize) -> Result<Difference, GitError> {
        let compared = timeout(PATIENCE, self.compare(most)).await;
        compared.unwrap_or(Err(GitError::TooMuch))
    }

    async fn compare(&self, most: usize) -> Result<Difference, GitError> {
        let Left { large, refused, extent: listed } = match &self.base {
            Base::Nothing if !holds_anything(&self.git.work) => {
                let (refused, extent) = (Vec::new(), Extent::Whole);
                return Ok(Difference { text: None, refused, extent });
            }
            Base::Nothing => {
                self.tree().await?;
                take_all(&self.git, &self.before).await?
            }
            Base::Files => take_all(&self.git, &self.before).await?,
            Base::Commit { index } => self.take_with_index_of_user(index).await?,
        };
        let mut args = vec!["diff-index", "--cached", "--patch", "--find-renames"];
        args.extend(["--no-ext-diff", "--no-textconv", "--no-color", self.tree().await?, "--"]);
        args.extend([".", ":(exclude,glob)**/node_modules/**", ":(exclude,glob)**/.mayfly/**"]);
        let call = Call { args: &args, index: INDEX, input: b"", most };
        let Answer { mut bytes, mut extent } = self.git.call(call).await?;
        for (path, seen) in &large {
            let before = self.before.large.get(path);
            if before != Some(seen) {
                bytes.extend(parts::of_large_file(path, before.is_some()));
            }
        }
        if listed == Extent::Cut {
            extent = Extent::Cut;
        }
        let text = (!bytes.is_empty()).then(|| Text::of(&bytes, extent, most));
        Ok(Difference { text, refused, extent: listed })
    }

    /// Differences of single files. One without any, or that is ignored, has an
    /// empty one.
    pub(super) async fn differences(
        &self,
        paths: &[PathBuf],
        most: usize,
    ) -> Result<Differences, GitError> {
        let tree = self.tree().await?;
        let mut index = self.files_index.lock().await;
        let mut found = Vec::new();
        let mut halves = Halves::of(paths.to_vec());
        while let Some(paths) = halves.next() {
            if index.is_none_or(|copied| copied > COPIED_BYTES) {
                self.prepare_files_index(tree).await?;
                *index = Some(0);
            }
            match self.some_differences(tree, &paths, &mut index, most).await {
                Ok(some) => found.extend(some),
                Err(err) => halves.failed(paths, err)?,
            }
        }
        Ok(Differences { found, refused: halves.refused() })
    }

    /// Differences of files that git takes, and no others.
    async fn some_differences(
        &self,
        tree: &str,
        paths: &[PathBuf],
        copied: &mut Option<u64>,
        most: usize,
    ) -> Result<Vec<(PathBuf, Text)>, GitError> {
        let (mut there, mut gone, mut large) = (Vec::new(), Vec::new(), Vec::new());
        let mut size_of_all = 0;
        for path in paths {
            match weigh_below(&self.git.work, path) {
                Weight::Large(..) => large.push(path),
                Weight::Fine(..) if self.before.large.contains_key(path) => large.push(path),
                Weight::Fine(size, _) => {
                    size_of_all += size;
                    there.push(path.clone());
                }
                Weight::Gone => gone.push(path.clone()),
                Weight::NotOurs => {}
            }
        }
        *copied = copied.map(|copied| copied.saturating_add(size_of_all));
        let ignored = self.ignored(&there).await?;
        there.retain(|path| !ignored.contains(path));
        remove(&self.git, FILES_INDEX, &gone).await?;
        update(&self.git, FILES_INDEX, &there).await?;
        let found = self.parts(tree, [there, gone].concat()).await?;
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
    async fn take_with_index_of_user(&self, index: &Path) -> Result<Left, GitError> {
        let ours = self.git.repository.join(INDEX);
        if copy_with_time(index, &ours).is_ok()
            && drop_links(&self.git, INDEX).await.is_ok()
            && let Ok(left) = take_all(&self.git, &self.before).await
        {
            return Ok(left);
        }
        match fs::remove_file(&ours) {
            Err(err) if err.kind() != ErrorKind::NotFound => return Err(err.into()),
            Ok(()) | Err(_) => {}
        }
        read_tree(&self.git, INDEX, self.tree().await?).await?;
        take_all(&self.git, &self.before).await
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

    /// Which of these files are ignored.
    async fn ignored(&self, paths: &[PathBuf]) -> Result<Vec<PathBuf>, GitError> {
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        // Names may begin like magic, which it would not take literally.
        let input = list(&paths.iter().map(|path| Path::new(".").join(path)).collect::<Vec<_>>());
        let args = ["check-ignore", "-z", "--stdin"];
        let call = Call { args: &args, index: FILES_INDEX, input: &input, most: LIST_BYTES };
        match self.git.call(call).await {
            Ok(answer) => {
                let names = names(&answer.bytes).into_iter();
                Ok(names.filter_map(|name| Some(name.strip_prefix(".").ok()?.to_owned())).collect())
            }
            // None of them is.
            Err(GitError::Failed { status: Some(1), .. }) => Ok(Vec::new()),
            Err(err) => Err(err),
        }
    }

    /// The parts of a difference, by path. A list whose parts are too much at
    /// once is taken in halves.
    async fn parts(&self, tree: &str, paths: Vec<PathBuf>) -> Result<parts::Parts, GitError> {
        let mut halves = Halves::of(paths);
        let mut found = parts::Parts::new();
        while let Some(paths) = halves.next() {
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
                halves.split(paths);
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

/// The tree of a commit, in which links to other commits have made way for the
/// files that are there: where the links are, and what of the files is not in it.
async fn tree_without_links(
    git: &Git,
    commit: String,
    index: &Path,
) -> Result<(String, Vec<PathBuf>, Left), GitError> {
    let nothing = Left { large: Large::new(), refused: Vec::new(), extent: Extent::Whole };
    let ours = git.repository.join(INDEX);
    // An index that cannot be copied will be made up from the commit.
    let seems_plain = copy_with_time(index, &ours).is_ok() && !may_hold_links(&ours);
    let _ = fs::remove_file(&ours);
    if seems_plain {
        return Ok((commit, Vec::new(), nothing));
    }
    read_tree(git, INDEX, &commit).await?;
    let links = drop_links(git, INDEX).await?;
    if links.is_empty() {
        return Ok((commit, links, nothing));
    }
    // What is in the place of one may be anything else by now.
    let is_directory = |link: &&PathBuf| {
        fs::symlink_metadata(git.work.join(link)).is_ok_and(|metadata| metadata.is_dir())
    };
    let inside = links.iter().take(NESTED).filter(is_directory).cloned().collect();
    let left = take_untracked(git, inside, &Before::default()).await?;
    Ok((write_tree(git, INDEX).await?, links, left))
}

/// A path as an argument; one that is not Unicode cannot be asked for by itself.
fn text(path: &Path) -> Option<String> {
    path.to_str().map(str::to_owned)
}

//! Lists of paths for `git`, which takes all of one or nothing. One that it
//! fails for is taken in halves, until those paths are alone that it fails for.

use std::path::PathBuf;

use super::git::GitError;

/// Most paths that are left out of a list. If there are more, it is not the
/// paths that it fails for.
const REFUSED: usize = 16;

/// A path that `git` fails for, and why.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) path: PathBuf,
    pub(super) why: GitError,
}

/// What is still to be given to `git`, and what it did not take.
#[derive(Debug)]
pub(super) struct Halves {
    waiting: Vec<Vec<PathBuf>>,
    refused: Vec<Refused>,
}

impl Halves {
    pub(super) fn of(paths: Vec<PathBuf>) -> Halves {
        Halves { waiting: vec![paths], refused: Vec::new() }
    }

    /// The next paths, in their order.
    pub(super) fn next(&mut self) -> Option<Vec<PathBuf>> {
        self.waiting.pop()
    }

    /// These, which are more than one, are to be taken in halves.
    pub(super) fn split(&mut self, mut paths: Vec<PathBuf>) {
        self.waiting.push(paths.split_off(paths.len() / 2));
        self.waiting.push(paths);
    }

    /// `git` failed for these.
    pub(super) fn failed(
        &mut self,
        mut paths: Vec<PathBuf>,
        why: GitError,
    ) -> Result<(), GitError> {
        let of_the_paths = matches!(why, GitError::Failed { .. });
        if !of_the_paths || self.refused.len() == REFUSED {
            return Err(why);
        }
        match paths.pop() {
            Some(path) if paths.is_empty() => self.refused.push(Refused { path, why }),
            Some(path) => {
                paths.push(path);
                self.split(paths);
            }
            None => return Err(why),
        }
        Ok(())
    }

    /// What `git` did not take.
    pub(super) fn refused(self) -> Vec<Refused> {
        self.refused
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Halves, REFUSED};
    use crate::files::git::GitError;

    fn failure() -> GitError {
        GitError::Failed { command: "x".to_owned(), status: None, reason: "y".to_owned() }
    }

    /// Gives so many paths to a git that fails for some.
    fn give(
        count: usize,
        fails: impl Fn(usize) -> bool,
    ) -> (Result<usize, GitError>, Vec<PathBuf>) {
        let number = |path: &PathBuf| path.to_str().unwrap().parse().unwrap();
        let mut halves = Halves::of((0..count).map(|number| number.to_string().into()).collect());
        let (mut taken, mut calls) = (Vec::new(), 0);
        while let Some(paths) = halves.next() {
            calls += 1;
            if !paths.iter().any(|path| fails(number(path))) {
                taken.extend(paths);
            } else if let Err(err) = halves.failed(paths, failure()) {
                return (Err(err), taken);
            }
        }
        assert!(halves.refused().iter().all(|refused| fails(number(&refused.path))));
        (Ok(calls), taken)
    }

    #[test]
    fn only_the_paths_that_git_fails_for_are_left_out_and_the_order_stays() {
        let (calls, taken) = give(1000, |number| number == 0 || number == 777);
        assert!(calls.unwrap() < 50);
        let expected = (0..1000).filter(|number| ![0, 777].contains(number));
        assert_eq!(
            taken,
            expected.map(|number| number.to_string().into()).collect::<Vec<PathBuf>>()
        );
        assert_eq!(give(3, |_| true).1, Vec::<PathBuf>::new());
    }

    #[test]
    fn a_failure_that_no_path_is_the_cause_of_is_one() {
        assert!(give(1000, |_| true).0.is_err());
        assert!(give(REFUSED, |_| true).0.is_ok());
        let mut halves = Halves::of(vec!["a".into(), "b".into()]);
        let paths = halves.next().unwrap();
        assert!(halves.failed(paths, GitError::TooMuch).is_err());
    }
}

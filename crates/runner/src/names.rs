//! The names that callers gave their runs, so that one who was cut off finds its
//! run by them. A front end that comes back knows these and no other.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use wire::run::RunId;

/// Runs that are remembered, the newest ones.
const REMEMBERED: usize = 4096;

/// What a caller calls its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallersName {
    pub(crate) thread_id: String,
    pub(crate) run_id: String,
}

/// The names of runs that began not long ago.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<VecDeque<Named>>);

#[derive(Debug)]
struct Named {
    team: String,
    name: CallersName,
    id: RunId,
}

impl Names {
    /// Remembers a run.
    pub(crate) fn note(&self, team: &str, name: CallersName, id: RunId) {
        // A panic while the lock was held leaves nothing half done.
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() == REMEMBERED {
            known.pop_front();
        }
        known.push_back(Named { team: team.to_owned(), name, id });
    }

    /// The newest run of a team with that name.
    pub(crate) fn find(&self, team: &str, name: &CallersName) -> Option<RunId> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().rev().find(|one| one.team == team && one.name == *name);
        found.map(|one| one.id.clone())
    }
}

#[cfg(test)]
mod tests {
    use wire::run::RunId;

    use super::{CallersName, Names, REMEMBERED};

    fn name(run: usize) -> CallersName {
        CallersName { thread_id: "t".to_owned(), run_id: run.to_string() }
    }

    #[test]
    fn the_newest_run_of_a_name_is_found_and_only_by_its_team() {
        let names = Names::default();
        let [first, second] = [1, 2].map(|byte| RunId::from_random([byte; 15]));
        names.note("a", name(1), first.clone());
        assert_eq!(names.find("a", &name(1)), Some(first));
        names.note("a", name(1), second.clone());
        assert_eq!(names.find("a", &name(1)), Some(second));
        assert_eq!(names.find("b", &name(1)), None);
        assert_eq!(names.find("a", &name(2)), None);
    }

    #[test]
    fn the_oldest_names_are_forgotten() {
        let names = Names::default();
        for run in 0..=REMEMBERED {
            names.note("a", name(run), RunId::from_random([0; 15]));
        }
        assert_eq!(names.find("a", &name(0)), None);
        assert!(
            names.find("a", &name(1)).is_some() && names.find("a", &name(REMEMBERED)).is_some()
        );
    }
}

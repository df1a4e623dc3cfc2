//! What callers call their runs, so that one who was cut off finds its run by it.
//! A front end that comes back knows these names and no other.

use sha2::{Digest, Sha256};

/// What a caller calls its run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CallersName {
    pub(crate) thread_id: String,
    pub(crate) run_id: String,
}

impl CallersName {
    /// The name as the store has it, where names are of any length and any letters.
    pub(crate) fn hash(&self) -> [u8; 32] {
        let mut sum = Sha256::new();
        // No two names are one text: where the first part ends is in it.
        sum.update((self.thread_id.len() as u64).to_be_bytes());
        sum.update(&self.thread_id);
        sum.update(&self.run_id);
        sum.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::CallersName;

    #[test]
    fn no_two_names_are_taken_for_one() {
        let hash = |thread: &str, run: &str| {
            let (thread_id, run_id) = (thread.to_owned(), run.to_owned());
            CallersName { thread_id, run_id }.hash()
        };
        assert_eq!(hash("a", "bc"), hash("a", "bc"));
        assert_ne!(hash("a", "bc"), hash("ab", "c"));
        assert_ne!(hash("", "a"), hash("a", ""));
    }
}

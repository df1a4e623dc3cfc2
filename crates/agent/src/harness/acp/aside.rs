//! What a CLI tells on another way than the protocol, which leaves out that a
//! model fails and is asked again. Only some CLIs have one.

use std::future::{Future, pending};
use std::pin::Pin;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Most asides that wait to be heard.
const WAITING: usize = 256;

/// The model of that session failed so many times in a row, last in these words,
/// and is asked again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::harness) struct Failing {
    pub(in crate::harness) session: String,
    pub(in crate::harness) attempt: u64,
    pub(in crate::harness) words: String,
}

/// Where asides are said.
pub(in crate::harness) type Speaker = mpsc::Sender<Failing>;

/// Hears asides. Dropped, it ends who says them.
pub(in crate::harness) struct Asides {
    said: Option<mpsc::Receiver<Failing>>,
    /// Who says them, until that begins.
    source: Option<Source>,
    task: JoinSet<()>,
}

type Source = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Asides {
    /// For a CLI that has none.
    pub(in crate::harness) fn none() -> Asides {
        Asides { said: None, source: None, task: JoinSet::new() }
    }

    /// Will hear what a task says for as long as it is there.
    pub(in crate::harness) fn of<F>(source: impl FnOnce(Speaker) -> F) -> Asides
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (speaker, said) = mpsc::channel(WAITING);
        let source: Source = Box::pin(source(speaker));
        Asides { said: Some(said), source: Some(source), task: JoinSet::new() }
    }

    /// Begins to listen.
    pub(super) fn begin(&mut self) {
        if let Some(source) = self.source.take() {
            self.task.spawn(source);
        }
    }

    /// The next one; waits for ever when there are no more.
    pub(super) async fn next(&mut self) -> Failing {
        let next = match &mut self.said {
            Some(said) => said.recv().await,
            None => None,
        };
        match next {
            Some(failing) => failing,
            None => pending().await,
        }
    }
}

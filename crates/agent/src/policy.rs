//! What the agent may do on its own. Every harness asks the one gate of its run
//! before something is done, and is told yes, or no and why.
//!
//! ```text
//! denial ──► question ──► allowance ──► default     the first that speaks of the action rules
//!               └──► answered: as somebody said     not answered: no, and `approval-requested`
//! ```
//!
//! A question never waits: a run has nobody to answer it. The caller hears of
//! it, asks a person, and dispatches again with the answer under its id.
//!
//! Rules about commands are patterns of the whole command. One that does not
//! begin with `*` speaks of the tools whose names it matches as well, so that
//! `mcp__github__*` is a rule, and `*` is still one about commands alone.

mod approval;
mod glob;

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use wire::agent::{Approval, Harness, Policy, Ruling};
use wire::run::custom;

use crate::emit::Emitter;
use crate::session::Session;

/// The policy of one run. Shared by reference.
pub(crate) struct Gate<'a> {
    policy: Option<&'a Policy>,
    harness: Harness,
    out: &'a Emitter,
    /// Ids of the questions that the caller has heard.
    asked: Mutex<BTreeSet<String>>,
}

/// What is about to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action<'a> {
    /// A command line, as the model wrote it.
    Command(&'a str),
    /// A harness's own tool writes a file, by its path.
    FileWrite(&'a str),
    /// A harness's own tool reads the web, by address or search.
    Network(&'a str),
    /// A tool does something else, by its name.
    Tool(&'a str),
    /// A tool looks at files, by its name. No harness asks about that, so the
    /// default does not hold for it; a rule that names the tool does.
    Look(&'a str),
}

/// What becomes of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ruled {
    /// It is done.
    Allow,
    /// It is not, for this reason, which is written for the model.
    Deny(String),
}

/// Who ruled.
enum Source<'a> {
    /// This pattern.
    Rule(&'a str),
    /// A capability or the default.
    General,
}

impl<'a> Gate<'a> {
    /// The gate of a run.
    pub(crate) fn new(session: &'a Session, out: &'a Emitter) -> Gate<'a> {
        let asked = Mutex::new(BTreeSet::new());
        Gate { policy: session.policy.as_ref(), harness: session.harness, out, asked }
    }

    /// Whether there is no policy at all.
    pub(crate) fn is_open(&self) -> bool {
        self.policy.is_none()
    }

    /// What holds for an action, answers included, without asking anybody.
    pub(crate) fn standing(&self, action: &Action<'_>) -> Ruling {
        let Some(policy) = self.policy else { return Ruling::Allow };
        match look_up(policy, *action).0 {
            Ruling::Ask => match policy.approvals.get(&approval::id(self.harness, *action)) {
                Some(Approval::Allow) => Ruling::Allow,
                Some(Approval::Deny) => Ruling::Deny,
                None => Ruling::Ask,
            },
            ruled @ (Ruling::Allow | Ruling::Deny) => ruled,
        }
    }

    /// Rules on one action. A question that nobody has answered is told to the
    /// caller, once.
    pub(crate) fn rule(&self, action: &Action<'_>) -> Ruled {
        let Some(policy) = self.policy else { return Ruled::Allow };
        let (ruling, source) = look_up(policy, *action);
        let shown = approval::shown(*action);
        match ruling {
            Ruling::Allow => Ruled::Allow,
            Ruling::Deny => Ruled::Deny(match source {
                Source::Rule(pattern) => {
                    let pattern = approval::shorten(pattern);
                    format!("the policy denies {shown} by its rule `{pattern}`")
                }
                Source::General => format!("the policy denies {shown}"),
            }),
            Ruling::Ask => {
                let id = approval::id(self.harness, *action);
                match policy.approvals.get(&id) {
                    Some(Approval::Allow) => Ruled::Allow,
                    Some(Approval::Deny) => {
                        Ruled::Deny(format!("somebody was asked about {shown} and said no"))
                    }
                    None => {
                        self.ask(id, *action);
                        Ruled::Deny(format!(
                            "the policy wants somebody to agree to {shown} first; they were asked \
                             and answer after this turn"
                        ))
                    }
                }
            }
        }
    }

    fn ask(&self, id: String, action: Action<'_>) {
        // A panic while the lock was held leaves nothing half done.
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if !asked.contains(&id) {
            self.out.custom(custom::APPROVAL, approval::request(&id, action));
            asked.insert(id);
        }
    }
}

/// The ruling on an action, and whose it is.
fn look_up<'p>(policy: &'p Policy, action: Action<'_>) -> (Ruling, Source<'p>) {
    let rules = [
        (Ruling::Deny, &policy.commands.deny),
        (Ruling::Ask, &policy.commands.ask),
        (Ruling::Allow, &policy.commands.allow),
    ];
    for (ruling, patterns) in rules {
        if let Some(pattern) = patterns.iter().find(|pattern| speaks_of(pattern, action)) {
            return (ruling, Source::Rule(pattern));
        }
    }
    (general(policy, action), Source::General)
}

/// Whether a rule about commands speaks of an action.
fn speaks_of(pattern: &str, action: Action<'_>) -> bool {
    match action {
        Action::Command(command) => glob::matches(pattern.trim(), command.trim()),
        Action::Tool(name) | Action::Look(name) => {
            !pattern.starts_with('*') && glob::matches(pattern, name)
        }
        Action::FileWrite(_) | Action::Network(_) => false,
    }
}

/// What holds when no pattern speaks of an action.
fn general(policy: &Policy, action: Action<'_>) -> Ruling {
    let capabilities = &policy.capabilities;
    match action {
        Action::FileWrite(_) => capabilities.file_write.unwrap_or(policy.default),
        Action::Network(_) => capabilities.network.unwrap_or(policy.default),
        Action::Command(_) | Action::Tool(_) => policy.default,
        Action::Look(_) => Ruling::Allow,
    }
}

#[cfg(test)]
mod tests;

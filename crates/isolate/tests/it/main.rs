//! The tiers from outside: one contract that all of them keep, and what only
//! some of them can do.
//!
//! A tier that cannot be had here skips its tests and says why.

#![expect(clippy::unwrap_used, reason = "clippy sees tests only in functions marked as such")]
#![expect(clippy::print_stderr, reason = "a skipped test says why")]

mod checkpoint;
mod client;
mod contract;
mod disk;
mod lab;
mod traces;

use crate::lab::Lab;

/// Runs every part of the contract on one tier.
macro_rules! contract {
    ($tier:ident, [$($part:ident),* $(,)?]) => {
        mod $tier {
            $(
                #[tokio::test]
                async fn $part() {
                    if let Some(lab) = super::Lab::$tier() {
                        crate::contract::$part(&lab).await;
                        lab.close().await;
                    }
                }
            )*
        }
    };
}

/// The parts of the contract that all tiers keep.
macro_rules! tiers {
    ($($tier:ident + [$($more:ident),*]),* $(,)?) => {
        $(
            contract!($tier, [
                $($more,)*
                a_program_answers_and_runs_commands,
                many_connections_are_open_at_once,
                much_output_comes_through_whole,
                killing_twice_is_not_an_error,
                a_program_that_ends_is_noticed_and_leaves_nothing,
                connections_end_with_the_sandbox,
                a_network_is_given_and_taken_away_or_refused_by_name,
            ]);
        )*
    };
}

tiers!(
    process + [a_missing_program_is_named_and_leaves_nothing],
    // The keeper tells of its sandbox's first steps only when they are past.
    native + [a_missing_program_ends_at_once_and_leaves_nothing],
    gvisor + [a_missing_program_is_named_and_leaves_nothing],
    runc + [a_missing_program_is_named_and_leaves_nothing],
);

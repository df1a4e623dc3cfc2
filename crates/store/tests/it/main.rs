//! Every backend passes the one contract; what only SQLite promises is in
//! `sqlite`.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod contract;
mod sqlite;

/// A backend runs each case on a store of its own. The second field of what
/// `$open` gives keeps the store's files until the case is done.
macro_rules! contract {
    ($backend:ident, $open:expr, [$($case:ident),+ $(,)?]) => {
        mod $backend {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let (store, _files) = $open.await;
                    crate::contract::$case(store).await;
                }
            )+
        }
    };
}

contract!(
    on_sqlite,
    crate::sqlite::fresh(),
    [
        a_made_key_opens_its_team_and_nothing_else_does,
        a_revoked_key_opens_nothing_and_stays_listed,
        revoking_twice_keeps_the_first_time,
        rotating_swaps_the_key_and_keeps_team_and_name,
        rotating_a_revoked_or_unknown_key_is_refused,
        importing_a_key_twice_changes_nothing,
        an_import_does_not_bring_a_revoked_key_back,
        an_unfit_key_is_not_imported,
        a_live_key_is_one_that_is_not_revoked,
        a_sandbox_is_read_back_as_it_was_written,
        the_same_sandbox_is_not_inserted_twice,
        only_a_living_sandbox_has_its_deadline_moved,
        only_a_living_sandbox_has_its_network_changed,
        the_first_end_of_a_sandbox_wins,
        ended_sandboxes_are_not_among_the_living,
        pruning_takes_only_what_ended_before,
        fifty_parallel_writers_all_get_through,
        two_rotations_at_once_leave_one_live_key,
        a_run_is_read_back_as_it_was_written,
        only_a_starting_run_becomes_a_running_one,
        the_first_end_of_a_run_wins,
        runs_are_paged_newest_first_and_only_to_their_team,
        pruning_names_the_runs_that_ended_before,
    ]
);

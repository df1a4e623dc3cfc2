//! What every tier promises.

use std::{error::Error, path::Path, time::Duration};

use futures_util::future::join_all;
use isolate::{Ended, Network};
use tokio::time::timeout;

use crate::{client, lab::Lab};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) async fn a_program_answers_and_runs_commands(lab: &Lab) {
    let id = lab.name();
    let instance = lab.start(&id).await;
    lab.traces(&id).assert_some();
    let answer = client::run(instance.as_ref(), "test \"$(id -u)\" = 0 && exit 7").await;
    assert!(answer.contains("exit status 7"), "{answer}");
    instance.kill().await.unwrap();
    lab.traces(&id).assert_none();
}

pub(crate) async fn many_connections_are_open_at_once(lab: &Lab) {
    let id = lab.name();
    let instance = lab.start(&id).await;
    // One that waits holds up none of the others.
    let waiting = client::start(instance.as_ref(), "sleep 1000").await;
    let runs = (0..20).map(|_| client::run(instance.as_ref(), "true"));
    for answer in timeout(PATIENCE, join_all(runs)).await.unwrap() {
        assert!(client::succeeded(&answer), "{answer}");
    }
    drop(waiting);
    instance.kill().await.unwrap();
    lab.traces(&id).assert_none();
}

pub(crate) async fn much_output_comes_through_whole(lab: &Lab) {
    let id = lab.name();
    let instance = lab.start(&id).await;
    let script = "head -c 3000000 /dev/zero | tr '\\000' x";
    let answer = timeout(PATIENCE, client::run(instance.as_ref(), script)).await.unwrap();
    assert!(client::succeeded(&answer));
    // In base64, three letters `x` are `eHh4`.
    let letters = answer.matches("eHh4").count() * 3;
    assert!(letters > 2_900_000, "{letters} of 3000000 bytes came");
    instance.kill().await.unwrap();
}

pub(crate) async fn killing_twice_is_not_an_error(lab: &Lab) {
    let id = lab.name();
    let instance = lab.start(&id).await;
    let (first, second) = tokio::join!(instance.kill(), instance.kill());
    first.unwrap();
    second.unwrap();
    instance.kill().await.unwrap();
    timeout(PATIENCE, instance.ended()).await.unwrap();
    lab.traces(&id).assert_none();
}

pub(crate) async fn a_missing_program_is_named_and_leaves_nothing(lab: &Lab) {
    let id = lab.name();
    let program = Path::new("/no/such/program");
    let Err(error) = lab.walls.build(lab.plan(&id, program)).await else {
        panic!("it started");
    };
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        words.push_str(&format!(": {error}"));
        cause = error.source();
    }
    assert!(words.contains("program"), "{words}");
    assert!(words.contains("No such file"), "{words}");
    lab.traces(&id).assert_none();
}

pub(crate) async fn a_missing_program_ends_at_once_and_leaves_nothing(lab: &Lab) {
    let id = lab.name();
    let program = Path::new("/no/such/program");
    // Whether it is known in time is a matter of luck.
    if let Ok(instance) = lab.walls.build(lab.plan(&id, program)).await {
        assert_eq!(timeout(PATIENCE, instance.ended()).await.unwrap(), Ended::Lost);
        instance.kill().await.unwrap();
    }
    lab.traces(&id).assert_none();
}

pub(crate) async fn a_program_that_ends_is_noticed_and_leaves_nothing(lab: &Lab) {
    let id = lab.name();
    let instance = lab.start(&id).await;
    // Every command's parent is the program.
    let command = client::start(instance.as_ref(), "kill -TERM $PPID; sleep 1000").await;
    let ended = timeout(PATIENCE, instance.ended()).await.unwrap();
    assert_eq!(ended, Ended::Exited);
    drop(command);
    instance.kill().await.unwrap();
    lab.traces(&id).assert_none();
}

pub(crate) async fn connections_end_with_the_sandbox(lab: &Lab) {
    let id = lab.name();
    let instance = lab.start(&id).await;
    let mut waiting = client::start(instance.as_ref(), "sleep 1000").await;
    instance.kill().await.unwrap();
    timeout(PATIENCE, client::read_some(&mut waiting)).await.unwrap();
    let dialled = timeout(PATIENCE, instance.dial()).await.unwrap();
    assert!(dialled.is_err(), "a sandbox that is gone takes connections");
}

pub(crate) async fn a_network_is_given_and_taken_away_or_refused_by_name(lab: &Lab) {
    let id = lab.name();
    let instance = lab.start(&id).await;
    if !lab.walls.carries_network() {
        let refused = instance.set_network(&Network::OPEN).await.unwrap_err().to_string();
        assert!(refused.starts_with("tier `"), "{refused}");
        return instance.kill().await.unwrap();
    }
    let orders = lab.orders(&id);
    let (_, name) = orders.split_once("\"interface\":\"").unwrap();
    let (name, _) = name.split_once('"').unwrap();
    let outside = Path::new("/sys/class/net").join(name);
    for _ in 0..3 {
        let inside = client::run(instance.as_ref(), "grep -q eth0 /proc/net/dev").await;
        assert!(!client::succeeded(&inside) && !outside.exists());
        instance.set_network(&Network::OPEN).await.unwrap();
        let deny = vec!["0.0.0.0/0".parse().unwrap()];
        let allow = vec!["192.0.2.1".parse().unwrap()];
        instance.set_network(&Network::Internet { allow, deny }).await.unwrap();
        let inside = client::run(instance.as_ref(), "grep -q eth0 /proc/net/dev").await;
        assert!(client::succeeded(&inside) && outside.exists(), "{inside}");
        instance.set_network(&Network::None).await.unwrap();
    }
    instance.set_network(&Network::OPEN).await.unwrap();
    instance.kill().await.unwrap();
    assert!(!outside.exists(), "{name} is left");
    lab.traces(&id).assert_none();
}

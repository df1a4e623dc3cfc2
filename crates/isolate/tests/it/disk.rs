//! Disks of limited size, which the native tier makes.

use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::timeout;

use crate::{
    client,
    lab::{DISK_MIB, Lab},
};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Disks that may wait for sandboxes to come.
const READY: usize = 3;

/// Fills the disk and succeeds when that ends as it should.
fn fill() -> String {
    format!(
        "cat /dev/zero > /root/full 2> /tmp/words; grep -q 'No space left' /tmp/words || exit 1
         size=$(stat -c %s /root/full); test $size -gt {less} && test $size -lt {more}",
        less = (DISK_MIB - 16) << 20,
        more = DISK_MIB << 20,
    )
}

/// Makes files until there are no more, and succeeds when space is left then.
const MANY_FILES: &str = "
    mkdir /root/many && cd /root/many
    ( i=0; while : > $i; do i=$((i + 1)); done ) 2> /tmp/words
    grep -q 'No space left' /tmp/words || exit 1
    test $(ls | wc -l) -gt 1000 && test $(ls | wc -l) -lt 100000 && test $(df --output=avail -k / | tail -1) -gt 32768";

async fn with_limit() -> Option<Lab> {
    let lab = Lab::native()?;
    if let Err(reason) = lab.walls.limit_disks(DISK_MIB) {
        eprintln!("skipped: {reason}");
        return None;
    }
    Some(lab)
}

#[tokio::test]
async fn a_full_disk_is_full_for_its_own_sandbox_alone() {
    let Some(lab) = with_limit().await else { return };
    let (full, other) = (lab.name(), lab.name());
    let (full, other) = tokio::join!(lab.start(&full), lab.start(&other));
    let answer = timeout(PATIENCE, client::run(full.as_ref(), &fill())).await.unwrap();
    assert!(client::succeeded(&answer), "{answer}");
    // The daemon goes on, and what is removed can be had again.
    let again = "rm /root/full && head -c 32M /dev/zero > /root/again";
    let script = "head -c 32M /dev/zero > /root/mine && test -s /root/mine";
    let answers =
        tokio::join!(client::run(full.as_ref(), again), client::run(other.as_ref(), script));
    assert!(client::succeeded(&answers.0), "{}", answers.0);
    assert!(client::succeeded(&answers.1), "{}", answers.1);
    full.kill().await.unwrap();
    other.kill().await.unwrap();
    lab.close().await;
}

#[tokio::test]
async fn files_run_out_before_the_host_does() {
    let Some(lab) = with_limit().await else { return };
    let (full, other) = (lab.name(), lab.name());
    let (full, other) = tokio::join!(lab.start(&full), lab.start(&other));
    let answer = timeout(PATIENCE, client::run(full.as_ref(), MANY_FILES)).await.unwrap();
    assert!(client::succeeded(&answer), "{answer}");
    let answer = client::run(other.as_ref(), "echo > /root/one && test -e /root/one").await;
    assert!(client::succeeded(&answer), "{answer}");
    full.kill().await.unwrap();
    other.kill().await.unwrap();
    lab.close().await;
}

#[tokio::test]
async fn programs_inside_see_the_size() {
    let Some(lab) = with_limit().await else { return };
    let id = lab.name();
    let instance = lab.start(&id).await;
    let script = format!(
        "size=$(df --output=size -BM / /usr | tail -1 | tr -dc 0-9)
         test $size -gt {} && test $size -le {DISK_MIB}",
        DISK_MIB - 16
    );
    let answer = client::run(instance.as_ref(), &script).await;
    assert!(client::succeeded(&answer), "{answer}");
    instance.kill().await.unwrap();
    lab.traces(&id).assert_none();
    lab.close().await;
}

#[tokio::test]
async fn a_burst_gets_disks_and_leaves_none() {
    let Some(lab) = with_limit().await else { return };
    let names: Vec<_> = (0..30).map(|_| lab.name()).collect();
    let instances =
        timeout(PATIENCE, join_all(names.iter().map(|id| lab.start(id)))).await.unwrap();
    assert!(lab.loop_devices().len() >= names.len(), "{:?}", lab.loop_devices());
    let answers = join_all(
        instances
            .iter()
            .map(|one| client::run(one.as_ref(), "test ! -e /root/x && echo > /root/x")),
    );
    for answer in timeout(PATIENCE, answers).await.unwrap() {
        assert!(client::succeeded(&answer), "{answer}");
    }
    for ended in join_all(instances.iter().map(|one| one.kill())).await {
        ended.unwrap();
    }
    assert!(lab.loop_devices().len() <= READY, "{:?}", lab.loop_devices());
    for id in &names {
        lab.traces(id).assert_none();
    }
    lab.close().await;
}

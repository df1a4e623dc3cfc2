//! What gVisor can do and `runc` refuses: sandboxes that go on from an image.

use std::time::Duration;

use isolate::{Error, Instance, Oci, Runtime, Walls};

use crate::{
    client,
    lab::{self, Lab},
};

/// Counts in memory and shows where it is in a file.
const COUNTER: &str = "exec python3 -c '
import os, time
count = 0
while True:
    count += 1
    with open(\"/root/next\", \"w\") as file: file.write(str(count))
    os.rename(\"/root/next\", \"/root/count\")
    time.sleep(0.02)'";

/// Succeeds when the counter is past a number and goes on.
fn goes_on(past: u32) -> String {
    format!(
        "for i in $(seq 200); do test -s /root/count && break; sleep 0.05; done; \
         a=$(cat /root/count); sleep 1; b=$(cat /root/count); test $a -gt {past} && test $b -gt $a"
    )
}

#[tokio::test]
async fn gvisor_restores_one_image_twice_at_once() {
    let (Some(lab), Some(envd)) = (Lab::gvisor(), lab::envd()) else { return };
    let place = tempfile::tempdir().unwrap();
    let image = place.path().join("image");
    let oci = Oci::open(place.path().join("sandboxes"), Runtime::Runsc).unwrap();

    let id = lab.name();
    let first = oci.start(lab.plan(&id, &envd)).await.unwrap();
    client::init(first.as_ref()).await;
    let counter = client::start(first.as_ref(), COUNTER).await;
    let answer = client::run(first.as_ref(), &goes_on(0)).await;
    assert!(client::succeeded(&answer), "{answer}");
    oci.checkpoint(&first, &image).await.unwrap();
    drop(counter);

    let (left, right) = (lab.name(), lab.name());
    let (left, right) = tokio::join!(
        oci.restore(lab.plan(&left, &envd), &image),
        oci.restore(lab.plan(&right, &envd), &image)
    );
    let (left, right) = (left.unwrap(), right.unwrap());
    // More than it had counted before: a new counter would start at one.
    let script = goes_on(20);
    let answers =
        tokio::join!(client::run(left.as_ref(), &script), client::run(right.as_ref(), &script));
    assert!(client::succeeded(&answers.0), "{}", answers.0);
    assert!(client::succeeded(&answers.1), "{}", answers.1);
    // Each has files of its own.
    let answer = client::run(left.as_ref(), "echo mine > /root/mine").await;
    assert!(client::succeeded(&answer), "{answer}");
    let answer = client::run(right.as_ref(), "test ! -e /root/mine").await;
    assert!(client::succeeded(&answer), "{answer}");

    left.kill().await.unwrap();
    right.kill().await.unwrap();
    first.kill().await.unwrap();
    tokio::time::timeout(Duration::from_secs(10), oci.close()).await.unwrap();
}

#[tokio::test]
async fn an_image_that_is_not_there_leaves_nothing() {
    let (Some(lab), Some(envd)) = (Lab::gvisor(), lab::envd()) else { return };
    let place = tempfile::tempdir().unwrap();
    let oci = Oci::open(place.path().join("sandboxes"), Runtime::Runsc).unwrap();
    let id = lab.name();
    let Err(error) = oci.restore(lab.plan(&id, &envd), &place.path().join("none")).await else {
        panic!("it was restored");
    };
    assert!(matches!(error, Error::Runtime { .. }), "{error}");
    assert!(error.to_string().starts_with("runsc did not restore the sandbox: "), "{error}");
    lab.traces(&id).assert_none();
}

#[tokio::test]
async fn runc_refuses_checkpoints_by_name() {
    let (Some(lab), Some(envd)) = (Lab::runc(), lab::envd()) else { return };
    let place = tempfile::tempdir().unwrap();
    let oci = Oci::open(place.path().join("sandboxes"), Runtime::Runc).unwrap();
    let id = lab.name();
    let Err(error) = oci.restore(lab.plan(&id, &envd), place.path()).await else {
        panic!("it was restored");
    };
    assert_eq!(error.to_string(), "tier `runc` cannot restore a sandbox");
    lab.traces(&id).assert_none();
}

#[tokio::test]
async fn leftovers_of_a_server_that_died_are_removed() {
    for runtime in [Runtime::Runsc, Runtime::Runc] {
        let lab = match runtime {
            Runtime::Runsc => Lab::gvisor(),
            Runtime::Runc => Lab::runc(),
        };
        let (Some(lab), Some(envd)) = (lab, lab::envd()) else { continue };
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("sandboxes");
        let id = lab.name();
        let dead = Oci::open(root.clone(), runtime).unwrap();
        let instance = dead.start(lab.plan(&id, &envd)).await.unwrap();
        // It still runs, and its server knows nothing of the next one.
        let next = Oci::open(root.clone(), runtime).unwrap();
        let found = next.find().await.unwrap();
        assert_eq!(found.len(), 1);
        assert!(found[0].id == id && found[0].state.is_err());
        assert!(!root.join(id.as_str()).exists());
        instance.ended().await;
        lab.traces(&id).assert_none();
    }
}

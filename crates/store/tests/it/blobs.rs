//! What every blob store promises, on disk and in a bucket.

mod disk;
mod s3;

use std::future::Future;
use std::io;
use std::pin::pin;
use std::task::{Context, Waker};

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use sha2::{Digest, Sha256};
use store::{Blobs, GetError, PutError, Written};
use tokio::task::JoinSet;

const MIB: usize = 1024 * 1024;
/// More than any blob here.
const LIMIT: u64 = 1 << 30;

/// A blob store with nothing in it, and a way to look behind its back.
trait Place: Send + Sync {
    fn blobs(&self) -> Blobs;
    /// Everything that takes up space, finished or not.
    fn everything(&self) -> Vec<String>;
}

macro_rules! contract {
    ([$($case:ident),+ $(,)?]) => {
        mod on_disk {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    super::$case(super::disk::fresh()).await;
                }
            )+
        }

        mod on_s3 {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    let Some(bucket) = super::s3::fresh() else { return };
                    super::$case(bucket).await;
                }
            )+
        }
    };
}

contract!([
    a_blob_of_any_size_is_read_back,
    a_blob_that_is_not_there_is_not_found_and_deleting_it_is_no_error,
    a_blob_that_is_too_large_leaves_nothing,
    a_blob_that_breaks_off_leaves_nothing,
    a_blob_that_nobody_waits_for_leaves_nothing,
    keys_with_odd_names_do_not_meet,
    a_key_that_is_none_is_refused,
    many_blobs_are_stored_at_once,
    a_check_passes_and_leaves_nothing,
]);

async fn a_blob_of_any_size_is_read_back(place: impl Place) {
    let blobs = place.blobs();
    for size in [0, 1, 8 * MIB - 1, 8 * MIB, 8 * MIB + 1, 20 * MIB] {
        let content = content(size);
        let expected = Written { size: size as u64, sha256: wire::hex(&Sha256::digest(&content)) };
        let key = format!("bag/{size}");
        // A limit that is met exactly is not passed.
        let written = blobs.put(&key, chunks(&content), size as u64).await.unwrap();
        assert_eq!(written, expected);
        assert!(read(&blobs, &key).await == content, "{size}");
    }
}

async fn a_blob_that_is_not_there_is_not_found_and_deleting_it_is_no_error(place: impl Place) {
    let blobs = place.blobs();
    assert!(matches!(blobs.get("bag/a").await, Err(GetError::NotFound)));
    blobs.delete("bag/a").await.unwrap();
    blobs.put("bag/a", chunks(b"one"), LIMIT).await.unwrap();
    assert!(matches!(blobs.get("bag").await, Err(GetError::NotFound)));
    assert!(matches!(blobs.get("bag/a/b").await, Err(GetError::NotFound)));
    blobs.delete("bag/a").await.unwrap();
    assert!(matches!(blobs.get("bag/a").await, Err(GetError::NotFound)));
    assert!(place.everything().is_empty());
}

async fn a_blob_that_is_too_large_leaves_nothing(place: impl Place) {
    let blobs = place.blobs();
    for limit in [0, 10, 18 * MIB as u64] {
        let content = content(limit as usize + 1);
        let refused = blobs.put("bag/a", chunks(&content), limit).await.unwrap_err();
        assert!(matches!(refused, PutError::TooLarge { limit: said } if said == limit));
        assert!(place.everything().is_empty(), "{:?}", place.everything());
        assert!(matches!(blobs.get("bag/a").await, Err(GetError::NotFound)));
    }
}

async fn a_blob_that_breaks_off_leaves_nothing(place: impl Place) {
    let blobs = place.blobs();
    for size in [0, 10, 18 * MIB] {
        let content = content(size);
        let broken = stream::iter([Err(io::Error::other("the caller hung up"))]);
        let refused = blobs.put("bag/a", chunks(&content).chain(broken), LIMIT).await.unwrap_err();
        let PutError::Source(cause) = refused else { panic!("{refused:?}") };
        assert_eq!(cause.to_string(), "the caller hung up");
        assert!(place.everything().is_empty(), "{:?}", place.everything());
    }
}

async fn a_blob_that_nobody_waits_for_leaves_nothing(place: impl Place) {
    let blobs = place.blobs();
    let content = content(18 * MIB);
    let (all_read, mut is_all_read) = tokio::sync::oneshot::channel();
    let silence = stream::once(async move {
        let _ = all_read.send(());
        std::future::pending().await
    });
    {
        let mut put = pin!(blobs.put("bag/a", chunks(&content).chain(silence), LIMIT));
        tokio::select! {
            ended = &mut put => panic!("{ended:?}"),
            read = &mut is_all_read => read.unwrap(),
        }
        assert!(put.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(!place.everything().is_empty());
    }
    blobs.close().await;
    assert!(place.everything().is_empty(), "{:?}", place.everything());
}

async fn keys_with_odd_names_do_not_meet(place: impl Place) {
    let blobs = place.blobs();
    let long = "%C3%A4".repeat(125);
    let keys = [
        "a b",
        "a%20b",
        "a+b",
        "a%2520b",
        "a#1",
        "a#2",
        "a%231",
        "%2E%2E",
        "ünï\u{1F41D}",
        "a?b&c=d",
        "A",
        "-rf",
        &long,
        &format!("{long}x"),
        &format!("{}#1", "x".repeat(255)),
    ]
    .map(|name| format!("assistant-chat-bag/red/{name}"));
    for key in &keys {
        blobs.put(key, chunks(key.as_bytes()), LIMIT).await.unwrap();
    }
    for key in &keys {
        assert_eq!(String::from_utf8(read(&blobs, key).await).unwrap(), *key);
    }
    assert_eq!(place.everything().len(), keys.len());
    for key in &keys {
        blobs.delete(key).await.unwrap();
    }
    assert!(place.everything().is_empty());
}

async fn a_key_that_is_none_is_refused(place: impl Place) {
    let blobs = place.blobs();
    for key in ["", "/", "..", "../a", "a/../b", "a//b", "./a", "a/."] {
        let refused = blobs.put(key, chunks(b"one"), LIMIT).await;
        assert!(matches!(refused, Err(PutError::Store(_))), "{key}: {refused:?}");
        assert!(matches!(blobs.get(key).await, Err(GetError::Store(_))), "{key}");
        assert!(blobs.delete(key).await.is_err(), "{key}");
    }
    assert!(place.everything().is_empty());
}

async fn many_blobs_are_stored_at_once(place: impl Place) {
    let blobs = place.blobs();
    let mut writers = JoinSet::new();
    for number in 0..50u8 {
        let blobs = blobs.clone();
        writers.spawn(async move {
            let key = format!("bag/{number}");
            blobs.put(&key, chunks(&[number; 1000]), LIMIT).await.unwrap();
            assert_eq!(read(&blobs, &key).await, [number; 1000]);
        });
    }
    writers.join_all().await;
    assert_eq!(place.everything().len(), 50);
}

async fn a_check_passes_and_leaves_nothing(place: impl Place) {
    place.blobs().check().await.unwrap();
    assert!(place.everything().is_empty());
}

/// Bytes that do not repeat where parts do.
fn content(size: usize) -> Vec<u8> {
    (0..size).map(|place| (place % 251) as u8 ^ (place / 65536) as u8).collect()
}

/// The bytes in pieces that fit into nothing.
fn chunks(content: &[u8]) -> impl Stream<Item = Result<Bytes, io::Error>> + use<> {
    let content = Bytes::copy_from_slice(content);
    let starts = (0..content.len()).step_by(100_003);
    let pieces =
        starts.map(move |start| Ok(content.slice(start..content.len().min(start + 100_003))));
    stream::iter(pieces)
}

async fn read(blobs: &Blobs, key: &str) -> Vec<u8> {
    let blob = blobs.get(key).await.unwrap();
    let bytes: Vec<Bytes> = blob.bytes.try_collect().await.unwrap();
    let bytes = bytes.concat();
    assert_eq!(bytes.len() as u64, blob.size);
    bytes
}

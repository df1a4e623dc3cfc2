//! Both sides in one process, over pipes that are as small as pipes are.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    task::JoinHandle,
    time::timeout,
};

use super::{Accepted, Opener, Parting, accept_side, accepting, open_side, opening};

const PIPE: usize = 64 << 10;

struct Lab {
    opener: Opener,
    accepted: Accepted,
    near: JoinHandle<(Parting, DuplexStream, DuplexStream)>,
    far: JoinHandle<Parting>,
}

impl Lab {
    /// The accepting side goes on with another session when one is finished.
    fn new() -> Lab {
        let (mut near_out, mut far_in) = duplex(PIPE);
        let (mut far_out, mut near_in) = duplex(PIPE);
        let (opener, orders) = opening();
        let (sender, accepted) = accepting();
        let near = tokio::spawn(async move {
            let parting = open_side(&mut near_in, &mut near_out, orders).await;
            (parting, near_in, near_out)
        });
        let far = tokio::spawn(async move {
            loop {
                match accept_side(&mut far_in, &mut far_out, &sender).await {
                    Parting::Finished => {}
                    other @ (Parting::Gone | Parting::Failed(_)) => return other,
                }
            }
        });
        Lab { opener, accepted, near, far }
    }
}

#[tokio::test]
async fn bytes_and_their_end_go_both_ways() {
    let mut lab = Lab::new();
    lab.opener.ready().await.unwrap();
    let mut near = lab.opener.open().await.unwrap();
    let mut far = lab.accepted.recv().await.unwrap();
    near.write_all(b"question").await.unwrap();
    near.shutdown().await.unwrap();
    let mut heard = String::new();
    far.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "question");
    // Half of it is closed, the other half is not.
    far.write_all(b"answer").await.unwrap();
    drop(far);
    heard.clear();
    near.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "answer");
}

#[tokio::test]
async fn a_stream_that_nobody_reads_holds_up_no_other() {
    let mut lab = Lab::new();
    let stuck = lab.opener.open().await.unwrap();
    let mut flood = lab.accepted.recv().await.unwrap();
    let flooding = tokio::spawn(async move { flood.write_all(&vec![7; 16 << 20]).await });
    for _ in 0..50 {
        let mut near = lab.opener.open().await.unwrap();
        let mut far = lab.accepted.recv().await.unwrap();
        far.write_all(&vec![1; 100_000]).await.unwrap();
        drop(far);
        let mut all = Vec::new();
        timeout(Duration::from_secs(5), near.read_to_end(&mut all)).await.unwrap().unwrap();
        assert_eq!(all.len(), 100_000);
    }
    // Whoever gives up reading ends the writer.
    drop(stuck);
    assert!(timeout(Duration::from_secs(5), flooding).await.unwrap().unwrap().is_err());
}

#[tokio::test]
async fn much_more_than_a_window_arrives_whole() {
    let mut lab = Lab::new();
    let near = lab.opener.open().await.unwrap();
    let far = lab.accepted.recv().await.unwrap();
    let sent: Vec<u8> = (0..5_000_000_u32).map(|number| number as u8).collect();
    let (mut near_reads, mut near_writes) = near.into_split();
    let (mut far_reads, mut far_writes) = far.into_split();
    let echo = tokio::spawn(async move { tokio::io::copy(&mut far_reads, &mut far_writes).await });
    let expected = sent.clone();
    let sending = tokio::spawn(async move {
        near_writes.write_all(&sent).await.unwrap();
        near_writes.shutdown().await.unwrap();
    });
    let mut got = Vec::new();
    near_reads.read_to_end(&mut got).await.unwrap();
    assert!(got == expected, "{} bytes came back", got.len());
    sending.await.unwrap();
    assert_eq!(echo.await.unwrap().unwrap(), 5_000_000);
}

#[tokio::test]
async fn after_a_finished_session_the_next_one_uses_the_same_pipes() {
    let mut lab = Lab::new();
    let mut old = lab.opener.open().await.unwrap();
    let mut far = lab.accepted.recv().await.unwrap();
    // Something is on its way when the end is asked for.
    let flooding = tokio::spawn(async move { far.write_all(&vec![7; 4 << 20]).await });
    lab.opener.finish().await;
    let (parting, mut input, mut output) = lab.near.await.unwrap();
    assert!(matches!(parting, Parting::Finished), "{parting:?}");
    assert!(lab.opener.open().await.is_err());
    assert!(flooding.await.unwrap().is_err());
    let _ = old.read_to_end(&mut Vec::new()).await;

    let (opener, orders) = opening();
    let near = tokio::spawn(async move { open_side(&mut input, &mut output, orders).await });
    opener.ready().await.unwrap();
    let mut near_stream = opener.open().await.unwrap();
    lab.accepted.recv().await.unwrap().write_all(b"again").await.unwrap();
    let mut heard = String::new();
    near_stream.read_to_string(&mut heard).await.unwrap();
    assert_eq!(heard, "again");
    near.abort();
    assert!(matches!(lab.far.await.unwrap(), Parting::Gone));
}

#[tokio::test]
async fn a_session_that_is_dropped_ends_its_connections() {
    let mut lab = Lab::new();
    let mut near = lab.opener.open().await.unwrap();
    let mut far = lab.accepted.recv().await.unwrap();
    lab.near.abort();
    for stream in [&mut near, &mut far] {
        let read = timeout(Duration::from_secs(5), stream.read_to_end(&mut Vec::new())).await;
        assert_eq!(read.unwrap().unwrap(), 0);
    }
}

#[tokio::test]
async fn a_peer_that_sends_more_than_it_may_is_cut_off() {
    let (mut near_out, _far_in) = duplex(PIPE);
    let (mut far_out, mut near_in) = duplex(PIPE);
    let (opener, orders) = opening();
    let near = tokio::spawn(async move { open_side(&mut near_in, &mut near_out, orders).await });
    let _unread = opener.open().await.unwrap();
    let mut frame = vec![0, 0, 0, 1, 3, 0, 0, 0x80, 0];
    frame.resize(9 + 0x8000, 0);
    // The window, what the socket takes, and then some.
    for _ in 0..64 {
        if far_out.write_all(&frame).await.is_err() {
            break;
        }
    }
    let parting = timeout(Duration::from_secs(5), near).await.unwrap().unwrap();
    assert!(matches!(parting, Parting::Failed(_)), "{parting:?}");
}

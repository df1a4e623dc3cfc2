//! Reading what a client uploads: a form with parts named `file`, or one raw
//! body. Nothing is held but a piece of it.
//!
//! An upload is a task of its own. A client that goes away breaks its body
//! off, which ends the task with everything taken back; nothing is cancelled in
//! the middle of a write.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::Body,
    http::{HeaderMap, StatusCode, header},
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};
use multer::Multipart;
use store::FileRow;
use wire::Code;

use super::{
    intake::{Intake, Target, too_large},
    naming,
};
use crate::{problem::Problem, state::Workspace};

/// The name of every part that holds a file.
const PART: &str = "file";
/// Most bytes between two files: the head of a part, or what is before the
/// first one.
const HEAD_BYTES: u64 = 1 << 20;
/// Longest time of one upload. Well below the hour after which a reservation
/// counts as left behind.
const PATIENCE: Duration = Duration::from_secs(40 * 60);
/// How much of a refused body is read, and for how long: a client that is still
/// sending when we hang up would not see the answer.
const DRAINED_BYTES: u64 = 256 << 20;
const DRAINED_TIME: Duration = Duration::from_secs(10);

/// What a body is.
enum Content {
    Form { boundary: String },
    Raw { name: String },
}

/// Stores the files of a form.
pub(crate) async fn form(
    workspace: &Workspace,
    target: Target,
    headers: &HeaderMap,
    body: Body,
) -> Result<Vec<FileRow>, Problem> {
    let content_type = headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
    let boundary = multer::parse_boundary(content_type).map_err(|_| {
        let message = "content type must be multipart/form-data with a boundary";
        Problem::new(Code::InvalidArgument, message).with_status(StatusCode::UNSUPPORTED_MEDIA_TYPE)
    })?;
    receive(workspace, target, Content::Form { boundary }, headers, body).await
}

/// Stores one file whose content is the body.
pub(crate) async fn raw(
    workspace: &Workspace,
    target: Target,
    name: &str,
    headers: &HeaderMap,
    body: Body,
) -> Result<FileRow, Problem> {
    let content = Content::Raw { name: naming::clean(name) };
    let stored = receive(workspace, target, content, headers, body).await?;
    stored.into_iter().next().ok_or_else(|| Problem::new(Code::Internal, "nothing was stored"))
}

async fn receive(
    workspace: &Workspace,
    target: Target,
    content: Content,
    headers: &HeaderMap,
    body: Body,
) -> Result<Vec<FileRow>, Problem> {
    let mut body = Box::pin(until_closing(workspace, body));
    if let Err(problem) = check_declared(&target, &content, headers) {
        // A client that waits for our consent sends nothing, and needs not to.
        if !headers.contains_key(header::EXPECT) {
            drain(&mut body).await;
        }
        return Err(problem);
    }
    let tasks = workspace.tasks.clone();
    let workspace = workspace.clone();
    let upload = tasks.spawn(async move {
        let mut intake = Intake::open(&workspace, target).await?;
        let reading = async {
            match content {
                Content::Form { boundary } => read_form(&mut intake, &mut body, boundary).await,
                Content::Raw { name } => intake.add(&name, &mut body).await,
            }
        };
        let read =
            tokio::time::timeout(PATIENCE, reading).await.unwrap_or_else(|_| Err(too_slow()));
        let stored = intake.close(read).await;
        if stored.is_err() {
            drain(&mut body).await;
        }
        stored
    });
    upload
        .await
        .unwrap_or_else(|err| Err(Problem::new(Code::Internal, "the upload failed").caused_by(err)))
}

/// Refuses by its head what is too large in any case.
fn check_declared(target: &Target, content: &Content, headers: &HeaderMap) -> Result<(), Problem> {
    let declared = headers.get(header::CONTENT_LENGTH).and_then(|value| value.to_str().ok());
    let Some(declared) = declared.and_then(|length| length.parse::<u64>().ok()) else {
        return Ok(());
    };
    let limits = target.limits;
    let (limit, around) = match content {
        Content::Raw { .. } => (limits.file_bytes, 0),
        // Heads and boundaries are not counted, but they are not endless.
        Content::Form { .. } => (limits.total_bytes, 16 * HEAD_BYTES),
    };
    if declared > limit.saturating_add(around) {
        return Err(too_large(format!("the body is larger than {limit} bytes")));
    }
    Ok(())
}

async fn read_form(
    intake: &mut Intake,
    body: impl Stream<Item = io::Result<Bytes>> + Send + Unpin,
    boundary: String,
) -> Result<(), Problem> {
    let credit = Credit::default();
    let mut form = Multipart::new(Sips { body, credit: credit.clone(), rests: false }, boundary);
    let mut files = 0;
    loop {
        credit.set(HEAD_BYTES);
        let Some(field) = form.next_field().await.map_err(unreadable)? else { break };
        let name = field.file_name().filter(|_| field.name() == Some(PART));
        let Some(name) = name.map(naming::clean_from_form) else {
            let message = format!("every part is named `{PART}` and has a file name");
            let found = field.name().unwrap_or_default().to_owned();
            return Err(Problem::bad_field(found, message));
        };
        credit.set(u64::MAX);
        intake.add(&name, field).await?;
        files += 1;
    }
    if files == 0 {
        return Err(Problem::bad_field(PART, format!("the form has no part named `{PART}`")));
    }
    Ok(())
}

/// The body until the server stops. It must not end quietly then: what has come
/// so far would pass for the whole.
fn until_closing(
    workspace: &Workspace,
    body: Body,
) -> impl Stream<Item = io::Result<Bytes>> + Send + use<> {
    let start = (body.into_data_stream(), workspace.closing.clone());
    let bytes = stream::unfold(start, |(mut bytes, closing)| async move {
        let next = tokio::select! {
            next = bytes.next() => next?.map_err(io::Error::other),
            () = closing.cancelled() => Err(io::Error::other("the server is stopping")),
        };
        Some((next, (bytes, closing)))
    });
    bytes.fuse()
}

/// Reads on for a while after a refusal.
async fn drain(body: &mut (impl Stream<Item = io::Result<Bytes>> + Unpin)) {
    let reading = async {
        let mut left = DRAINED_BYTES;
        while let Some(Ok(chunk)) = body.next().await {
            left = left.saturating_sub(u64::try_from(chunk.len()).unwrap_or(u64::MAX));
            if left == 0 {
                break;
            }
        }
    };
    // Who needs longer has to do without the answer.
    let _ = tokio::time::timeout(DRAINED_TIME, reading).await;
}

fn unreadable(err: multer::Error) -> Problem {
    let message = format!("the form broke off or cannot be read: {err}");
    Problem::new(Code::InvalidArgument, message).with_code("upload_broken").caused_by(err)
}

fn too_slow() -> Problem {
    let message = format!("the upload took longer than {} minutes", PATIENCE.as_secs() / 60);
    Problem::new(Code::DeadlineExceeded, message).with_status(StatusCode::REQUEST_TIMEOUT)
}

/// How many bytes may still come before something has to happen.
#[derive(Clone, Debug, Default)]
struct Credit(Arc<AtomicU64>);

impl Credit {
    fn set(&self, bytes: u64) {
        self.0.store(bytes, Ordering::Relaxed);
    }

    fn spend(&self, bytes: u64) -> bool {
        let spend = |credit: u64| credit.checked_sub(bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_ok()
    }
}

/// A body for `multer`, which by itself reads as long as there is something to
/// read, and looks for the end of a head for ever: one chunk each time it asks,
/// and no more than it has credit for.
struct Sips<S> {
    body: S,
    credit: Credit,
    rests: bool,
}

impl<S: Stream<Item = io::Result<Bytes>> + Unpin> Stream for Sips<S> {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if std::mem::take(&mut self.rests) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let next = std::task::ready!(self.body.poll_next_unpin(context));
        let Some(Ok(chunk)) = &next else { return Poll::Ready(next) };
        self.rests = true;
        if self.credit.spend(u64::try_from(chunk.len()).unwrap_or(u64::MAX)) {
            Poll::Ready(next)
        } else {
            Poll::Ready(Some(Err(io::Error::other("the head of a part is too long"))))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use bytes::Bytes;
    use futures_util::{FutureExt, StreamExt, stream};
    use multer::Multipart;

    use super::{Credit, HEAD_BYTES, Sips};

    fn chunks(of: &'static [u8], count: usize) -> Vec<io::Result<Bytes>> {
        (0..count).map(|_| Ok(Bytes::from_static(of))).collect()
    }

    #[tokio::test]
    async fn a_chunk_is_read_each_time_it_is_asked_for() {
        let credit = Credit::default();
        credit.set(u64::MAX);
        let mut sips = Sips { body: stream::iter(chunks(b"ab", 3)), credit, rests: false };
        // The second poll of one round finds nothing, however much there is.
        assert!(sips.next().now_or_never().is_some());
        assert!(sips.next().now_or_never().is_none());
        assert_eq!(sips.count().await, 2);
    }

    #[tokio::test]
    async fn a_head_without_an_end_is_not_read_for_ever() {
        const CHUNK: &[u8] = &[b'x'; 64 << 10];
        let begin = Ok(Bytes::from_static(b"--b\r\nContent-Disposition: "));
        let body = stream::iter([begin]).chain(stream::iter(chunks(CHUNK, 10_000)));
        let credit = Credit::default();
        credit.set(HEAD_BYTES);
        let sips = Sips { body, credit: credit.clone(), rests: false };
        let mut form = Multipart::new(sips, "b");
        assert!(form.next_field().await.is_err());
    }
}

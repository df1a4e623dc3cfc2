//! Sending a file's content. Users and agents make these files, so a browser is
//! told to save them, to believe the type we found, and to run nothing.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt, TryStreamExt, future};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use store::{FileRow, GetError};
use wire::Code;

use crate::{problem::Problem, state::Workspace};

const NOSNIFF: HeaderName = HeaderName::from_static("x-content-type-options");
/// What `filename*` may hold as it is: `attr-char` of RFC 5987.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'!')
    .remove(b'#')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b'-')
    .remove(b'.')
    .remove(b'^')
    .remove(b'_')
    .remove(b'`')
    .remove(b'|')
    .remove(b'~');

/// The content of a file, or the part of it that is asked for.
pub(crate) async fn answer(
    workspace: &Workspace,
    file: &FileRow,
    asked: &HeaderMap,
) -> Result<Response, Problem> {
    let tag = format!("\"{}\"", file.sha256);
    if asked.get(header::IF_NONE_MATCH).is_some_and(|tags| matches(tags, &tag)) {
        let mut response = StatusCode::NOT_MODIFIED.into_response();
        put(&mut response, header::ETAG, &tag);
        return Ok(response);
    }
    let part = match asked.get(header::RANGE) {
        // A part of another version than the one the client has is of no use.
        Some(range) if asked.get(header::IF_RANGE).is_none_or(|had| had == tag.as_str()) => {
            range.to_str().map_or(Part::Whole, |range| Part::read(range, file.size))
        }
        Some(_) | None => Part::Whole,
    };
    let (status, first, length) = match part {
        Part::Whole => (StatusCode::OK, 0, file.size),
        Part::Bytes { first, length } => (StatusCode::PARTIAL_CONTENT, first, length),
        Part::Beyond => {
            let message = format!("the file has {} bytes, and the range is past them", file.size);
            let problem = Problem::new(Code::OutOfRange, message)
                .with_status(StatusCode::RANGE_NOT_SATISFIABLE);
            let mut response = problem.into_response();
            put(&mut response, header::CONTENT_RANGE, &format!("bytes */{}", file.size));
            return Ok(response);
        }
    };
    let blob = workspace.blobs.get(&file.storage_key).await.map_err(|err| unreadable(file, err))?;
    let body = Body::from_stream(cut(blob.bytes, first, length));
    let mut response = (status, body).into_response();
    put(&mut response, header::ETAG, &tag);
    put(&mut response, header::ACCEPT_RANGES, "bytes");
    put(&mut response, header::CONTENT_TYPE, &file.mime_type);
    put(&mut response, header::CONTENT_LENGTH, &length.to_string());
    put(&mut response, header::CONTENT_DISPOSITION, &disposition(&file.name));
    put(&mut response, header::CONTENT_SECURITY_POLICY, "sandbox");
    put(&mut response, header::CACHE_CONTROL, "private, no-cache");
    put(&mut response, NOSNIFF, "nosniff");
    if status == StatusCode::PARTIAL_CONTENT {
        let last = first + length - 1;
        let range = format!("bytes {first}-{last}/{}", file.size);
        put(&mut response, header::CONTENT_RANGE, &range);
    }
    Ok(response)
}

/// `attachment` with a name for old clients and the real one for the others.
pub(crate) fn disposition(name: &str) -> String {
    let plain = |symbol: char| matches!(symbol, ' '..='~') && !matches!(symbol, '"' | '\\' | '%');
    let ascii: String =
        name.chars().map(|symbol| if plain(symbol) { symbol } else { '_' }).collect();
    let exact = utf8_percent_encode(name, ENCODED);
    format!("attachment; filename=\"{ascii}\"; filename*=UTF-8''{exact}")
}

/// What a blob that cannot be read means.
pub(crate) fn unreadable(file: &FileRow, err: GetError) -> Problem {
    let message = format!("the content of `{}` cannot be read", file.id);
    match err {
        GetError::NotFound => Problem::new(Code::DataLoss, message).caused_by(err),
        GetError::Store(_) => Problem::new(Code::Unavailable, message).caused_by(err),
    }
}

/// What a `Range` header asks for. More than one range is answered with the
/// whole, which HTTP allows.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    Whole,
    Bytes { first: u64, length: u64 },
    Beyond,
}

impl Part {
    fn read(range: &str, size: u64) -> Part {
        let Some((first, last)) = range.trim().strip_prefix("bytes=").and_then(|range| {
            let (first, last) = range.split_once('-')?;
            Some((first.trim(), last.trim()))
        }) else {
            return Part::Whole;
        };
        let (first, end) = match (first.parse::<u64>(), last.parse::<u64>()) {
            (Ok(first), Ok(last)) if first <= last => (first, last.saturating_add(1).min(size)),
            (Ok(first), Err(_)) if last.is_empty() => (first, size),
            (Err(_), Ok(count)) if first.is_empty() && count > 0 => {
                (size.saturating_sub(count), size)
            }
            (Err(_), Ok(0)) if first.is_empty() => return Part::Beyond,
            (Ok(_) | Err(_), Ok(_) | Err(_)) => return Part::Whole,
        };
        if first >= end { Part::Beyond } else { Part::Bytes { first, length: end - first } }
    }
}

/// The bytes from `first` on, `length` of them.
fn cut<E>(
    bytes: impl futures_util::Stream<Item = Result<bytes::Bytes, E>>,
    first: u64,
    length: u64,
) -> impl futures_util::Stream<Item = Result<bytes::Bytes, E>> {
    bytes
        .scan((first, length), |(skip, left), chunk| {
            if *left == 0 {
                return future::ready(None);
            }
            future::ready(Some(chunk.map(|mut chunk| {
                let size = |chunk: &bytes::Bytes| u64::try_from(chunk.len()).unwrap_or(u64::MAX);
                let skipped = size(&chunk).min(*skip);
                *skip -= skipped;
                drop(chunk.split_to(usize::try_from(skipped).unwrap_or(usize::MAX)));
                let kept = size(&chunk).min(*left);
                *left -= kept;
                chunk.truncate(usize::try_from(kept).unwrap_or(usize::MAX));
                chunk
            })))
        })
        .try_filter(|chunk| future::ready(!chunk.is_empty()))
}

fn matches(tags: &HeaderValue, tag: &str) -> bool {
    let Ok(tags) = tags.to_str() else { return false };
    tags.split(',').map(str::trim).any(|one| one == "*" || one.trim_start_matches("W/") == tag)
}

/// Sets a header; a value that is none is left out.
fn put(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use bytes::Bytes;
    use futures_util::{TryStreamExt, stream};

    use super::{Part, cut, disposition, matches};

    #[test]
    fn one_range_is_read_and_everything_else_is_the_whole() {
        let check = |range: &str, expected: Part| {
            assert_eq!(Part::read(range, 10), expected, "{range}");
        };
        let bytes = |first, length| Part::Bytes { first, length };
        check("bytes=0-0", bytes(0, 1));
        check("bytes=2-5", bytes(2, 4));
        check("bytes=2-", bytes(2, 8));
        check("bytes=-3", bytes(7, 3));
        check("bytes=-30", bytes(0, 10));
        check("bytes=9-18446744073709551615", bytes(9, 1));
        check("bytes=10-", Part::Beyond);
        check("bytes=10-11", Part::Beyond);
        check("bytes=-0", Part::Beyond);
        for other in ["bytes=5-2", "bytes=0-1,3-4", "lines=1-2", "bytes=", "bytes=-", "bytes=a-b"] {
            check(other, Part::Whole);
        }
        assert_eq!(Part::read("bytes=0-", 0), Part::Beyond);
    }

    #[tokio::test]
    async fn a_part_is_cut_out_across_chunks() {
        for (first, length, expected) in
            [(0, 6, "abcdef"), (1, 1, "b"), (1, 3, "bcd"), (2, 2, "cd"), (5, 1, "f"), (0, 0, "")]
        {
            let chunks =
                ["ab", "", "c", "def"].map(|text| Ok::<_, ()>(Bytes::from_static(text.as_bytes())));
            let cut: Vec<Bytes> =
                cut(stream::iter(chunks), first, length).try_collect().await.unwrap();
            assert_eq!(cut.concat(), expected.as_bytes(), "{first} {length}");
        }
    }

    #[test]
    fn a_name_is_given_in_two_ways() {
        assert_eq!(
            disposition("a b.txt"),
            "attachment; filename=\"a b.txt\"; filename*=UTF-8''a%20b.txt"
        );
        assert_eq!(
            disposition("\"ü\".md"),
            "attachment; filename=\"___.md\"; filename*=UTF-8''%22%C3%BC%22.md"
        );
    }

    #[test]
    fn a_tag_is_found_in_a_list() {
        let check = |tags: &'static str, expected: bool| {
            assert_eq!(matches(&HeaderValue::from_static(tags), "\"ab\""), expected, "{tags}");
        };
        check("\"ab\"", true);
        check("\"x\", W/\"ab\"", true);
        check("*", true);
        check("ab", false);
        check("\"abc\"", false);
    }
}

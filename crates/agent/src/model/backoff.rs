//! How long to wait before a provider is asked again.

use std::{
    hash::{BuildHasher, Hasher, RandomState},
    time::Duration,
};

/// Times a provider is asked for one answer.
pub(super) const TRIES: u32 = 4;
/// The first wait; each further one is twice as long.
const FIRST: Duration = Duration::from_millis(400);
/// The longest wait, also when the provider asks for a longer one.
const LONGEST: Duration = Duration::from_secs(30);

/// The wait after the given try, counted from 1. What the provider asks for is
/// honoured up to the longest wait.
pub(super) fn wait(tried: u32, asked: Option<Duration>) -> Duration {
    if let Some(asked) = asked {
        return asked.min(LONGEST);
    }
    let whole = FIRST.saturating_mul(1 << tried.saturating_sub(1).min(8)).min(LONGEST);
    // Between half and all of it, so that runs that failed together do not
    // come back together.
    whole.mul_f64(0.5 + chance() / 2.0)
}

/// A number from 0 to 1. The keys of the standard library's hash maps are
/// random, and good enough to keep runs apart.
fn chance() -> f64 {
    let random = RandomState::new().build_hasher().finish();
    (random >> 11) as f64 / (1u64 << 53) as f64
}

/// What `retry-after` asks for, in seconds. A date is not understood, and then
/// our own wait holds.
pub(super) fn asked(headers: &http::HeaderMap) -> Option<Duration> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.trim().parse::<f64>().ok();
    let seconds = number("retry-after-ms").map(|ms| ms / 1000.0).or(number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderMap, HeaderValue};

    use super::{LONGEST, asked, wait};

    #[test]
    fn waits_grow_and_stay_bounded() {
        for tried in 1..40 {
            let wait = wait(tried, None);
            assert!(wait <= LONGEST, "{tried}: {wait:?}");
            assert!(wait >= Duration::from_millis(200), "{tried}: {wait:?}");
        }
        assert!(wait(3, None) >= Duration::from_millis(800));
        assert_eq!(wait(1, Some(Duration::from_secs(2))), Duration::from_secs(2));
        assert_eq!(wait(1, Some(Duration::from_secs(3600))), LONGEST);
    }

    #[test]
    fn the_wait_a_provider_asks_for_is_read() {
        let check = |name: &'static str, value: &'static str, expected: Option<f64>| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            assert_eq!(asked(&headers), expected.map(Duration::from_secs_f64), "{name}: {value}");
        };
        check("retry-after", "7", Some(7.0));
        check("retry-after", " 0.5 ", Some(0.5));
        check("retry-after-ms", "250", Some(0.25));
        check("retry-after", "-1", None);
        check("retry-after", "NaN", None);
        check("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT", None);
        assert_eq!(asked(&HeaderMap::new()), None);
    }
}

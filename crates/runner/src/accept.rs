//! Which format a client asks for with its `Accept` header.

use http::{HeaderMap, header::ACCEPT};

/// The media types of the header, what the client likes best first and what it
/// does not take left out, in lower case and without parameters.
pub(crate) fn types(headers: &HeaderMap) -> Vec<String> {
    let header = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut ranges: Vec<(String, f32)> = header
        .flat_map(|value| value.split(','))
        .map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let name = parts.next().unwrap_or_default().to_ascii_lowercase();
            let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse().ok());
            (name, weight.unwrap_or(1.0))
        })
        .filter(|(name, weight)| !name.is_empty() && *weight > 0.0)
        .collect();
    // Stable: of two that are liked alike, the one that was named first.
    ranges.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    ranges.into_iter().map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, header::ACCEPT};

    use super::types;

    #[test]
    fn what_is_liked_best_comes_first() {
        let check = |accept: &'static str, expected: &[&str]| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(types(&headers), expected, "{accept}");
        };
        check("", &[]);
        check("Text/Event-Stream", &["text/event-stream"]);
        check("a/b, c/d", &["a/b", "c/d"]);
        check("a/b;q=0.1, c/d; charset=x; q=0.9, e/f;q=0", &["c/d", "a/b"]);
        check("a/b;q=nonsense", &["a/b"]);
    }
}

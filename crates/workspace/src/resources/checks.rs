//! What holds for the fields of every kind. An error names the field.

use reqwest::Url;

use crate::problem::Problem;

/// Longest name.
const NAME: usize = 100;
/// Longest address.
const ADDRESS: usize = 2_000;
/// Longest name of a variable or a header.
const VARIABLE: usize = 200;

/// A name for people.
pub(crate) fn check_name(field: &str, name: &str) -> Result<(), Problem> {
    let count = name.chars().count();
    if count == 0 || count > NAME || name.chars().any(char::is_control) || name.trim() != name {
        let message = format!(
            "is 1 to {NAME} characters without control characters and without blanks at its ends"
        );
        return Err(Problem::bad_field(field, message));
    }
    Ok(())
}

/// A text of at most `limit` bytes.
pub(crate) fn check_text(field: &str, text: &str, limit: usize) -> Result<(), Problem> {
    if text.len() > limit {
        let message = format!("is larger than {limit} bytes");
        return Err(Problem::bad_field(field, message));
    }
    // Postgres keeps none in a text, and no process can have one in a variable.
    if text.contains('\0') {
        return Err(Problem::bad_field(field, "has a NUL character"));
    }
    Ok(())
}

/// A list of at most `limit` entries.
pub(crate) fn check_count(field: &str, count: usize, limit: usize) -> Result<(), Problem> {
    if count > limit {
        let message = format!("has {count} entries; the limit is {limit}");
        return Err(Problem::bad_field(field, message));
    }
    Ok(())
}

/// An address that can be asked over HTTP.
pub(super) fn check_address(field: &str, address: &str) -> Result<(), Problem> {
    check_text(field, address, ADDRESS)?;
    let url = Url::parse(address)
        .map_err(|err| Problem::bad_field(field, format!("is not an address: {err}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Problem::bad_field(field, "is not an http or https address"));
    }
    // It would be shown with the rest of the address.
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Problem::bad_field(field, "has a name or password in it"));
    }
    Ok(())
}

/// The name of an environment variable.
pub(super) fn check_variable(field: &str, name: &str) -> Result<(), Problem> {
    let mut letters = name.bytes();
    let first = letters.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    if first && letters.all(|b| b.is_ascii_alphanumeric() || b == b'_') && name.len() <= VARIABLE {
        return Ok(());
    }
    let message =
        format!("is not letters, digits and `_`, at most {VARIABLE}, the first of them no digit");
    Err(Problem::bad_field(field, message))
}

/// The name of a header.
pub(super) fn check_header(field: &str, name: &str) -> Result<(), Problem> {
    match http::HeaderName::try_from(name) {
        Ok(_) if name.len() <= VARIABLE => Ok(()),
        Ok(_) | Err(_) => Err(Problem::bad_field(field, "is not the name of a header")),
    }
}

#[cfg(test)]
mod tests {
    use super::{check_address, check_header, check_name, check_text, check_variable};
    use crate::problem::Problem;

    #[track_caller]
    fn check(checks: fn(&str, &str) -> Result<(), Problem>, good: &[&str], bad: &[&str]) {
        for good in good {
            assert!(checks("field", good).is_ok(), "{good:?}");
        }
        for bad in bad {
            assert!(checks("field", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn fields_are_right_or_refused() {
        let long = "ä".repeat(100);
        let longer = "ä".repeat(101);
        check(check_name, &["a", "Müller & Söhne", &long], &["", " a", "a\n", "a\u{7f}b", &longer]);
        check(check_variable, &["A", "_", "a1_B"], &["", "1A", "A-B", "A=B", "Ä", "A\0"]);
        check(check_header, &["X-Api-Key", "authorization"], &["", "a b", "a:", "ä"]);
        check(
            check_address,
            &["http://a", "https://a.b:8443/c?d=e", "http://127.0.0.1:1/v1"],
            &["", "a", "ftp://a", "file:///etc/passwd", "http://", "http://u:p@a", "javascript:1"],
        );
        check(|field, text| check_text(field, text, 2), &["", "ab"], &["abc", "a\0"]);
    }
}

//! What a file holds, by its first bytes and else by its name. What a client
//! says about it is not asked: browsers believe what we answer.

/// How much of a file's beginning is looked at.
pub(crate) const HEAD: usize = 8 << 10;
/// The type of what nothing is known about.
const UNKNOWN: &str = "application/octet-stream";

/// The MIME type of a file with that name and that beginning.
pub(crate) fn sniff(name: &str, head: &[u8]) -> String {
    let by_content = infer::get(head).map(|kind| kind.mime_type());
    let by_name = || mime_guess::from_path(name).first_raw();
    by_content.or_else(by_name).unwrap_or(UNKNOWN).to_owned()
}

#[cfg(test)]
mod tests {
    use super::sniff;

    #[test]
    fn content_counts_before_the_name() {
        let check = |name: &str, head: &[u8], expected: &str| {
            assert_eq!(sniff(name, head), expected, "{name}");
        };
        check("a.txt", b"hello", "text/plain");
        check("a.txt", b"\x89PNG\r\n\x1a\n", "image/png");
        check("report.pdf", b"%PDF-1.7\n", "application/pdf");
        check("photo.png", b"<!DOCTYPE html><script>", "text/html");
        check("data.json", b"{}", "application/json");
        check("DATA.CSV", b"a,b\n", "text/csv");
        check("nothing", b"", "application/octet-stream");
        check("what.is-this", b"\x00\x01", "application/octet-stream");
    }
}

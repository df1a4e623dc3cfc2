//! What a run found, as text or as one JSON object per line.

use serde_json::json;

/// One line of the report.
pub(crate) enum Line {
    Found(Finding),
    Skipped { what: &'static str, reason: &'static str },
}

/// What was measured.
pub(crate) struct Finding {
    pub(crate) what: &'static str,
    pub(crate) ours: String,
    pub(crate) peer: String,
    pub(crate) ratio: String,
    pub(crate) goal: &'static str,
    pub(crate) met: bool,
}

/// How the report is written.
#[derive(Clone, Copy)]
pub(crate) enum Format {
    Text,
    Json,
}

impl Line {
    /// Whether nothing in it misses its goal.
    pub(crate) fn is_good(&self) -> bool {
        match self {
            Line::Found(finding) => finding.met,
            Line::Skipped { .. } => true,
        }
    }

    #[expect(clippy::print_stdout, reason = "the report is what this program is for")]
    pub(crate) fn print(&self, format: Format) {
        match format {
            Format::Text => println!("{}\n", self.text()),
            Format::Json => println!("{}", self.json()),
        }
    }

    fn text(&self) -> String {
        match self {
            Line::Found(Finding { what, ours, peer, ratio, goal, met }) => {
                let verdict = if *met { "met" } else { "NOT MET" };
                format!("{what}\n  ours {ours}\n  peer {peer}\n  {ratio}; goal {goal}: {verdict}")
            }
            Line::Skipped { what, reason } => format!("{what}\n  skipped: {reason}"),
        }
    }

    fn json(&self) -> serde_json::Value {
        match self {
            Line::Found(Finding { what, ours, peer, ratio, goal, met }) => json!({
                "what": what, "ours": ours, "peer": peer, "ratio": ratio, "goal": goal, "met": met,
            }),
            Line::Skipped { what, reason } => json!({"what": what, "skipped": reason}),
        }
    }
}

//! Counting tokens by what a provider's answer says of them.
//!
//! Anthropic, Chat Completions and Responses each say it in their own place;
//! all are read with one set of types. An answer that does not say it (a stream
//! broken off, a request that did not ask for it) is estimated by its size, so
//! that leaving the counts out is no way around a budget.

use memchr::memmem;
use serde::Deserialize;
use wire::sse;

/// Tokens of one model call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens read by the model, cached ones left out.
    pub input_tokens: u64,
    /// Tokens the model wrote.
    pub output_tokens: u64,
    /// Tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Tokens written to the provider's cache.
    pub cache_write_tokens: u64,
    /// How we know.
    pub basis: Basis,
}

/// How a count of tokens is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Basis {
    /// The provider said so.
    #[default]
    Reported,
    /// It did not say; by the size of what was sent and received.
    Estimated,
}

impl Usage {
    /// All of them, each counted once.
    pub fn total(&self) -> u64 {
        let cached = self.cache_read_tokens.saturating_add(self.cache_write_tokens);
        self.input_tokens.saturating_add(self.output_tokens).saturating_add(cached)
    }
}

/// The largest event or document that is looked into.
const LARGEST: usize = 4 << 20;

/// Reads the answer of a model as it passes.
#[derive(Debug)]
pub(super) struct Reader {
    form: Form,
    counts: Counts,
    received: u64,
    events: u64,
}

/// How the answer is written.
#[derive(Debug)]
enum Form {
    Events(sse::Decoder),
    Document(Vec<u8>),
    /// Something that cannot be read, or can no longer.
    Opaque,
}

impl Reader {
    pub(super) fn new(content_type: &str) -> Reader {
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        let form = match kind.to_ascii_lowercase().as_str() {
            "text/event-stream" => Form::Events(sse::Decoder::new(LARGEST)),
            "application/json" => Form::Document(Vec::new()),
            _ => Form::Opaque,
        };
        Reader { form, counts: Counts::default(), received: 0, events: 0 }
    }

    pub(super) fn push(&mut self, piece: &[u8]) {
        self.received = self.received.saturating_add(piece.len() as u64);
        match &mut self.form {
            Form::Events(decoder) => {
                decoder.push(piece);
                self.read_events();
            }
            Form::Document(document) if document.len() + piece.len() <= LARGEST => {
                document.extend_from_slice(piece);
            }
            Form::Document(_) => self.form = Form::Opaque,
            Form::Opaque => {}
        }
    }

    /// The usage, once no more will come. `sent` is the size of the request.
    pub(super) fn finish(&mut self, sent: u64) -> Usage {
        match &mut self.form {
            // Some servers leave out the last line break.
            Form::Events(decoder) => {
                decoder.push(b"\n\n");
                self.read_events();
            }
            Form::Document(document) => {
                let document = std::mem::take(document);
                self.counts.read(&document);
            }
            Form::Opaque => {}
        }
        self.counts.usage().unwrap_or_else(|| self.estimate(sent))
    }

    fn read_events(&mut self) {
        loop {
            let Form::Events(decoder) = &mut self.form else { return };
            match decoder.pop() {
                Ok(Some(event)) => {
                    self.events += 1;
                    self.counts.read(event.data.as_bytes());
                }
                Ok(None) => return,
                Err(sse::TooLong { .. }) => self.form = Form::Opaque,
            }
        }
    }

    /// About four bytes of text make a token. An event of a stream carries one
    /// token or more in a frame of some 300 bytes.
    fn estimate(&self, sent: u64) -> Usage {
        let framed = self.events.saturating_mul(300);
        Usage {
            input_tokens: sent / 4,
            output_tokens: self.events + self.received.saturating_sub(framed) / 4,
            basis: Basis::Estimated,
            ..Usage::default()
        }
    }
}

/// The latest counts that were said. Later ones are totals, not additions.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    input: Option<u64>,
    output: Option<u64>,
    cache_read: Option<u64>,
    cache_write: Option<u64>,
}

impl Counts {
    fn read(&mut self, document: &[u8]) {
        // Most events are text and need no look inside.
        if memmem::find(document, b"\"usage\"").is_none() {
            return;
        }
        let Ok(said) = serde_json::from_slice::<Said>(document) else { return };
        let inner = [said.message, said.response].map(|inner| inner.and_then(|inner| inner.usage));
        let [message, response] = inner;
        for said in [said.usage, message, response].into_iter().flatten() {
            self.take(&said);
        }
    }

    fn take(&mut self, said: &SaidUsage) {
        let details = said.prompt_tokens_details.as_ref().or(said.input_tokens_details.as_ref());
        let within = details.and_then(|details| details.cached_tokens);
        let input = said.prompt_tokens.or(said.input_tokens);
        // OpenAI counts cached tokens as input, Anthropic beside it.
        let input = input.map(|input| input.saturating_sub(within.unwrap_or(0)));
        self.input = input.or(self.input);
        self.output = said.completion_tokens.or(said.output_tokens).or(self.output);
        self.cache_read = within.or(said.cache_read_input_tokens).or(self.cache_read);
        self.cache_write = said.cache_creation_input_tokens.or(self.cache_write);
    }

    fn usage(&self) -> Option<Usage> {
        self.input.or(self.output)?;
        Some(Usage {
            input_tokens: self.input.unwrap_or(0),
            output_tokens: self.output.unwrap_or(0),
            cache_read_tokens: self.cache_read.unwrap_or(0),
            cache_write_tokens: self.cache_write.unwrap_or(0),
            basis: Basis::Reported,
        })
    }
}

/// Where usage is said: at the top (Chat Completions, `message_delta`, whole
/// answers), in `message` (`message_start`) or in `response` (Responses).
#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    usage: Option<SaidUsage>,
    #[serde(default)]
    message: Option<Inner>,
    #[serde(default)]
    response: Option<Inner>,
}

#[derive(Deserialize)]
struct Inner {
    #[serde(default)]
    usage: Option<SaidUsage>,
}

#[derive(Deserialize)]
struct SaidUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<Details>,
    input_tokens_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    cached_tokens: Option<u64>,
}

#[cfg(test)]
mod tests;

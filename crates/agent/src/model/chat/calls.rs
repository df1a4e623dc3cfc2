//! Tool calls put together from fragments.
//!
//! OpenAI sends the id and the name first and the arguments in pieces, told
//! apart by `index`. Others send whole calls, all with index 0, or without
//! index, or without id, or with arguments that are no text.

use serde_json::Value;

use crate::model::{Arguments, ToolCall, allowance::Allowance, error::BadAnswer};

/// The calls of an answer that is still coming.
#[derive(Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
}

struct Call {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: String,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Adds one fragment to the call it belongs to.
    pub(super) fn fragment(
        &mut self,
        fragment: &Value,
        allowance: &mut Allowance,
    ) -> Result<(), BadAnswer> {
        let index = fragment.get("index").and_then(Value::as_u64);
        let id = fragment.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
        let function = fragment.get("function").unwrap_or(&Value::Null);
        let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
        let written = match function.get("arguments") {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(whole) => whole.to_string(),
        };
        for piece in [id.unwrap_or_default(), name, &written] {
            allowance.take(piece)?;
        }
        let place = match self.place(index, id, name) {
            Some(place) => place,
            None => {
                Allowance::one_more_call(self.calls.len())?;
                let id = id.map(str::to_owned);
                self.calls.push(Call { index, id, name: String::new(), arguments: String::new() });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[place];
        // A name comes once; a server that repeats it does not mean it twice.
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        call.arguments.push_str(&written);
        Ok(())
    }

    /// The call that a fragment goes on with, if it does not begin one.
    fn place(&self, index: Option<u64>, id: Option<&str>, name: &str) -> Option<usize> {
        let same_id = |call: &Call| id.is_none() || call.id.is_none() || call.id.as_deref() == id;
        match (index, id) {
            (Some(_), _) => {
                self.calls.iter().rposition(|call| call.index == index && same_id(call))
            }
            (None, Some(_)) => self.calls.iter().rposition(|call| call.id.as_deref() == id),
            // Neither: a name begins a call, arguments alone go on with the last.
            (None, None) if name.is_empty() => self.calls.len().checked_sub(1),
            (None, None) => None,
        }
    }

    /// The calls in the order in which they began.
    pub(super) fn finish(self) -> Result<Vec<ToolCall>, BadAnswer> {
        let calls = self.calls.into_iter().enumerate().map(|(place, call)| {
            if call.name.is_empty() {
                return Err(BadAnswer::Field { event: "tool call".to_owned(), field: "name" });
            }
            let id = call.id.unwrap_or_else(|| format!("call_{place}"));
            Ok(ToolCall { id, name: call.name, arguments: Arguments::parse(&call.arguments) })
        });
        calls.collect()
    }
}

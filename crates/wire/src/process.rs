//! `process.Process`: the generated messages, and what protobuf-JSON alone does not cover.

use buffa::EnumValue;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;

use crate::{Codec, DecodeError};

pub use generated::*;

#[expect(
    missing_docs,
    clippy::all,
    clippy::restriction,
    reason = "generated code; proto/process.proto is its documentation"
)]
mod generated {
    include!(concat!(env!("OUT_DIR"), "/process.mod.rs"));
}

impl ProcessSelector {
    /// Selects by pid.
    pub fn pid(pid: u32) -> ProcessSelector {
        ProcessSelector { selector: Some(process_selector::Selector::Pid(pid)) }
    }
}

impl process_event::EndEvent {
    /// Writes the whole response message. Unlike protobuf-JSON, which leaves
    /// defaults out, every field is there: seed 004 shows them all.
    pub fn encode_response(&self, codec: Codec) -> Bytes {
        match codec {
            Codec::Proto => codec.encode(&response(self.clone())),
            Codec::Json => json!({"event": {"end": {
                "exitCode": self.exit_code,
                "exited": self.exited,
                "status": self.status,
                "error": self.error.as_deref().unwrap_or_default(),
            }}})
            .to_string()
            .into(),
        }
    }
}

/// Wraps an event as the answer of `Start`. `ConnectResponse` has the same
/// shape, so its answers are written with this too.
pub fn response(event: impl Into<process_event::Event>) -> StartResponse {
    StartResponse { event: ProcessEvent { event: Some(event.into()) }.into() }
}

/// Reads a `SendSignal` request: the protobuf form, or seed 004's flat
/// `{"pid":7,"signal":"SIGKILL"}`. A signal is a name with or without the
/// `SIGNAL_` prefix, or a number.
pub fn parse_send_signal(codec: Codec, payload: &[u8]) -> Result<SendSignalRequest, DecodeError> {
    #[derive(Deserialize)]
    struct Flat {
        pid: u32,
        signal: SignalName,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum SignalName {
        Number(i32),
        Name(String),
    }
    if codec == Codec::Json
        && let Ok(flat) = serde_json::from_slice::<Flat>(payload)
    {
        let signal = match flat.signal {
            SignalName::Number(number) => json!(number),
            SignalName::Name(name) if name.starts_with("SIGNAL_") => json!(name),
            SignalName::Name(name) => json!(format!("SIGNAL_{name}")),
        };
        let nested = json!({"process": {"pid": flat.pid}, "signal": signal});
        return codec.decode(nested.to_string().as_bytes());
    }
    codec.decode(payload)
}

impl SendSignalRequest {
    /// SIGTERM or SIGKILL; the raw number when it is neither.
    pub fn known_signal(&self) -> Result<Signal, i32> {
        match self.signal {
            EnumValue::Known(Signal::SIGNAL_UNSPECIFIED) => Err(0),
            EnumValue::Known(signal) => Ok(signal),
            EnumValue::Unknown(number) => Err(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{self as pb, parse_send_signal, response};
    use crate::Codec;

    #[track_caller]
    fn check_signal(body: &str, expected: Option<(u32, pb::Signal)>) {
        let seen = parse_send_signal(Codec::Json, body.as_bytes()).ok().and_then(|request| {
            let Some(pb::process_selector::Selector::Pid(pid)) = request.process.selector else {
                return None;
            };
            Some((pid, request.known_signal().ok()?))
        });
        assert_eq!(seen, expected, "{body}");
    }

    #[test]
    fn a_signal_is_read_nested_or_flat_by_name_or_number() {
        let kill = Some((42, pb::Signal::SIGNAL_SIGKILL));
        let term = Some((42, pb::Signal::SIGNAL_SIGTERM));
        check_signal(r#"{"process":{"pid":42},"signal":"SIGNAL_SIGKILL"}"#, kill);
        check_signal(r#"{"process":{"pid":42},"signal":9}"#, kill);
        check_signal(r#"{"pid":42,"signal":"SIGNAL_SIGTERM"}"#, term);
        check_signal(r#"{"pid":42,"signal":"SIGTERM"}"#, term);
        check_signal(r#"{"pid":42,"signal":15}"#, term);
        check_signal(r#"{"pid":42,"signal":"SIGNAL_SIGHUP"}"#, None);
        check_signal(r#"{"pid":42,"signal":2}"#, None);
        check_signal(r#"{"pid":42}"#, None);
        check_signal(r#"{"pid":42"#, None);
    }

    #[test]
    fn events_have_golden_bytes() {
        let start = pb::process_event::StartEvent { pid: 12345 };
        assert_eq!(
            &Codec::Json.encode(&response(start.clone()))[..],
            br#"{"event":{"start":{"pid":12345}}}"#
        );
        assert_eq!(&Codec::Proto.encode(&response(start))[..], b"\x0a\x05\x0a\x03\x08\xb9\x60");
        let keepalive = response(pb::process_event::KeepAlive {});
        assert_eq!(&Codec::Json.encode(&keepalive)[..], br#"{"event":{"keepalive":{}}}"#);
        let end = pb::process_event::EndEvent {
            exit_code: 0,
            exited: true,
            status: "exit status 0".into(),
            error: None,
        };
        let json: serde_json::Value =
            serde_json::from_slice(&end.encode_response(Codec::Json)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"event":{"end":{
                "exitCode":0,"exited":true,"status":"exit status 0","error":""}}})
        );
    }

    #[test]
    fn a_start_request_reads_as_the_sdks_write_it() {
        let body = br#"{"process":{"cmd":"/bin/bash","args":["-l","-c","echo hi"],
            "envs":{"A":"1"},"cwd":"/tmp"},"stdin":false,"unknown":1}"#;
        let request: pb::StartRequest = Codec::Json.decode(body).unwrap();
        assert_eq!(request.process.args, ["-l", "-c", "echo hi"]);
        assert_eq!(request.process.cwd.as_deref(), Some("/tmp"));
        assert_eq!(request.stdin, Some(false));
        let again: pb::StartRequest = Codec::Proto.decode(&Codec::Proto.encode(&request)).unwrap();
        assert_eq!(again, request);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(input in prop::collection::vec(any::<u8>(), 0..300)) {
            for codec in [Codec::Json, Codec::Proto] {
                let _ = codec.decode::<pb::StartRequest>(&input);
                let _ = codec.decode::<pb::StreamInputRequest>(&input);
                let _ = codec.decode::<pb::StartResponse>(&input);
                let _ = parse_send_signal(codec, &input);
            }
        }
    }
}

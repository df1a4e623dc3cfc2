//! The two codecs of Connect: protobuf-JSON and binary protobuf.

use buffa::Message;
use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use crate::{Code, ConnectError};

/// How messages of one call are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// Protobuf-JSON: bytes as base64, enums by name, names in lowerCamel.
    Json,
    /// Binary protobuf.
    Proto,
}

/// A payload that is not the message it should be.
#[derive(Debug, thiserror::Error)]
#[error("{message}: {detail}")]
pub struct DecodeError {
    message: &'static str,
    detail: String,
}

impl From<DecodeError> for ConnectError {
    fn from(err: DecodeError) -> ConnectError {
        ConnectError::new(Code::InvalidArgument, err.to_string())
    }
}

impl Codec {
    /// The codec of a unary call, by its content type.
    pub fn of_unary(content_type: &str) -> Option<Codec> {
        match essence(content_type) {
            "application/json" => Some(Codec::Json),
            "application/proto" => Some(Codec::Proto),
            _ => None,
        }
    }

    /// The codec of a streaming call, by its content type. `application/json`
    /// is accepted for clients that send one bare message.
    pub fn of_stream(content_type: &str) -> Option<Codec> {
        match essence(content_type) {
            "application/connect+json" | "application/json" => Some(Codec::Json),
            "application/connect+proto" => Some(Codec::Proto),
            _ => None,
        }
    }

    /// The content type of a unary answer.
    pub fn unary_type(self) -> &'static str {
        match self {
            Codec::Json => "application/json",
            Codec::Proto => "application/proto",
        }
    }

    /// The content type of a stream. Both SDKs fail the call on any other.
    pub fn stream_type(self) -> &'static str {
        match self {
            Codec::Json => "application/connect+json",
            Codec::Proto => "application/connect+proto",
        }
    }

    /// Reads one message. The caller has bounded its size.
    pub fn decode<M: Message + DeserializeOwned>(self, payload: &[u8]) -> Result<M, DecodeError> {
        match self {
            // Protobuf-JSON has no empty document, but clients send one for `{}`.
            Codec::Json if payload.is_empty() => Ok(M::default()),
            Codec::Json => serde_json::from_slice(payload).map_err(|err| DecodeError {
                message: "request is not valid protobuf-JSON",
                detail: err.to_string(),
            }),
            Codec::Proto => M::decode_from_slice(payload).map_err(|err| DecodeError {
                message: "request is not valid protobuf",
                detail: err.to_string(),
            }),
        }
    }

    /// Writes one message.
    pub fn encode<M: Message + Serialize>(self, message: &M) -> Bytes {
        match self {
            // Generated messages have string keys only, so this cannot fail.
            Codec::Json => serde_json::to_vec(message).unwrap_or_default().into(),
            Codec::Proto => message.encode_to_bytes(),
        }
    }
}

/// Standard base64, as protobuf-JSON and HTTP's basic scheme want it.
pub fn base64(bytes: &[u8]) -> String {
    base64_simd::STANDARD.encode_to_string(bytes)
}

/// Lowercase hex, as digests are written.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

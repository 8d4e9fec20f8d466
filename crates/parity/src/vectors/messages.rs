//! Protobuf messages as the vectors write them: JSON with proto field names, or bytes in base64.

use aileron_idl::{message_from_json, message_to_json};
use anyhow::Context as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::{Message, Name};
use serde_json::Value;

/// A message from JSON. Null gives an empty message.
pub fn message<M: Message + Name + Default>(value: &Value) -> anyhow::Result<M> {
    if value.is_null() { Ok(M::default()) } else { Ok(message_from_json(value)?) }
}

/// A message from JSON. Null gives `None`.
pub fn optional_message<M: Message + Name + Default>(value: &Value) -> anyhow::Result<Option<M>> {
    if value.is_null() { Ok(None) } else { Ok(Some(message_from_json(value)?)) }
}

/// A message as JSON, defaults left out.
pub fn message_json<M: Message + Name>(message: &M) -> anyhow::Result<Value> {
    Ok(message_to_json(message)?)
}

/// Bytes from base64. Null gives no bytes.
pub fn bytes(value: &Value) -> anyhow::Result<Vec<u8>> {
    STANDARD.decode(value.as_str().unwrap_or_default()).context("bytes must be base64")
}

/// Bytes as base64.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

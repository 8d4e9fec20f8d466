//! Hashes of messages that do not depend on how the message was encoded.

use aileron_idl::{FieldNames, JsonError, message_to_json_named};
use prost::{Message, Name};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// A SHA-256 sum.
pub(super) type Hash = [u8; 32];

/// The object hash of the canonical JSON of a message. Mirrors `pbhash.ComputeHash`.
pub(super) fn message_hash<M: Message + Name>(message: &M) -> Result<Hash, JsonError> {
    message_to_json_named(message, FieldNames::Camel).map(|json| object_hash(&json))
}

/// Ben Laurie's object hash of common JSON: a letter for the type, then the content; every number is a float, and
/// members are ordered by the hash of their name.
fn object_hash(value: &Value) -> Hash {
    match value {
        Value::Null => tagged(b'n', b""),
        Value::Bool(true) => tagged(b'b', b"1"),
        Value::Bool(false) => tagged(b'b', b"0"),
        Value::String(text) => tagged(b'u', text.as_bytes()),
        // Numbers in JSON are finite.
        Value::Number(number) => tagged(b'f', normal_form(number.as_f64().unwrap_or_default()).as_bytes()),
        Value::Array(items) => tagged(b'l', items.iter().map(object_hash).collect::<Vec<_>>().as_flattened()),
        Value::Object(members) => {
            let mut pairs: Vec<[Hash; 2]> =
                members.iter().map(|(name, value)| [tagged(b'u', name.as_bytes()), object_hash(value)]).collect();
            pairs.sort_unstable();
            tagged(b'd', pairs.as_flattened().as_flattened())
        }
    }
}

fn tagged(tag: u8, content: &[u8]) -> Hash {
    Sha256::new().chain_update([tag]).chain_update(content).finalize().into()
}

/// Sign, binary exponent, and the bits of a mantissa in (1/2, 1]: a text that names a float exactly.
fn normal_form(value: f64) -> String {
    if value == 0.0 {
        return "+0:".to_owned();
    }
    let mut rest = value.abs();
    let mut exponent = 0_i32;
    // Scaling by two is exact, also for the smallest numbers.
    while rest > 1.0 {
        rest /= 2.0;
        exponent += 1;
    }
    while rest <= 0.5 {
        rest *= 2.0;
        exponent -= 1;
    }
    let mut text = format!("{}{exponent}:", if value < 0.0 { '-' } else { '+' });
    // A double has 53 bits, so this ends after at most 54 digits.
    while rest != 0.0 {
        if rest >= 1.0 {
            text.push('1');
            rest -= 1.0;
        } else {
            text.push('0');
        }
        rest *= 2.0;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_forms_name_floats_exactly() {
        assert_eq!(normal_form(1.0), "+0:1");
        assert_eq!(normal_form(-2.5), "-2:0101");
        assert_eq!(normal_form(-0.0), "+0:");
        assert_eq!(normal_form(0.5), "+-1:1");
        assert!(normal_form(5e-324).starts_with("+-1074:"));
        assert!(normal_form(f64::MAX).len() < 70);
    }

    #[test]
    fn types_and_order_matter_as_they_should() {
        use serde_json::json;
        assert_eq!(object_hash(&json!({"a": 1, "b": 2})), object_hash(&json!({"b": 2.0, "a": 1})));
        assert_ne!(object_hash(&json!([1, 2])), object_hash(&json!([2, 1])));
        assert_ne!(object_hash(&json!("1")), object_hash(&json!(1)));
        assert_ne!(object_hash(&json!([])), object_hash(&json!({})));
    }
}

//! Byte fields of a `TaskAction` as base64 text, decoded as leniently as Go decodes them.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use k8s_openapi::ByteString;
use serde::{Deserialize, Deserializer, de};

/// Accepts unused bits that are not zero (`QR==`), as Go and the API server do. Padding is required, as in Go.
const LENIENT: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// Reads the base64 text of a byte field. A missing or `null` field is empty.
pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteString, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?.unwrap_or_default();
    decode(text).map(ByteString).map_err(de::Error::custom)
}

/// Go ignores line breaks wherever they are.
fn decode(mut text: String) -> Result<Vec<u8>, base64::DecodeError> {
    if text.contains(['\r', '\n']) {
        text.retain(|letter| !matches!(letter, '\r' | '\n'));
    }
    LENIENT.decode(text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use crate::{TaskActionSpec, TaskActionStatus};

    #[test]
    fn what_go_accepts_is_read() {
        for (text, bytes) in
            [("QQ==", "A"), ("QR==", "A"), ("QUI=", "AB"), ("QUJ=", "AB"), ("Q\r\nUI\n=\n", "AB"), ("", "")]
        {
            let spec: TaskActionSpec =
                serde_json::from_value(json!({"taskTemplate": text, "conditionSpec": text})).unwrap();
            assert_eq!((spec.task_template.0, spec.condition_spec.0), (bytes.into(), bytes.into()), "{text:?}");
            let status: TaskActionStatus =
                serde_json::from_value(json!({"pluginState": text, "signalValue": text})).unwrap();
            assert_eq!((status.plugin_state.0, status.signal_value.0), (bytes.into(), bytes.into()), "{text:?}");
        }
        let empty: TaskActionSpec = serde_json::from_value(json!({"taskTemplate": null})).unwrap();
        assert_eq!(empty, TaskActionSpec::default());
    }

    #[test]
    fn what_go_refuses_is_an_error() {
        for text in ["QQ", "QQ=", "Q!==", "QQ ==", "-_==", "QQ==QQ==", "="] {
            assert!(serde_json::from_value::<TaskActionSpec>(json!({"taskTemplate": text})).is_err(), "{text:?}");
        }
    }

    #[test]
    fn bytes_are_written_in_canonical_form() {
        let spec: TaskActionSpec = serde_json::from_value(json!({"taskTemplate": "QR=="})).unwrap();
        assert_eq!(serde_json::to_value(spec).unwrap()["taskTemplate"], "QQ==");
    }
}

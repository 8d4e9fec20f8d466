//! Serde forms of messages, for values that hold messages and are sent as JSON:
//! `#[serde(with = "aileron_idl::form::message")]` on a field writes the message as protobuf JSON.

use prost::{Message, Name};
use prost_types::Struct;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use serde_json::Value;

use crate::{json_to_struct, message_from_json, message_to_json, struct_to_json};

fn written<M: Message + Name, E: ser::Error>(message: &M) -> Result<Value, E> {
    message_to_json(message).map_err(E::custom)
}

fn read<M: Message + Name + Default, E: de::Error>(value: &Value) -> Result<M, E> {
    message_from_json(value).map_err(E::custom)
}

/// One message.
pub mod message {
    use super::{Deserialize, Deserializer, Message, Name, Serialize, Serializer, Value, read, written};

    /// Writes the message as protobuf JSON.
    ///
    /// # Errors
    /// The message holds a value that JSON cannot write.
    pub fn serialize<M: Message + Name, S: Serializer>(message: &M, serializer: S) -> Result<S::Ok, S::Error> {
        written::<_, S::Error>(message)?.serialize(serializer)
    }

    /// Reads the message from protobuf JSON.
    ///
    /// # Errors
    /// Names the field whose value does not fit.
    pub fn deserialize<'de, M: Message + Name + Default, D: Deserializer<'de>>(source: D) -> Result<M, D::Error> {
        read(&Value::deserialize(source)?)
    }
}

/// A message that may be absent. Combine with `#[serde(default)]`.
pub mod optional {
    use super::{Deserialize, Deserializer, Message, Name, Serialize, Serializer, Value, read, written};

    /// Writes the message as protobuf JSON, an absent one as null.
    ///
    /// # Errors
    /// The message holds a value that JSON cannot write.
    pub fn serialize<M: Message + Name, S: Serializer>(message: &Option<M>, serializer: S) -> Result<S::Ok, S::Error> {
        message.as_ref().map(written::<_, S::Error>).transpose()?.serialize(serializer)
    }

    /// Reads the message from protobuf JSON; null is absent.
    ///
    /// # Errors
    /// Names the field whose value does not fit.
    pub fn deserialize<'de, M: Message + Name + Default, D: Deserializer<'de>>(
        source: D,
    ) -> Result<Option<M>, D::Error> {
        Option::<Value>::deserialize(source)?.as_ref().map(read).transpose()
    }
}

/// Several messages. Combine with `#[serde(default)]`.
pub mod list {
    use super::{Deserialize, Deserializer, Message, Name, Serialize, Serializer, Value, read, written};

    /// Writes the messages as a list of protobuf JSON.
    ///
    /// # Errors
    /// A message holds a value that JSON cannot write.
    pub fn serialize<M: Message + Name, S: Serializer>(messages: &[M], serializer: S) -> Result<S::Ok, S::Error> {
        messages.iter().map(written::<_, S::Error>).collect::<Result<Vec<_>, _>>()?.serialize(serializer)
    }

    /// Reads the messages from a list of protobuf JSON.
    ///
    /// # Errors
    /// Names the field whose value does not fit.
    pub fn deserialize<'de, M: Message + Name + Default, D: Deserializer<'de>>(source: D) -> Result<Vec<M>, D::Error> {
        Vec::<Value>::deserialize(source)?.iter().map(read).collect()
    }
}

/// A `google.protobuf.Struct` that may be absent. Combine with `#[serde(default)]`.
pub mod optional_struct {
    use super::{
        Deserialize, Deserializer, Serialize, Serializer, Struct, Value, de, json_to_struct, ser, struct_to_json,
    };

    /// Writes the struct as a JSON object, an absent one as null.
    ///
    /// # Errors
    /// The struct holds an infinity or a NaN.
    pub fn serialize<S: Serializer>(fields: &Option<Struct>, serializer: S) -> Result<S::Ok, S::Error> {
        let value = fields.as_ref().map(struct_to_json).transpose().map_err(ser::Error::custom)?;
        value.serialize(serializer)
    }

    /// Reads the struct from a JSON object; null is absent.
    ///
    /// # Errors
    /// The value is not an object.
    pub fn deserialize<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Struct>, D::Error> {
        let value = Option::<Value>::deserialize(source)?;
        value.as_ref().map(json_to_struct).transpose().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;
    use crate::flyteidl2::core::{Identifier, TaskLog};

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(default)]
    struct Holder {
        #[serde(with = "message")]
        one: Identifier,
        #[serde(with = "optional")]
        maybe: Option<Identifier>,
        #[serde(with = "list")]
        several: Vec<TaskLog>,
        #[serde(with = "optional_struct")]
        free: Option<Struct>,
    }

    #[test]
    fn messages_survive_the_trip_through_json() {
        let id = |name: &str| Identifier { name: name.into(), ..Identifier::default() };
        let held = Holder {
            one: id("a"),
            maybe: Some(id("b")),
            several: vec![TaskLog { uri: "u".into(), ..TaskLog::default() }],
            free: Some(json_to_struct(&json!({"k": [1, "x"]})).unwrap()),
        };
        let written = serde_json::to_value(&held).unwrap();
        assert_eq!(written["maybe"]["name"], "b");
        assert_eq!(serde_json::from_value::<Holder>(written).unwrap(), held);
        assert_eq!(serde_json::from_value::<Holder>(json!({})).unwrap(), Holder::default());
        let error = serde_json::from_value::<Holder>(json!({"one": {"name": 1}})).unwrap_err().to_string();
        assert!(error.contains("Identifier.name"), "{error}");
    }
}

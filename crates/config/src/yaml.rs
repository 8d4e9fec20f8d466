//! The one place that knows the YAML library: texts in, nodes with line numbers out.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_saphyr::Spanned;

use super::node::{Data, Entry, Node};

/// What is wrong with a text that is not YAML.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The line of the mistake.
    pub line: usize,
    /// What is wrong, in the words of the YAML library.
    pub message: String,
}

/// A value as the library delivers it.
struct Yaml(Spanned<YamlData>);

struct YamlData(Data);

/// A key: any scalar, as text.
struct Key(String);

struct DataVisitor;
struct KeyVisitor;

/// Parses one document. A text without any document is an empty map.
pub fn parse(text: &str) -> Result<Node, SyntaxError> {
    if text.lines().all(|line| matches!(line.trim_start().chars().next(), None | Some('#'))) {
        return Ok(Node { line: 1, data: Data::Map(Vec::new()) });
    }
    // Upstream's parser knows only true and false; `yes` and `on` are texts.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options::<Yaml>(text, options).map(Yaml::into_node).map_err(|error| {
        let error = error.without_snippet();
        let line = error.location().map_or(1, |location| line_number(location.line()));
        let message = error.render_with_formatter(&serde_saphyr::UserMessageFormatter);
        // The line is told in front of the message, so the library's own mention of it goes.
        let message = message.split(" at line ").next().unwrap_or_default().to_owned();
        SyntaxError { line, message }
    })
}

fn line_number(line: u64) -> usize {
    usize::try_from(line).unwrap_or(usize::MAX)
}

impl Yaml {
    fn into_node(self) -> Node {
        Node { line: line_number(self.0.referenced.line()), data: self.0.value.0 }
    }
}

impl<'de> Deserialize<'de> for Yaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Spanned::deserialize(deserializer).map(Self)
    }
}

impl<'de> Deserialize<'de> for YamlData {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DataVisitor).map(Self)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(KeyVisitor).map(Self)
    }
}

impl<'de> Visitor<'de> for DataVisitor {
    type Value = Data;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Data, E> {
        Ok(Data::Null)
    }

    fn visit_none<E>(self) -> Result<Data, E> {
        Ok(Data::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Data, E> {
        Ok(Data::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Data, E> {
        Ok(Data::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Data, E> {
        Ok(Data::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Data, E> {
        Ok(Number::from_f64(value).map_or_else(|| Data::Text(value.to_string()), Data::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Data, E> {
        Ok(Data::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Data, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element::<Yaml>()? {
            items.push(item.into_node());
        }
        Ok(Data::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Data, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = access.next_key::<Spanned<Key>>()? {
            let value = access.next_value::<Yaml>()?.into_node();
            entries.push(Entry { line: line_number(key.referenced.line()), key: key.value.0, value });
        }
        Ok(Data::Map(entries))
    }
}

impl Visitor<'_> for KeyVisitor {
    type Value = String;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key that is a single word or number")
    }

    fn visit_bool<E>(self, value: bool) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_i64<E>(self, value: i64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_u64<E>(self, value: u64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_f64<E>(self, value: f64) -> Result<String, E> {
        Ok(value.to_string())
    }

    fn visit_str<E>(self, value: &str) -> Result<String, E> {
        Ok(value.to_owned())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn keys_and_values_know_their_lines() {
        let node = parse("# first\na:\n  b: 1\n  1: [x,\n    y]\n").unwrap();
        let Data::Map(root) = &node.data else { panic!("not a map: {node:?}") };
        assert_eq!((root[0].key.as_str(), root[0].line), ("a", 2));
        let Data::Map(inner) = &root[0].value.data else { panic!("not a map: {root:?}") };
        assert_eq!((inner[0].key.as_str(), inner[0].line), ("b", 3));
        assert_eq!(inner[0].value.data, Data::Number(1.into()));
        assert_eq!((inner[1].key.as_str(), inner[1].line), ("1", 4));
        let Data::List(items) = &inner[1].value.data else { panic!("not a list: {inner:?}") };
        assert_eq!(items[1], Node { line: 5, data: Data::Text("y".into()) });
    }

    #[test]
    fn empty_texts_are_empty_maps() {
        for text in ["", "\n", "# only a comment\n  # another\n"] {
            assert_eq!(parse(text).unwrap().data, Data::Map(Vec::new()), "{text:?}");
        }
    }

    #[test]
    fn broken_text_names_its_line() {
        assert_eq!(parse("a: 1\nb: [1\nc: 2\n").unwrap_err().line, 3);
        let error = parse("a: 1\na: 2\n").unwrap_err();
        assert_eq!(error, SyntaxError { line: 2, message: "duplicate mapping key: a not allowed here".into() });
    }
}

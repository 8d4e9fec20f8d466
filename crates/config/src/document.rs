//! A parsed YAML document: values with their lines, before the schema gives them a meaning.

pub mod yaml;

use serde_json::Number;

/// A value and the line it starts on.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The line, counted from 1. It is 0 if the value does not come from a file.
    pub line: usize,
    /// The value itself.
    pub data: Data,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// `null`, or no value at all.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A map. Its entries have the order of the document.
    Map(Vec<Entry>),
}

/// An entry of a map.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The line of the key, counted from 1.
    pub line: usize,
    /// The value.
    pub value: Node,
}

impl Node {
    /// A string that does not come from a file: the value of a flag or of an environment variable.
    pub fn text(text: &str) -> Self {
        Self { line: 0, data: Data::Text(text.to_owned()) }
    }

    /// The value in words, for error messages.
    pub fn describe(&self) -> String {
        match &self.data {
            Data::Null => "nothing".into(),
            Data::Bool(value) => format!("the boolean {value}"),
            Data::Number(value) => format!("the number {value}"),
            Data::Text(value) => format!("the text {value:?}"),
            Data::List(_) => "a list".into(),
            Data::Map(_) => "a map".into(),
        }
    }
}

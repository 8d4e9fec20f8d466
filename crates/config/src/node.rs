//! A parsed document before anybody knows what it means: values with the lines they stand on.

use serde_json::Number;

/// A value and the line it starts on.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// The line, from 1; 0 where the value does not stand in a file.
    pub line: usize,
    /// The value itself.
    pub data: Data,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A map, in the order of the document.
    Map(Vec<Entry>),
}

/// A key of a map, the line it stands on, and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The line of the key.
    pub line: usize,
    /// The value.
    pub value: Node,
}

impl Node {
    /// A text that stands nowhere: the value of a flag or an environment variable.
    pub fn text(text: &str) -> Self {
        Self { line: 0, data: Data::Text(text.to_owned()) }
    }

    /// What to call the value in a message.
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

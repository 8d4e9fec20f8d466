//! A parsed document before anybody knows what it means: values with the lines they stand on.

use serde_json::Number;

/// A value and the line it starts on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Node {
    pub line: usize,
    pub data: Data,
}

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Data {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key of a map, the line it stands on, and its value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Entry {
    pub key: String,
    pub line: usize,
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

//! Fields of a document, taken out by name and type; whatever does not fit is noted with its line, and reading goes on.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use aileron_config::node::{Data, Entry, Node};
use aileron_config::suggest::nearest;
use aileron_kubekit::duration::GoDuration;
use serde_json::Value;

use super::TaskFileError;

/// What was found wrong so far.
#[derive(Debug, Default)]
pub(super) struct Report(RefCell<Vec<TaskFileError>>);

/// A map whose keys are known.
#[derive(Debug)]
pub(super) struct Group<'a> {
    path: String,
    line: usize,
    entries: &'a [Entry],
}

/// A value, and where it is.
#[derive(Clone, Debug)]
pub(super) struct Field<'a> {
    pub path: String,
    pub line: usize,
    node: &'a Node,
}

impl Report {
    pub fn add(&self, line: usize, field: &str, problem: impl Into<String>) {
        self.0.borrow_mut().push(TaskFileError::new(line, field, problem));
    }

    /// In the order of the file, which is the order in which they are mended.
    pub fn into_errors(self) -> Vec<TaskFileError> {
        let mut errors = self.0.into_inner();
        errors.sort_by_key(|error| error.line);
        errors
    }
}

impl<'a> Group<'a> {
    /// The fields of a map; keys that are not known are noted.
    pub fn open(node: &'a Node, path: &str, known: &[&str], report: &Report) -> Option<Self> {
        let Data::Map(entries) = &node.data else {
            report.add(node.line, path, format!("must be a map of fields, found {}", node.describe()));
            return None;
        };
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())) {
            let remedy = match nearest(&entry.key, known.iter().copied()) {
                Some(name) => format!("did you mean `{name}`?"),
                None => format!("there are: {}", known.join(", ")),
            };
            report.add(entry.line, &below(path, &entry.key), format!("no such field; {remedy}"));
        }
        Some(Self { path: path.to_owned(), line: node.line, entries })
    }

    /// A field; one without a value counts as absent.
    pub fn get(&self, key: &str) -> Option<Field<'a>> {
        let entry = self.entries.iter().find(|entry| entry.key == key && entry.value.data != Data::Null)?;
        Some(Field { path: below(&self.path, key), line: entry.line, node: &entry.value })
    }

    /// A field that must be there.
    pub fn require(&self, key: &str, remedy: &str, report: &Report) -> Option<Field<'a>> {
        let found = self.get(key);
        if found.is_none() {
            report.add(self.line, &below(&self.path, key), format!("is missing; {remedy}"));
        }
        found
    }

    /// A text, empty if there is none.
    pub fn text(&self, key: &str, report: &Report) -> String {
        self.get(key).and_then(|field| field.text(report)).unwrap_or_default()
    }

    pub fn boolean(&self, key: &str, report: &Report) -> Option<bool> {
        self.get(key).and_then(|field| field.boolean(report))
    }

    pub fn duration(&self, key: &str, report: &Report) -> Option<Duration> {
        self.get(key).and_then(|field| field.duration(report))
    }
}

impl<'a> Field<'a> {
    pub fn complain(&self, problem: impl Into<String>, report: &Report) {
        report.add(self.line, &self.path, problem);
    }

    fn misfit<T>(&self, expected: &str, report: &Report) -> Option<T> {
        self.complain(format!("must be {expected}, found {}", self.node.describe()), report);
        None
    }

    pub fn is_map(&self) -> bool {
        matches!(self.node.data, Data::Map(_))
    }

    /// The fields of the value, which must be a map.
    pub fn group(&self, known: &[&str], report: &Report) -> Option<Group<'a>> {
        // Where the key stands is where people look first.
        let group = Group::open(self.node, &self.path, known, report)?;
        Some(Group { line: self.line, ..group })
    }

    /// A text. Numbers and booleans are texts, too: nobody likes to put `1` in quotes.
    pub fn text(&self, report: &Report) -> Option<String> {
        scalar(self.node).map_or_else(|| self.misfit("a text", report), Some)
    }

    pub fn boolean(&self, report: &Report) -> Option<bool> {
        match self.node.data {
            Data::Bool(value) => Some(value),
            _ => self.misfit("true or false", report),
        }
    }

    pub fn whole(&self, range: RangeInclusive<i64>, report: &Report) -> Option<i64> {
        let number = match &self.node.data {
            Data::Number(number) => number.as_i64().filter(|number| range.contains(number)),
            _ => None,
        };
        let (from, to) = range.into_inner();
        number.map_or_else(|| self.misfit(&format!("a whole number from {from} to {to}"), report), Some)
    }

    pub fn number(&self, report: &Report) -> Option<f64> {
        match &self.node.data {
            Data::Number(number) => number.as_f64(),
            _ => self.misfit("a number such as 1.5", report),
        }
    }

    /// A span of time: `1s`, `5m`, `1h30m`.
    pub fn duration(&self, report: &Report) -> Option<Duration> {
        let nanos = match &self.node.data {
            Data::Text(text) => text.trim().parse().ok().and_then(|GoDuration(nanos)| u64::try_from(nanos).ok()),
            _ => None,
        };
        match nanos {
            Some(nanos) => Some(Duration::from_nanos(nanos)),
            None => self.misfit("a duration such as 500ms, 30s or 1h30m", report),
        }
    }

    /// The items of a list.
    pub fn items(&self, report: &Report) -> Vec<Self> {
        let Data::List(items) = &self.node.data else {
            return self.misfit("a list", report).unwrap_or_default();
        };
        let item =
            |(index, node): (usize, &'a Node)| Self { path: format!("{}[{index}]", self.path), line: node.line, node };
        items.iter().enumerate().map(item).collect()
    }

    /// The entries of a map with keys of any name.
    pub fn entries(&self, report: &Report) -> Vec<(String, Self)> {
        let Data::Map(entries) = &self.node.data else {
            return self.misfit("a map", report).unwrap_or_default();
        };
        let entry = |entry: &'a Entry| {
            let field = Self { path: below(&self.path, &entry.key), line: entry.line, node: &entry.value };
            (entry.key.clone(), field)
        };
        entries.iter().map(entry).collect()
    }

    /// A list of texts; a single text is a list of one.
    pub fn texts(&self, report: &Report) -> Vec<String> {
        match scalar(self.node) {
            Some(text) => vec![text],
            None => self.items(report).iter().filter_map(|item| item.text(report)).collect(),
        }
    }

    pub fn texts_by_name(&self, report: &Report) -> BTreeMap<String, String> {
        let entries = self.entries(report).into_iter();
        entries.filter_map(|(name, field)| Some((name, field.text(report)?))).collect()
    }

    /// The value as it is.
    pub fn json(&self) -> Value {
        json(self.node)
    }
}

fn below(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn scalar(node: &Node) -> Option<String> {
    match &node.data {
        Data::Text(text) => Some(text.clone()),
        Data::Number(number) => Some(number.to_string()),
        Data::Bool(value) => Some(value.to_string()),
        Data::Null | Data::List(_) | Data::Map(_) => None,
    }
}

fn json(node: &Node) -> Value {
    match &node.data {
        Data::Null => Value::Null,
        Data::Bool(value) => Value::Bool(*value),
        Data::Number(number) => Value::Number(number.clone()),
        Data::Text(text) => Value::String(text.clone()),
        Data::List(items) => items.iter().map(json).collect(),
        Data::Map(entries) => {
            Value::Object(entries.iter().map(|entry| (entry.key.clone(), json(&entry.value))).collect())
        }
    }
}

//! Which field of which document decides about which field of the object.
//!
//! Nothing is written down while an object is built. Instead each value of each document is changed, and taken away,
//! and the object is built anew: what is different then depends on that value. This is exact, works for every plugin,
//! and costs the executor nothing.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::compare::changes;
use super::documents::{Document, Origins, Source};
use super::path::{FieldPath, Segment, leaves};
use super::trace::is_empty;
use crate::render::{Offline, Rendered};

/// What is put behind a text to make it another; a letter that names, paths and labels may end with.
const MARK: char = 'x';

/// How a value decides about a field, the most telling first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Effect {
    /// The field holds the value.
    Holds,
    /// Nothing can be built without the value, and the field is equal to it.
    Equals,
    /// The field would be another, or missing.
    Decides,
}

/// One value of one document, and the fields it decides about.
pub(super) struct Influence {
    pub source: Source,
    pub effects: BTreeMap<FieldPath, Effect>,
    /// What would stand in those fields without the value.
    pub otherwise: BTreeMap<FieldPath, Lost>,
}

/// A value that does not stand, because another layer or another source had the say.
#[derive(Clone, Debug, PartialEq)]
pub struct Lost {
    /// The layer that set it, or would have.
    pub layer: String,
    /// The value.
    pub value: Value,
    /// Where the value comes from, if that can be told.
    pub source: Option<Source>,
}

/// All values that decide about anything in the object.
pub(super) fn influences(offline: &Offline, rendered: &Rendered, origins: &Origins) -> Vec<Influence> {
    let mut found = Vec::new();
    for document in Document::all(offline) {
        let whole = document.read(offline);
        let experiment = Experiment { offline, rendered, origins, document, whole: &whole };
        for (path, value) in leaves(&whole) {
            let is_default = document == Document::Config && origins.is_default(&path);
            if is_default && is_off(value) {
                continue;
            }
            let influence = experiment.run(&path, value, is_default);
            if !influence.effects.is_empty() {
                found.push(influence);
            }
        }
    }
    found
}

struct Experiment<'a> {
    offline: &'a Offline,
    rendered: &'a Rendered,
    origins: &'a Origins,
    document: Document,
    whole: &'a Value,
}

impl Experiment<'_> {
    fn run(&self, path: &FieldPath, value: &Value, is_default: bool) -> Influence {
        let mut effects = BTreeMap::new();
        let mut otherwise = BTreeMap::new();
        let changed = alternatives(value).into_iter().find_map(|other| Some((self.changed(path, &other)?, other)));
        if let Some((object, other)) = &changed {
            for (field, now) in changes(&self.rendered.object, object) {
                let before = field.get(&self.rendered.object).unwrap_or(&Value::Null);
                let holds = now.is_some_and(|now| is_held(other, before, &now));
                effects.insert(field, if holds { Effect::Holds } else { Effect::Decides });
            }
        }
        let removed = if is_default { None } else { self.removed(path) };
        if let Some((without, object)) = &removed {
            // Without an item all after it move up, which looks like a change of each.
            let moves_others = changed.is_some() && matches!(path.segments().last(), Some(Segment::Index(_)));
            for (field, now) in changes(&self.rendered.object, object) {
                if now.is_some() && effects.get(&field) == Some(&Effect::Holds) {
                    otherwise.insert(field, without);
                } else if !moves_others {
                    effects.entry(field).or_insert(Effect::Decides);
                }
            }
        }
        if changed.is_none() && removed.is_none() && !is_off(value) {
            let equal = leaves(&self.rendered.object).into_iter().filter(|(_, field)| *field == value);
            effects.extend(equal.map(|(field, _)| (field, Effect::Equals)));
        }
        Influence {
            source: self.document.source(path, self.offline, self.origins),
            effects,
            otherwise: self.lost(&otherwise),
        }
    }

    /// The object with another value there.
    fn changed(&self, path: &FieldPath, other: &Value) -> Option<Value> {
        let mut document = self.whole.clone();
        path.set(&mut document, other.clone());
        let offline = self.document.write(self.offline, document)?;
        self.comparable(&offline)
    }

    /// The object of another version of the task. If another plugin makes it, it is another object altogether, and
    /// nothing follows for the fields of this one.
    fn comparable(&self, offline: &Offline) -> Option<Value> {
        let other = offline.render().ok()?;
        Some(if other.plugin == self.rendered.plugin { other.object } else { self.rendered.object.clone() })
    }

    /// The task and its object with no value there. A key of the configuration falls back to its default; a part that
    /// an item of a list cannot be without is taken away with the item.
    fn removed(&self, path: &FieldPath) -> Option<(Offline, Value)> {
        let built = |document: Value| {
            let offline = self.document.write(self.offline, document)?;
            let object = self.comparable(&offline)?;
            Some((offline, object))
        };
        let mut document = self.whole.clone();
        if self.document == Document::Config {
            self.origins.reset(&mut document, path);
            return built(document);
        }
        path.remove(&mut document);
        built(document).or_else(|| {
            let item = path.segments().iter().rposition(|segment| matches!(segment, Segment::Index(_)))?;
            let mut document = self.whole.clone();
            path.prefix(item + 1).remove(&mut document);
            built(document)
        })
    }

    /// The layers and sources of what stands in fields of another version.
    fn lost(&self, fields: &BTreeMap<FieldPath, &Offline>) -> BTreeMap<FieldPath, Lost> {
        let Some(without) = fields.values().next() else { return BTreeMap::new() };
        let Ok((rendered, traced)) = super::traced(without) else { return BTreeMap::new() };
        // An empty text or list that stood there is nobody's value.
        let wanted =
            traced.into_iter().filter(|traced| fields.contains_key(&traced.path) && !is_empty(&traced.won.value));
        let lost = wanted.map(|traced| {
            let source = holder(without, &rendered, &traced.path, &traced.won.value, self.origins);
            (traced.path, Lost { layer: traced.won.layer, value: traced.won.value, source })
        });
        lost.collect()
    }
}

/// The value of some document that the field holds, among those that are equal to it.
fn holder(
    offline: &Offline,
    rendered: &Rendered,
    field: &FieldPath,
    value: &Value,
    origins: &Origins,
) -> Option<Source> {
    Document::all(offline).into_iter().find_map(|document| {
        let whole = document.read(offline);
        let experiment = Experiment { offline, rendered, origins, document, whole: &whole };
        let mut equal = leaves(&whole).into_iter().filter(|(_, other)| *other == value && !is_off(other));
        let (path, _) = equal.find(|(path, _)| {
            alternatives(value).iter().any(|other| {
                let changed = experiment.changed(path, other);
                changed.is_some_and(|object| field.get(&object).is_some_and(|now| is_held(other, value, now)))
            })
        })?;
        Some(document.source(&path, offline, origins))
    })
}

/// Values in place of this one, the most likely to be accepted first.
fn alternatives(value: &Value) -> Vec<Value> {
    match value {
        Value::Bool(value) => vec![json!(!value)],
        Value::Number(number) => number.as_i64().map(|number| json!(number.saturating_add(1))).into_iter().collect(),
        Value::String(text) => {
            let longer = json!(format!("{text}{MARK}"));
            // Quantities, durations and numbers in texts stay what they are.
            let begins_with_digit = text.starts_with(|first: char| first.is_ascii_digit());
            let other = begins_with_digit.then(|| json!(other_digit(text)));
            other.into_iter().chain([longer]).collect()
        }
        Value::Null | Value::Array(_) | Value::Object(_) => Vec::new(),
    }
}

/// The text with another first digit, not 0.
fn other_digit(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    let digit = first.parse::<u8>().unwrap_or_default();
    format!("{}{rest}", digit % 9 + 1)
}

/// The field holds the changed value, whole or inside a longer text, or shows the same change.
fn is_held(value: &Value, before: &Value, now: &Value) -> bool {
    match (value, now) {
        (Value::String(value), Value::String(now)) => {
            now.contains(value.as_str()) || before.as_str().is_some_and(|before| is_longer_by_mark(before, now))
        }
        (Value::Bool(value), Value::String(now)) => now.parse() == Ok(*value),
        (Value::Number(value), Value::String(now)) => now.parse() == Ok(value.as_f64().unwrap_or(f64::NAN)),
        (value, now) => value == now,
    }
}

/// The text after is the one before with the mark somewhere in it.
fn is_longer_by_mark(before: &str, after: &str) -> bool {
    let common: usize =
        before.chars().zip(after.chars()).take_while(|(old, new)| old == new).map(|(old, _)| old.len_utf8()).sum();
    after[common..].strip_prefix(MARK) == Some(&before[common..])
}

/// Values that mean "not set" where nobody set them.
fn is_off(value: &Value) -> bool {
    is_empty(value) || *value == json!(false) || value.as_f64() == Some(0.0)
}

//! Finds which fields of the documents influence which fields of the object.
//!
//! Building an object records nothing. Instead, each value of each document is changed and removed, and the object is
//! built again: the fields that differ then depend on that value. This is exact, works for every plugin, and needs no
//! code in the executor.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::compare::changes;
use super::documents::{Document, Origins, Source};
use super::path::{FieldPath, Segment, leaves};
use super::trace::is_empty;
use crate::render::{Offline, Rendered};

/// Appended to a text to change it. Names, paths and labels may end with this letter, so the changed text stays valid.
const MARK: char = 'x';

/// How a value influences a field, the strongest influence first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Effect {
    /// The field contains the value.
    Holds,
    /// The object cannot be built with another value or without the value, and the field is equal to the value.
    Equals,
    /// With another value, the field would differ or be missing.
    Decides,
}

/// One value of one document, and the fields that it influences.
pub(super) struct Influence {
    pub source: Source,
    pub effects: BTreeMap<FieldPath, Effect>,
    /// The values of those fields if the value were not set.
    pub otherwise: BTreeMap<FieldPath, Lost>,
}

/// A value that is not in the object, because another layer or source has overwritten it.
#[derive(Clone, Debug, PartialEq)]
pub struct Lost {
    /// The layer that set the value, or would have set it.
    pub layer: String,
    /// The value.
    pub value: Value,
    /// Where the value comes from, if that is known.
    pub source: Option<Source>,
}

/// All values that influence a field of the object.
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
            // If an item of a list is removed, all later items move, which looks like a change of each of them.
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

    /// The object with another value at this path.
    fn changed(&self, path: &FieldPath, other: &Value) -> Option<Value> {
        let mut document = self.whole.clone();
        path.set(&mut document, other.clone());
        let offline = self.document.write(self.offline, document)?;
        self.comparable(&offline)
    }

    /// The object of a changed task. If the change leads to another plugin, its object cannot be compared field by
    /// field, so the unchanged object is returned.
    fn comparable(&self, offline: &Offline) -> Option<Value> {
        let other = offline.render().ok()?;
        Some(if other.plugin == self.rendered.plugin { other.object } else { self.rendered.object.clone() })
    }

    /// The task and its object without the value at this path. A configuration key is reset to its default. If an item
    /// of a list is not valid without the value, the whole item is removed.
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

    /// The layers and sources of these fields in a changed task.
    fn lost(&self, fields: &BTreeMap<FieldPath, &Offline>) -> BTreeMap<FieldPath, Lost> {
        let Some(without) = fields.values().next() else { return BTreeMap::new() };
        let Ok((rendered, traced)) = super::traced(without) else { return BTreeMap::new() };
        // An empty text or list is not a value that a layer or user has set.
        let wanted =
            traced.into_iter().filter(|traced| fields.contains_key(&traced.path) && !is_empty(&traced.won.value));
        let lost = wanted.map(|traced| {
            let source = holder(without, &rendered, &traced.path, &traced.won.value, self.origins);
            (traced.path, Lost { layer: traced.won.layer, value: traced.won.value, source })
        });
        lost.collect()
    }
}

/// The place in the documents that the value of a field comes from, among all places with an equal value.
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

/// Other values to try instead of this one. Values that are most likely valid are first.
fn alternatives(value: &Value) -> Vec<Value> {
    match value {
        Value::Bool(value) => vec![json!(!value)],
        Value::Number(number) => number.as_i64().map(|number| json!(number.saturating_add(1))).into_iter().collect(),
        Value::String(text) => {
            let longer = json!(format!("{text}{MARK}"));
            // A quantity, duration or number must stay valid, so only its first digit is changed.
            let begins_with_digit = text.starts_with(|first: char| first.is_ascii_digit());
            let other = begins_with_digit.then(|| json!(other_digit(text)));
            other.into_iter().chain([longer]).collect()
        }
        Value::Null | Value::Array(_) | Value::Object(_) => Vec::new(),
    }
}

/// The text with another first digit that is not 0.
fn other_digit(text: &str) -> String {
    let (first, rest) = text.split_at(1);
    let digit = first.parse::<u8>().unwrap_or_default();
    format!("{}{rest}", digit % 9 + 1)
}

/// True if the field contains the changed value, or if the same letter was added to it.
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

/// True if `after` is `before` with [`MARK`] inserted at one place.
fn is_longer_by_mark(before: &str, after: &str) -> bool {
    let common: usize =
        before.chars().zip(after.chars()).take_while(|(old, new)| old == new).map(|(old, _)| old.len_utf8()).sum();
    after[common..].strip_prefix(MARK) == Some(&before[common..])
}

/// True for values that mean "not set" if they are defaults.
fn is_off(value: &Value) -> bool {
    is_empty(value) || *value == json!(false) || value.as_f64() == Some(0.0)
}

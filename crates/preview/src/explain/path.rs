//! Where a field is inside a document.

use std::fmt;

use serde_json::{Map, Value};

/// One step down.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Segment {
    /// Into an object.
    Key(String),
    /// Into a list.
    Index(usize),
}

/// The way from the root of a document to a field.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath(Vec<Segment>);

impl FieldPath {
    /// The field of an object here.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.then(Segment::Key(key.to_owned()))
    }

    /// The item of a list here.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        self.then(Segment::Index(index))
    }

    fn then(&self, segment: Segment) -> Self {
        let mut segments = Vec::with_capacity(self.0.len() + 1);
        segments.extend_from_slice(&self.0);
        segments.push(segment);
        Self(segments)
    }

    /// The steps.
    pub fn segments(&self) -> &[Segment] {
        &self.0
    }

    /// The way to a field further up.
    #[must_use]
    pub fn prefix(&self, length: usize) -> Self {
        Self(self.0.iter().take(length).cloned().collect())
    }

    /// True if the field is the named one or inside it. The name is written as paths are shown.
    pub fn is_within(&self, name: &str) -> bool {
        (0..=self.0.len()).any(|length| self.prefix(length).to_string() == name)
    }

    /// What is there.
    pub fn get<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        self.0.iter().try_fold(document, |value, segment| match segment {
            Segment::Key(key) => value.get(key),
            Segment::Index(index) => value.get(index),
        })
    }

    /// Puts a value there, and whatever objects and lists are missing on the way.
    pub fn set(&self, document: &mut Value, value: Value) {
        let place = self.0.iter().fold(document, |place, segment| match segment {
            Segment::Key(key) => {
                if !place.is_object() {
                    *place = Value::Object(Map::new());
                }
                &mut place[key.as_str()]
            }
            Segment::Index(index) => {
                if !place.is_array() {
                    *place = Value::Array(Vec::new());
                }
                if let Value::Array(items) = place
                    && items.len() <= *index
                {
                    items.resize(index + 1, Value::Null);
                }
                &mut place[*index]
            }
        });
        *place = value;
    }

    /// Takes away what is there.
    pub fn remove(&self, document: &mut Value) {
        let Some((last, parents)) = self.0.split_last() else { return };
        let parent = parents.iter().try_fold(document, |value, segment| match segment {
            Segment::Key(key) => value.get_mut(key),
            Segment::Index(index) => value.get_mut(index),
        });
        match (parent, last) {
            (Some(Value::Object(fields)), Segment::Key(key)) => {
                fields.shift_remove(key);
            }
            (Some(Value::Array(items)), Segment::Index(index)) if *index < items.len() => {
                items.remove(*index);
            }
            _ => {}
        }
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Index(index) => write!(formatter, "[{index}]")?,
                Segment::Key(key) if !is_plain(key) => write!(formatter, "[{key:?}]")?,
                Segment::Key(key) if place == 0 => formatter.write_str(key)?,
                Segment::Key(key) => write!(formatter, ".{key}")?,
            }
        }
        Ok(())
    }
}

/// Every field of a document that holds no other: single values, and objects and lists without content.
pub fn leaves(document: &Value) -> Vec<(FieldPath, &Value)> {
    let mut found = Vec::new();
    collect(FieldPath::default(), document, &mut found);
    found
}

fn collect<'a>(path: FieldPath, value: &'a Value, found: &mut Vec<(FieldPath, &'a Value)>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                collect(path.key(key), value, found);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, value) in items.iter().enumerate() {
                collect(path.index(index), value, found);
            }
        }
        leaf => found.push((path, leaf)),
    }
}

fn is_plain(key: &str) -> bool {
    !key.is_empty() && key.chars().all(|letter| letter.is_alphanumeric() || letter == '_' || letter == '-')
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    #[test]
    fn leaves_put_back_make_the_document() {
        let document = json!({"a": {"b.c/d": [1, {"x": {}}, []], "e": null}, "f": "g"});
        let mut rebuilt = Value::Null;
        let mut shown = Vec::new();
        for (path, value) in leaves(&document) {
            assert_eq!(path.get(&document), Some(value));
            path.set(&mut rebuilt, value.clone());
            shown.push(path.to_string());
        }
        assert_eq!(rebuilt, document);
        assert_eq!(shown, [r#"a["b.c/d"][0]"#, r#"a["b.c/d"][1].x"#, r#"a["b.c/d"][2]"#, "a.e", "f"]);
    }

    #[test]
    fn a_field_is_within_those_above_it_and_not_within_one_of_a_longer_name() {
        let path = FieldPath::default().key("spec").key("containers").index(0).key("image");
        for name in ["", "spec", "spec.containers", "spec.containers[0]", "spec.containers[0].image"] {
            assert!(path.is_within(name), "{name}");
        }
        assert!(!path.is_within("spec.container"));
        assert!(!path.is_within("spec.containers[0].im"));
    }

    #[test]
    fn what_is_removed_is_gone() {
        let mut document = json!({"a": [1, 2], "b": 3});
        FieldPath::default().key("a").index(0).remove(&mut document);
        FieldPath::default().key("b").remove(&mut document);
        FieldPath::default().key("c").key("d").remove(&mut document);
        assert_eq!(document, json!({"a": [2]}));
    }
}

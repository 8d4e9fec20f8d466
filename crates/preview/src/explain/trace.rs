//! The history of every field: which layer set it to what.

use serde_json::Value;

use super::compare::{Matching, matched};
use super::path::FieldPath;

/// One layer that set a field.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Name of the layer.
    pub layer: String,
    /// What it set the field to.
    pub value: Value,
}

/// A field and the layers that set it.
#[derive(Clone, Debug, PartialEq)]
pub struct Traced {
    /// Where it is in the finished object.
    pub path: FieldPath,
    /// The layer whose value stands.
    pub won: Step,
    /// The layers before it, the first one first.
    pub lost: Vec<Step>,
}

/// An object in the making, with the history of its fields.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    object: Value,
    history: Option<History>,
}

/// A tree of the same form as the object.
#[derive(Clone, Debug)]
enum History {
    Leaf { won: Step, lost: Vec<Step> },
    Object(Vec<(String, Self)>),
    List(Vec<Self>),
}

impl Trace {
    /// Takes in the object as it is after a layer.
    pub fn follow(&mut self, layer: &str, object: Value) {
        let before = self.history.take();
        self.history = Some(continued(before, &self.object, &object, layer));
        self.object = object;
    }

    /// Every field of the finished object.
    pub fn fields(self) -> Vec<Traced> {
        let mut found = Vec::new();
        if let Some(history) = self.history {
            flatten(history, &FieldPath::default(), &mut found);
        }
        found
    }
}

fn continued(history: Option<History>, before: &Value, after: &Value, layer: &str) -> History {
    match after {
        Value::Object(fields) if !fields.is_empty() => {
            let mut earlier = match history {
                Some(History::Object(earlier)) => earlier,
                _ => Vec::new(),
            };
            let follow = |(key, after): (&String, &Value)| {
                let place = earlier.iter().position(|(name, _)| name == key);
                let history = place.map(|place| earlier.swap_remove(place).1);
                let before = before.get(key).unwrap_or(&Value::Null);
                (key.clone(), continued(history, before, after, layer))
            };
            History::Object(fields.iter().map(follow).collect())
        }
        Value::Array(items) if !items.is_empty() => {
            let (old, mut earlier) = match (before, history) {
                (Value::Array(old), Some(History::List(earlier))) => {
                    (old.as_slice(), earlier.into_iter().map(Some).collect::<Vec<_>>())
                }
                _ => (&[][..], Vec::new()),
            };
            let origins = matched(old, items, Matching::Names);
            let follow = |(after, origin): (&Value, Option<usize>)| {
                let history = origin.and_then(|origin| earlier.get_mut(origin)?.take());
                let before = origin.and_then(|origin| old.get(origin)).unwrap_or(&Value::Null);
                continued(history, before, after, layer)
            };
            History::List(items.iter().zip(origins).map(follow).collect())
        }
        leaf => {
            let now = Step { layer: layer.to_owned(), value: leaf.clone() };
            match history {
                Some(History::Leaf { won, lost }) if won.value == *leaf => History::Leaf { won, lost },
                // An empty place that is filled was nobody's decision.
                Some(History::Leaf { won, mut lost }) if !is_empty(&won.value) => {
                    lost.push(won);
                    History::Leaf { won: now, lost }
                }
                _ => History::Leaf { won: now, lost: Vec::new() },
            }
        }
    }
}

fn flatten(history: History, path: &FieldPath, found: &mut Vec<Traced>) {
    match history {
        History::Leaf { won, lost } => found.push(Traced { path: path.clone(), won, lost }),
        History::Object(fields) => {
            fields.into_iter().for_each(|(key, history)| flatten(history, &path.key(&key), found));
        }
        History::List(items) => {
            items.into_iter().enumerate().for_each(|(index, history)| flatten(history, &path.index(index), found));
        }
    }
}

/// Nothing that anybody would have set.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn traced(steps: &[(&str, Value)]) -> Vec<Traced> {
        let mut trace = Trace::default();
        steps.iter().for_each(|(layer, object)| trace.follow(layer, object.clone()));
        trace.fields()
    }

    fn field<'a>(fields: &'a [Traced], path: &str) -> &'a Traced {
        fields.iter().find(|field| field.path.to_string() == path).unwrap()
    }

    #[test]
    fn the_last_layer_that_changed_a_field_won_and_those_before_lost() {
        let fields = traced(&[
            ("one", json!({"a": 1, "b": "x"})),
            ("two", json!({"a": 2, "b": "x"})),
            ("three", json!({"a": 2, "b": "x", "c": {}})),
        ]);
        let a = field(&fields, "a");
        assert_eq!((a.won.layer.as_str(), &a.won.value), ("two", &json!(2)));
        assert_eq!(a.lost, [Step { layer: "one".into(), value: json!(1) }]);
        assert_eq!(field(&fields, "b").won.layer, "one");
        assert_eq!(field(&fields, "c").won.layer, "three");
    }

    #[test]
    fn items_keep_their_history_when_others_come_before_them() {
        let fields = traced(&[
            ("one", json!({"tolerations": [{"key": "own"}], "env": [{"name": "A", "value": "1"}]})),
            (
                "two",
                json!({
                    "tolerations": [{"key": "platform"}, {"key": "own"}],
                    "env": [{"name": "B", "value": "1"}, {"name": "A", "value": "2"}],
                }),
            ),
        ]);
        assert_eq!(field(&fields, "tolerations[0].key").won.layer, "two");
        assert_eq!(field(&fields, "tolerations[1].key").won.layer, "one");
        assert_eq!(field(&fields, "env[1].name").won.layer, "one");
        let value = field(&fields, "env[1].value");
        assert_eq!((value.won.layer.as_str(), value.lost[0].layer.as_str()), ("two", "one"));
    }

    #[test]
    fn filling_an_empty_place_beats_nobody() {
        let fields = traced(&[("one", json!({"a": "", "l": []})), ("two", json!({"a": "x", "l": ["y"]}))]);
        assert!(fields.iter().all(|field| field.lost.is_empty() && field.won.layer == "two"));
    }
}

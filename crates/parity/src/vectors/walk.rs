//! Visits every object or text of a JSON document, for rules that apply anywhere in it.

use serde_json::{Map, Value};

/// The members of an object.
type Members = Map<String, Value>;

/// Calls the visitor with every object of the document, outermost first.
pub fn objects(value: &mut Value, visit: &mut dyn FnMut(&mut Members)) {
    match value {
        Value::Object(members) => {
            visit(members);
            members.values_mut().for_each(|member| objects(member, visit));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| objects(item, visit)),
        _ => {}
    }
}

/// Calls the visitor with every text of the document.
pub fn texts(value: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    match value {
        Value::Object(members) => members.values_mut().for_each(|member| texts(member, visit)),
        Value::Array(items) => items.iter_mut().for_each(|item| texts(item, visit)),
        Value::String(text) => visit(text),
        _ => {}
    }
}

/// Calls the visitor with each pair of objects at the same place of two documents, outermost first.
pub fn object_pairs(one: &mut Value, other: &mut Value, visit: &mut dyn FnMut(&mut Members, &mut Members)) {
    if let (Value::Object(one), Value::Object(other)) = (&mut *one, &mut *other) {
        visit(one, other);
    }
    pairs_below(one, other, &mut |one, other| object_pairs(one, other, visit));
}

/// Calls the visitor with each pair of texts at the same place of two documents.
pub fn text_pairs(one: &mut Value, other: &mut Value, visit: &mut dyn FnMut(&mut String, &mut String)) {
    if let (Value::String(one), Value::String(other)) = (&mut *one, &mut *other) {
        visit(one, other);
    }
    pairs_below(one, other, &mut |one, other| text_pairs(one, other, visit));
}

fn pairs_below(one: &mut Value, other: &mut Value, visit: &mut dyn FnMut(&mut Value, &mut Value)) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            for (name, value) in one {
                if let Some(counterpart) = other.get_mut(name) {
                    visit(value, counterpart);
                }
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            one.iter_mut().zip(other).for_each(|(value, counterpart)| visit(value, counterpart));
        }
        _ => {}
    }
}

//! Visiting every object of a JSON document, for rules that apply wherever a shape occurs.

use serde_json::{Map, Value};

/// Calls the visitor with every object of the document, outermost first.
pub fn objects(value: &mut Value, visit: &mut dyn FnMut(&mut Map<String, Value>)) {
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

//! Validates custom resources against their schema. The texts are those of kube-apiserver.

use regex::Regex;
use serde_json::Value;

use crate::errors::Cause;

/// All violations, sorted by field.
pub(super) fn violations(object: &Value, schema: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    check(object, schema, "", &mut causes);
    causes.sort_by(|left, right| left.field.cmp(&right.field));
    causes
}

fn check(value: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    if value.is_null() && schema["nullable"] == true {
        return;
    }
    if let Some(expected) = wrong_type(value, schema) {
        let found = type_of(value);
        let message = format!("Invalid value: \"{found}\": {path} in body must be of type {expected}: \"{found}\"");
        causes.push(Cause { reason: "FieldValueTypeInvalid", message, field: path.to_owned() });
        return;
    }
    let invalid = |text: String| Cause::invalid(path, value, &format!("{path} in body {text}"));
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        causes.push(Cause::unsupported(path, value, allowed));
    }
    match value {
        Value::String(text) => check_text(text, schema, path, causes, invalid),
        Value::Number(_) => check_number(value, schema, causes, invalid),
        Value::Array(items) => {
            let count = items.len();
            if let Some(most) = size(schema, "maxItems").filter(|most| count > *most) {
                causes.push(too_many(path, count, most));
            }
            if let Some(least) = size(schema, "minItems").filter(|least| count < *least) {
                causes.push(Cause::invalid(
                    path,
                    &count.into(),
                    &format!("{path} in body should have at least {least} items"),
                ));
            }
            for (index, item) in items.iter().enumerate() {
                check(item, &schema["items"], &format!("{path}[{index}]"), causes);
            }
        }
        Value::Object(fields) => {
            let count = fields.len();
            if let Some(most) = size(schema, "maxProperties").filter(|most| count > *most) {
                causes.push(too_many(path, count, most));
            }
            if let Some(least) = size(schema, "minProperties").filter(|least| count < *least) {
                causes.push(Cause::invalid(
                    path,
                    &count.into(),
                    &format!("{path} in body should have at least {least} properties"),
                ));
            }
            for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
                if !fields.contains_key(name) {
                    causes.push(Cause::required(below(path, name), ""));
                }
            }
            let additional = schema.get("additionalProperties").filter(|more| more.is_object());
            for (name, field) in fields {
                if let Some(schema) = schema["properties"].get(name).or(additional) {
                    check(field, schema, &below(path, name), causes);
                }
            }
        }
        _ => {}
    }
    combinations(value, schema, path, causes);
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn size(schema: &Value, name: &str) -> Option<usize> {
    schema[name].as_u64().and_then(|size| usize::try_from(size).ok())
}

fn too_many(path: &str, count: usize, most: usize) -> Cause {
    let message = format!("Too many: {count}: must have at most {most} items");
    Cause { reason: "FieldValueTooMany", message, field: path.to_owned() }
}

fn check_text(text: &str, schema: &Value, path: &str, causes: &mut Vec<Cause>, invalid: impl Fn(String) -> Cause) {
    let length = text.chars().count();
    if let Some(most) = size(schema, "maxLength").filter(|most| length > *most) {
        let message = format!("Too long: may not be more than {most} bytes");
        causes.push(Cause { reason: "FieldValueTooLong", message, field: path.to_owned() });
    }
    if let Some(least) = size(schema, "minLength").filter(|least| length < *least) {
        causes.push(invalid(format!("should be at least {least} chars long")));
        return;
    }
    if let Some(pattern) = schema["pattern"].as_str()
        && let Ok(regex) = Regex::new(pattern)
        && !regex.is_match(text)
    {
        causes.push(invalid(format!("should match '{pattern}'")));
    }
    if schema["format"] == "date-time" && text.parse::<jiff::Timestamp>().is_err() {
        let cause = invalid(format!("must be of type date-time: \"{text}\""));
        causes.push(Cause { reason: "FieldValueTypeInvalid", ..cause });
    }
}

fn check_number(value: &Value, schema: &Value, causes: &mut Vec<Cause>, invalid: impl Fn(String) -> Cause) {
    let Some(number) = value.as_f64() else { return };
    if let Some(least) = schema["minimum"].as_f64() {
        let exclusive = schema["exclusiveMinimum"] == true;
        if number < least || (exclusive && number <= least) {
            let words = if exclusive { "greater than" } else { "greater than or equal to" };
            causes.push(invalid(format!("should be {words} {}", schema["minimum"])));
        }
    }
    if let Some(most) = schema["maximum"].as_f64() {
        let exclusive = schema["exclusiveMaximum"] == true;
        if number > most || (exclusive && number >= most) {
            let words = if exclusive { "less than" } else { "less than or equal to" };
            causes.push(invalid(format!("should be {words} {}", schema["maximum"])));
        }
    }
    if let Some(step) = schema["multipleOf"].as_f64()
        && step > 0.0
        && (number / step).fract() != 0.0
    {
        causes.push(invalid(format!("should be a multiple of {}", schema["multipleOf"])));
    }
}

fn combinations(value: &Value, schema: &Value, path: &str, causes: &mut Vec<Cause>) {
    let fits = |schema: &Value| {
        let mut found = Vec::new();
        check(value, schema, path, &mut found);
        found.is_empty()
    };
    for part in schema["allOf"].as_array().into_iter().flatten() {
        check(value, part, path, causes);
    }
    // `anyOf` of an int-or-string field only repeats its type, which has been checked already.
    let shown = Value::from(path);
    if let Some(parts) = schema["anyOf"].as_array()
        && schema["x-kubernetes-int-or-string"] != true
        && !parts.iter().any(fits)
    {
        causes.push(Cause::invalid(path, &"".into(), &format!("{shown} must validate at least one schema (anyOf)")));
    }
    if let Some(parts) = schema["oneOf"].as_array() {
        let count = parts.iter().filter(|part| fits(part)).count();
        if count != 1 {
            let found = if count == 0 { "none valid".to_owned() } else { format!("{count} valid alternatives") };
            let text = format!("{shown} must validate one and only one schema (oneOf). Found {found}");
            causes.push(Cause::invalid(path, &"".into(), &text));
        }
    }
    if schema["not"].is_object() && fits(&schema["not"]) {
        causes.push(Cause::invalid(path, &"".into(), &format!("{shown} must not validate the schema (not)")));
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if is_integer(number) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_integer(number: &serde_json::Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// The expected type if the value has another type.
fn wrong_type(value: &Value, schema: &Value) -> Option<String> {
    if schema["x-kubernetes-int-or-string"] == true {
        return (!matches!(type_of(value), "integer" | "string")).then(|| "integer,string".to_owned());
    }
    let expected = schema["type"].as_str()?;
    let found = type_of(value);
    (found != expected && !(expected == "number" && found == "integer")).then(|| expected.to_owned())
}

//! JSON paths of printer columns: fields, indices and simple filters.

use serde_json::Value;

/// The values at a path such as `.status.conditions[?(@.type=="Ready")].status`, without nulls. A malformed path has no
/// values.
#[must_use]
pub fn find<'a>(object: &'a Value, path: &str) -> Vec<&'a Value> {
    let mut values = vec![object];
    let mut rest = path.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('[') {
            let Some((inside, after)) = split_bracket(after) else { return Vec::new() };
            values = values.into_iter().flat_map(|value| index(value, inside)).collect();
            rest = after;
        } else {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let (name, after) = field_name(rest);
            if !name.is_empty() {
                values = values.into_iter().filter_map(|value| value.get(&name)).collect();
            }
            if after.len() == rest.len() {
                return Vec::new();
            }
            rest = after;
        }
    }
    values.into_iter().filter(|value| !value.is_null()).collect()
}

/// The name up to the next dot or bracket, and the rest. A backslash escapes the next character.
fn field_name(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => {
                name.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '.' | '[' => return (name, &text[at..]),
            _ => name.push(c),
        }
    }
    (name, "")
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn split_bracket(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, ']') => return Some((&text[..at], &text[at + 1..])),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    None
}

fn index<'a>(value: &'a Value, inside: &str) -> Vec<&'a Value> {
    let items = value.as_array();
    let unquoted = inside.trim().trim_matches(['"', '\'']);
    if inside == "*" {
        return items.into_iter().flatten().collect();
    }
    if let Some(filter) = inside.strip_prefix("?(@").and_then(|filter| filter.strip_suffix(')')) {
        let Some((path, wanted)) = filter.split_once("==") else { return Vec::new() };
        let wanted = wanted.trim().trim_matches(['"', '\'']);
        let fits = |item: &&Value| find(item, path.trim()).first().is_some_and(|found| text(found) == wanted);
        return items.into_iter().flatten().filter(fits).collect();
    }
    match unquoted.parse::<i64>() {
        Ok(at) => {
            let items = items.map_or(&[][..], Vec::as_slice);
            let at =
                if at < 0 { items.len().checked_sub(at.unsigned_abs() as usize) } else { usize::try_from(at).ok() };
            at.and_then(|at| items.get(at)).into_iter().collect()
        }
        Err(_) => value.get(unquoted).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_through_fields_indices_and_filters() {
        let object = json!({
            "spec": {"size": 3, "list": ["a", "b"], "a.b/c": "dotted"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
        });
        let texts = |path: &str| find(&object, path).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        assert_eq!(texts(".spec.size"), "3");
        assert_eq!(texts(".spec.list[1]"), "\"b\"");
        assert_eq!(texts(".spec.list[-1]"), "\"b\"");
        assert_eq!(texts(".spec.list[*]"), "\"a\" \"b\"");
        assert_eq!(texts(".spec.a\\.b/c"), "\"dotted\"");
        assert_eq!(texts(".spec['a.b/c']"), "\"dotted\"");
        assert_eq!(texts(".status.conditions[?(@.type==\"Ready\")].status"), "\"True\"");
        for nowhere in [".x.y", ".spec.list[9]", "[", ".spec[?(@.x)]", "..", ""] {
            assert!(nowhere.is_empty() || texts(nowhere).is_empty(), "{nowhere}");
        }
    }
}

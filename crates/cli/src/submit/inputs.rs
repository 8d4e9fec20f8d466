//! The inputs of a task: values of the command line and of a file, converted to the types that the task declares.

use std::collections::BTreeMap;
use std::path::Path;

use aileron_idl::flyteidl2::core::{Literal, LiteralMap, TaskTemplate};
use aileron_preview::literals::{declared_inputs, from_json, from_text, type_name};
use aileron_preview::read;
use anyhow::Context;
use serde_json::{Map, Value};

use crate::failure::Failure;

/// The inputs that the user has given.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GivenInputs {
    /// The values of the command line by name. They override those of the file.
    pub texts: BTreeMap<String, String>,
    /// The content of the inputs file.
    pub file: Option<InputsFile>,
}

/// The content of an inputs file.
#[derive(Clone, Debug, PartialEq)]
pub enum InputsFile {
    /// Plain values by name.
    Values(Map<String, Value>),
    /// Literals by name.
    Literals(LiteralMap),
}

impl GivenInputs {
    /// Parses the values of the command line, and reads the file.
    pub fn read(pairs: &[String], file: Option<&Path>) -> Result<Self, Failure> {
        let mut texts = BTreeMap::new();
        for pair in pairs {
            let Some((name, value)) = pair.split_once('=').filter(|(name, _)| !name.is_empty()) else {
                return Err(Failure::Usage(format!("--input {pair}: write NAME=VALUE, such as name=ada")));
            };
            if texts.insert(name.to_owned(), value.to_owned()).is_some() {
                return Err(Failure::Usage(format!("--input {name}: given twice")));
            }
        }
        let file = file.map(|path| -> Result<InputsFile, Failure> {
            let bytes = std::fs::read(path)
                .map_err(|error| Failure::Usage(format!("--inputs {}: cannot read it: {error}", path.display())))?;
            Ok(parse_file(&bytes).with_context(|| format!("--inputs {}", path.display()))?)
        });
        Ok(Self { texts, file: file.transpose()? })
    }

    /// The literals of all inputs of a task. Inputs that are not given have their defaults.
    pub fn literals(
        &self,
        template: &TaskTemplate,
        defaults: &BTreeMap<String, Literal>,
    ) -> Result<LiteralMap, Failure> {
        let declared = declared_inputs(template.interface.as_ref());
        let type_of = |name: &str| declared.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind);
        let unknown = |name: &str| {
            let all: Vec<_> = declared.iter().map(|(name, kind)| format!("{name}: {}", type_name(kind))).collect();
            let all = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
            Failure::Usage(format!("input {name}: the task has no such input; it has {all}"))
        };
        let mut literals = defaults.clone();
        match &self.file {
            None => {}
            Some(InputsFile::Literals(given)) => {
                if let Some(name) = given.literals.keys().find(|name| type_of(name).is_none()) {
                    return Err(unknown(name));
                }
                literals.extend(given.literals.clone());
            }
            Some(InputsFile::Values(values)) => {
                for (name, value) in values {
                    let kind = type_of(name).ok_or_else(|| unknown(name))?;
                    let literal = from_json(kind, value);
                    let literal = literal.map_err(|error| Failure::Usage(format!("input {name}: {error}")))?;
                    literals.insert(name.clone(), literal);
                }
            }
        }
        for (name, text) in &self.texts {
            let kind = type_of(name).ok_or_else(|| unknown(name))?;
            let literal = from_text(kind, text);
            let literal = literal.map_err(|error| Failure::Usage(format!("--input {name}: {error}")))?;
            literals.insert(name.clone(), literal);
        }
        let missing = declared.iter().filter(|(name, _)| !literals.contains_key(*name));
        let missing: Vec<_> = missing.map(|(name, kind)| format!("{name} ({})", type_name(kind))).collect();
        if let Some(first) = missing.first().and_then(|first| first.split(' ').next()) {
            let remedy = format!("give them as --input {first}=VALUE");
            return Err(Failure::Usage(format!("missing inputs: {}; {remedy}", missing.join(", "))));
        }
        Ok(LiteralMap { literals })
    }
}

/// Reads an inputs file. A YAML or JSON document contains values by name, unless it is a literal map in the JSON form of
/// protobuf.
fn parse_file(bytes: &[u8]) -> anyhow::Result<InputsFile> {
    let document = std::str::from_utf8(bytes).ok().and_then(|text| serde_saphyr::from_str::<Value>(text).ok());
    match document {
        Some(Value::Object(values)) => {
            let inner = values.get("literals").and_then(Value::as_object).filter(|_| values.len() == 1);
            let parts = ["scalar", "collection", "map", "offloaded_metadata", "offloadedMetadata"];
            let is_literal = |value: &Value| parts.iter().any(|part| value.get(part).is_some());
            if inner.is_some_and(|inner| inner.values().all(is_literal)) {
                return Ok(InputsFile::Literals(read::inputs(bytes)?));
            }
            Ok(InputsFile::Values(values))
        }
        _ => Ok(InputsFile::Literals(read::inputs(bytes)?)),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use aileron_preview::literals::map_to_json;
    use aileron_preview::task_file;
    use prost::Message;
    use serde_json::json;

    use super::*;

    const TASK: &str = "{name: t, inputs: {name: string, x: {type: int, default: 1}, list: list<int>}}";

    fn literals(given: &GivenInputs) -> Result<LiteralMap, Failure> {
        let file = task_file::read(TASK).unwrap();
        given.literals(&file.template, &file.defaults)
    }

    fn given(pairs: &[&str]) -> GivenInputs {
        GivenInputs::read(&pairs.iter().map(ToString::to_string).collect::<Vec<_>>(), None).unwrap()
    }

    #[test]
    fn the_command_line_overrides_the_file_and_the_file_overrides_defaults() {
        let mut given = given(&["name=a=b", "x=41"]);
        given.file = Some(parse_file(br#"{"x": 5, "list": [1, 2]}"#).unwrap());
        assert_eq!(map_to_json(&literals(&given).unwrap()), json!({"name": "a=b", "x": 41, "list": [1, 2]}));
        given.texts.remove("x");
        assert_eq!(map_to_json(&literals(&given).unwrap())["x"], 5);
        given.file = None;
        given.texts.insert("list".into(), "[]".into());
        assert_eq!(map_to_json(&literals(&given).unwrap())["x"], 1);
    }

    #[test]
    fn a_literal_map_is_read_in_every_form() {
        let written = br#"{"literals": {"name": {"scalar": {"primitive": {"string_value": "a"}}}}}"#;
        let InputsFile::Literals(map) = parse_file(written).unwrap() else { unreachable!() };
        assert_eq!(parse_file(&map.encode_to_vec()).unwrap(), InputsFile::Literals(map));
        assert!(
            matches!(parse_file(b"{literals: {a: 1}}").unwrap(), InputsFile::Values(_)),
            "an input may be named `literals`"
        );
    }

    #[test]
    fn mistakes_name_the_input_and_the_remedy() {
        let refused = |pairs: &[&str]| literals(&given(pairs)).unwrap_err().to_string();
        assert_eq!(
            refused(&["nme=a"]),
            "input nme: the task has no such input; it has name: string, x: int, list: list<int>"
        );
        assert_eq!(refused(&["x=many"]), "--input x: must be int, such as 41; found many");
        assert_eq!(
            refused(&["x=1"]),
            "missing inputs: name (string), list (list<int>); give them as --input name=VALUE"
        );
        let wrong = |pair: &str| GivenInputs::read(&[pair.to_owned()], None).unwrap_err().to_string();
        assert!(wrong("name").contains("write NAME=VALUE"));
        assert!(wrong("=x").contains("write NAME=VALUE"));
    }
}

//! `inputs` and `outputs`.

use std::collections::BTreeMap;

use aileron_idl::flyteidl2::core::{Literal, LiteralType, TypedInterface, Variable, VariableEntry, VariableMap};

use super::fields::{Field, Group, Report};
use crate::literals::{from_json, parse_type};

/// What goes in and out.
pub(super) struct Interface {
    pub declared: TypedInterface,
    pub defaults: BTreeMap<String, Literal>,
}

pub(super) fn interface(root: &Group<'_>, report: &Report) -> Interface {
    let mut defaults = BTreeMap::new();
    let inputs = root.get("inputs").map(|field| variables(&field, Some(&mut defaults), report));
    let outputs = root.get("outputs").map(|field| variables(&field, None, report));
    Interface { declared: TypedInterface { inputs, outputs }, defaults }
}

/// `name: type`, or `name: {type, default, description}`.
fn variables(field: &Field<'_>, mut defaults: Option<&mut BTreeMap<String, Literal>>, report: &Report) -> VariableMap {
    let mut variables = Vec::new();
    for (name, field) in field.entries(report) {
        let mut description = String::new();
        let kind = if field.is_map() {
            let known: &[&str] =
                if defaults.is_some() { &["type", "default", "description"] } else { &["type", "description"] };
            let Some(group) = field.group(known, report) else { continue };
            description = group.text("description", report);
            let kind = group.require("type", "write for example `type: string`", report);
            let kind = kind.and_then(|field| declared_type(&field, report));
            if let (Some(kind), Some(defaults), Some(default)) = (&kind, &mut defaults, group.get("default")) {
                match from_json(kind, &default.json()) {
                    Ok(literal) => _ = defaults.insert(name.clone(), literal),
                    Err(error) => default.complain(error.to_string(), report),
                }
            }
            kind
        } else {
            declared_type(&field, report)
        };
        let value = Variable { r#type: kind, description, ..Variable::default() };
        variables.push(VariableEntry { key: name, value: Some(value) });
    }
    VariableMap { variables }
}

fn declared_type(field: &Field<'_>, report: &Report) -> Option<LiteralType> {
    let name = field.text(report)?;
    parse_type(&name).map_err(|error| field.complain(error.to_string(), report)).ok()
}

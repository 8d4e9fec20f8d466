//! Names: conversion, validation, length limits, output paths, secret annotations.

use aileron_idl::flyteidl2::core::Secret;
use aileron_kubekit::digest::Fnv1a;
use aileron_kubekit::names;
use aileron_machinery::output_path::action_output_prefix;
use aileron_machinery::secret_annotations::secret_annotations;
use aileron_machinery::unique_id::{UniqueIdError, fixed_length_unique_id_for_parts, fixed_length_unique_id_with};
use anyhow::bail;
use serde_json::{Value, json};

use super::{Case, argument, failure, unknown_function, value};
use crate::vectors::messages::message;

pub(super) fn produce(case: &Case) -> anyhow::Result<Value> {
    let text = case.arg("s").as_str().unwrap_or_default();
    match case.function() {
        "names.dns1123" => value(names::to_subdomain(text)),
        "names.kebab" => value(names::to_kebab_case(text)),
        "names.sanitizeLabelValue" => value(names::to_label_value(text)),
        "names.validate" => {
            value(json!({"dns1123Label": names::is_label(text), "dns1123Subdomain": names::is_subdomain(text)}))
        }
        "names.fixedLengthUniqueID" => {
            let digest = match case.arg("algorithm").as_str().unwrap_or_default() {
                "" | "32" => Fnv1a::Bits32,
                "64" => Fnv1a::Bits64,
                "128" => Fnv1a::Bits128,
                other => bail!("algorithm {other} is not known"),
            };
            bounded(fixed_length_unique_id_with(digest, text, argument(case, "maxLength")?))
        }
        "names.fixedLengthUniqueIDForParts" => {
            let parts: Vec<String> = argument(case, "parts")?;
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            bounded(fixed_length_unique_id_for_parts(argument(case, "maxLength")?, &parts))
        }
        "names.actionOutputPath" => {
            let text = |key: &str| case.arg(key).as_str().unwrap_or_default();
            let prefix = action_output_prefix(
                text("namespace"),
                text("taskActionName"),
                text("runOutputBase"),
                text("actionName"),
                argument(case, "attempt")?,
            );
            match prefix {
                Ok(prefix) => value(prefix),
                Err(error) => Ok(failure(error)),
            }
        }
        "names.secretAnnotations" => {
            let given: Vec<Value> = argument(case, "secrets")?;
            let secrets = given.iter().map(message).collect::<anyhow::Result<Vec<Secret>>>()?;
            match secret_annotations(&secrets) {
                Ok(annotations) => value(annotations),
                Err(error) => Ok(failure(error)),
            }
        }
        _ => Err(unknown_function(case)),
    }
}

/// Upstream returns the id that was too long along with the error.
fn bounded(id: Result<String, UniqueIdError>) -> anyhow::Result<Value> {
    match id {
        Ok(id) => value(id),
        Err(error) => {
            let mut result = failure(&error);
            result["value"] = error.id.into();
            Ok(result)
        }
    }
}

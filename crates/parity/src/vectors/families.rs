//! Computes our result for a case, in the format of the recorded one. There is one file per family; each calls the same
//! functions as the executor.

mod build;
mod config;
mod garbage;
mod manager;
mod metadata;
mod names;
mod phase;
mod podhelper;
mod quantity;
mod reconcile;
mod state;
mod tasklog;
mod template;

use std::fmt::Display;

use aileron_machinery::PluginError;
use anyhow::{Context as _, bail};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::case::Case;

pub(super) use state::meaning as stored_state_meaning;

/// The result of a case.
pub fn produce(case: &Case) -> anyhow::Result<Value> {
    match case.family.as_str() {
        "build" => build::produce(case),
        "config" => config::produce(case),
        "gc" => garbage::produce(case),
        "manager" => manager::produce(case),
        "metadata" => metadata::produce(case),
        "names" => names::produce(case),
        "phase" => phase::produce(case),
        "podhelper" => podhelper::produce(case),
        "quantity" => quantity::produce(case),
        "reconcile" => reconcile::produce(case),
        "state" => state::produce(case),
        "tasklog" => tasklog::produce(case),
        "template" => template::produce(case),
        family => bail!("family {family} is not implemented"),
    }
}

/// The error for an unknown function.
fn unknown_function(case: &Case) -> anyhow::Error {
    anyhow::anyhow!("function {} is not implemented", case.function())
}

/// An argument, decoded. Null and absence give the default of the type.
fn argument<T: DeserializeOwned + Default>(case: &Case, key: &str) -> anyhow::Result<T> {
    decoded(case.arg(key)).with_context(|| format!("argument {key}"))
}

/// A decoded JSON value. Null gives the default of the type.
fn decoded<T: DeserializeOwned + Default>(value: &Value) -> anyhow::Result<T> {
    if value.is_null() { Ok(T::default()) } else { Ok(serde_json::from_value(value.clone())?) }
}

/// `{value}`.
fn value(value: impl serde::Serialize) -> anyhow::Result<Value> {
    Ok(json!({"value": serde_json::to_value(value)?}))
}

/// `{error}` without a code.
fn failure(error: impl Display) -> Value {
    json!({"error": {"message": error.to_string()}})
}

/// `{error}` of a plugin.
fn plugin_failure(error: &PluginError) -> Value {
    json!({"error": error_object(error)})
}

/// `{code, message}` of a plugin's error.
fn error_object(error: &PluginError) -> Value {
    json!({"code": error.code(), "message": error.to_string()})
}

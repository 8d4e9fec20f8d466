//! The configuration after loading.

use aileron_config::dump;
use serde_json::Value;

use super::{Case, unknown_function, value};
use crate::vectors::installation::Installation;

pub(super) fn produce(case: &Case) -> anyhow::Result<Value> {
    match case.function() {
        "config.dump" => value(dump(&Installation::of(case)?.config)),
        _ => Err(unknown_function(case)),
    }
}

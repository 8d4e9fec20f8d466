//! `aileron crd`.

use aileron_action::crd::crd;
use anyhow::Context;

use crate::arguments::Document;
use crate::failure::Failure;
use crate::output;

pub fn print(format: Document) -> Result<(), Failure> {
    let definition = crd().context("cannot print the definition")?;
    let mut value = serde_json::to_value(definition).context("cannot print the definition")?;
    if let Some(object) = value.as_object_mut() {
        // The API server fills it in; in a file it is only in the way.
        object.remove("status");
    }
    match format {
        Document::Json => output::print_json(&value),
        Document::Yaml => {
            output::print(&serde_saphyr::to_string(&value).context("cannot print the definition as YAML")?)
        }
    }
}

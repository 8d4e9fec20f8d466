//! `aileron crd`: prints the CustomResourceDefinition of TaskAction.

use aileron_action::crd::crd;
use anyhow::Context;

use crate::arguments::DocumentFormat;
use crate::display::output;
use crate::failure::Failure;

pub fn run(format: DocumentFormat) -> Result<(), Failure> {
    let definition = crd().context("cannot print the definition")?;
    let mut value = serde_json::to_value(definition).context("cannot print the definition")?;
    if let Some(object) = value.as_object_mut() {
        // The API server sets the status. It does not belong into a file.
        object.remove("status");
    }
    match format {
        DocumentFormat::Json => output::print_json(&value),
        DocumentFormat::Yaml => {
            output::print(&serde_saphyr::to_string(&value).context("cannot print the definition as YAML")?)
        }
    }
}

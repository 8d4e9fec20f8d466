//! Quantities, and the arithmetic of requests and limits.

use aileron_idl::flyteidl2::core::{GpuAccelerator, Resources};
use aileron_kubekit::quantity::Quantity;
use aileron_machinery::pod::resources::{self, Unset};
use anyhow::Context as _;
use k8s_openapi::api::core::v1::ResourceRequirements;
use serde_json::{Value, json};

use super::{Case, argument, failure, plugin_failure, unknown_function, value};
use crate::vectors::installation::Installation;
use crate::vectors::messages::{message, optional_message};

pub(super) fn produce(case: &Case) -> anyhow::Result<Value> {
    match case.function() {
        "quantity.parse" => Ok(parse(case.arg("s").as_str().unwrap_or_default())),
        "quantity.cmp" => value(quantity(case, "a")?.cmp(&quantity(case, "b")?) as i8),
        "resources.adjustOrDefault" => {
            let adjusted = resources::adjust_or_default(
                &quantity(case, "request")?,
                &quantity(case, "limit")?,
                &quantity(case, "platformDefault")?,
                &quantity(case, "platformLimit")?,
            );
            value(json!({"request": adjusted.request.to_string(), "limit": adjusted.limit.to_string()}))
        }
        "resources.applyOverrides" => {
            let unset = if argument(case, "assignIfUnset")? { Unset::Assign } else { Unset::Leave };
            let config = Installation::of(case)?.config.plugins.k8s;
            let (given, platform) = (requirements(case, "resources")?, requirements(case, "platform")?);
            match resources::apply_overrides(&given, &platform, &config, unset) {
                Ok(decided) => value(decided),
                Err(error) => Ok(plugin_failure(&error)),
            }
        }
        "resources.merge" => {
            let mut under = requirements(case, "out")?;
            resources::merge(&requirements(case, "in")?, &mut under);
            value(under)
        }
        "resources.fromProto" => {
            let given: Option<Resources> = optional_message(case.arg("resources"))?;
            match resources::from_proto(given.as_ref()) {
                Ok(requirements) => value(requirements),
                Err(error) => Ok(plugin_failure(&error)),
            }
        }
        "resources.sanitizeGpu" => {
            let mut given = requirements(case, "resources")?;
            let accelerator: Option<GpuAccelerator> = match case.arg("accelerator") {
                Value::Null => None,
                given => Some(message(given)?),
            };
            resources::sanitize_gpu(&mut given, accelerator.as_ref(), &Installation::of(case)?.config.plugins.k8s);
            value(given)
        }
        _ => Err(unknown_function(case)),
    }
}

fn parse(text: &str) -> Value {
    match text.parse::<Quantity>() {
        Ok(quantity) => json!({"value": {
            "canonical": quantity.to_string(),
            "format": quantity.format().as_str(),
            "isZero": quantity.is_zero(),
            "milliValue": quantity.milli_value(),
            "sign": quantity.signum(),
            "value": quantity.value(),
        }}),
        Err(error) => failure(error),
    }
}

/// A quantity argument; an empty text is unset.
fn quantity(case: &Case, key: &str) -> anyhow::Result<Quantity> {
    match case.arg(key).as_str().unwrap_or_default() {
        "" => Ok(Quantity::default()),
        text => text.parse().with_context(|| format!("argument {key}")),
    }
}

fn requirements(case: &Case, key: &str) -> anyhow::Result<ResourceRequirements> {
    argument(case, key)
}

//! Which keys exist, with type, default and documentation. All of it comes from the types of the sections.

pub(crate) mod no_effect;
pub(crate) mod shape;
pub mod suggest;

use serde_json::Value;

use crate::Config;

/// The JSON Schema of the configuration, exactly as the types state it. The loader and the explanations read it through
/// [`shape::Shape`].
pub(crate) fn keys() -> Value {
    schemars::schema_for!(Config).to_value()
}

/// The default of every key.
pub(crate) fn defaults() -> Value {
    // The types hold only values that JSON can express, so this cannot fail. `Null` would mean "no defaults".
    serde_json::to_value(Config::default()).unwrap_or_default()
}

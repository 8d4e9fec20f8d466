//! Which keys exist, with type, default and documentation. All of it comes from the types of the sections.

pub mod credentials;
pub mod foreign;
pub(crate) mod no_effect;
pub(crate) mod shape;
pub mod suggest;

use aileron_machinery::Section;
use schemars::SchemaGenerator;
use serde_json::Value;

use crate::Config;

/// The JSON Schema of the configuration, exactly as the types state it, with these sections of plugins below `plugins`. The
/// loader and the explanations read it through [`shape::Shape`].
pub(crate) fn keys(sections: &[Section]) -> Value {
    let mut generator = SchemaGenerator::default();
    let mut schema = generator.root_schema_for::<Config>().to_value();
    for section in sections {
        let mut property = section.schema(&mut generator).to_value();
        let named = property["$ref"].as_str().and_then(|path| path.strip_prefix("#/$defs/")).map(str::to_owned);
        let definition = named.and_then(|name| generator.definitions().get(&name).cloned());
        if let Some(doc) = definition.as_ref().and_then(|definition| definition.get("description")) {
            property["description"] = doc.clone();
        }
        schema["$defs"]["PluginsConfig"]["properties"][section.key()] = property;
    }
    for (name, definition) in generator.definitions() {
        if schema["$defs"].get(name).is_none() {
            schema["$defs"][name] = definition.clone();
        }
    }
    schema
}

/// The default of every key.
pub(crate) fn defaults() -> Value {
    // The types hold only values that JSON can express, so this cannot fail. `Null` would mean "no defaults".
    serde_json::to_value(Config::default()).unwrap_or_default()
}

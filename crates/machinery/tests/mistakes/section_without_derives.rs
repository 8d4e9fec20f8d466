// The section has neither default values nor a schema.
use aileron_machinery::PluginSection;
use aileron_machinery::serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
#[serde(crate = "aileron_machinery::serde")]
pub struct KettleConfig {
    litres: u32,
}

impl PluginSection for KettleConfig {
    const KEY: &'static str = "kettle";
}

// `custom_resource!` makes objects with default values, so the spec needs them too.
use aileron_machinery::custom_resource;
use aileron_machinery::serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(crate = "aileron_machinery::serde")]
pub struct KettleSpec {
    litres: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(crate = "aileron_machinery::serde")]
pub struct KettleStatus {
    boils: bool,
}

custom_resource! {
    /// Boils water.
    Kettle(KettleSpec, KettleStatus), "kitchen.example.com", "v1", "kettles"
}

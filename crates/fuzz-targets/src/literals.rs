//! Any bytes as encoded inputs: read as the executor does, put into arguments, hashed for the cache, and shown.

use aileron_executor::services::cache::CacheKey;
use aileron_executor::storage::MemoryStore;
use aileron_executor::storage::outputs::read_inputs;
use aileron_idl::flyteidl2::core::task_template::Target;
use aileron_idl::flyteidl2::core::{Container, Identifier, LiteralMap, TypedInterface, VariableMap};
use aileron_preview::literals::map_to_json;
use aileron_preview::render::Offline;
use futures::executor::block_on;

use crate::error::TargetError;
use crate::installation::installations;
use crate::task_template::render;

const URI: &str = "s3://bucket/inputs.pb";

/// Reads inputs from bytes.
pub struct Reader {
    installation: Offline,
}

impl Reader {
    /// Reads inputs of a container task.
    ///
    /// # Errors
    /// When the installation cannot be made.
    pub fn new() -> Result<Self, TargetError> {
        let installation =
            installations()?.into_iter().next().ok_or_else(|| TargetError::Unknown("literals".into()))?;
        Ok(Self { installation })
    }

    /// Reads encoded inputs.
    pub fn read(&self, data: &[u8]) {
        let store = MemoryStore::new();
        store.insert(URI, data.to_vec());
        let Ok(inputs) = block_on(read_inputs(&store, URI)) else { return };
        let shown = map_to_json(&inputs).to_string();
        assert!(shown.starts_with('{'), "{shown}");
        let interface = TypedInterface { inputs: Some(VariableMap::default()), ..TypedInterface::default() };
        let key = CacheKey::new(Identifier::default(), "v1".into(), Vec::new(), Some(interface), URI.into());
        let _ = block_on(key.text(&store));
        self.put_into_arguments(inputs);
    }

    /// Builds the object of a task whose arguments are the inputs.
    fn put_into_arguments(&self, inputs: LiteralMap) {
        let mut offline = self.installation.clone();
        let args = inputs.literals.keys().map(|name| format!("{{{{.inputs.{name}}}}}")).collect();
        offline.template.target =
            Some(Target::Container(Container { image: "image:1".into(), args, ..Container::default() }));
        offline.inputs = Some(inputs);
        render(&offline);
    }
}

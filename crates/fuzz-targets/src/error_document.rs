//! Any bytes as the error document or the outputs of a task: read as the executor does.

use std::sync::Arc;

use aileron_executor::storage::MemoryStore;
use aileron_executor::storage::outputs::{TaskResult, read_error, read_error_document, read_result};
use aileron_machinery::{ObjectPlugin, ObservedPhase, PhaseContext, TaskContext, testing};
use futures::executor::block_on;
use serde_json::{Value, json};

use crate::answer::chain;
use crate::error::TargetError;
use crate::installation::configurations;

const OUTPUTS: &str = "s3://bucket/outputs.pb";
const ERROR: &str = "s3://bucket/error.pb";

/// Reads error documents from bytes.
pub struct Reader {
    /// The plugins that read an object which failed, each with a task.
    plugins: Vec<(Arc<dyn ObjectPlugin>, TaskContext)>,
}

impl Reader {
    /// Reads with the Ray plugin, which is the one that looks at error documents itself.
    ///
    /// # Errors
    /// When the plugins cannot be made.
    pub fn new() -> Result<Self, TargetError> {
        let mut plugins = Vec::new();
        for config in configurations()? {
            let set = aileron_plugins::builtin().build(&config.plugins.section_values())?;
            let ray = set.k8s().iter().filter(|plugin| &*plugin.entry().id == "ray");
            plugins.extend(ray.map(|plugin| (Arc::clone(plugin), testing::task("ray", &Value::Null))));
        }
        Ok(Self { plugins })
    }

    /// Reads the bytes as either file.
    pub fn read(&self, data: &[u8]) {
        let store = MemoryStore::new();
        store.insert(OUTPUTS, data.to_vec());
        let _ = block_on(read_result(&store, OUTPUTS, ERROR, true));
        store.insert(ERROR, data.to_vec());
        let result = block_on(read_result(&store, OUTPUTS, ERROR, true));
        let succeeded = matches!(result, Ok(TaskResult::Succeeded));
        assert!(!succeeded, "a task that wrote an error document did not succeed");
        match result {
            Ok(_) => assert!(block_on(read_error(&store, ERROR)).is_ok_and(|error| error.is_some())),
            Err(error) => {
                let text = chain(&error);
                assert!(text.contains(ERROR), "{text:?} does not name the file");
            }
        }
        let document = block_on(read_error_document(&store, ERROR)).ok().flatten();
        for (plugin, task) in &self.plugins {
            let failed = json!({
                "metadata": {"name": testing::NAME, "namespace": "p-d", "creationTimestamp": testing::NOW},
                "spec": {}, "status": {"jobDeploymentStatus": "Failed", "jobStatus": "FAILED", "message": "failed"},
            });
            let Ok(object) = plugin.decode(failed) else { continue };
            let prior = ObservedPhase::default();
            let cx = PhaseContext::new(task, &prior).with_error_document(document.as_ref());
            let _ = block_on(plugin.phase(&cx, object.as_ref()));
        }
    }
}

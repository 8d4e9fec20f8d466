//! Any bytes as a file for `aileron submit` and `aileron render`: a task file, a template or a TaskAction.

use aileron_preview::read;
use aileron_preview::render::Offline;

use crate::answer::explained;
use crate::error::TargetError;
use crate::installation::installations;
use crate::task_template::render;

/// Reads task files from bytes.
pub struct Reader {
    installation: Offline,
}

impl Reader {
    /// Builds under the defaults.
    ///
    /// # Errors
    /// When the installation cannot be made.
    pub fn new() -> Result<Self, TargetError> {
        let installation =
            installations()?.into_iter().next().ok_or_else(|| TargetError::Unknown("task_file".into()))?;
        Ok(Self { installation })
    }

    /// Reads the file, and builds the object of its task.
    pub fn read(&self, data: &[u8]) {
        // The same options take a pod template and inputs.
        let _ = (read::pod_template(data), read::inputs(data));
        let given = match read::task(data) {
            Ok(given) => given,
            Err(error) => {
                explained(&error);
                return;
            }
        };
        let _ = given.notes();
        let inputs = given.file.as_ref().and_then(|file| file.default_inputs());
        let mut offline = self.installation.clone();
        offline.action = given.action;
        offline.template = given.template;
        offline.inputs = inputs.or(offline.inputs);
        render(&offline);
    }
}

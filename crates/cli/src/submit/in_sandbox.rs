//! Runs a task in a sandbox of this process, for tests of plugin authors.

use super::inputs::GivenInputs;
use super::results::{FinishedTask, read_result};
use super::source::{SubmitPlan, from_bytes};
use super::{Storage, SubmitOptions, create_objects, submit};
use crate::arguments::DEFAULT_NAME;
use crate::failure::Failure;
use crate::follow::{FollowOptions, ProgressTarget, follow};
use crate::sandbox::Sandbox;

/// The namespace of a task whose file names none.
const NAMESPACE: &str = "default";

impl Sandbox {
    /// Submits a task file (`docs/tasks.md`) and waits until the task has ended.
    ///
    /// # Errors
    /// The text is not a task file for one task, or the task cannot be submitted. A task that fails is not an error.
    pub async fn run_task(&self, task_file: &str) -> Result<FinishedTask, Failure> {
        let options = SubmitOptions { namespace: NAMESPACE.to_owned(), ..SubmitOptions::default() };
        let plan = from_bytes(task_file.as_bytes(), "task file", &GivenInputs::default(), &options)?;
        let SubmitPlan { requests, objects, .. } = plan;
        let [request] = <[_; 1]>::try_from(requests)
            .map_err(|requests| Failure::Usage(format!("the task file asks for {} copies, not one", requests.len())))?;
        let (client, storage) = (self.client(), Storage::local(self.storage())?);
        create_objects(&client, &request.namespace, &objects).await?;
        let submitted = submit(DEFAULT_NAME, &client, &storage, request).await?;
        let key = (submitted.namespace.clone(), submitted.name.clone());
        let quiet = FollowOptions { target: ProgressTarget::Nowhere, ..FollowOptions::default() };
        let followed = follow(&client, &[key], quiet).await?.pop();
        let followed = followed.ok_or_else(|| anyhow::anyhow!("no result of the task {}", submitted.name))?;
        Ok(read_result(&storage, submitted, followed).await?)
    }
}

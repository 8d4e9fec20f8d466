// The services of a test do not implement `TaskServices`.
use aileron_machinery::{CoreRequest, StoredState, TaskContext};

pub struct FreeTokens;

pub fn call(task: &TaskContext, state: &StoredState) {
    drop(CoreRequest::new(task, state).with_services(&FreeTokens));
}

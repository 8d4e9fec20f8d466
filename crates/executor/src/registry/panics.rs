//! Panics of plugins: each becomes an error of the call, so that it fails only the task of that call.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use aileron_machinery::PluginError;
use futures::FutureExt;

/// Calls a plugin. A panic becomes an error of this one task.
pub(crate) async fn guarded<T>(call: impl Future<Output = Result<T, PluginError>>) -> Result<T, PluginError> {
    AssertUnwindSafe(call).catch_unwind().await.unwrap_or_else(|panic| Err(as_error(panic.as_ref())))
}

/// Calls a function of a plugin that is not asynchronous. A panic becomes an error.
pub(crate) fn guarded_now<T>(call: impl FnOnce() -> Result<T, PluginError>) -> Result<T, PluginError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| Err(as_error(panic.as_ref())))
}

fn as_error(panic: &(dyn Any + Send)) -> PluginError {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    metrics::counter!("aileron_plugin_panics_total").increment(1);
    PluginError::uncoded(format!("plugin panicked: {}", text.as_deref().unwrap_or("no message")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]

    use super::*;

    #[tokio::test]
    async fn a_plugin_that_panics_fails_its_own_task_only() {
        let expected = Err("plugin panicked: index 7 is out of range".to_owned());
        let result: Result<(), _> = guarded(async { panic!("index {} is out of range", 7) }).await;
        assert_eq!(result.map_err(|error| error.to_string()), expected);
        let result: Result<(), _> = guarded_now(|| panic!("index {} is out of range", 7));
        assert_eq!(result.map_err(|error| error.to_string()), expected);
        assert!(guarded(async { Ok(1) }).await.is_ok_and(|answer| answer == 1));
        assert!(guarded_now(|| Ok(1)).is_ok_and(|answer| answer == 1));
    }
}

//! Values that fit their type and still cannot be used.

use super::Config;
use super::error::{ConfigError, ConfigErrors, Problem};
use super::tree::Tree;

/// All values that cannot be used. The sentences of the `executor` section are upstream's.
pub(super) fn validate(config: &Config, set: &Tree) -> Result<(), ConfigErrors> {
    let mut errors = Vec::new();
    let mut reject = |path: &[&str], message: String| {
        errors.push(ConfigError { origin: set.origin(path), path: path.join("."), problem: Problem::Invalid(message) });
    };
    let executor = &config.executor;
    if executor.max_system_failures < 0 {
        let message = format!("executor: maxSystemFailures must be non-negative, got {}", executor.max_system_failures);
        reject(&["executor", "maxSystemFailures"], message);
    }
    if executor.requeue_duration.as_nanos() < 0 {
        let message = format!("executor: requeueDuration must not be negative, got {}", executor.requeue_duration);
        reject(&["executor", "requeueDuration"], message);
    }
    if executor.max_concurrent_reconciles < 0 {
        let message = format!("must not be negative, got {}", executor.max_concurrent_reconciles);
        reject(&["executor", "maxConcurrentReconciles"], message);
    }
    if config.plugins.k8s.update_backoff_retries < 0 {
        let message = format!("must not be negative, got {}", config.plugins.k8s.update_backoff_retries);
        reject(&["plugins", "k8s", "update-backoff-retries"], message);
    }
    if !(0.0..=1.0).contains(&config.otel.sampler.trace_id_ratio) {
        let message = format!("must lie between 0 and 1, got {}", config.otel.sampler.trace_id_ratio);
        reject(&["otel", "sampler", "traceIdRatio"], message);
    }
    if errors.is_empty() { Ok(()) } else { Err(ConfigErrors(errors)) }
}

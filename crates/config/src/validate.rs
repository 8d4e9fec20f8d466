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
    if executor.missing_kind_timeout.as_nanos() < 0 {
        let message = format!("must not be negative, got {}", executor.missing_kind_timeout);
        reject(&["executor", "missingKindTimeout"], message);
    }
    if executor.max_concurrent_reconciles < 0 {
        let message = format!("must not be negative, got {}", executor.max_concurrent_reconciles);
        reject(&["executor", "maxConcurrentReconciles"], message);
    }
    let backoff = &config.tasks.backoff;
    if u32::try_from(backoff.base_second).is_err() {
        let message = format!("must be between 0 and {}, got {}", u32::MAX, backoff.base_second);
        reject(&["tasks", "backoff", "base-second"], message);
    }
    let gate = &config.tasks.launch_gate;
    let durations = [
        (["tasks", "backoff", "max-duration"], backoff.max_duration),
        (["tasks", "launch-gate", "hold-after"], gate.hold_after),
        (["tasks", "launch-gate", "hold-for"], gate.hold_for),
        (["tasks", "launch-gate", "settle"], gate.settle),
    ];
    for (path, duration) in durations.iter().filter(|(_, duration)| duration.as_nanos() < 0) {
        reject(path, format!("must not be negative, got {duration}"));
    }
    if config.plugins.k8s.update_backoff_retries < 0 {
        let message = format!("must not be negative, got {}", config.plugins.k8s.update_backoff_retries);
        reject(&["plugins", "k8s", "update-backoff-retries"], message);
    }
    if config.plugins.k8s.delete_finished_after.as_nanos() < 0 {
        let message = format!("must not be negative, got {}", config.plugins.k8s.delete_finished_after);
        reject(&["plugins", "k8s", "delete-finished-after"], message);
    }
    for (name, pool) in &config.tasks.pools {
        if !aileron_kubekit::names::is_label(name) {
            let message = "a pool's name consists of lower-case letters, digits and hyphens, at most 63".to_owned();
            reject(&["tasks", "pools", name], message);
        }
        if pool.quota == 0 {
            reject(&["tasks", "pools", name, "quota"], "must be at least 1, or no task could ever run".to_owned());
        }
    }
    if !(0.0..=1.0).contains(&config.otel.sampler.trace_id_ratio) {
        let message = format!("must lie between 0 and 1, got {}", config.otel.sampler.trace_id_ratio);
        reject(&["otel", "sampler", "traceIdRatio"], message);
    }
    if errors.is_empty() { Ok(()) } else { Err(ConfigErrors(errors)) }
}

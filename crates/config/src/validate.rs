//! Checks values that have the right type but may still be unusable, such as a negative duration.

mod objects;

use aileron_kubekit::duration::GoDuration;
use aileron_kubekit::quantity::Quantity;
use aileron_machinery::Section;

use crate::Config;
use crate::sections::resource_limits::ResourceLimitsConfig;
use crate::values::findings::Purpose;

/// The path of a value, one part for each key, and why the value cannot be used.
pub(crate) type Unusable = (Vec<String>, String);

/// Collects values that cannot be used.
#[derive(Default)]
struct Problems {
    path: Vec<String>,
    found: Vec<Unusable>,
}

impl Problems {
    /// Makes checks below a key.
    fn below(&mut self, key: &str, check: impl FnOnce(&mut Self)) {
        self.path.push(key.to_owned());
        check(self);
        self.path.pop();
    }

    /// The value of this key cannot be used.
    fn reject(&mut self, key: &str, message: String) {
        self.found.push(([self.path.as_slice(), &[key.to_owned()]].concat(), message));
    }

    /// Rejects negative durations.
    fn not_negative(&mut self, durations: &[(&str, GoDuration)]) {
        for (key, duration) in durations.iter().filter(|(_, duration)| duration.as_nanos() < 0) {
            self.reject(key, format!("must not be negative, got {duration}"));
        }
    }

    fn check_executor(&mut self, config: &Config) {
        let executor = &config.executor;
        if executor.max_system_failures < 0 {
            let message =
                format!("executor: maxSystemFailures must be non-negative, got {}", executor.max_system_failures);
            self.reject("maxSystemFailures", message);
        }
        if executor.requeue_duration.as_nanos() < 0 {
            let message = format!("executor: requeueDuration must not be negative, got {}", executor.requeue_duration);
            self.reject("requeueDuration", message);
        }
        if executor.leader_elect_take_over && !executor.leader_elect {
            let message = "needs executor.leaderElect: true, because the lease is what is taken over".to_owned();
            self.reject("leaderElectTakeOver", message);
        }
        self.not_negative(&[("missingKindTimeout", executor.missing_kind_timeout)]);
        if executor.max_concurrent_reconciles < 0 {
            let message = format!("must not be negative, got {}", executor.max_concurrent_reconciles);
            self.reject("maxConcurrentReconciles", message);
        }
    }

    fn check_tasks(&mut self, config: &Config) {
        let (backoff, gate) = (&config.tasks.backoff, &config.tasks.launch_gate);
        self.below("backoff", |it| {
            if u32::try_from(backoff.base_second).is_err() {
                let message = format!("must be between 0 and {}, got {}", u32::MAX, backoff.base_second);
                it.reject("base-second", message);
            }
            it.not_negative(&[("max-duration", backoff.max_duration)]);
        });
        self.below("launch-gate", |it| {
            it.not_negative(&[("hold-after", gate.hold_after), ("hold-for", gate.hold_for), ("settle", gate.settle)]);
        });
        self.below("pools", |it| {
            for (name, pool) in &config.tasks.pools {
                if !aileron_kubekit::names::is_label(name) {
                    let message = "a pool's name consists of lower-case letters, digits and hyphens, at most 63";
                    it.reject(name, message.to_owned());
                }
                if pool.quota == 0 {
                    let message = "must be at least 1, or no task could ever run".to_owned();
                    it.below(name, |it| it.reject("quota", message));
                }
            }
        });
    }

    fn check_resource_limits(&mut self, limits: &ResourceLimitsConfig) {
        let ResourceLimitsConfig { cpu, memory, ephemeral_storage, gpu } = limits;
        let amounts = [("cpu", cpu), ("memory", memory), ("ephemeral-storage", ephemeral_storage), ("gpu", gpu)];
        for (key, amount) in amounts.into_iter().filter(|(_, amount)| **amount < Quantity::default()) {
            self.reject(key, format!("must not be negative, got {amount}; 0 means no limit"));
        }
    }

    fn check_k8s_numbers(&mut self, config: &Config) {
        let k8s = &config.plugins.k8s;
        if k8s.update_backoff_retries < 0 {
            let message = format!("must not be negative, got {}", k8s.update_backoff_retries);
            self.reject("update-backoff-retries", message);
        }
        self.not_negative(&[("delete-finished-after", k8s.delete_finished_after)]);
    }

    fn check_sections(&mut self, config: &Config, sections: &[Section]) {
        for section in sections {
            let values = config.plugins.sections.get(section.key()).cloned().unwrap_or_default();
            for problem in section.check(&values) {
                let below = problem.path.split('.').filter(|key| !key.is_empty());
                let path = ["plugins", section.key()].into_iter().chain(below).map(str::to_owned).collect();
                self.found.push((path, problem.message));
            }
        }
    }
}

/// The formats of log records. Empty means `json`.
const LOG_FORMATS: [&str; 4] = ["", "json", "text", "gcp"];

/// All values that cannot be used. The messages for `executor.maxSystemFailures` and `executor.requeueDuration` are those
/// of upstream.
pub(crate) fn problems(config: &Config, sections: &[Section], purpose: Purpose) -> Vec<Unusable> {
    let mut problems = Problems::default();
    problems.below("executor", |it| it.check_executor(config));
    problems.below("tasks", |it| it.check_tasks(config));
    let limits = &config.tasks.resource_limits;
    problems.below("tasks", |it| it.below("resource-limits", |it| it.check_resource_limits(limits)));
    problems.below("plugins", |it| it.below("k8s", |it| it.check_k8s_numbers(config)));
    if purpose == Purpose::Start {
        problems.check_objects(&config.plugins.k8s);
        problems.below("logger", |it| {
            let format = &config.logger.formatter.kind;
            if !LOG_FORMATS.contains(&format.to_lowercase().as_str()) {
                it.below("formatter", |it| it.reject("type", format!("{format:?} is unknown; use json, text or gcp")));
            }
        });
    }
    if !(0.0..=1.0).contains(&config.otel.sampler.trace_id_ratio) {
        let message = format!("must lie between 0 and 1, got {}", config.otel.sampler.trace_id_ratio);
        problems.below("otel", |it| it.below("sampler", |it| it.reject("traceIdRatio", message)));
    }
    problems.check_sections(config, sections);
    problems.found
}

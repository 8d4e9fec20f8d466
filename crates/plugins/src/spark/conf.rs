//! Spark's settings for one application.

use std::collections::BTreeMap;

use aileron_idl::flyteidl2::plugins::SparkJob;
use aileron_machinery::TaskContext;

use super::config::{SparkConfig, SparkFeature};

/// Name and value of each setting.
pub(super) type SparkConf = BTreeMap<String, String>;

/// Settings about the pods of one role.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodSettings {
    pub(super) cores: &'static str,
    pub(super) memory: &'static str,
    pub(super) request_cores: &'static str,
    pub(super) limit_cores: &'static str,
    /// Which container of the pod template is Spark's.
    pub(super) template_container: &'static str,
}

/// Settings about the driver's pod.
pub(super) const DRIVER: PodSettings = PodSettings {
    cores: "spark.driver.cores",
    memory: "spark.driver.memory",
    request_cores: "spark.kubernetes.driver.request.cores",
    limit_cores: "spark.kubernetes.driver.limit.cores",
    template_container: "spark.kubernetes.driver.podTemplateContainerName",
};

/// Settings about the executors' pods.
pub(super) const EXECUTOR: PodSettings = PodSettings {
    cores: "spark.executor.cores",
    memory: "spark.executor.memory",
    request_cores: "spark.kubernetes.executor.request.cores",
    limit_cores: "spark.kubernetes.executor.limit.cores",
    template_container: "spark.kubernetes.executor.podTemplateContainerName",
};

/// How many executors there are.
pub(super) const EXECUTOR_INSTANCES: &str = "spark.executor.instances";

/// Not a setting of Spark; the name of the scheduler that the operator asks to place all pods together.
pub(super) const BATCH_SCHEDULER: &str = "spark.batchScheduler";

const PYTHON: [&str; 2] = ["spark.pyspark.python", "spark.pyspark.driver.python"];
const POD_NAME_PREFIX: &str = "spark.kubernetes.executor.podNamePrefix";
const START_TIME: &str = "spark.kubernetes.driverEnv.FLYTE_START_TIME";

/// The settings: the platform's defaults, the features and settings of the task, and what follows from them.
///
/// Mirrors `getSparkConfig` of upstream's Spark plugin.
///
/// # Differs from upstream
///
/// What a task sets itself always wins over what a feature of it sets; upstream lets chance decide.
pub(super) fn spark_conf(task: &TaskContext, config: &SparkConfig, job: &SparkJob) -> SparkConf {
    let mut conf = config.spark_config_default.clone();
    if !job.executor_path.is_empty() {
        conf.extend(PYTHON.map(|key| (key.to_owned(), job.executor_path.clone())));
    }
    let feature_of = |key: &str, value: &str| requested_feature(config, key, value);
    for feature in job.spark_conf.iter().filter_map(|(key, value)| feature_of(key, value)) {
        conf.extend(feature.spark_config.clone());
    }
    let own = job.spark_conf.iter().filter(|(key, value)| feature_of(key, value).is_none());
    conf.extend(own.map(|(key, value)| (key.clone(), value.clone())));

    limit_cores(&mut conf, &DRIVER);
    limit_cores(&mut conf, &EXECUTOR);
    conf.insert(POD_NAME_PREFIX.to_owned(), task.metadata.id.generated_name.clone());
    conf.insert(START_TIME.to_owned(), task.now.as_millisecond().to_string());
    conf
}

/// A setting that is there and says something.
pub(super) fn given<'a>(conf: &'a SparkConf, key: &str) -> Option<&'a String> {
    conf.get(key).filter(|value| !value.is_empty())
}

/// A whole number above or below zero; Spark's own default stands for anything else.
pub(super) fn number(conf: &SparkConf, key: &str) -> Option<i32> {
    conf.get(key)?.parse().ok().filter(|number| *number != 0)
}

/// The feature that a setting asks for, `spark.flyte.<name>.enabled: true`. One that nobody configured is an ordinary
/// setting.
fn requested_feature<'a>(config: &'a SparkConfig, key: &str, value: &str) -> Option<&'a SparkFeature> {
    let rest = key.strip_prefix("spark.flyteorg.").or_else(|| key.strip_prefix("spark.flyte."))?;
    let name = rest.strip_suffix(".enabled").filter(|_| value.trim().eq_ignore_ascii_case("true"))?;
    config.features.iter().find(|feature| feature.name == name)
}

/// A pod may use what it asks for, unless somebody has said otherwise: Spark itself sets no limit.
fn limit_cores(conf: &mut SparkConf, settings: &PodSettings) {
    if given(conf, settings.limit_cores).is_none()
        && let Some(cores) = given(conf, settings.request_cores).or_else(|| given(conf, settings.cores)).cloned()
    {
        conf.insert(settings.limit_cores.to_owned(), cores);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use aileron_machinery::testing::task;

    fn pairs(pairs: &[(&str, &str)]) -> SparkConf {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn conf(config: &SparkConfig, own: &[(&str, &str)]) -> SparkConf {
        let job = SparkJob { spark_conf: pairs(own), ..SparkJob::default() };
        let mut conf = spark_conf(&task("spark", &serde_json::Value::Null), config, &job);
        assert_eq!(conf.remove(POD_NAME_PREFIX).as_deref(), Some("run-a0-0"));
        assert_eq!(conf.remove(START_TIME).as_deref(), Some("1257894000000"));
        conf
    }

    #[test]
    fn the_task_wins_over_its_features_and_they_over_defaults() {
        let feature = |name: &str, conf| SparkFeature { name: name.into(), spark_config: pairs(conf) };
        let config = SparkConfig {
            spark_config_default: pairs(&[("a", "default"), ("b", "default"), ("c", "default")]),
            features: vec![feature("f", &[("b", "feature"), ("c", "feature")]), feature("f", &[("b", "second")])],
            ..SparkConfig::default()
        };
        let expected = pairs(&[("a", "default"), ("b", "feature"), ("c", "own")]);
        assert_eq!(conf(&config, &[("c", "own"), ("spark.flyteorg.f.enabled", " True ")]), expected);
        assert_eq!(conf(&config, &[("c", "own"), ("spark.flyte.f.enabled", "true")]), expected);
    }

    #[test]
    fn a_feature_that_is_off_or_unknown_is_a_setting() {
        let feature = SparkFeature { name: "f".into(), spark_config: pairs(&[("x", "1")]) };
        let config = SparkConfig { features: vec![feature], ..SparkConfig::default() };
        for own in [("spark.flyte.f.enabled", "false"), ("spark.flyte.g.enabled", "true"), ("spark.flyte.enabled", "1")]
        {
            assert_eq!(conf(&config, &[own]), pairs(&[own]));
        }
    }

    #[test]
    fn limits_follow_requests_then_cores() {
        let limit = |own: &[(&str, &str)]| conf(&SparkConfig::default(), own).get(DRIVER.limit_cores).cloned();
        assert_eq!(limit(&[(DRIVER.cores, "1")]).as_deref(), Some("1"));
        assert_eq!(limit(&[(DRIVER.cores, "1"), (DRIVER.request_cores, "500m")]).as_deref(), Some("500m"));
        assert_eq!(limit(&[(DRIVER.cores, "1"), (DRIVER.limit_cores, "7")]).as_deref(), Some("7"));
        assert_eq!(limit(&[(DRIVER.cores, "1"), (DRIVER.limit_cores, "")]).as_deref(), Some("1"));
        assert_eq!(limit(&[(EXECUTOR.cores, "1")]), None);
    }
}

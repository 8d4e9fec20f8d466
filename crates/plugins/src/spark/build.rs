//! The Spark application of a task.

use aileron_idl::flyteidl2::plugins::SparkJob;
use aileron_idl::flyteidl2::plugins::spark_application::Type;
use aileron_machinery::settings;
use aileron_machinery::{PluginError, TaskContext, code};

use super::conf::{self, BATCH_SCHEDULER, EXECUTOR_INSTANCES};
use super::config::SparkConfig;
use super::pods::{self, DRIVER, EXECUTOR};
use super::resource::{ExecutorSpec, RestartPolicy, SparkApplication, SparkApplicationSpec, SparkPodSpec};

/// How often the operator tries again to submit. Quotas of the namespace may refuse the driver for a while.
const SUBMISSION_RETRIES: i32 = 14;

/// The oldest version of Spark with pod templates. The operator refuses templates for an application that does not
/// claim at least this version.
const FIRST_VERSION_WITH_TEMPLATES: &str = "3.0.0";

/// The application for an attempt.
///
/// Mirrors `BuildResource` of upstream's Spark plugin.
pub(super) fn build(
    task: &TaskContext,
    config: &SparkConfig,
    with_templates: bool,
) -> Result<SparkApplication, PluginError> {
    let job: SparkJob = settings(&task.template)?;
    if job.main_application_file.is_empty() && job.main_class.is_empty() {
        let given = task.template.custom.iter().flat_map(|custom| custom.fields.keys().map(String::as_str));
        return Err(PluginError::caused_by(
            code::BAD_TASK_SPECIFICATION,
            format!("invalid TaskSpecification [{}].", given.collect::<Vec<_>>().join(" ")),
            "either MainApplicationFile or MainClass must be set",
        ));
    }
    let mut conf = conf::spark_conf(task, config, &job);
    let driver = pods::pod(task, DRIVER, job.driver_pod.as_ref(), with_templates, &mut conf)?;
    let executor = pods::pod(task, EXECUTOR, job.executor_pod.as_ref(), with_templates, &mut conf)?;
    let version = if with_templates { FIRST_VERSION_WITH_TEMPLATES } else { "" };
    let spec = SparkApplicationSpec {
        r#type: language(job.application_type()).to_owned(),
        spark_version: version.to_owned(),
        image: executor.container.image,
        main_class: Some(job.main_class).filter(|class| !class.is_empty()),
        main_application_file: Some(job.main_application_file).filter(|file| !file.is_empty()),
        arguments: executor.container.args.unwrap_or_default(),
        batch_scheduler: conf.get(BATCH_SCHEDULER).cloned(),
        hadoop_conf: job.hadoop_conf,
        // Only submissions: whether the task itself runs again is the executor's decision.
        restart_policy: Some(RestartPolicy {
            r#type: "OnFailure".to_owned(),
            on_submission_failure_retries: Some(SUBMISSION_RETRIES),
            ..RestartPolicy::default()
        }),
        driver: SparkPodSpec { service_account: Some(pods::account(task)), ..driver.spec },
        executor: ExecutorSpec { instances: conf::number(&conf, EXECUTOR_INSTANCES), pod: executor.spec },
        spark_conf: conf,
        ..SparkApplicationSpec::default()
    };
    Ok(SparkApplication { spec, ..SparkApplication::default() })
}

/// The operator's word for a language.
fn language(r#type: Type) -> &'static str {
    match r#type {
        Type::Python => "Python",
        Type::Java => "Java",
        Type::Scala => "Scala",
        Type::R => "R",
    }
}

//! A second plugin, written from `docs/writing-a-plugin.md` alone: the container of a task becomes a `batch/v1` Job.
//!
//! The plugin comes first. The tests show each kind of test that a plugin should have: plain values, a golden file, a
//! table of phases, the conformance check, and a run on the sandbox.
#![allow(missing_docs, clippy::unwrap_used)]

use aileron_machinery::k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use aileron_machinery::k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};
use aileron_machinery::log_links::LogLinks;
use aileron_machinery::pod::log_context::primary_container_name;
use aileron_machinery::pod::phase::{failed_or_pending_phase, failed_phase};
use aileron_machinery::pod::{PodOptions, build_pod, pod_template};
use aileron_machinery::schemars::JsonSchema;
use aileron_machinery::serde::{Deserialize, Serialize};
use aileron_machinery::{
    ExecutionError, K8sPlugin, Needs, Phase, PhaseContext, PhaseInfo, PluginEntry, PluginError, PluginProperties,
    PluginSection, SectionProblem, TaskContext, TaskInfo, TokenRequest, custom_as,
};

/// Kubernetes writes the name of a Job into a label of its pods, and a label has at most 63 characters.
const NAME_MAX_LENGTH: usize = 63;

/// Kubernetes deletes a Job this many seconds after its end. The executor must have read the end by then: a Job that is
/// missing counts as lost, and its task starts again.
const SHORTEST_TTL: i32 = 60;

/// What the task says in `custom`. The names are those of the Job.
#[derive(Default, Deserialize)]
#[serde(crate = "aileron_machinery::serde", default, rename_all = "camelCase", deny_unknown_fields)]
struct Settings {
    completions: Option<i32>,
    parallelism: Option<i32>,
    active_deadline_seconds: Option<i64>,
    ttl_seconds_after_finished: Option<i32>,
}

/// Tasks that run as Jobs of Kubernetes.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(crate = "aileron_machinery::schemars")]
#[serde(crate = "aileron_machinery::serde", default, rename_all = "kebab-case", deny_unknown_fields)]
struct JobConfig {
    /// Kubernetes deletes a Job this many seconds after its end, unless the task says another number.
    default_ttl_seconds: i32,
}

/// Runs the container of a task as a Job.
struct JobPlugin {
    config: JobConfig,
}

impl Default for JobConfig {
    fn default() -> Self {
        Self { default_ttl_seconds: 3600 }
    }
}

impl PluginSection for JobConfig {
    const KEY: &'static str = "k8s-job";

    fn check(&self) -> Vec<SectionProblem> {
        let problem = format!("must be at least {SHORTEST_TTL}, so that the executor reads the end of the Job");
        let too_short = self.default_ttl_seconds < SHORTEST_TTL;
        too_short.then(|| SectionProblem::new("default-ttl-seconds", problem)).into_iter().collect()
    }
}

impl Settings {
    fn of(task: &TaskContext) -> Result<Self, PluginError> {
        let settings: Self = custom_as(task)?;
        at_least("completions", settings.completions.map(i64::from), 1)?;
        at_least("parallelism", settings.parallelism.map(i64::from), 1)?;
        at_least("activeDeadlineSeconds", settings.active_deadline_seconds, 1)?;
        let ttl = settings.ttl_seconds_after_finished.map(i64::from);
        at_least("ttlSecondsAfterFinished", ttl, SHORTEST_TTL.into())?;
        Ok(settings)
    }
}

impl JobPlugin {
    fn new(config: JobConfig) -> Self {
        Self { config }
    }
}

impl K8sPlugin for JobPlugin {
    type Resource = Job;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new("k8s-job", &["k8s-job"])
    }

    fn properties(&self) -> PluginProperties {
        PluginProperties::default().with_name_max_length(NAME_MAX_LENGTH)
    }

    fn needs(&self, task: &TaskContext) -> Needs {
        // The status of a Job does not say why a pod waits or failed.
        Needs::of_pod(task).with_pods()
    }

    fn token(&self, task: &TaskContext) -> Option<TokenRequest> {
        // The author of the task says which licence it uses.
        task.template.config.get("licence").map(|pool| TokenRequest { pool: pool.clone() })
    }

    fn build(&self, task: &TaskContext) -> Result<Job, PluginError> {
        let settings = Settings::of(task)?;
        let pod = build_pod(task, PodOptions::default())?.into_pod();
        let template = PodTemplateSpec { metadata: Some(pod_template::metadata(task, pod.metadata)), spec: pod.spec };
        let spec = JobSpec {
            // The executor counts attempts; the Job has one.
            backoff_limit: Some(0),
            completions: settings.completions,
            parallelism: settings.parallelism,
            active_deadline_seconds: settings.active_deadline_seconds,
            ttl_seconds_after_finished: settings.ttl_seconds_after_finished.or(Some(self.config.default_ttl_seconds)),
            template,
            ..JobSpec::default()
        };
        Ok(Job { spec: Some(spec), ..Job::default() })
    }

    fn phase(&self, cx: &PhaseContext<'_>, job: &Job) -> Result<PhaseInfo, PluginError> {
        let status = job.status.clone().unwrap_or_default();
        let links = LogLinks::new(&cx.task.platform.logs, Some(&cx.task.template));
        let logs = cx.pods.iter().flat_map(|pod| links.of_pod(cx.task, pod)).collect();
        let info = TaskInfo { logs, ..TaskInfo::at(cx.task.now) };
        if let Some(complete) = condition(&status, "Complete") {
            return Ok(PhaseInfo::success(since(info, complete)));
        }
        if let Some(failed) = condition(&status, "Failed") {
            return Ok(failure(cx, failed, since(info, failed)));
        }
        if condition(&status, "Suspended").is_some() {
            return Ok(PhaseInfo::queued("the Job is suspended", info));
        }
        if status.active.unwrap_or(0) == 0 && status.succeeded.unwrap_or(0) == 0 {
            return Ok(PhaseInfo::queued("the Job controller has not created pods yet", info));
        }
        Ok(phase_of_pods(cx, &status, info))
    }
}

/// The phase of a Job that has pods and has not ended.
fn phase_of_pods(cx: &PhaseContext<'_>, status: &JobStatus, info: TaskInfo) -> PhaseInfo {
    if status.ready.unwrap_or(0) > 0 || status.succeeded.unwrap_or(0) > 0 {
        let has_links = !info.logs.is_empty();
        let running = PhaseInfo::running(info);
        // The links may be known later than the phase.
        return if has_links { running.with_news() } else { running };
    }
    let Some(pod) = cx.pods.iter().find(|pod| pod_phase_is(pod, "Pending")) else {
        return PhaseInfo::initializing("the pods of the Job start", info);
    };
    failed_or_pending_phase(Some(pod), primary_container_name(pod), &cx.task.platform.k8s, cx.task.now, info)
}

/// The failure of a Job: what its failed pod says, else what the Job says.
fn failure(cx: &PhaseContext<'_>, failed: &JobCondition, info: TaskInfo) -> PhaseInfo {
    let code = failed.reason.as_deref().unwrap_or("JobFailed");
    let message = failed.message.as_deref().unwrap_or("the Job failed and does not say why");
    if code == "DeadlineExceeded" {
        return PhaseInfo::retryable_failure(ExecutionError::user(code, message), info).out_of_time();
    }
    let pod = cx.pods.iter().find(|pod| pod_phase_is(pod, "Failed"));
    match pod.and_then(|pod| Some((pod.status.as_ref()?, primary_container_name(pod)))) {
        Some((status, container)) => failed_phase(status, container, info),
        None => PhaseInfo::retryable_failure(ExecutionError::user(code, message), info),
    }
}

/// The condition of this type, if it is true.
fn condition<'a>(status: &'a JobStatus, kind: &str) -> Option<&'a JobCondition> {
    let conditions = status.conditions.as_deref().unwrap_or_default();
    conditions.iter().find(|condition| condition.type_ == kind && condition.status == "True")
}

/// The phase began when the condition became true.
fn since(info: TaskInfo, condition: &JobCondition) -> TaskInfo {
    let occurred_at = condition.last_transition_time.as_ref().map_or(info.occurred_at, |time| time.0);
    TaskInfo { occurred_at, ..info }
}

fn pod_phase_is(pod: &Pod, phase: &str) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some(phase)
}

fn at_least(field: &str, value: Option<i64>, minimum: i64) -> Result<(), PluginError> {
    match value {
        Some(value) if value < minimum => Err(PluginError::bad_task_specification(format!(
            "custom.{field}: {value} is too small, it must be at least {minimum}"
        ))),
        _ => Ok(()),
    }
}

mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use aileron::{ExecutorConfig, OperatorRules, Program, SandboxOptions};
    use aileron_machinery::config::LogConfig;
    use aileron_machinery::serde_json::{Value, json};
    use aileron_machinery::{ObservedPhase, Platform};
    use aileron_testkit::{Conformance, Life, NAME, PhaseTable, golden, pod, running, task};
    use kube::api::{
        Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, LogParams, ObjectMeta, Patch,
        PatchParams, PostParams,
    };
    use kube::{Client, Resource, ResourceExt};

    use super::*;

    /// `Conformance` tries one fault of this many, so that the check takes seconds.
    const EVERY: usize = 41;

    fn plugin() -> JobPlugin {
        JobPlugin::new(JobConfig::default())
    }

    fn complete() -> Value {
        json!({"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]})
    }

    fn failed(reason: &str) -> Value {
        json!({"failed": 1, "conditions": [{"type": "Failed", "status": "True", "reason": reason}]})
    }

    #[test]
    fn the_container_of_the_task_becomes_a_job() {
        let custom = json!({"completions": 6, "parallelism": 2, "activeDeadlineSeconds": 600});
        golden!("k8s-job.yaml", &plugin().build(&task("k8s-job", &custom)).unwrap());
    }

    #[test]
    fn the_task_chooses_when_its_job_is_deleted_and_else_the_configuration() {
        let ttl = |custom: Value| {
            let job = plugin().build(&task("k8s-job", &custom)).unwrap();
            job.spec.unwrap().ttl_seconds_after_finished
        };
        assert_eq!(ttl(Value::Null), Some(3600));
        assert_eq!(ttl(json!({"ttlSecondsAfterFinished": 90})), Some(90));
    }

    #[test]
    fn a_task_that_names_a_licence_needs_a_token() {
        let mut task = task("k8s-job", &Value::Null);
        assert_eq!(plugin().token(&task), None);
        Arc::make_mut(&mut task.template).config.insert("licence".to_owned(), "matlab".to_owned());
        assert_eq!(plugin().token(&task), Some(TokenRequest { pool: "matlab".into() }));
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        for (custom, message) in [
            (json!({"completions": 0}), "custom.completions: 0 is too small, it must be at least 1"),
            (
                json!({"ttlSecondsAfterFinished": 5}),
                "custom.ttlSecondsAfterFinished: 5 is too small, it must be at least 60",
            ),
            (json!({"completion": 3}), "custom.completion: unknown field `completion`"),
        ] {
            let error = plugin().build(&task("k8s-job", &custom)).unwrap_err();
            assert_eq!(error.code(), "BadTaskSpecification");
            assert!(error.to_string().contains(message), "{error}");
        }
        assert_eq!(JobConfig { default_ttl_seconds: 5 }.check()[0].path, "default-ttl-seconds");
        assert_eq!(JobConfig::default().check(), []);
    }

    #[test]
    fn the_phase_follows_the_status_of_the_job() {
        PhaseTable::of(&plugin(), &task("k8s-job", &Value::Null))
            .row(json!({}), Phase::Queued, "has not created pods")
            .row(json!({"conditions": [{"type": "Suspended", "status": "True"}]}), Phase::Queued, "suspended")
            .row(json!({"active": 2}), Phase::Initializing, "start")
            .row(json!({"active": 2, "ready": 1}), Phase::Running, "")
            .row(json!({"active": 1, "ready": 0, "succeeded": 1}), Phase::Running, "")
            .row(
                json!({"conditions": [{"type": "SuccessCriteriaMet", "status": "True"}], "succeeded": 1}),
                Phase::Running,
                "",
            )
            .row(complete(), Phase::Success, "")
            .row(failed("BackoffLimitExceeded"), Phase::RetryableFailure, "BackoffLimitExceeded")
            .row(failed("DeadlineExceeded"), Phase::RetryableFailure, "DeadlineExceeded")
            .assert();
    }

    #[test]
    fn the_pods_say_why_a_job_waits_or_failed() {
        let with = |status: Value| [pod("run-a0-0-x", NAME, &status)];
        let unscheduled =
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no GPU"});
        let killed = json!({"name": NAME, "ready": false, "restartCount": 0, "image": "", "imageID": "",
            "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}});
        PhaseTable::of(&plugin(), &task("k8s-job", &Value::Null))
            .with_pods(with(json!({"phase": "Pending", "conditions": [unscheduled]})))
            .row(json!({"active": 1}), Phase::Queued, "no GPU")
            .with_pods(with(json!({"phase": "Failed", "containerStatuses": [killed]})))
            .row(failed("BackoffLimitExceeded"), Phase::RetryableFailure, "OOMKilled")
            .assert();
    }

    #[test]
    fn a_running_job_links_the_logs_of_its_pods() {
        let mut task = task("k8s-job", &Value::Null);
        task.platform = Platform { logs: Arc::new(LogConfig::kubernetes()), ..Platform::default() };
        let pods = [Arc::new(running(&pod("run-a0-0-x", NAME, &Value::Null)))];
        let status = serde_json::from_value(json!({"active": 1, "ready": 1})).unwrap();
        let job = Job { status, ..plugin().build(&task).unwrap() };
        let prior = ObservedPhase::default();
        let phase = plugin().phase(&PhaseContext::new(&task, &prior).with_pods(&pods), &job).unwrap();
        assert!(phase.has_news() && phase.info().unwrap().logs[0].uri.contains("run-a0-0-x"), "{phase:?}");
    }

    #[test]
    fn the_plugin_keeps_what_the_executor_expects() {
        let started = |name: &str| {
            Life::new(name)
                .status(json!({"active": 1}), Phase::Initializing)
                .status(json!({"active": 1, "ready": 1}), Phase::Running)
        };
        let report = Conformance::of(plugin())
            .task(task("k8s-job", &json!({"parallelism": 2})))
            .task(task("k8s-job", &Value::Null))
            .life(started("succeeds").status(complete(), Phase::Success))
            .life(started("fails").status(failed("BackoffLimitExceeded"), Phase::RetryableFailure))
            .life(started("is too slow").status(failed("DeadlineExceeded"), Phase::RetryableFailure))
            .every(EVERY)
            .check();
        println!("{report}");
        report.assert_passed();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_task_runs_in_the_pod_of_its_job() {
        let program = Program::new().with_section(JobPlugin::new);
        let overrides = vec![("plugins.k8s-job.default-ttl-seconds".to_owned(), "120".to_owned())];
        let config = ExecutorConfig { overrides, ..ExecutorConfig::default() };
        let sandbox = program.start_sandbox(SandboxOptions { config, ..SandboxOptions::default() }).await.unwrap();
        let client = sandbox.client();

        let good = "{name: good, type: k8s-job, image: any, command: [sh, -c, 'echo done'], resources: {cpu: 100m}}";
        let good = with_controller(client.clone(), sandbox.run_task(good)).await.unwrap();
        assert!(good.is_success(), "{:?}", good.error());
        let name = format!("{}-0", good.name());
        let job = Api::<Job>::default_namespaced(client.clone()).get(&name).await.unwrap();
        assert_eq!(job.spec.unwrap().ttl_seconds_after_finished, Some(120), "as configured");
        let log = Api::<Pod>::default_namespaced(client.clone()).logs(&name, &LogParams::default()).await.unwrap();
        assert_eq!(log, "done\n");

        let bad =
            "{name: bad, type: k8s-job, image: any, command: [sh, -c, 'exit 3'], retries: 1, resources: {cpu: 100m}}";
        let bad = with_controller(client.clone(), sandbox.run_task(bad)).await.unwrap();
        assert_eq!((bad.is_success(), bad.attempts()), (false, 2));
        let error = bad.error().unwrap();
        assert!(error.contains("exit code (3)"), "{error}");

        sandbox.stop().await.unwrap();
    }

    /// The states of a Job without its pods, for a test that needs no processes.
    const SIMULATED: &str = r#"
group: batch
version: v1
kind: Job
plural: jobs
message: it was simulated
stages:
  - {name: started, when: {.status.active: ""}, after: 10ms, status: {active: 1, ready: 1}}
  - name: complete
    when: {.status.active: "1"}
    outcome: succeed
    after: 10ms
    status: {active: 0, succeeded: 1}
    conditions: [{type: Complete, status: "True"}]
  - name: failed
    when: {.status.active: "1"}
    outcome: fail
    after: 10ms
    status: {active: 0, failed: 1}
    conditions: [{type: Failed, status: "True", reason: BackoffLimitExceeded, message: "{message}"}]
"#;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_simulated_job_fails_once_and_then_succeeds() {
        let options =
            SandboxOptions { operators: vec![OperatorRules::read(SIMULATED).unwrap()], ..SandboxOptions::default() };
        let sandbox = Program::new().with_section(JobPlugin::new).start_sandbox(options).await.unwrap();
        let task =
            "{name: flaky, type: k8s-job, image: any, command: [any], retries: 1, env: {AILERON_SIMULATE: fail-once}}";
        let finished = sandbox.run_task(task).await.unwrap();
        assert_eq!((finished.is_success(), finished.attempts()), (true, 2), "{:?}", finished.error());
        sandbox.stop().await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_aborted_task_leaves_neither_job_nor_pod() {
        let sandbox =
            Program::new().with_section(JobPlugin::new).start_sandbox(SandboxOptions::default()).await.unwrap();
        let client = sandbox.client();
        let jobs: Api<Job> = Api::default_namespaced(client.clone());
        let pods: Api<Pod> = Api::default_namespaced(client.clone());

        let slow = "{name: slow, type: k8s-job, image: any, command: [sleep, '600'], resources: {cpu: 100m}}";
        let abort = async {
            let job =
                eventually(async || jobs.list(&ListParams::default()).await.unwrap().items.into_iter().find(is_ready))
                    .await;
            // The TaskAction owns the Job. Its deletion is what Flyte's control plane does to abort a task.
            let action = job.owner_references()[0].clone();
            let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("flyte.org", "v1", &action.kind));
            let actions: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &kind);
            actions.delete(&action.name, &DeleteParams::default()).await.unwrap();
            job.name_any()
        };
        let aborted = async { tokio::join!(sandbox.run_task(slow), abort) };
        let (finished, name) = with_controller(client.clone(), aborted).await;
        assert!(!finished.unwrap().is_success());
        eventually(async || jobs.get_opt(&name).await.unwrap().is_none().then_some(())).await;
        eventually(async || pods.get_opt(&name).await.unwrap().is_none().then_some(())).await;
        assert_eq!(sandbox.events().unwrap().last().unwrap()["phase"], "ACTION_PHASE_ABORTED");

        sandbox.stop().await.unwrap();
    }

    /// Asks again until there is an answer.
    async fn eventually<T>(ask: impl AsyncFn() -> Option<T>) -> T {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn is_ready(job: &Job) -> bool {
        job.status.as_ref().and_then(|status| status.ready).is_some_and(|ready| ready > 0)
    }

    /// The result of a test beside a stand-in for the Job controller of Kubernetes, which the sandbox does not have: each Job
    /// gets one pod of its own name, and the phase of the pod becomes the status of the Job.
    async fn with_controller<T>(client: Client, test: impl Future<Output = T>) -> T {
        let controller = async {
            let (jobs, pods) = (Api::default_namespaced(client.clone()), Api::default_namespaced(client));
            loop {
                for job in jobs.list(&ListParams::default()).await.unwrap() {
                    match control(&jobs, &pods, &job).await {
                        // Somebody has deleted the Job or its pod meanwhile.
                        Err(kube::Error::Api(status)) if status.code == 404 => {}
                        result => result.unwrap(),
                    }
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            result = test => result,
            () = controller => unreachable!("the controller does not end"),
        }
    }

    async fn control(jobs: &Api<Job>, pods: &Api<Pod>, job: &Job) -> kube::Result<()> {
        let status = if job.status.as_ref().and_then(|status| status.ready).is_none() {
            if pods.get_opt(&job.name_any()).await?.is_none() {
                pods.create(&PostParams::default(), &pod_of(job)).await?;
            }
            json!({"active": 1, "ready": 0})
        } else {
            match pods.get(&job.name_any()).await?.status.and_then(|status| status.phase).as_deref() {
                Some("Running") => json!({"active": 1, "ready": 1}),
                Some("Succeeded") => complete(),
                Some("Failed") => failed("BackoffLimitExceeded"),
                _ => json!({"active": 1, "ready": 0}),
            }
        };
        let patch = Patch::Merge(json!({"status": status}));
        jobs.patch_status(&job.name_any(), &PatchParams::default(), &patch).await.map(drop)
    }

    fn pod_of(job: &Job) -> Pod {
        let template = job.spec.clone().unwrap().template;
        let owner_references = Some(vec![job.controller_owner_ref(&()).unwrap()]);
        let name = Some(job.name_any());
        let metadata = ObjectMeta { name, owner_references, ..template.metadata.unwrap() };
        Pod { metadata, spec: template.spec, ..Pod::default() }
    }
}

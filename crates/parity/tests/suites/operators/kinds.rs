//! The kinds of all operators: a task of each kind, and the statuses that its operator writes.

use std::time::Instant;

use aileron_idl::json_to_struct;
use aileron_parity::suite::{POLL_INTERVAL, Space, Task, WAIT_TIMEOUT};
use aileron_sandbox::Rules;
use anyhow::{Result, bail};
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

/// One kind.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub task_type: &'static str,
    version: i32,
    /// Group, version, kind and plural of its object.
    resource: (&'static str, &'static str, &'static str, &'static str),
    custom: fn() -> Value,
    statuses: fn() -> [Value; 2],
    /// Whether the operator reports the cause of a failure.
    pub reports_cause: bool,
    /// Whether the plugin retries only after a recoverable error document of the task.
    pub needs_document: bool,
}

/// The objects of a kind in a namespace.
pub struct Objects {
    pub api: Api<DynamicObject>,
    kind: Kind,
}

const DEFAULTS: Kind = Kind {
    task_type: "",
    version: 0,
    resource: ("", "", "", ""),
    custom: || Value::Null,
    statuses: || [job_status("Running"), job_status("Succeeded")],
    reports_cause: true,
    needs_document: false,
};

/// All kinds.
pub const KINDS: [Kind; 7] = [
    Kind {
        task_type: "spark",
        resource: ("sparkoperator.k8s.io", "v1beta2", "SparkApplication", "sparkapplications"),
        custom: || {
            json!({
                "applicationType": "PYTHON", "mainApplicationFile": "local:///usr/bin/entrypoint.py",
                "sparkConf": {"spark.driver.memory": "500M", "spark.executor.instances": "3"},
            })
        },
        statuses: || {
            let state = |state: &str| json!({"applicationState": {"state": state}, "driverInfo": {"podName": "d"}});
            [state("RUNNING"), state("COMPLETED")]
        },
        ..DEFAULTS
    },
    Kind {
        task_type: "ray",
        resource: ("ray.io", "v1", "RayJob", "rayjobs"),
        custom: || json!({"ray_cluster": {"head_group_spec": {}, "worker_group_spec": [{"group_name": "g", "replicas": 3}]}}),
        statuses: || {
            let status =
                |said: &str, job: &str| json!({"jobDeploymentStatus": said, "jobStatus": job, "rayClusterName": "c"});
            [status("Running", "RUNNING"), status("Complete", "SUCCEEDED")]
        },
        needs_document: true,
        ..DEFAULTS
    },
    Kind {
        task_type: "dask",
        resource: ("kubernetes.dask.org", "v1", "DaskJob", "daskjobs"),
        custom: || json!({"workers": {"number_of_workers": 2}}),
        statuses: || [json!({"jobStatus": "Running", "jobRunnerPodName": "r"}), json!({"jobStatus": "Successful"})],
        reports_cause: false,
        ..DEFAULTS
    },
    Kind {
        task_type: "pytorch",
        version: 1,
        resource: ("kubeflow.org", "v1", "PyTorchJob", "pytorchjobs"),
        custom: || json!({"master_replicas": {"replicas": 1}, "worker_replicas": {"replicas": 2}}),
        ..DEFAULTS
    },
    Kind {
        task_type: "tensorflow",
        version: 1,
        resource: ("kubeflow.org", "v1", "TFJob", "tfjobs"),
        custom: || json!({"chief_replicas": {"replicas": 1}, "ps_replicas": {"replicas": 1}, "worker_replicas": {"replicas": 2}}),
        ..DEFAULTS
    },
    Kind {
        task_type: "mpi",
        version: 1,
        resource: ("kubeflow.org", "v1", "MPIJob", "mpijobs"),
        custom: || json!({"launcher_replicas": {"replicas": 1}, "worker_replicas": {"replicas": 2}}),
        ..DEFAULTS
    },
    Kind {
        task_type: "clustered-task",
        resource: ("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets"),
        custom: || json!({"nproc_per_node": 4, "replicas": 2, "runtime": {"torchrun": {"rdzv_backend": "C10D"}}}),
        statuses: || {
            let jobs = json!([{"name": "workers", "ready": 1, "active": 1}]);
            [json!({"replicatedJobsStatus": jobs}), json!({"conditions": [condition("Completed")]})]
        },
        ..DEFAULTS
    },
];

impl Kind {
    /// The kind of a task type.
    pub fn of(task_type: &str) -> Self {
        *KINDS.iter().find(|kind| kind.task_type == task_type).unwrap()
    }

    /// The rules that simulate its operator.
    pub fn rules(&self) -> Rules {
        let (group, _, _, plural) = self.resource;
        Rules::builtin().into_iter().find(|rules| rules.qualified() == format!("{plural}.{group}")).unwrap()
    }

    /// A task of this type. It declares no outputs, because nothing writes them.
    pub fn task(&self, name: &str) -> Task {
        let mut task = Task::container(name).task_type(self.task_type);
        task.template.task_type_version = self.version;
        task.template.custom = Some(json_to_struct(&(self.custom)()).unwrap());
        task.template.interface = None;
        task
    }

    /// The status of a running job.
    pub fn running(&self) -> Value {
        (self.statuses)()[0].clone()
    }

    /// The status of a successful job.
    pub fn done(&self) -> Value {
        (self.statuses)()[1].clone()
    }

    /// The objects of this kind in a namespace.
    pub fn objects(&self, space: &Space<'_>) -> Objects {
        let (group, version, kind, plural) = self.resource;
        let resource = ApiResource {
            group: group.into(),
            version: version.into(),
            api_version: format!("{group}/{version}"),
            kind: kind.into(),
            plural: plural.into(),
        };
        Objects { api: Api::namespaced_with(space.admin.clone(), &space.namespace, &resource), kind: *self }
    }

    /// The names of the objects of all requests with this verb.
    pub fn requests(&self, space: &Space<'_>, verb: &str) -> Result<Vec<String>> {
        let about =
            space.requests()?.into_iter().filter(|request| request.resource == self.resource.3 && request.verb == verb);
        Ok(about.map(|request| request.name).collect())
    }
}

impl Objects {
    /// Waits until the executor has created this object.
    pub async fn until(&self, name: &str) -> Result<DynamicObject> {
        let begin = Instant::now();
        while begin.elapsed() < WAIT_TIMEOUT {
            if let Some(object) = self.api.get_opt(name).await? {
                return Ok(object);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        bail!("no {} {name}", self.kind.resource.2)
    }

    /// Whether the object exists.
    pub async fn exists(&self, name: &str) -> Result<bool> {
        Ok(self.api.get_opt(name).await?.is_some())
    }

    /// Names and statuses of all objects, for error messages.
    pub async fn dump(&self) -> String {
        let all = self.api.list(&kube::api::ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        let line = |object: &DynamicObject| format!("{:?}: {}\n", object.metadata.name, object.data["status"]);
        all.iter().map(line).collect()
    }

    /// Patches the status, as the operator would.
    pub async fn report(&self, name: &str, status: &Value) -> Result<()> {
        let patch = json!({ "status": status });
        self.api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }
}

/// A job status as the training operator writes it.
pub fn job_status(said: &str) -> Value {
    json!({"startTime": now(), "conditions": [condition(said)]})
}

fn condition(said: &str) -> Value {
    json!({
        "type": said, "status": "True", "reason": said, "message": "said the operator",
        "lastTransitionTime": now(), "lastUpdateTime": now(),
    })
}

fn now() -> String {
    Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

//! The kinds of all operators: a task of each, and what its operator says.

use std::time::Instant;

use aileron_idl::json_to_struct;
use aileron_parity::suite::{LOOK_EVERY, PATIENCE, Space, Task};
use aileron_sandbox::Rules;
use anyhow::{Result, bail};
use jiff::Timestamp;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    pub task_type: &'static str,
    version: i32,
    /// Group, version, kind and plural of its object.
    resource: (&'static str, &'static str, &'static str, &'static str),
    custom: fn() -> Value,
    statuses: fn() -> [Value; 2],
    /// The operator says why something failed.
    pub tells: bool,
    /// Without the task's own word that another attempt may help, there is none.
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
    tells: true,
    needs_document: false,
};

/// All of them.
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
        tells: false,
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

    /// How its operator is simulated.
    pub fn rules(&self) -> Rules {
        let (group, _, _, plural) = self.resource;
        Rules::builtin().into_iter().find(|rules| rules.qualified() == format!("{plural}.{group}")).unwrap()
    }

    /// A task of this type. Nobody would write outputs, so it has none.
    pub fn task(&self, name: &str) -> Task {
        let mut task = Task::container(name).task_type(self.task_type);
        task.template.task_type_version = self.version;
        task.template.custom = Some(json_to_struct(&(self.custom)()).unwrap());
        task.template.interface = None;
        task
    }

    /// What the operator says of a job that runs.
    pub fn running(&self) -> Value {
        (self.statuses)()[0].clone()
    }

    /// What the operator says of a job that ended well.
    pub fn done(&self) -> Value {
        (self.statuses)()[1].clone()
    }

    /// Its objects in a namespace.
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

    /// The objects about which executors asked like this.
    pub fn requests(&self, space: &Space<'_>, verb: &str) -> Result<Vec<String>> {
        let about =
            space.requests()?.into_iter().filter(|asked| asked.resource == self.resource.3 && asked.verb == verb);
        Ok(about.map(|asked| asked.name).collect())
    }
}

impl Objects {
    /// Waits until the executor has made one.
    pub async fn until(&self, name: &str) -> Result<DynamicObject> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if let Some(object) = self.api.get_opt(name).await? {
                return Ok(object);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        bail!("no {} {name}", self.kind.resource.2)
    }

    /// Whether there is one of this name.
    pub async fn exists(&self, name: &str) -> Result<bool> {
        Ok(self.api.get_opt(name).await?.is_some())
    }

    /// Its names and their statuses, for the moment something fails.
    pub async fn dump(&self) -> String {
        let all = self.api.list(&kube::api::ListParams::default()).await.map(|list| list.items).unwrap_or_default();
        let line = |object: &DynamicObject| format!("{:?}: {}\n", object.metadata.name, object.data["status"]);
        all.iter().map(line).collect()
    }

    /// Says something as the operator.
    pub async fn report(&self, name: &str, status: &Value) -> Result<()> {
        let patch = json!({ "status": status });
        self.api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
        Ok(())
    }
}

/// What the training operator says of a job.
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

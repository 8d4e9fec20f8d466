#![allow(clippy::unwrap_used)]

use std::sync::Mutex;

use aileron_action::TaskActionSpec;
use aileron_idl::flyteidl2::core::{Literal, LiteralMap};
use aileron_machinery::testing::task;
use aileron_machinery::time::clock::SystemClock;
use aileron_machinery::{Phase, PhaseInfo, PluginSet, StoredState, TaskInfo};
use jiff::Timestamp;
use serde_json::Value;

use super::*;
use crate::caches::Caches;
use crate::cluster::kube::Writer;
use crate::cluster::kube::objects::KubeObjects;
use crate::manager::ManagerBackends;
use crate::registry::{Registry, RegistryRules};
use crate::storage::{BlobStore, MemoryStore};

/// Copies its inputs to its outputs, if it has the secret.
#[derive(Default)]
struct Copier {
    set_up_with: Arc<Mutex<Option<String>>>,
}

#[async_trait]
impl CorePlugin for Copier {
    fn entry(&self) -> PluginEntry {
        PluginEntry::new("copier", &["copy"])
    }

    async fn setup(&self, setup: CoreSetup) -> Result<(), PluginError> {
        let secret = setup.secrets.get("api-key").await;
        let secret = secret.map_err(|error| PluginError::caused_by("", "no API key", error))?;
        *self.set_up_with.lock().unwrap() = Some(secret);
        Ok(())
    }

    async fn handle(&self, request: &CoreRequest<'_>) -> Result<CoreStep, PluginError> {
        let failed = |error: ServiceError| PluginError::caused_by("", "service", error);
        request.services.waker().wake();
        let inputs = request.services.inputs().await.map_err(failed)?;
        request.services.write_outputs(&inputs).await.map_err(failed)?;
        let written = request.services.read(&request.task.paths.output_path()).await.map_err(failed)?;
        assert_eq!(written, Some(inputs.encode_to_vec()));
        assert!(request.services.take_token("licences").await.unwrap_err().to_string().contains("tasks.pools"));
        Ok(CoreStep::of(PhaseInfo::success(TaskInfo::at(request.task.now))))
    }

    async fn abort(&self, request: &CoreRequest<'_>) -> Result<(), PluginError> {
        let written = request.services.write_error(&ErrorDocument::default()).await;
        written.map_err(|error| PluginError::caused_by("", "service", error))
    }

    async fn finalize(&self, _: &CoreRequest<'_>) -> Result<(), PluginError> {
        Ok(())
    }
}

#[derive(Default)]
struct Woken(Mutex<Vec<ActionKey>>);

impl ActionWaker for Woken {
    fn wake(&self, key: &ActionKey) {
        self.0.lock().unwrap().push(key.clone());
    }

    fn created_at(&self, _: &ActionKey) -> Option<Timestamp> {
        None
    }
}

fn secrets(variable: &str) -> LocalSecrets {
    let folder = "/nonexistent".to_owned();
    let config = SecretsConfig { secrets_prefix: folder, ..SecretsConfig::default() };
    LocalSecrets::new(&config, [(variable.to_owned(), "s3cret".to_owned())].into())
}

fn backends(store: &Arc<MemoryStore>, woken: &Arc<Woken>) -> Backends {
    let nowhere = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
    let writer = Writer::new(kube::Client::try_from(nowhere).unwrap());
    let manager = ManagerBackends {
        objects: Arc::new(KubeObjects::new(writer, Caches::new("flyte"), Arc::new(SystemClock))),
        store: Arc::clone(store) as _,
        gate: Arc::default(),
        tokens: None,
        clock: Arc::new(SystemClock),
    };
    Backends { manager, secrets: Arc::new(secrets("FLYTE_SECRET_API-KEY")), waker: Arc::clone(woken) as _ }
}

#[tokio::test]
async fn a_core_plugin_gets_files_secrets_and_a_way_to_wake_its_action() {
    let (store, woken) = (Arc::new(MemoryStore::new()), Arc::new(Woken::default()));
    let set_up_with = Arc::new(Mutex::new(None));
    let plugins = PluginSet::new().with_core(Copier { set_up_with: Arc::clone(&set_up_with) });
    let registry = Registry::new(&plugins, &RegistryRules::default(), &backends(&store, &woken)).unwrap();
    registry.set_up().await.unwrap();
    assert_eq!(set_up_with.lock().unwrap().as_deref(), Some("s3cret"));

    let mut task = task("copy", &Value::Null);
    let paths = Arc::make_mut(&mut task.paths);
    (paths.input_prefix, paths.output_prefix) = ("s3://b/in".to_owned(), "s3://b/out".to_owned());
    Arc::make_mut(&mut task.metadata).owner.name = "r1-a0".to_owned();
    let inputs = LiteralMap { literals: [("x".to_owned(), Literal::default())].into() };
    store.put(&task.paths.input_path(), Bytes::from(inputs.encode_to_vec())).await.unwrap();

    let spec = TaskActionSpec { task_type: "copy".to_owned(), ..TaskActionSpec::default() };
    let (plugin, _) = registry.resolve(&spec).unwrap();
    let state = StoredState::default();
    let step = plugin.handle(&CoreRequest::new(&task, &state)).await.unwrap();
    assert_eq!(step.phase.phase(), Phase::Success);
    assert_eq!(*woken.0.lock().unwrap(), [ActionKey::new("p-d", "r1-a0")]);
    plugin.abort(&CoreRequest::new(&task, &state)).await.unwrap();
    assert!(store.exists(&task.paths.error_path()).await.unwrap());
}

#[tokio::test]
async fn a_plugin_that_cannot_be_set_up_is_named() {
    let (store, woken) = (Arc::new(MemoryStore::new()), Arc::new(Woken::default()));
    let backends = Backends { secrets: Arc::new(secrets("OTHER")), ..backends(&store, &woken) };
    let plugins = PluginSet::new().with_core(Copier::default());
    let registry = Registry::new(&plugins, &RegistryRules::default(), &backends).unwrap();
    let (id, error) = registry.set_up().await.unwrap_err();
    assert_eq!(&*id, "copier");
    assert!(error.to_string().contains("no API key"), "{error}");
}

#[tokio::test]
async fn a_secret_is_a_variable_or_a_file_and_never_leads_out_of_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("key"), "from file").unwrap();
    let config =
        SecretsConfig { secrets_prefix: folder.path().to_string_lossy().into_owned(), ..SecretsConfig::default() };
    let secrets = LocalSecrets::new(&config, [("FLYTE_SECRET_TOKEN".to_owned(), "from variable".to_owned())].into());
    assert_eq!(secrets.get("key").await.unwrap(), "from file");
    assert_eq!(secrets.get("token").await.unwrap(), "from variable");
    for name in ["", "..", "../key", "a/b"] {
        assert!(secrets.get(name).await.is_err(), "{name}");
    }
    let error = secrets.get("absent").await.unwrap_err().to_string();
    assert!(error.contains("FLYTE_SECRET_ABSENT"), "{error}");
}

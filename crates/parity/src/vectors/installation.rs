//! The installation of a case: its configuration, platform and plugins.

use std::sync::{Arc, LazyLock};

use aileron_config::{Config, Loader, SourceFile, Sources};
use aileron_machinery::CopilotStorage;
use aileron_machinery::{ObjectPlugin, Platform, PluginSet, PodTemplates};
use aileron_plugins::spark::crd::DefinitionFacts;
use anyhow::Context as _;
use k8s_openapi::api::core::v1::PodTemplate;
use serde_json::{Value, json};

use super::case::Case;

/// Created once, because it never changes and costs more than running a case.
static LOADER: LazyLock<Loader> = LazyLock::new(Loader::new);

/// The logger settings of the recorder, which are part of recorded configurations and of co-pilot's arguments.
const RECORDER: &str = r#"logger: {level: 0, mute: true, formatter: {type: ""}}"#;

/// Configuration and environment of a case.
pub struct Installation {
    /// The configuration, loaded from its file form.
    pub config: Config,
    environment: Arc<std::collections::BTreeMap<String, String>>,
    /// What the Spark plugin would read from the definition of SparkApplication in the cluster.
    spark_definition: Option<Arc<Value>>,
}

impl Installation {
    /// The installation of a case. The real loader reads its configuration.
    pub fn of(case: &Case) -> anyhow::Result<Self> {
        // JSON is valid YAML.
        let text = if case.config.is_null() { "{}".to_owned() } else { case.config.to_string() };
        let file = |name: &str, text: &str| SourceFile { name: name.into(), text: text.into() };
        let sources = Sources {
            files: vec![file("recorder.yaml", RECORDER), file("config.yaml", &text)],
            environment: case.process_env.clone(),
            ..Sources::default()
        };
        let loaded = LOADER.load(&sources).context("the configuration of the case is invalid")?;
        let supported = case.input("context").get("sparkPodTemplateSupported").and_then(Value::as_bool);
        Ok(Self {
            config: loaded.config,
            environment: Arc::new(case.process_env.clone()),
            spark_definition: supported.map(|pod_templates| Arc::new(json!(DefinitionFacts { pod_templates }))),
        })
    }

    /// The platform settings of every task. Pod templates come from the context of the case.
    pub fn platform(&self, context: &Value) -> anyhow::Result<Platform> {
        let default_namespace = context.get("podTemplateDefaultNamespace").and_then(Value::as_str).unwrap_or_default();
        let mut pod_templates = PodTemplates::new(default_namespace);
        let given: Vec<PodTemplate> = match context.get("podTemplates") {
            None | Some(Value::Null) => Vec::new(),
            Some(given) => serde_json::from_value(given.clone()).context("context.podTemplates")?,
        };
        given.into_iter().for_each(|template| pod_templates.insert(template));
        Ok(Platform {
            k8s: Arc::new(self.config.plugins.k8s.clone()),
            logs: Arc::new(self.config.plugins.logs.clone()),
            pod_templates: Arc::new(pod_templates),
            copilot_storage: Arc::new(CopilotStorage::new(&self.config.storage, self.config.logger.level)),
            environment: Arc::clone(&self.environment),
        })
    }

    /// The built-in plugins under this configuration.
    pub fn plugins(&self) -> anyhow::Result<PluginSet> {
        Ok(aileron_plugins::builtin().build(&self.config.plugins.section_values())?)
    }

    /// What the plugin of a case read from the definition of its kind.
    pub fn definition(&self) -> Option<Arc<Value>> {
        self.spark_definition.clone()
    }

    /// The Kubernetes plugin that a case names.
    pub fn k8s_plugin(&self, case: &Case) -> anyhow::Result<Arc<dyn ObjectPlugin>> {
        let id = case.input("plugin").as_str().unwrap_or_default();
        let plugins = self.plugins()?;
        let found = plugins.k8s().iter().find(|plugin| *plugin.entry().id == *id);
        found.cloned().with_context(|| format!("plugin {id} is not implemented"))
    }
}

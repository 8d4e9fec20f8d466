//! Sections that plugins own: known to the loader, checked with their lines, and explained like any other.

use aileron_machinery::k8s_openapi::api::core::v1::Pod;
use aileron_machinery::{
    K8sPlugin, PhaseContext, PhaseInfo, PluginEntry, PluginError, PluginSection, PluginSources, SectionProblem,
    TaskContext,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::super::{Loaded, Loader, Secrets, Selection, Sources, show};

/// Ovens for batches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
struct OvenConfig {
    /// How hot it gets.
    max_degrees: u32,
    /// Where each kind of bread goes.
    racks: Racks,
}

/// Where each kind of bread goes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Racks {
    /// The rack of rolls.
    rolls: u8,
}

impl Default for OvenConfig {
    fn default() -> Self {
        Self { max_degrees: 250, racks: Racks::default() }
    }
}

impl PluginSection for OvenConfig {
    const KEY: &'static str = "oven";

    fn check(&self) -> Vec<SectionProblem> {
        let too_hot = (self.max_degrees > 300)
            .then(|| SectionProblem::new("max-degrees", format!("must be at most 300, got {}", self.max_degrees)));
        too_hot.into_iter().collect()
    }
}

struct Oven(OvenConfig);

impl K8sPlugin for Oven {
    type Resource = Pod;

    fn entry(&self) -> PluginEntry {
        PluginEntry::new(format!("oven-{}", self.0.max_degrees), &["oven"])
    }

    fn build(&self, _: &TaskContext) -> Result<Pod, PluginError> {
        Ok(Pod::default())
    }

    fn phase(&self, _: &PhaseContext<'_>, _: &Pod) -> Result<PhaseInfo, PluginError> {
        Ok(PhaseInfo::undefined())
    }
}

fn sources() -> PluginSources {
    aileron_plugins::builtin().with_section(Oven)
}

fn loader() -> Loader {
    Loader::with_sections(sources().sections())
}

fn loaded(text: &str) -> Loaded {
    loader().load(&Sources::file("config.yaml", text)).unwrap()
}

fn errors(text: &str) -> Vec<String> {
    let errors = loader().load(&Sources::file("config.yaml", text)).unwrap_err();
    errors.0.iter().map(ToString::to_string).collect()
}

#[test]
fn the_values_of_a_section_reach_its_plugin_next_to_those_of_built_in_sections() {
    let config = loaded("plugins:\n  Oven: {max-degrees: 180}\n  spark: {enable-pod-template: false}\n").config;
    assert_eq!(config.plugins.sections["oven"]["max-degrees"], 180);
    assert!(!config.plugins.spark.enable_pod_template);
    let plugins = sources().build(&config.plugins.section_values()).unwrap();
    assert_eq!(&*plugins.k8s().last().unwrap().entry().id, "oven-180");
    let plugins = sources().build(&loaded("{}").config.plugins.section_values()).unwrap();
    assert_eq!(&*plugins.k8s().last().unwrap().entry().id, "oven-250");
}

#[test]
fn mistakes_in_a_section_are_reported_with_their_line() {
    let wrong = errors("plugins:\n  oven:\n    max-degrees: hot\n    racks: {rols: 1}\n");
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(wrong[0].contains("config.yaml:3") && wrong[0].contains("plugins.oven.max-degrees"), "{wrong:?}");
    assert!(wrong[1].contains("config.yaml:4") && wrong[1].contains("rolls"), "{wrong:?}");
    let unusable = errors("plugins:\n  oven:\n    max-degrees: 400\n");
    assert!(unusable[0].contains("config.yaml:3") && unusable[0].contains("at most 300, got 400"), "{unusable:?}");
    let text = Sources::file("config.yaml", "plugins: {oven: {}}\n");
    assert!(Loader::new().strict(true).load(&text).is_err(), "a loader that does not know the plugin");
    assert!(loader().strict(true).load(&text).is_ok());
}

#[test]
fn variables_and_flags_set_keys_of_a_section() {
    let mut sources = Sources::file("config.yaml", "{}");
    sources.environment.insert("PLUGINS.OVEN.MAX_DEGREES".into(), "200".into());
    sources.flags = loader().parse_arguments(&["--plugins.oven.racks.rolls", "3"]).unwrap();
    let section = loader().load(&sources).unwrap().config.plugins.sections["oven"].clone();
    assert_eq!(section, json!({"max-degrees": 200, "racks": {"rolls": 3}}));
}

#[test]
fn a_section_is_shown_and_explained_like_any_other() {
    let text = show(&loaded("plugins:\n  oven:\n    max-degrees: 180\n"), Selection::Set, Secrets::Hidden);
    assert_eq!(text, "plugins:\n  oven:\n    max-degrees: 180 # config.yaml:3\n");
    let all = show(&loaded("{}"), Selection::All, Secrets::Hidden);
    assert!(all.contains("  oven:\n    max-degrees: 250 # default\n"), "{all}");
    let example = loader().example();
    assert!(example.contains("  # Ovens for batches.\n  oven:\n    # How hot it gets.\n    max-degrees: 250\n"));
    assert_eq!(loaded(&example).config, loaded("{}").config);
    let page = loader().markdown();
    assert!(page.contains("## `plugins.oven`\n\nOvens for batches.\n"), "{page}");
    assert!(page.contains("| `max-degrees` |"));
    let schema = loader().schema();
    assert_eq!(schema["$defs"]["PluginsConfig"]["properties"]["oven"]["$ref"], "#/$defs/OvenConfig");
    assert!(schema["$defs"]["Racks"].is_object());
    assert_eq!(schema["$defs"]["PluginsConfig"]["additionalProperties"], false);
}

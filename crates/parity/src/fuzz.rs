//! Entry points for fuzzers: arbitrary bytes as a task template or as an object. The code may not panic, and the result is
//! an object, a phase, or an error with a useful message.
//!
//! `tests/fuzz.rs` calls them with damaged recordings in every test run. `fuzz/` calls them from libFuzzer
//! (`cargo +nightly fuzz run build_object`, in `crates/parity`).

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use aileron_idl::flyteidl2::core::{LiteralMap, TaskTemplate};
use aileron_machinery::{ObjectPlugin, ObservedPhase, PhaseContext, TaskContext};
use aileron_preview::read;
use aileron_preview::render::Offline;
use anyhow::Context as _;
use futures::executor::block_on;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodTemplate;
use prost::Message;
use serde_json::Value;

use crate::vectors::case::Case;
use crate::vectors::context::of_case;
use crate::vectors::installation::Installation;
use crate::vectors::phase_info::phase_info;

/// The result for one input.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// The bytes are not a template or not an object.
    Unreadable,
    /// The code returned an error with this text.
    Refused(String),
    /// The object that was built, or the phase that was read.
    Made(Value),
}

/// Builds objects from bytes.
#[derive(Clone)]
pub struct Builder {
    installations: Vec<Offline>,
}

/// Reads objects from bytes.
pub struct Reader {
    plugin: Arc<dyn ObjectPlugin>,
    task: TaskContext,
}

impl Builder {
    /// Builds under the configurations and pod templates of these recorded cases.
    pub fn new(cases: &[Case]) -> anyhow::Result<Self> {
        let offline = |case: &Case| -> anyhow::Result<Offline> {
            let given = read::task(b"{type: python}").context("reading the minimal template")?;
            let templates = case.input("context").get("podTemplates").cloned().unwrap_or_default();
            let pod_templates: Option<Vec<PodTemplate>> = serde_json::from_value(templates)?;
            Ok(Offline {
                action: given.action,
                template: given.template,
                config: Installation::of(case)?.config,
                plugins: aileron_plugins::builtin(),
                pod_templates: pod_templates.unwrap_or_default(),
                inputs: Some(LiteralMap::default()),
                environment: BTreeMap::new(),
                executor_namespace: "flyte".into(),
                now: Timestamp::UNIX_EPOCH,
            })
        };
        let installations: Vec<_> = cases.iter().map(offline).collect::<anyhow::Result<_>>()?;
        anyhow::ensure!(!installations.is_empty(), "give at least one case");
        Ok(Self { installations })
    }

    /// Builds the object of an encoded task template; the first byte chooses the installation.
    pub fn build(&self, data: &[u8]) -> Answer {
        let Some((choice, bytes)) = data.split_first() else { return Answer::Unreadable };
        let Ok(template) = TaskTemplate::decode(bytes) else { return Answer::Unreadable };
        let mut offline = self.installations[usize::from(*choice) % self.installations.len()].clone();
        // The reconciler rejects an empty type before a plugin is called.
        offline.action.spec.task_type =
            if template.r#type.is_empty() { "python".to_owned() } else { template.r#type.clone() };
        offline.template = template;
        match offline.render() {
            Ok(rendered) => Answer::Made(rendered.object),
            Err(error) => Answer::Refused(chain(&error)),
        }
    }
}

impl Reader {
    /// Reads objects with the plugin and the task of a recorded case.
    pub fn new(case: &Case) -> anyhow::Result<Self> {
        let installation = Installation::of(case)?;
        Ok(Self { plugin: installation.k8s_plugin(case)?, task: of_case(case, &installation)?.with_inputs() })
    }

    /// Reads the phase of an object in JSON.
    pub fn read(&self, data: &[u8]) -> Answer {
        let Ok(object) = serde_json::from_slice::<Value>(data) else { return Answer::Unreadable };
        let Ok(object) = self.plugin.decode(object) else { return Answer::Unreadable };
        let prior = ObservedPhase::default();
        let cx = PhaseContext::new(&self.task, &prior);
        let phase = block_on(self.plugin.phase(&cx, object.as_ref()));
        // The clean-up of objects reads the same object.
        let _ = block_on(self.plugin.ended(object.as_ref()));
        match phase.map(|phase| phase_info(&phase)) {
            Ok(Ok(phase)) => Answer::Made(phase),
            Ok(Err(error)) => Answer::Refused(error.to_string()),
            Err(error) => Answer::Refused(chain(&error)),
        }
    }
}

/// A recorded case by its id.
pub fn recorded(id: &str) -> anyhow::Result<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/open").join(id).with_extension("json");
    let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    serde_json::from_slice(&bytes).with_context(|| format!("{} is not a case", path.display()))
}

fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

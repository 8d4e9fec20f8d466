//! The installations under which targets build objects: the defaults, and an operator who set almost everything.

use std::collections::BTreeMap;

use aileron_config::{Config, Loader, Sources};
use aileron_idl::flyteidl2::core::LiteralMap;
use aileron_preview::read;
use aileron_preview::render::Offline;
use jiff::Timestamp;

use crate::error::TargetError;

const FILES: [(&str, &str); 2] = [("defaults.yaml", "{}"), ("many_settings.yaml", include_str!("many_settings.yaml"))];

/// The configurations.
pub fn configurations() -> Result<Vec<Config>, TargetError> {
    let loader = Loader::new();
    let load = |(name, text): (&'static str, &str)| match loader.load(&Sources::file(name, text)) {
        Ok(loaded) => Ok(loaded.config),
        Err(source) => Err(TargetError::Configuration { name, source }),
    };
    FILES.into_iter().map(load).collect()
}

/// The installations, each with the smallest task and empty inputs.
pub fn installations() -> Result<Vec<Offline>, TargetError> {
    let given = read::task(b"{type: python}")?;
    let offline = |config| Offline {
        action: given.action.clone(),
        template: given.template.clone(),
        config,
        plugins: aileron_plugins::builtin(),
        pod_templates: Vec::new(),
        inputs: Some(LiteralMap::default()),
        environment: BTreeMap::new(),
        executor_namespace: "flyte".into(),
        now: Timestamp::UNIX_EPOCH,
    };
    Ok(configurations()?.into_iter().map(offline).collect())
}

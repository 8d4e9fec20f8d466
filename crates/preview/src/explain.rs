//! Explains every field of the object of a task: which layer set it, from which document its value comes, and which
//! layers set it before and were overwritten.
//!
//! Two methods are combined. `trace` compares the object after each layer. `influence` builds the object many
//! times, each time with one value changed. Plugins need no code for this: both methods only call their build function.

mod compare;
mod documents;
mod influence;
pub mod path;
mod trace;

use std::sync::Arc;

use aileron_config::Loaded;
use serde_json::{Map, Value, json};

use crate::render::{Offline, OfflineError, Rendered};

pub use documents::Source;
pub use influence::Lost;

use self::documents::Origins;
use self::influence::{Effect, Influence, influences};
use self::path::FieldPath;
use self::trace::{Trace, Traced};

/// The name of the first layer. It sets `apiVersion` and `kind`, which the plugin determines.
const KIND_LAYER: &str = "plugin";

/// An object and the explanation of its fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Id of the plugin that made it.
    pub plugin: Arc<str>,
    /// The object.
    pub object: Value,
    /// All fields with single values, in the order of the object.
    pub fields: Vec<Field>,
}

/// The explanation of one field.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// The path of the field.
    pub path: FieldPath,
    /// Its value.
    pub value: Value,
    /// The layer that set the value.
    pub layer: String,
    /// The places that the value comes from. Empty if the value is part of the code of the layer.
    pub sources: Vec<Source>,
    /// Other places that influence the field: with another value there, the field would have another value or be
    /// missing.
    pub conditions: Vec<Source>,
    /// Values of other layers or sources that were overwritten, or that would be used if the winning source were not
    /// set.
    pub lost: Vec<Lost>,
}

/// Explains the object of a task. `loaded` is the configuration of `offline` with the origins of its values.
///
/// # Errors
///
/// There is no object.
pub fn explain(offline: &Offline, loaded: &Loaded) -> Result<Explanation, OfflineError> {
    let (rendered, traced) = traced(offline)?;
    let influences = influences(offline, &rendered, &Origins::new(loaded));
    let fields = traced.into_iter().map(|traced| field(traced, &influences)).collect();
    Ok(Explanation { plugin: rendered.plugin, object: rendered.object, fields })
}

impl Explanation {
    /// The object, built again from the explained fields. It must be equal to `object`.
    #[must_use]
    pub fn rebuilt(&self) -> Value {
        let mut object = Value::Object(Map::new());
        for field in &self.fields {
            field.path.set(&mut object, field.value.clone());
        }
        object
    }

    /// The explanation as JSON, for other programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let fields: Vec<_> = self.fields.iter().map(Field::to_json).collect();
        json!({"plugin": &*self.plugin, "object": self.object, "fields": fields})
    }
}

impl Field {
    /// The field as JSON, for other programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let lost = |lost: &Lost| json!({"layer": lost.layer, "value": lost.value, "source": lost.source.as_ref().map(Source::to_json)});
        json!({
            "field": self.path.to_string(), "value": self.value, "layer": self.layer,
            "sources": self.sources.iter().map(Source::to_json).collect::<Vec<_>>(),
            "conditions": self.conditions.iter().map(Source::to_json).collect::<Vec<_>>(),
            "lost": self.lost.iter().map(lost).collect::<Vec<_>>(),
        })
    }
}

/// The object and the history of its fields.
fn traced(offline: &Offline) -> Result<(Rendered, Vec<Traced>), OfflineError> {
    let mut steps = Vec::new();
    let rendered = offline.render_observed(&mut |layer, object| steps.push((layer.to_owned(), object)))?;
    let mut trace = Trace::default();
    let kind =
        ["apiVersion", "kind"].map(|key| (key.to_owned(), rendered.object.get(key).cloned().unwrap_or_default()));
    trace.follow(KIND_LAYER, Value::Object(kind.into_iter().collect()));
    for (layer, object) in steps {
        trace.follow(&layer, object);
    }
    Ok((rendered, trace.fields()))
}

fn field(traced: Traced, influences: &[Influence]) -> Field {
    let Traced { path, won, lost } = traced;
    let having = |wanted: Effect| {
        let effective = influences.iter().filter(|influence| influence.effects.get(&path) == Some(&wanted));
        once(effective.map(|influence| influence.source.clone()))
    };
    let mut sources = having(Effect::Holds);
    if sources.is_empty() {
        sources = having(Effect::Equals);
    }
    let mut conditions = having(Effect::Decides);
    conditions.retain(|source| !sources.contains(source));
    let overwritten = lost.into_iter().map(|step| Lost { layer: step.layer, value: step.value, source: None });
    let otherwise = influences.iter().filter_map(|influence| {
        let lost = influence.otherwise.get(&path)?;
        // The default of a configuration key is not listed: it is always overwritten when the key is set.
        let is_rival = lost.layer != won.layer || !matches!(influence.source, Source::Config { .. });
        is_rival.then(|| lost.clone())
    });
    let lost = once(overwritten.chain(otherwise));
    Field { path, value: won.value, layer: won.layer, sources, conditions, lost }
}

/// The items without duplicates, in their order.
fn once<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    items.fold(Vec::new(), |mut seen, item| {
        if !seen.contains(&item) {
            seen.push(item);
        }
        seen
    })
}

#[cfg(test)]
mod tests;

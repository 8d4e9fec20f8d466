//! Where every field of a task's object comes from: the layer that set it, the value it goes back to, and the layers
//! whose values do not stand.
//!
//! Two independent looks at the same building: [`trace`] compares the object after each layer, [`influence`] builds it
//! again and again with one value changed. Neither needs anything from a plugin but that it builds.

mod compare;
mod documents;
mod influence;
pub mod path;
mod trace;

use aileron_config::Loaded;
use serde_json::{Map, Value, json};

use crate::render::{Offline, OfflineError, Rendered};

pub use documents::Source;
pub use influence::Lost;

use self::documents::Origins;
use self::influence::{Effect, Influence, influences};
use self::path::FieldPath;
use self::trace::{Trace, Traced};

/// What the layer is called that is there before any other: the object's kind, which is the plugin's.
const KIND_LAYER: &str = "plugin";

/// An object explained.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Id of the plugin that made it.
    pub plugin: &'static str,
    /// The object.
    pub object: Value,
    /// Every field that holds no other, in the order of the object.
    pub fields: Vec<Field>,
}

/// Where one field comes from.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Where it is.
    pub path: FieldPath,
    /// Its value.
    pub value: Value,
    /// The one layer that set it.
    pub layer: String,
    /// The values that it holds. Empty if the layer knows the value by itself.
    pub sources: Vec<Source>,
    /// What else decides about it: with another value there it would be another, or missing.
    pub conditions: Vec<Source>,
    /// Layers that set it before, or would have set it if nobody else had.
    pub lost: Vec<Lost>,
}

/// Explains the object of a task. `loaded` is the configuration of `offline`, with the places it came from.
///
/// # Errors
///
/// When there is no object.
pub fn explain(offline: &Offline, loaded: &Loaded) -> Result<Explanation, OfflineError> {
    let (rendered, traced) = traced(offline)?;
    let influences = influences(offline, &rendered, &Origins::new(loaded));
    let fields = traced.into_iter().map(|traced| field(traced, &influences)).collect();
    Ok(Explanation { plugin: rendered.plugin, object: rendered.object, fields })
}

impl Explanation {
    /// The object as its fields say it is.
    #[must_use]
    pub fn rebuilt(&self) -> Value {
        let mut object = Value::Object(Map::new());
        for field in &self.fields {
            field.path.set(&mut object, field.value.clone());
        }
        object
    }

    /// Everything, for other programs.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let fields: Vec<_> = self.fields.iter().map(Field::to_json).collect();
        json!({"plugin": self.plugin, "object": self.object, "fields": fields})
    }
}

impl Field {
    /// The field, for other programs.
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

/// The object, and the history of its fields.
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
        // The default behind a key of the configuration is no rival of the key.
        let is_rival = lost.layer != won.layer || !matches!(influence.source, Source::Config { .. });
        is_rival.then(|| lost.clone())
    });
    let lost = once(overwritten.chain(otherwise));
    Field { path, value: won.value, layer: won.layer, sources, conditions, lost }
}

/// The items without repetition, in their order.
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

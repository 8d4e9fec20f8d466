//! An action as the executor keeps it: the object without its large fields, and its template, decoded once.

use std::sync::Arc;

use aileron_idl::flyteidl2::core::TaskTemplate;
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use prost::Message;

use super::TaskAction;
use super::salvage::Salvaged;

/// The task template of an action.
#[derive(Clone, Debug)]
pub enum Template {
    /// The action has no template.
    Absent,
    /// The bytes are not a template.
    Unreadable(Arc<str>),
    /// Decoded, shared by all rounds of the same generation.
    Decoded(Arc<TaskTemplate>),
}

impl Template {
    fn decode(bytes: &[u8]) -> Self {
        if bytes.is_empty() {
            return Self::Absent;
        }
        match TaskTemplate::decode(bytes) {
            Ok(template) => Self::Decoded(Arc::new(template)),
            Err(error) => Self::Unreadable(error.to_string().into()),
        }
    }

    /// The template, if it can be read.
    pub fn get(&self) -> Option<&Arc<TaskTemplate>> {
        match self {
            Self::Decoded(template) => Some(template),
            Self::Absent | Self::Unreadable(_) => None,
        }
    }
}

/// An action: its object and its decoded template.
#[derive(Clone, Debug)]
pub struct Action {
    /// The object, without `managedFields` and without the template's bytes: both are large and neither is read again.
    pub object: TaskAction,
    /// The template.
    pub template: Template,
    /// Which fields of the object cannot be decoded, and why. Such fields have their default value in `object`.
    pub malformed: Option<Arc<str>>,
}

impl Action {
    /// Makes an action of an object from the API server. The decoded template of `earlier` is reused if it has the same
    /// generation, because then the spec is the same.
    pub fn new(mut object: TaskAction, earlier: Option<&Self>) -> Self {
        object.metadata.managed_fields = None;
        let bytes = std::mem::take(&mut object.spec.task_template);
        let unchanged = earlier.filter(|earlier| earlier.malformed.is_none() && earlier.has_spec_of(&object.metadata));
        let template = match unchanged {
            Some(earlier) => earlier.template.clone(),
            None => Template::decode(&bytes.0),
        };
        Self { object, template, malformed: None }
    }

    /// An action with fields that cannot be decoded. Nothing of an earlier action applies: other fields may have been
    /// unreadable then.
    pub fn malformed(salvaged: Salvaged) -> Self {
        Self { malformed: Some(salvaged.message.into()), ..Self::new(salvaged.object, None) }
    }

    /// The object with this metadata is this action, with the same specification.
    pub fn has_spec_of(&self, metadata: &ObjectMeta) -> bool {
        let known = &self.object.metadata;
        known.uid == metadata.uid && known.generation.is_some() && known.generation == metadata.generation
    }

    /// Namespace of the action.
    pub fn namespace(&self) -> &str {
        self.object.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// Name of the action.
    pub fn name(&self) -> &str {
        self.object.metadata.name.as_deref().unwrap_or_default()
    }

    /// Identity of the action, different for a later object of the same name.
    pub fn uid(&self) -> &str {
        self.object.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The status, empty before the first write.
    pub fn status(&self) -> super::TaskActionStatus {
        self.object.status.clone().unwrap_or_default()
    }

    /// The object with the template's bytes back in place.
    pub fn to_object(&self) -> TaskAction {
        let mut object = self.object.clone();
        if let Template::Decoded(template) = &self.template {
            object.spec.task_template = ByteString(template.encode_to_vec());
        }
        object
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::TaskActionSpec;

    fn object(generation: i64, template: &[u8]) -> TaskAction {
        let mut object =
            TaskAction::new("a", TaskActionSpec { task_template: ByteString(template.to_vec()), ..Default::default() });
        object.metadata.uid = Some("u".into());
        object.metadata.generation = Some(generation);
        object
    }

    #[test]
    fn the_template_is_decoded_once_per_generation() {
        let bytes = TaskTemplate { r#type: "t".into(), ..Default::default() }.encode_to_vec();
        let first = Action::new(object(1, &bytes), None);
        let again = Action::new(object(1, &bytes), Some(&first));
        assert!(Arc::ptr_eq(first.template.get().unwrap(), again.template.get().unwrap()));
        let changed = Action::new(object(2, &bytes), Some(&first));
        assert!(!Arc::ptr_eq(first.template.get().unwrap(), changed.template.get().unwrap()));
        assert!(first.object.spec.task_template.0.is_empty());
    }

    #[test]
    fn bytes_that_are_no_template_are_told_apart_from_none() {
        assert!(matches!(Action::new(object(1, b""), None).template, Template::Absent));
        assert!(matches!(Action::new(object(1, b"\xff\xff\xff"), None).template, Template::Unreadable(_)));
    }
}

//! The `TaskAction` object, and what is computed from it without a request: the metadata of an attempt, the choice of
//! the plugin, the status and the events.

pub mod conditions;
pub mod crd;
pub mod events;
pub mod labels;
pub mod metadata;
pub mod object_identity;
pub mod pending;
pub mod plugin_choice;
mod required_fields;
pub mod salvage;
pub mod settings;
pub mod shorten;
mod task_action;
pub mod template;

pub use required_fields::missing_fields;
pub use task_action::{
    ACTION_FINALIZER, ACTION_TYPE_CONDITION, ErrorState, PhaseTransition, TaskAction, TaskActionSpec, TaskActionStatus,
};
pub use template::{Action, Template};

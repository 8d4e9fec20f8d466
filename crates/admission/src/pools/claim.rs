//! The claim of an action to a token.

use aileron_machinery::{ActionKey, TaskContext};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use super::limits::Account;

/// An action that wants a token.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenClaim {
    /// The action.
    pub holder: ActionKey,
    /// The action as the owner of the token object.
    pub owner: OwnerReference,
    /// The account that the token is counted on.
    pub account: Account,
    /// Project, domain, run and action, for users who inspect the token object.
    pub identity: String,
    /// When the action was created. Older actions come first.
    pub created_at: Timestamp,
    /// The current time.
    pub now: Timestamp,
}

impl TokenClaim {
    /// The claim of a task whose action was created at this time.
    pub fn of(task: &TaskContext, created_at: Timestamp) -> Self {
        let metadata = &task.metadata;
        let id = &metadata.id;
        Self {
            holder: ActionKey::new(&metadata.namespace, &metadata.owner.name),
            owner: metadata.owner.clone(),
            account: Account { project: id.project.clone(), domain: id.domain.clone() },
            identity: format!("{}/{}/{}/{}", id.project, id.domain, id.run, id.action),
            created_at,
            now: task.now,
        }
    }
}

//! Answers to authentication and authorization reviews: there is one user, who may do everything.

use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::object::{metadata_of, set};
use crate::state::USER;

/// The review with its status.
pub(super) fn answer(kind: &Kind, mut review: Value) -> Value {
    let user = json!({"username": USER, "uid": USER, "groups": ["system:masters", "system:authenticated"]});
    let status = match kind.kind.as_str() {
        "TokenReview" => json!({"authenticated": true, "user": user, "audiences": ["https://kubernetes.default.svc"]}),
        "SelfSubjectReview" => json!({"userInfo": user}),
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        _ => json!({"allowed": true}),
    };
    set(&mut review, "status", status);
    metadata_of(&mut review);
    review
}

//! Who somebody is and what they may: whoever holds the token is the administrator and may do everything.

use serde_json::{Value, json};

use crate::kind::Kind;

/// Who everybody is.
pub(crate) const USER: &str = "sandbox-admin";

/// The answer to a review.
pub(crate) fn answer(kind: &Kind, mut review: Value) -> Value {
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
    crate::object::set(&mut review, "status", status);
    crate::object::metadata_of(&mut review);
    review
}

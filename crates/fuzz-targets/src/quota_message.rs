//! Any bytes as the message of a refused create request.

use aileron_admission::quota::message::exceeded_quotas;
use aileron_admission::refusal::Refusal;
use aileron_kubekit::ApiError;

/// The codes under which an API server sends such messages.
const CODES: [u16; 6] = [403, 409, 422, 429, 500, 503];

/// Reads the message, and classifies the answers that may carry it.
pub fn read(data: &[u8]) {
    let message = String::from_utf8_lossy(data);
    for quota in exceeded_quotas(&message) {
        let shown = quota.to_string();
        assert!(shown.starts_with("quota "), "{shown}");
        for resource in quota.above_limit() {
            assert!(quota.resources().contains(resource), "{resource} is not a resource of {shown}");
        }
    }
    for code in CODES {
        let error = ApiError { code, message: message.to_string(), ..ApiError::default() };
        if let Refusal::Overload { what, .. } = Refusal::of(&error) {
            assert!(!what.text().is_empty());
        }
    }
}

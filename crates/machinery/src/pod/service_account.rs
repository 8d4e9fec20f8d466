//! The service account of pods.

use crate::TaskMetadata;

/// The service account of the task's security context, else that of its metadata; empty means the namespace's default.
///
/// Mirrors `flytek8s.GetServiceAccountNameFromTaskExecutionMetadata`.
///
/// ```
/// use aileron_machinery::TaskMetadata;
/// use aileron_machinery::pod::service_account;
///
/// let metadata = TaskMetadata { service_account: "trainer".into(), ..TaskMetadata::default() };
/// assert_eq!(service_account(&metadata), "trainer");
/// ```
pub fn service_account(metadata: &TaskMetadata) -> &str {
    let run_as = metadata.security_context.as_ref().and_then(|context| context.run_as.as_ref());
    run_as
        .map(|identity| identity.k8s_service_account.as_str())
        .filter(|account| !account.is_empty())
        .unwrap_or(&metadata.service_account)
}

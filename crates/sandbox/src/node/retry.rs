//! Requests that must arrive in the end.

use std::time::Duration;

/// The server is in this process or near it: a first failure is over soon.
const SHORTEST: Duration = Duration::from_millis(50);
/// A server that was away is noticed after this at the latest.
const LONGEST: Duration = Duration::from_secs(5);

/// Asks until there is an answer. `None` if the object is gone or another one has its name; an error only if the
/// server understood and said no, so that asking again is pointless.
pub(crate) async fn until_answered<T, F>(mut ask: impl FnMut() -> F) -> kube::Result<Option<T>>
where
    F: Future<Output = kube::Result<T>>,
{
    let mut pause = SHORTEST;
    loop {
        match ask().await {
            Ok(answer) => return Ok(Some(answer)),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return Ok(None),
            Err(error) if is_refusal(&error) => return Err(error),
            Err(error) => tracing::debug!(%error, "asking again"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
    }
}

fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429)
}

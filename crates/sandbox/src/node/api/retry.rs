//! Requests that are retried until the API server answers.

use std::time::Duration;

/// First pause. The server usually runs in this process, so most failures are short.
const MIN_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause: a server that comes back is called within this time.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Sends a request until the server answers it. Returns `None` for 404 and 409: the object is gone or another object
/// has its name. Returns an error if the server refuses the request, because a retry cannot help then.
pub(crate) async fn until_answered<T, F>(mut send: impl FnMut() -> F) -> kube::Result<Option<T>>
where
    F: Future<Output = kube::Result<T>>,
{
    let mut pause = MIN_PAUSE;
    loop {
        match send().await {
            Ok(answer) => return Ok(Some(answer)),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => return Ok(None),
            Err(error) if is_refusal(&error) => return Err(error),
            Err(error) => tracing::debug!(%error, "the API server did not answer; retrying"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code) && status.code != 429)
}

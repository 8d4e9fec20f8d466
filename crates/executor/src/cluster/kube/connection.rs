//! The connection that every request to the API server uses. A write leaves the process only while it leads, and no
//! request waits forever.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use aileron_lease::Fence;
use bytes::Bytes;
use futures::{StreamExt, stream};
use http::{Method, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyDataStream, BodyExt, Full, StreamBody};
use kube::client::Body;
use tower::{BoxError, Service};

/// A request that the API server did not answer within this time is not answered any more: its own limit is 60 s.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(65);

/// The API server answers a watch at once, with or without changes.
const WATCH_START_TIMEOUT: Duration = Duration::from_secs(30);

/// The API server sends a bookmark to every watch about once per minute. A watch without anything for this long has lost
/// its connection without notice, for example because a firewall forgot it.
const WATCH_IDLE_TIMEOUT: Duration = Duration::from_secs(190);

/// A client whose writes pass the fence and whose requests have timeouts.
pub fn guarded(client: kube::Client, fence: Fence) -> kube::Client {
    let namespace = client.default_namespace().to_owned();
    kube::Client::new(Connection { client, fence }, namespace)
}

type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

#[derive(Clone)]
struct Connection {
    client: kube::Client,
    fence: Fence,
}

impl Connection {
    async fn exchange(self, request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
        let Self { client, fence } = self;
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        if is_watch(&request) {
            let answer = tokio::time::timeout(WATCH_START_TIMEOUT, client.send(request)).await;
            return Ok(answer.map_err(|_| TimedOut(WATCH_START_TIMEOUT))??.map(with_idle_timeout));
        }
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, whole_answer(client, request));
        let answer = if is_read { answer.await } else { fence.guard(answer).await? };
        answer.map_err(|_| TimedOut(REQUEST_TIMEOUT))?
    }
}

impl Service<Request<Body>> for Connection {
    type Response = Response<AnswerBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<AnswerBody>, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        // Each request waits for its own clone of the client.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.clone().exchange(request))
    }
}

/// The API server did not answer in time.
#[derive(Debug, thiserror::Error)]
#[error("the API server did not answer within {0:?}")]
struct TimedOut(Duration);

fn is_watch(request: &Request<Body>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1" | "follow=true"))
}

/// The answer with its whole body, so that the timeout covers the body too.
async fn whole_answer(client: kube::Client, request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
    let (head, body) = client.send(request).await?.into_parts();
    let body = body.collect_bytes().await?;
    Ok(Response::from_parts(head, Full::new(body).map_err(|never| match never {}).boxed_unsync()))
}

/// Ends a stream that shows nothing for too long with an error, so that the watch reconnects.
fn with_idle_timeout(body: Body) -> AnswerBody {
    let chunks = stream::unfold(Some(BodyDataStream::new(body)), |chunks| async {
        let mut chunks = chunks?;
        match tokio::time::timeout(WATCH_IDLE_TIMEOUT, chunks.next()).await {
            Ok(Some(Ok(chunk))) => Some((Ok(Frame::data(chunk)), Some(chunks))),
            Ok(Some(Err(error))) => Some((Err(BoxError::from(error)), None)),
            Ok(None) => None,
            Err(_) => Some((Err(TimedOut(WATCH_IDLE_TIMEOUT).into()), None)),
        }
    });
    StreamBody::new(chunks).boxed_unsync()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::{DeleteParams, PostParams, WatchParams};
    use tokio::time::Instant;
    use tower::service_fn;

    use super::*;

    /// A server that receives requests and never answers, or never goes on after the head of an answer.
    fn silent(received: &Arc<AtomicUsize>, begins: bool, fence: Fence) -> Api<ConfigMap> {
        let received = Arc::clone(received);
        let service = service_fn(move |_: Request<Body>| {
            received.fetch_add(1, Ordering::Relaxed);
            async move {
                if !begins {
                    std::future::pending::<()>().await;
                }
                let nothing = stream::pending::<Result<Frame<Bytes>, BoxError>>();
                Ok::<_, BoxError>(Response::new(StreamBody::new(nothing)))
            }
        });
        Api::default_namespaced(guarded(kube::Client::new(service, "default"), fence))
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_never_answered_ends() {
        for begins in [false, true] {
            let maps = silent(&Arc::default(), begins, Fence::always_open());
            let began = Instant::now();
            maps.get("settings").await.unwrap_err();
            assert_eq!(began.elapsed(), REQUEST_TIMEOUT, "answer begun: {begins}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_shows_nothing_ends_with_an_error() {
        let maps = silent(&Arc::default(), true, Fence::always_open());
        let began = Instant::now();
        let mut changes = maps.watch(&WatchParams::default(), "1").await.unwrap().boxed();
        assert!(changes.next().await.unwrap().is_err());
        assert_eq!(began.elapsed(), WATCH_IDLE_TIMEOUT);
        let maps = silent(&Arc::default(), false, Fence::always_open());
        assert!(maps.watch(&WatchParams::default(), "1").await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn writes_do_not_leave_a_process_that_does_not_lead() {
        let (received, fence) = (Arc::<AtomicUsize>::default(), Fence::closed());
        let maps = silent(&received, false, fence.clone());
        let error = maps.create(&PostParams::default(), &ConfigMap::default()).await.unwrap_err();
        assert!(format!("{error:?}").contains("NotLeading"), "{error:?}");
        maps.delete("settings", &DeleteParams::default()).await.unwrap_err();
        assert_eq!(received.load(Ordering::Relaxed), 0);

        let began = Instant::now();
        fence.open_until(began + Duration::from_secs(10));
        maps.delete("settings", &DeleteParams::default()).await.unwrap_err();
        assert_eq!(began.elapsed(), Duration::from_secs(10), "a write under way ends with the lease");
        assert_eq!(received.load(Ordering::Relaxed), 1);
    }
}

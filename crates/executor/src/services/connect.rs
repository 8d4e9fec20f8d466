//! A client of the Connect protocol: unary calls over HTTP/1.1 with protobuf bodies.

mod code;
#[cfg(test)]
mod tests;

use std::time::Duration;

use aileron_machinery::error_text::chain;
use prost::Message;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use url::Url;

use crate::storage::second_try::{SECOND_TRY_AFTER, with_second_try};

pub use code::Code;

const PROTO: HeaderValue = HeaderValue::from_static("application/proto");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("connect-protocol-version");
const TIMEOUT_MS: HeaderName = HeaderName::from_static("connect-timeout-ms");

/// The protocol allows ten digits in `connect-timeout-ms`.
const MAX_TIMEOUT_MS: u128 = 9_999_999_999;

/// How much of a body that is not a Connect error is put into the error message. It is enough to recognise the error page
/// of a proxy.
const MAX_FOREIGN_BODY: usize = 200;

/// How a [`ConnectClient`] behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Time for one call, from the first byte sent to the last byte received.
    pub timeout: Duration,
    /// Time to open a connection. It is shorter than that of a call, so that an unreachable address is noticed early.
    pub connect_timeout: Duration,
    /// The largest accepted answer. Reading stops when an answer exceeds it, to bound the use of memory.
    pub max_response_bytes: usize,
    /// How long an unused connection is kept. It is shorter than the minute after which servers and load balancers close
    /// connections.
    pub idle_timeout: Duration,
}

/// A service reachable under a base address. Cheap to clone; clones share the connections.
#[derive(Debug, Clone)]
pub struct ConnectClient {
    http: reqwest::Client,
    base: Url,
    options: ConnectOptions,
}

/// The error of a call: from the answer of the service, or a transport error with the matching code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ConnectError {
    /// The kind of failure.
    pub code: Code,
    /// The details, for people.
    pub message: String,
}

/// Why a client could not be created.
#[derive(Debug, thiserror::Error)]
pub enum ConnectSetupError {
    /// The address is not a valid http or https address.
    #[error("service address {address:?} is not usable: {detail}; write it as http://host:port or https://host")]
    BadAddress {
        /// The address as configured.
        address: String,
        /// What is wrong with it.
        detail: String,
    },
    /// The HTTP client refused its settings.
    #[error(
        "failed to set up the HTTP client; it needs root certificates, in /etc/ssl/certs or in the file that SSL_CERT_FILE names"
    )]
    Http(#[source] reqwest::Error),
}

/// The body of an error answer.
#[derive(Deserialize)]
struct ErrorBody {
    code: String,
    #[serde(default)]
    message: String,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            max_response_bytes: 16 << 20,
            idle_timeout: Duration::from_secs(50),
        }
    }
}

impl ConnectError {
    /// An error with this code and text.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl ConnectClient {
    /// A client of the services below `base`, for example `http://localhost:8090`.
    ///
    /// # Errors
    /// When the address is not an http or https address.
    pub fn new(base: &str, options: ConnectOptions) -> Result<Self, ConnectSetupError> {
        let bad = |detail: String| ConnectSetupError::BadAddress { address: base.to_owned(), detail };
        let mut url = Url::parse(base).map_err(|error| bad(error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(bad(format!("scheme {:?} is neither http nor https", url.scheme())));
        }
        // Paths are joined below the base, so the base must end like a directory.
        if !url.path().ends_with('/') {
            let path = format!("{}/", url.path());
            url.set_path(&path);
        }
        crate::storage::tls::install_crypto_provider();
        let http = reqwest::Client::builder()
            .http1_only()
            .connect_timeout(options.connect_timeout)
            .pool_idle_timeout(options.idle_timeout)
            // A redirected POST would lose its body; a service that moved is a configuration error.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(ConnectSetupError::Http)?;
        Ok(Self { http, base: url, options })
    }

    /// Calls `procedure`, written `package.Service/Method`, within the configured time.
    ///
    /// # Errors
    /// What the service answered, [`Code::Unavailable`] when it could not be reached, [`Code::DeadlineExceeded`] when
    /// it took too long.
    pub async fn call<Q, A>(&self, procedure: &str, request: &Q) -> Result<A, ConnectError>
    where
        Q: Message,
        A: Message + Default,
    {
        self.call_within(procedure, request, self.options.timeout).await
    }

    /// Calls `procedure` within `timeout`. Dropping the future cancels the call. A call that takes long is made a second
    /// time beside the first ([`with_second_try`]), so only idempotent procedures may be called.
    ///
    /// # Errors
    /// As [`Self::call`].
    pub async fn call_within<Q, A>(&self, procedure: &str, request: &Q, timeout: Duration) -> Result<A, ConnectError>
    where
        Q: Message,
        A: Message + Default,
    {
        let message = request.encode_to_vec();
        let exchange = || self.exchange(procedure, message.clone(), timeout);
        let body =
            tokio::time::timeout(timeout, with_second_try(SECOND_TRY_AFTER, exchange)).await.map_err(|_| {
                ConnectError::new(
                    Code::DeadlineExceeded,
                    format!("{} did not answer {procedure} within {timeout:?}", self.server()),
                )
            })??;
        A::decode(body.as_slice()).map_err(|error| {
            ConnectError::new(Code::Internal, format!("{procedure} answered with a malformed message: {error}"))
        })
    }

    async fn exchange(&self, procedure: &str, body: Vec<u8>, timeout: Duration) -> Result<Vec<u8>, ConnectError> {
        let url = self
            .base
            .join(procedure)
            .map_err(|error| ConnectError::new(Code::Internal, format!("bad procedure {procedure:?}: {error}")))?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, PROTO);
        headers.insert(PROTOCOL_VERSION, HeaderValue::from_static("1"));
        // Above the limit of the protocol there is no timeout header. The timeout of this client still applies.
        if let (true, Ok(value)) =
            (timeout.as_millis() <= MAX_TIMEOUT_MS, HeaderValue::from_str(&timeout.as_millis().to_string()))
        {
            headers.insert(TIMEOUT_MS, value);
        }
        let response =
            self.http.post(url).headers(headers).body(body).send().await.map_err(|error| self.transport(error))?;
        let status = response.status();
        let kind = response.headers().get(CONTENT_TYPE).cloned();
        let body = self.read(response).await?;
        if status == reqwest::StatusCode::OK {
            return match kind {
                Some(kind) if kind == PROTO => Ok(body),
                other => Err(ConnectError::new(
                    Code::Internal,
                    format!(
                        "{} answered with content type {} instead of application/proto",
                        self.server(),
                        other.as_ref().and_then(|kind| kind.to_str().ok()).unwrap_or("none")
                    ),
                )),
            };
        }
        Err(failure(&self.server(), status.as_u16(), &body))
    }

    /// The server, for messages. Its path may be a secret, as that of the services of a sandbox.
    fn server(&self) -> String {
        self.base.origin().ascii_serialization()
    }

    fn transport(&self, error: reqwest::Error) -> ConnectError {
        let code = if error.is_timeout() { Code::DeadlineExceeded } else { Code::Unavailable };
        // The message of reqwest is only "error sending request"; the reason is in its sources.
        ConnectError { code, message: format!("{}: {}", self.server(), chain(&error.without_url())) }
    }

    async fn read(&self, mut response: reqwest::Response) -> Result<Vec<u8>, ConnectError> {
        let limit = self.options.max_response_bytes;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.transport(error))? {
            if body.len() + chunk.len() > limit {
                return Err(ConnectError::new(
                    Code::ResourceExhausted,
                    format!("the answer is larger than the limit of {limit} bytes"),
                ));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

/// Converts an error answer: the JSON of Connect, or else the HTTP status.
fn failure(server: &str, status: u16, body: &[u8]) -> ConnectError {
    if let Ok(ErrorBody { code, message }) = serde_json::from_slice(body) {
        let code = Code::from_name(&code).unwrap_or_else(|| Code::from_http(status));
        return ConnectError { code, message };
    }
    let shown = body.get(..MAX_FOREIGN_BODY).unwrap_or(body);
    let shown = String::from_utf8_lossy(shown);
    let message = format!("{server} answered with HTTP status {status}: {}", shown.trim());
    ConnectError { code: Code::from_http(status), message }
}

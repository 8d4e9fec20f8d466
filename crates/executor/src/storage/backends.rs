//! Clients of cloud storage, built from the configuration keys of stow.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{ClientOptions, ObjectStore, RetryConfig};

use super::{Backend, StorageError};

/// Bounds a request that hangs. A round waits for it, for example to read the outputs of a task.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// The region that stow uses when none is configured.
const DEFAULT_REGION: &str = "us-east-1";

/// The domain of Azure's public cloud.
const AZURE_SUFFIX: &str = "core.windows.net";

/// The settings of the client of one container.
pub(super) struct Recipe<'a> {
    pub backend: Backend,
    pub container: &'a str,
    pub config: &'a BTreeMap<String, String>,
    /// Whether missing credentials are taken from the environment (a scheme without settings) or are an error.
    pub ambient: bool,
    pub timeout: Duration,
}

impl Recipe<'_> {
    /// A client, or `None` for backends that need none.
    pub fn build(&self) -> Result<Option<Arc<dyn ObjectStore>>, StorageError> {
        crate::storage::tls::install_crypto_provider();
        match self.backend {
            Backend::S3 => self.s3().map(Some),
            Backend::Gcs => self.gcs().map(Some),
            Backend::Azure => self.azure().map(Some),
            Backend::Local | Backend::Memory => Ok(None),
        }
    }

    fn get(&self, key: &str) -> Option<&str> {
        self.config.get(key).map(String::as_str).filter(|value| !value.is_empty())
    }

    fn wrong(&self, detail: impl Into<String>) -> StorageError {
        StorageError::Settings {
            subject: format!("{}://{}", self.backend.scheme(), self.container),
            detail: detail.into(),
        }
    }

    fn client(&self) -> ClientOptions {
        let timeout = if self.timeout.is_zero() { DEFAULT_TIMEOUT } else { self.timeout };
        ClientOptions::new().with_timeout(timeout)
    }

    /// Mirrors stow's `s3` location.
    fn s3(&self) -> Result<Arc<dyn ObjectStore>, StorageError> {
        let auth = self.get("auth_type").unwrap_or(if self.ambient { "iam" } else { "accesskey" });
        let mut builder = match auth {
            "iam" => AmazonS3Builder::from_env(),
            "accesskey" => {
                let id = self.get("access_key_id").ok_or_else(|| self.wrong("set access_key_id"))?;
                let secret = self.secret_key()?.ok_or_else(|| self.wrong("set secret_key or secret_key_path"))?;
                let builder = AmazonS3Builder::new().with_access_key_id(id).with_secret_access_key(secret);
                match self.get("token") {
                    Some(token) => builder.with_token(token),
                    None => builder,
                }
            }
            other => return Err(self.wrong(format!("auth_type is {other:?}; use accesskey or iam"))),
        };
        let mut client = self.client();
        if let Some(endpoint) = self.get("endpoint") {
            let insecure = self.get("disable_ssl") == Some("true");
            let address = match (endpoint.contains("://"), insecure) {
                (true, _) => endpoint.to_owned(),
                (false, true) => format!("http://{endpoint}"),
                (false, false) => format!("https://{endpoint}"),
            };
            client = client.with_allow_http(address.starts_with("http://"));
            builder = builder.with_endpoint(address).with_virtual_hosted_style_request(false);
        }
        let store = builder
            .with_region(self.get("region").unwrap_or(DEFAULT_REGION))
            .with_bucket_name(self.container)
            .with_client_options(client)
            .with_retry(retries())
            .build()
            .map_err(|error| self.wrong(error.to_string()))?;
        Ok(Arc::new(store))
    }

    /// A file wins over the plain value, so that secrets can be mounted. Mirrors `resolveSecretKey`.
    fn secret_key(&self) -> Result<Option<String>, StorageError> {
        match self.get("secret_key_path") {
            Some(path) => match std::fs::read_to_string(path) {
                Ok(secret) => Ok(Some(secret.trim().to_owned())),
                Err(error) => Err(self.wrong(format!("secret_key_path {path:?} cannot be read: {error}"))),
            },
            None => Ok(self.get("secret_key").map(str::to_owned)),
        }
    }

    /// Mirrors stow's `google` location: without a key the default credentials of the environment apply.
    fn gcs(&self) -> Result<Arc<dyn ObjectStore>, StorageError> {
        let builder = match self.get("json") {
            Some(key) => GoogleCloudStorageBuilder::new().with_service_account_key(key),
            None => GoogleCloudStorageBuilder::from_env(),
        };
        let store = builder
            .with_bucket_name(self.container)
            .with_client_options(self.client())
            .with_retry(retries())
            .build()
            .map_err(|error| self.wrong(error.to_string()))?;
        Ok(Arc::new(store))
    }

    /// Mirrors stow's `azure` location: without a key the identity of the environment applies.
    fn azure(&self) -> Result<Arc<dyn ObjectStore>, StorageError> {
        let account = self.get("account").ok_or_else(|| self.wrong("set account"))?;
        let builder = match self.get("key") {
            Some(key) => MicrosoftAzureBuilder::new().with_access_key(key),
            None => MicrosoftAzureBuilder::from_env(),
        };
        let suffix = self.get("domain_suffix").or_else(|| self.get("base_url")).unwrap_or(AZURE_SUFFIX);
        let store = builder
            .with_account(account)
            .with_container_name(self.container)
            .with_endpoint(format!("https://{account}.blob.{suffix}"))
            .with_client_options(self.client())
            .with_retry(retries())
            .build()
            .map_err(|error| self.wrong(error.to_string()))?;
        Ok(Arc::new(store))
    }
}

/// The reconciler retries by itself, so the client only has to retry short failures. Its own default would block a round
/// for three minutes.
fn retries() -> RetryConfig {
    RetryConfig { max_retries: 3, retry_timeout: Duration::from_secs(20), ..RetryConfig::default() }
}

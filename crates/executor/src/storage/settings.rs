//! The settings of the storage layer.

use std::collections::BTreeMap;
use std::time::Duration;

/// The `storage` section. Mirrors `storage.Config`; see [`ObjectStores`](super::ObjectStores) for the keys of `config`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageSettings {
    /// `type` and `stow.kind`: the backend of the configured container.
    pub backend: Backend,
    /// `container`: the bucket or directory used by this installation.
    pub container: String,
    /// `stow.config`: credentials, region, endpoint, path, by stow's names.
    pub config: BTreeMap<String, String>,
    /// `enable-multicontainer`: whether other containers of the same backend may be used.
    pub multi_container: bool,
    /// `schemes`: how to reach backends other than the configured one. Schemes without an entry cannot be used; an entry
    /// without settings means the credentials of the environment.
    pub schemes: BTreeMap<String, SchemeSettings>,
    /// `allowed-prefixes`: locations outside of `container` that may be used.
    pub allowed_prefixes: Vec<String>,
    /// `limits.maxDownloadMBs`: largest blob that is read; zero means any.
    pub max_download_mb: u64,
    /// `defaultHttpClient.timeout`: time for one request; zero means the default of the storage layer.
    pub timeout: Duration,
}

/// How to reach one other scheme. Mirrors `storage.SchemeConfig`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchemeSettings {
    /// Backend if not the usual one of the scheme.
    pub backend: Option<Backend>,
    /// Credentials and other settings, by stow's names.
    pub config: BTreeMap<String, String>,
}

/// A kind of storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Amazon S3 and other stores with its protocol.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
    /// Local directories.
    Local,
    /// The memory of this process.
    Memory,
}

impl Default for StorageSettings {
    /// Mirrors `storage.defaultConfig`.
    fn default() -> Self {
        Self {
            backend: Backend::S3,
            container: String::new(),
            config: BTreeMap::from([("region".to_owned(), "us-east-1".to_owned())]),
            multi_container: false,
            schemes: BTreeMap::new(),
            allowed_prefixes: Vec::new(),
            max_download_mb: 2,
            timeout: Duration::ZERO,
        }
    }
}

impl Backend {
    /// The backend for the configured `type` and `stow.kind`; an empty kind means s3.
    pub fn from_config(storage_type: &str, stow_kind: &str) -> Option<Self> {
        match storage_type {
            "mem" => Some(Self::Memory),
            "local" => Some(Self::Local),
            "s3" | "minio" => Some(Self::S3),
            "stow" => match stow_kind {
                "" | "s3" => Some(Self::S3),
                "google" => Some(Self::Gcs),
                "azure" => Some(Self::Azure),
                "local" => Some(Self::Local),
                _ => None,
            },
            _ => None,
        }
    }

    /// The backend that usually serves a scheme.
    pub fn of_scheme(scheme: &str) -> Option<Self> {
        match scheme {
            "s3" => Some(Self::S3),
            "gs" => Some(Self::Gcs),
            "abfs" | "abfss" => Some(Self::Azure),
            "file" => Some(Self::Local),
            "mem" => Some(Self::Memory),
            _ => None,
        }
    }

    /// The scheme of references into the configured container.
    pub fn scheme(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gcs => "gs",
            Self::Azure => "abfs",
            Self::Local => "file",
            Self::Memory => "mem",
        }
    }
}

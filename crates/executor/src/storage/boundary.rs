//! Which references a task may use: only configured schemes, and only locations that the configuration allows.
//!
//! A reference comes from whoever may create a TaskAction, while the executor reads and writes with its own rights. So the
//! rules are checked on the parsed reference, before any request.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{Backend, Location, StorageError, StorageSettings};

/// The configured boundary.
///
/// # Differs from upstream
/// Only the scheme of the configured backend and those in `storage.schemes` can be used. Upstream reaches other schemes
/// with the credentials of the environment, and treats an unknown scheme as the configured one. `file:///path` must be
/// below the configured directory. `storage.allowed-prefixes` allows more locations.
#[derive(Debug)]
pub(super) struct Boundary {
    backend: Backend,
    container: String,
    multi_container: bool,
    schemes: Vec<String>,
    prefixes: Vec<Prefix>,
    /// The root directories of the schemes that are served from local directories.
    roots: BTreeMap<String, PathBuf>,
}

/// One of `storage.allowed-prefixes`, in parts.
#[derive(Debug)]
struct Prefix {
    scheme: String,
    container: String,
    parts: Vec<String>,
}

impl Boundary {
    /// The boundary of these settings.
    ///
    /// # Errors
    /// When an allowed prefix is not a reference.
    pub fn new(settings: &StorageSettings) -> Result<Self, StorageError> {
        let prefixes = settings.allowed_prefixes.iter().map(|text| Prefix::parse(text)).collect::<Result<_, _>>()?;
        let own = std::iter::once((settings.backend.scheme(), settings.backend, &settings.config));
        let others = settings.schemes.iter().filter_map(|(scheme, other)| {
            Some((scheme.as_str(), other.backend.or_else(|| Backend::of_scheme(scheme))?, &other.config))
        });
        let local = own.chain(others).filter(|(_, backend, _)| *backend == Backend::Local);
        let roots = local.filter_map(|(scheme, _, config)| {
            let root = config.get("path")?;
            Some((scheme.to_owned(), std::path::absolute(root).unwrap_or_else(|_| root.into())))
        });
        Ok(Self {
            backend: settings.backend,
            container: settings.container.clone(),
            multi_container: settings.multi_container,
            schemes: settings.schemes.keys().cloned().collect(),
            prefixes,
            roots: roots.collect(),
        })
    }

    /// The scheme of `settings` that serves this reference.
    ///
    /// # Errors
    /// When the reference is outside of the boundary. The error names the rule and the key to change.
    pub fn check<'a>(&self, uri: &str, location: &'a Location) -> Result<&'a str, StorageError> {
        // Both names of the Azure scheme mean the same store.
        let scheme = match (self.backend, location.scheme.as_str()) {
            (Backend::Azure, "abfss") => self.backend.scheme(),
            (_, scheme) => scheme,
        };
        let is_primary = scheme == self.backend.scheme();
        if !is_primary && !self.schemes.iter().any(|configured| configured == scheme) {
            return Err(StorageError::SchemeNotConfigured { uri: uri.to_owned(), scheme: scheme.to_owned() });
        }
        if self.prefixes.iter().any(|prefix| prefix.covers(scheme, location)) {
            return Ok(scheme);
        }
        match self.roots.get(scheme) {
            Some(root) if location.container.is_empty() => check_root(uri, root, location)?,
            _ if is_primary => self.check_container(uri, location)?,
            _ => self.check_other(uri, scheme)?,
        }
        Ok(scheme)
    }

    /// The configured backend: its container, or with `enable-multicontainer` any of its containers.
    fn check_container(&self, uri: &str, location: &Location) -> Result<(), StorageError> {
        if self.backend == Backend::Memory || self.multi_container || location.container == self.container {
            return Ok(());
        }
        Err(StorageError::OtherContainer {
            uri: uri.to_owned(),
            named: location.container.clone(),
            configured: self.container.clone(),
        })
    }

    /// Another configured scheme: without a prefix of this scheme every container that its credentials reach.
    fn check_other(&self, uri: &str, scheme: &str) -> Result<(), StorageError> {
        let allowed: Vec<_> = self.prefixes.iter().filter(|prefix| prefix.scheme == scheme).collect();
        if allowed.is_empty() {
            return Ok(());
        }
        let allowed = allowed.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        Err(StorageError::OutsideBoundary { uri: uri.to_owned(), allowed })
    }
}

/// `file:///path` must be below the root directory.
fn check_root(uri: &str, root: &Path, location: &Location) -> Result<(), StorageError> {
    if Path::new("/").join(&location.key).starts_with(root) {
        return Ok(());
    }
    Err(StorageError::OutsideBoundary { uri: uri.to_owned(), allowed: root.display().to_string() })
}

impl Prefix {
    fn parse(text: &str) -> Result<Self, StorageError> {
        // A prefix may be a whole container, a reference may not.
        let location = Location::parse(&format!("{}/x", text.trim_end_matches('/'))).map_err(|error| {
            StorageError::Settings { subject: "storage.allowed-prefixes".to_owned(), detail: error.to_string() }
        })?;
        let mut parts: Vec<_> = parts_of(&location.key).map(str::to_owned).collect();
        parts.pop();
        Ok(Self { scheme: location.scheme, container: location.container, parts })
    }

    fn covers(&self, scheme: &str, location: &Location) -> bool {
        let mut parts = parts_of(&location.key);
        scheme == self.scheme
            && location.container == self.container
            && self.parts.iter().all(|part| parts.next() == Some(part))
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}://{}/{}", self.scheme, self.container, self.parts.join("/"))
    }
}

/// The parts of a key that count. Parsing a reference has refused `..`.
fn parts_of(key: &str) -> impl Iterator<Item = &str> {
    key.split('/').filter(|part| !part.is_empty() && *part != ".")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::storage::SchemeSettings;

    fn allows(settings: &StorageSettings, uri: &str) -> Result<(), String> {
        let location = Location::parse(uri).map_err(|error| error.to_string())?;
        let boundary = Boundary::new(settings).unwrap();
        boundary.check(uri, &location).map(drop).map_err(|error| error.to_string())
    }

    fn local() -> StorageSettings {
        StorageSettings {
            backend: Backend::Local,
            container: "data".into(),
            config: BTreeMap::from([("path".to_owned(), "/srv/flyte".to_owned())]),
            ..StorageSettings::default()
        }
    }

    /// S3, and files below a directory.
    fn with_files() -> StorageSettings {
        let files = SchemeSettings { config: local().config, ..SchemeSettings::default() };
        StorageSettings { schemes: BTreeMap::from([("file".to_owned(), files)]), ..s3() }
    }

    fn s3() -> StorageSettings {
        StorageSettings { container: "data".into(), ..StorageSettings::default() }
    }

    #[test]
    fn hostile_references_are_refused_and_the_error_names_the_key() {
        let table = [
            (local(), "file:///etc/passwd", "storage.allowed-prefixes"),
            (local(), "file:///srv/flyte2/x", "storage.allowed-prefixes"),
            (local(), "file:///srv/flyte/../../etc/passwd", "`..`"),
            (local(), "file:///srv/flyte/%2e%2e/%2e%2e/etc/passwd", "`..`"),
            (local(), "file://../x", "`..`"),
            (local(), "file://./x", "`..`"),
            (local(), "file://data/%2e%2e/x", "`..`"),
            (local(), "file://data/a%00b", "NUL"),
            (local(), "file://other/x", "storage.enable-multicontainer"),
            (local(), "s3://data/x", "storage.schemes.s3"),
            (local(), "mem://data/x", "storage.schemes.mem"),
            (s3(), "gs://data/x", "storage.schemes.gs"),
            (s3(), "file:///etc/passwd", "storage.schemes.file"),
            (s3(), "mem://x/y", "storage.schemes.mem"),
            (s3(), "weird://data/x", "storage.schemes.weird"),
            (s3(), "s3://key:secret@other/x", "storage.enable-multicontainer"),
            (with_files(), "file:///etc/passwd", "storage.allowed-prefixes"),
        ];
        for (settings, uri, key) in table {
            let error = allows(&settings, uri).unwrap_err();
            assert!(error.contains(key) && error.contains(uri), "{uri}: {error}");
        }
    }

    #[test]
    fn configured_locations_are_allowed() {
        let azure = StorageSettings { backend: Backend::Azure, ..s3() };
        let memory = StorageSettings { backend: Backend::Memory, ..s3() };
        let many = StorageSettings { multi_container: true, ..s3() };
        let table = [
            (local(), "file://data/run/a%20b/outputs.pb"),
            (local(), "file:///srv/flyte/run/outputs.pb"),
            (local(), "file:///srv/./flyte/run//outputs.pb"),
            (with_files(), "file:///srv/flyte/x"),
            (with_files(), "file://any/x"),
            (s3(), "s3://data/x"),
            (s3(), "S3://data/x"),
            (many, "s3://other/x"),
            (memory, "mem://any/x"),
            (azure.clone(), "abfs://data/x"),
            (azure, "abfss://data@account.dfs.core.windows.net/x"),
        ];
        for (settings, uri) in table {
            allows(&settings, uri).unwrap();
        }
    }

    #[test]
    fn prefixes_allow_more_of_the_configured_backend_and_bound_other_schemes() {
        let prefixes = ["file:///mnt/shared/", "s3://models/v1"].map(str::to_owned).to_vec();
        let schemes = BTreeMap::from([("s3".to_owned(), SchemeSettings::default())]);
        let settings = StorageSettings { allowed_prefixes: prefixes, schemes, ..local() };
        for uri in ["file:///mnt/shared/x", "s3://models/v1/a/b", "file:///srv/flyte/x"] {
            allows(&settings, uri).unwrap();
        }
        for uri in ["file:///mnt/sharedx/y", "s3://models/v10/x", "s3://models/x", "s3://other/v1/x"] {
            let error = allows(&settings, uri).unwrap_err();
            assert!(error.contains("storage.allowed-prefixes"), "{uri}: {error}");
        }
        let open = StorageSettings { allowed_prefixes: Vec::new(), ..settings };
        allows(&open, "s3://any/x").unwrap();
        let broken = StorageSettings { allowed_prefixes: vec!["models".into()], ..local() };
        assert!(Boundary::new(&broken).unwrap_err().to_string().contains("storage.allowed-prefixes"));
    }
}

//! Cache keys. They are equal to those of the Go executor, so that both executors find each other's entries.

use std::fmt;
use std::sync::Arc;

use aileron_idl::JsonError;
use aileron_idl::flyteidl2::core::{Identifier, Literal, LiteralMap, TypedInterface, VariableMap, literal};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use tokio::sync::OnceCell;

use super::CatalogError;
use super::hash::message_hash;
use crate::storage::BlobStore;
use crate::storage::outputs::read_inputs;

/// How many characters of the hash of the inputs, and of the outputs, of the interface upstream uses.
const INTERFACE_HASH_LENGTH: usize = 8;

/// What identifies a cache entry. Mirrors `catalog.Key`.
///
/// The text of the key depends on the inputs of the task. They are read once, when the text is first needed. Clones share
/// the text.
#[derive(Debug, Clone)]
pub struct CacheKey {
    identifier: Identifier,
    cache_version: String,
    ignore_input_vars: Vec<String>,
    interface: Option<TypedInterface>,
    inputs_uri: String,
    text: Arc<OnceCell<String>>,
}

/// Why a key cannot be computed.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The task has no interface.
    #[error("the task template has no interface; a cached task needs one")]
    NoInterface,
    /// A part of the task has no canonical form.
    #[error("{part} of the task cannot be hashed")]
    Unhashable {
        /// Which part.
        part: &'static str,
        /// What is wrong with it.
        #[source]
        source: JsonError,
    },
}

impl CacheKey {
    /// The key of a task with the inputs at `inputs_uri`; `cache_version` is `spec.cacheKey`, and inputs named in
    /// `ignore_input_vars` are ignored.
    pub fn new(
        identifier: Identifier,
        cache_version: String,
        ignore_input_vars: Vec<String>,
        interface: Option<TypedInterface>,
        inputs_uri: String,
    ) -> Self {
        Self { identifier, cache_version, ignore_input_vars, interface, inputs_uri, text: Arc::default() }
    }

    /// The task.
    pub fn identifier(&self) -> &Identifier {
        &self.identifier
    }

    /// The part that the user chose, `spec.cacheKey`.
    pub fn cache_version(&self) -> &str {
        &self.cache_version
    }

    /// The inputs that are ignored.
    pub fn ignore_input_vars(&self) -> &[String] {
        &self.ignore_input_vars
    }

    /// The text of the key. Mirrors `buildCacheKey`.
    ///
    /// # Errors
    /// When the inputs cannot be read, or the task cannot be hashed.
    pub async fn text(&self, store: &dyn BlobStore) -> Result<&str, CatalogError> {
        let compute = async {
            let interface = self.interface.as_ref().ok_or(KeyError::NoInterface)?;
            // A task that declares no inputs may have no file for them.
            let inputs = match &interface.inputs {
                Some(_) => read_inputs(store, &self.inputs_uri).await.map_err(CatalogError::Inputs)?,
                None => LiteralMap::default(),
            };
            Ok(self.compute(interface, inputs)?)
        };
        self.text.get_or_try_init(|| compute).await.map(String::as_str)
    }

    fn compute(&self, interface: &TypedInterface, inputs: LiteralMap) -> Result<String, KeyError> {
        let unhashable = |part| move |source| KeyError::Unhashable { part, source };
        // Entries are shared by all versions of a task.
        let task = Identifier { version: String::new(), ..self.identifier.clone() };
        let task = message_hash(&task).map_err(unhashable("the identifier"))?;
        let half = |variables: &Option<VariableMap>| {
            let none = VariableMap::default();
            let hash = message_hash(variables.as_ref().unwrap_or(&none)).map_err(unhashable("the interface"))?;
            Ok(URL_SAFE_NO_PAD.encode(hash).chars().take(INTERFACE_HASH_LENGTH).collect::<String>())
        };
        let counted = inputs.literals.into_iter().filter(|(name, _)| !self.ignore_input_vars.contains(name));
        let counted = LiteralMap { literals: counted.map(|(name, value)| (name, hashed_only(value))).collect() };
        let inputs_hash = message_hash(&counted).map_err(unhashable("an input"))?;
        Ok(format!(
            "{}-{}-{}-{}-{}",
            STANDARD.encode(task),
            half(&interface.inputs)?,
            half(&interface.outputs)?,
            URL_SAFE_NO_PAD.encode(inputs_hash),
            self.cache_version
        ))
    }
}

impl fmt::Display for CacheKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identifier { project, domain, name, .. } = &self.identifier;
        write!(f, "{project}/{domain}/{name}:{}", self.cache_version)
    }
}

/// Replaces a literal that carries its own hash by that hash, at any depth. Mirrors `catalog.hashify`.
fn hashed_only(value: Literal) -> Literal {
    if !value.hash.is_empty() {
        return Literal { hash: value.hash, ..Literal::default() };
    }
    // Collections and maps are rebuilt from their values alone: other fields of the literal are ignored.
    match value.value {
        Some(literal::Value::Collection(mut collection)) => {
            collection.literals = collection.literals.into_iter().map(hashed_only).collect();
            Literal { value: Some(literal::Value::Collection(collection)), ..Literal::default() }
        }
        Some(literal::Value::Map(mut map)) => {
            map.literals = map.literals.into_iter().map(|(name, value)| (name, hashed_only(value))).collect();
            Literal { value: Some(literal::Value::Map(map)), ..Literal::default() }
        }
        other => Literal { value: other, ..value },
    }
}

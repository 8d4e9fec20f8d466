//! Where an attempt of an action leaves its outputs.

mod location;

use aileron_kubekit::digest::fnv1a_32;
use location::Location;
pub use location::LocationError;

/// An output base that is no place to write to.
///
/// ```
/// use aileron_machinery::output_path::action_output_prefix;
///
/// let error = action_output_prefix("team", "run-a0", "s3:data", "a0", 1).unwrap_err();
/// assert!(error.to_string().starts_with("invalid RunOutputBase \"s3:data\""));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid RunOutputBase {base:?}: parse {base:?}: {source}")]
pub struct OutputPathError {
    base: String,
    #[source]
    source: LocationError,
}

/// Characters of a shard, in the order upstream numbers shards.
const SHARD_CHARACTERS: [u8; 36] = *b"abcdefghijklmnopqrstuvwxyz0123456789";

/// The directory for the outputs of one attempt: `<bucket>/<shard>/<rest of the base>/<action>/<attempt>`.
///
/// The shard follows from namespace and name of the TaskAction. It stands right behind the bucket because object
/// stores spread load by the beginning of keys. The control plane computes the same path on its own to hand outputs
/// to other actions, so not a character may differ. Mirrors `plugin.ComputeActionOutputPath`.
///
/// ```
/// use aileron_machinery::output_path::action_output_prefix;
///
/// let prefix = action_output_prefix("team", "run-a0", "s3://data/runs/r1", "a0", 2)?;
/// let (shard, rest) = prefix.strip_prefix("s3://data/").unwrap().split_once('/').unwrap();
/// assert_eq!((shard.len(), rest), (2, "runs/r1/a0/2"));
/// # Ok::<(), aileron_machinery::output_path::OutputPathError>(())
/// ```
///
/// # Differs from upstream
///
/// Below a local directory (`file:///base`) there is no bucket, and a shard in front would leave the directory:
/// there it stands behind the base.
pub fn action_output_prefix(
    namespace: &str,
    name: &str,
    run_output_base: &str,
    action: &str,
    attempt: u32,
) -> Result<String, OutputPathError> {
    let refused = |source| OutputPathError { base: run_output_base.to_owned(), source };
    let base = Location::parse(run_output_base).map_err(refused)?;
    let shard = shard(namespace, name);
    let trimmed = trim_slashes(&base.path);
    let attempt = attempt.to_string();
    let mut segments = vec![shard.as_slice(), action.as_bytes(), attempt.as_bytes()];
    if !trimmed.is_empty() {
        segments.insert(usize::from(!base.is_local_directory()), trimmed);
    }
    let path = [b"/".as_slice(), &segments.join(&b'/')].concat();
    Ok(base.with_path(&path))
}

/// One of 1296 shards.
fn shard(namespace: &str, name: &str) -> [u8; 2] {
    let count = SHARD_CHARACTERS.len();
    let index = fnv1a_32(format!("{namespace}/{name}").as_bytes()) as usize % (count * count);
    [SHARD_CHARACTERS[index / count], SHARD_CHARACTERS[index % count]]
}

fn trim_slashes(path: &[u8]) -> &[u8] {
    let start = path.iter().position(|byte| *byte != b'/').unwrap_or(path.len());
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(start, |last| last + 1);
    &path[start..end]
}

#[cfg(test)]
mod tests;

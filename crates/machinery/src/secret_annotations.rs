//! Secrets a task asks for, as annotations of its pods: the pod webhook reads them there.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use aileron_idl::flyteidl2::core::Secret;
use aileron_idl::flyteidl2::core::secret::MountType;
use aileron_kubekit::digest::base32;

/// Annotations are named by this and the index of the secret.
const ANNOTATION_PREFIX: &str = "flyte.secrets/s";

/// What the API server allows for all annotations of an object together.
const ANNOTATION_SIZE_LIMIT: usize = 256 * 1024;

/// A secret that cannot be written as an annotation.
///
/// ```
/// use aileron_machinery::idl::flyteidl2::core::Secret;
/// use aileron_machinery::secret_annotations::{SecretAnnotationError, secret_annotations};
///
/// let secret = Secret { key: "password".into(), mount_requirement: 9, ..Secret::default() };
/// assert_eq!(secret_annotations(&[secret]), Err(SecretAnnotationError::MountRequirement(9)));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretAnnotationError {
    /// A number that names no way of mounting.
    #[error("invalid mount requirement [{0}]")]
    MountRequirement(i32),
    /// Larger than any object may carry.
    #[error("secret descriptor cannot exceed [{ANNOTATION_SIZE_LIMIT}]")]
    TooLarge,
}

/// One annotation for each secret. Mirrors `secrets.MarshalSecretsToMapStrings`.
///
/// ```
/// use aileron_machinery::idl::flyteidl2::core::Secret;
/// use aileron_machinery::secret_annotations::secret_annotations;
///
/// let secret = Secret { group: "database".into(), key: "password".into(), ..Secret::default() };
/// let annotations = secret_annotations(&[secret])?;
/// assert_eq!(annotations.keys().collect::<Vec<_>>(), ["flyte.secrets/s0"]);
/// # Ok::<(), aileron_machinery::secret_annotations::SecretAnnotationError>(())
/// ```
pub fn secret_annotations(secrets: &[Secret]) -> Result<BTreeMap<String, String>, SecretAnnotationError> {
    secrets
        .iter()
        .enumerate()
        .map(|(index, secret)| Ok((format!("{ANNOTATION_PREFIX}{index}"), encoded(secret)?)))
        .collect()
}

fn encoded(secret: &Secret) -> Result<String, SecretAnnotationError> {
    let encoded = base32(proto_text(secret)?.as_bytes());
    if encoded.len() > ANNOTATION_SIZE_LIMIT { Err(SecretAnnotationError::TooLarge) } else { Ok(encoded) }
}

/// The secret in protobuf's text format, one field on a line: this is what the webhook decodes.
fn proto_text(secret: &Secret) -> Result<String, SecretAnnotationError> {
    let Secret { group, group_version, key, mount_requirement, env_var } = secret;
    let mount = MountType::try_from(*mount_requirement)
        .map_err(|_| SecretAnnotationError::MountRequirement(*mount_requirement))?;
    let mount = match mount {
        MountType::Any => String::new(),
        named => format!("mount_requirement: {}\n", named.as_str_name()),
    };
    Ok([
        text_field("group", group),
        text_field("group_version", group_version),
        text_field("key", key),
        mount,
        text_field("env_var", env_var),
    ]
    .concat())
}

fn text_field(name: &str, value: &str) -> String {
    if value.is_empty() {
        return String::new();
    }
    let mut line = format!("{name}: \"");
    for byte in value.bytes() {
        match byte {
            b'\n' => line.push_str("\\n"),
            b'\r' => line.push_str("\\r"),
            b'\t' => line.push_str("\\t"),
            b'"' => line.push_str("\\\""),
            b'\\' => line.push_str("\\\\"),
            0x20..=0x7e => line.push(char::from(byte)),
            // Writing to a String cannot fail.
            other => _ = write!(line, "\\{other:03o}"),
        }
    }
    line.push_str("\"\n");
    line
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use aileron_kubekit::digest::base32_decode;

    fn decoded(secret: Secret) -> String {
        let annotations = secret_annotations(&[secret]).unwrap();
        String::from_utf8(base32_decode(&annotations["flyte.secrets/s0"]).unwrap()).unwrap()
    }

    #[test]
    fn annotations_are_numbered() {
        let secrets = ["k0", "k1"].map(|key| Secret { key: key.to_owned(), ..Secret::default() });
        let want = [("flyte.secrets/s0", "nnsxsoraejvtaiqk"), ("flyte.secrets/s1", "nnsxsoraejvtciqk")];
        let want = want.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(secret_annotations(&secrets).unwrap(), BTreeMap::from(want));
        assert_eq!(secret_annotations(&[]).unwrap(), BTreeMap::new());
    }

    #[test]
    fn fields_stand_in_the_order_of_their_numbers() {
        let secret = Secret {
            group: "g".to_owned(),
            group_version: "v".to_owned(),
            key: "k".to_owned(),
            mount_requirement: MountType::EnvVar.into(),
            env_var: "MY".to_owned(),
        };
        assert_eq!(
            decoded(secret),
            "group: \"g\"\ngroup_version: \"v\"\nkey: \"k\"\nmount_requirement: ENV_VAR\nenv_var: \"MY\"\n"
        );
    }

    #[test]
    fn text_is_escaped_bytewise() {
        let secret = Secret { group: ";':/\\ü\n\"".to_owned(), ..Secret::default() };
        assert_eq!(decoded(secret), "group: \";':/\\\\\\303\\274\\n\\\"\"\n");
    }

    #[test]
    fn impossible_secrets_are_refused() {
        let unknown = Secret { mount_requirement: 9, ..Secret::default() };
        assert_eq!(secret_annotations(&[unknown]), Err(SecretAnnotationError::MountRequirement(9)));
        let large = Secret { key: "k".repeat(ANNOTATION_SIZE_LIMIT), ..Secret::default() };
        assert_eq!(secret_annotations(&[large]), Err(SecretAnnotationError::TooLarge));
    }
}

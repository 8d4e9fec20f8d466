//! The files that a task writes to its output prefix, and where this prefix is on disk.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aileron_idl::flyteidl2::core::{
    ContainerError, ErrorDocument, Literal, Primitive, Scalar, container_error, literal, primitive, scalar,
};
use aileron_idl::flyteidl2::task::{NamedLiteral, Outputs};
use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Container, Pod};
use prost::Message;

/// The flag of every Flyte entry point. The executor sets its value to the output prefix.
const OUTPUT_FLAG: &str = "--outputs-path";

/// The file that a task writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// No file: the task ended too early, or has no outputs.
    Nothing,
    /// These bytes as `outputs.pb`.
    Outputs(Vec<u8>),
    /// These bytes as `error.pb`.
    Error(Vec<u8>),
}

/// Receives `(uri, bytes)`.
pub type Write = Arc<dyn Fn(&str, &[u8]) -> io::Result<()> + Send + Sync>;

/// Where documents are written.
#[derive(Clone)]
pub enum Store {
    /// Nowhere.
    Discard,
    /// Below this directory: `<scheme>://<bucket>/<key>` is `<root>/<bucket>/<key>`, and `file:///<path>` is that path.
    Local(PathBuf),
    /// To a function of the test.
    Call(Write),
}

impl Document {
    /// One output, `o0 = 1`. An executor may refuse a document without outputs.
    #[must_use]
    pub fn one_output() -> Self {
        let one = Primitive { value: Some(primitive::Value::Integer(1)) };
        let scalar = Scalar { value: Some(scalar::Value::Primitive(one)) };
        let value = Literal { value: Some(literal::Value::Scalar(Box::new(scalar))), ..Literal::default() };
        let literals = vec![NamedLiteral { name: "o0".to_owned(), value: Some(value) }];
        Self::Outputs(Outputs { literals, ..Outputs::default() }.encode_to_vec())
    }

    /// The error document of user code that raised `code`.
    #[must_use]
    pub fn error(code: &str, message: &str, recoverable: bool) -> Self {
        let kind = if recoverable { container_error::Kind::Recoverable } else { container_error::Kind::NonRecoverable };
        let error = ContainerError {
            code: code.to_owned(),
            message: message.to_owned(),
            kind: kind.into(),
            ..ContainerError::default()
        };
        Self::Error(ErrorDocument { error: Some(error) }.encode_to_vec())
    }

    fn file(&self) -> Option<(&'static str, &[u8])> {
        match self {
            Self::Nothing => None,
            Self::Outputs(bytes) => Some(("outputs.pb", bytes)),
            Self::Error(bytes) => Some(("error.pb", bytes)),
        }
    }
}

impl Store {
    /// Writes the document of a task, if there is one and the pod has an output prefix.
    ///
    /// # Errors
    /// The document cannot be written.
    pub fn write(&self, pod: &Pod, document: &Document) -> Result<()> {
        let (Some((name, bytes)), Some(prefix)) = (document.file(), output_prefix(pod)) else { return Ok(()) };
        let uri = format!("{}/{name}", prefix.trim_end_matches('/'));
        match self {
            Self::Discard => Ok(()),
            Self::Local(root) => write_file(&local_path(root, &uri), bytes),
            Self::Call(write) => write(&uri, bytes),
        }
        .with_context(|| format!("writing {uri}"))
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Discard => f.write_str("Discard"),
            Self::Local(root) => f.debug_tuple("Local").field(root).finish(),
            Self::Call(_) => f.write_str("Call"),
        }
    }
}

/// The container that runs the task: the one with the outputs flag, else the first.
pub(super) fn task_container(pod: &Pod) -> Option<&Container> {
    let containers = &pod.spec.as_ref()?.containers;
    containers.iter().find(|container| prefix_of(container).is_some()).or_else(|| containers.first())
}

fn output_prefix(pod: &Pod) -> Option<&str> {
    prefix_of(task_container(pod)?)
}

fn prefix_of(container: &Container) -> Option<&str> {
    let mut words = container.command.iter().flatten().chain(container.args.iter().flatten());
    words.find(|word| *word == OUTPUT_FLAG)?;
    words.next().map(String::as_str)
}

fn local_path(root: &Path, uri: &str) -> PathBuf {
    match uri.split_once("://") {
        Some(("file", path)) if path.starts_with('/') => PathBuf::from(path),
        Some((_, bucket_and_key)) => root.join(bucket_and_key),
        None => root.join(uri.trim_start_matches('/')),
    }
}

/// Writes a temporary file and renames it, so that a reader never sees an incomplete document.
fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or_else(|| Path::new("."));
    fs::create_dir_all(dir)?;
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    io::Write::write_all(&mut file, bytes)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;

    use super::*;

    fn pod(args: &[&[&str]]) -> Pod {
        let containers = args.iter().enumerate().map(|(i, args)| Container {
            name: format!("c{i}"),
            args: Some(args.iter().map(|&arg| arg.to_owned()).collect()),
            ..Container::default()
        });
        Pod { spec: Some(PodSpec { containers: containers.collect(), ..PodSpec::default() }), ..Pod::default() }
    }

    #[test]
    fn the_task_container_is_the_one_with_the_outputs_flag() {
        let pod = pod(&[&["proxy"], &["a0", "--outputs-path", "s3://b/k/", "x"]]);
        assert_eq!(task_container(&pod).unwrap().name, "c1");
        assert_eq!(output_prefix(&pod), Some("s3://b/k/"));
    }

    #[test]
    fn documents_are_written_below_the_root_by_bucket_and_key() {
        let root = tempfile::tempdir().unwrap();
        let pod = pod(&[&["--outputs-path", "s3://bucket/a/0/"]]);
        let store = Store::Local(root.path().to_owned());
        store.write(&pod, &Document::Outputs(vec![1])).unwrap();
        store.write(&pod, &Document::Error(vec![2])).unwrap();
        assert_eq!(fs::read(root.path().join("bucket/a/0/outputs.pb")).unwrap(), [1]);
        assert_eq!(fs::read(root.path().join("bucket/a/0/error.pb")).unwrap(), [2]);
        assert_eq!(local_path(root.path(), "file:///x/y"), Path::new("/x/y"));
    }

    #[test]
    fn the_one_output_is_encoded_as_in_go() {
        let bytes = [0x0a, 0x0c, 0x0a, 0x02, b'o', b'0', 0x12, 0x06, 0x0a, 0x04, 0x0a, 0x02, 0x08, 0x01];
        assert_eq!(Document::one_output(), Document::Outputs(bytes.to_vec()));
    }
}

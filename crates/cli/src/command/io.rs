//! `aileron io`: reads and writes files of inputs, outputs and errors.

use std::path::Path;

use aileron_executor::storage::BlobStore;
use aileron_idl::flyteidl2::core::{ContainerError, ErrorDocument, LiteralMap, container_error, execution_error};
use aileron_preview::literals::{from_text, map_to_json, parse_type};
use anyhow::{Context, anyhow};
use prost::Message;
use serde_json::{Value, json};

use crate::arguments::{DocumentFormat, IoCommand};
use crate::display::output;
use crate::failure::Failure;
use crate::process::threads::start_runtime;
use crate::submit::any_store;

/// The files that a task writes below its output prefix.
const OUTPUTS: &str = "outputs.pb";
const ERROR: &str = "error.pb";

pub fn run(command: &IoCommand) -> Result<(), Failure> {
    start_runtime()?.block_on(async {
        let store = any_store()?;
        match command {
            IoCommand::Read { from, output } => read(store.as_ref(), from, *output).await,
            IoCommand::Write { prefix, values } => {
                let outputs = literals(values)?;
                put(store.as_ref(), prefix, OUTPUTS, outputs.encode_to_vec()).await
            }
            IoCommand::Fail { prefix, message, code, for_good } => {
                let document = error_document(code, message, *for_good);
                put(store.as_ref(), prefix, ERROR, document.encode_to_vec()).await
            }
        }
    })
}

async fn read(store: &dyn BlobStore, from: &str, format: DocumentFormat) -> Result<(), Failure> {
    let uri = reference(from)?;
    // An error document takes precedence over outputs, as in the executor.
    for candidate in [uri.clone(), format!("{uri}/{ERROR}"), format!("{uri}/{OUTPUTS}")] {
        let Some(bytes) = store.get(&candidate).await.map_err(anyhow::Error::new)? else { continue };
        let value = decode(&bytes, candidate.ends_with(ERROR)).with_context(|| from.to_owned())?;
        return match format {
            DocumentFormat::Json => output::print_json(&value),
            DocumentFormat::Yaml => output::print_yaml(&value),
        };
    }
    Err(Failure::Failed(anyhow!("{from}: there is no such file, and no {OUTPUTS} or {ERROR} below it")))
}

async fn put(store: &dyn BlobStore, prefix: &str, name: &str, content: Vec<u8>) -> Result<(), Failure> {
    let uri = format!("{}/{name}", reference(prefix)?.trim_end_matches('/'));
    Ok(store.put(&uri, content.into()).await.with_context(|| format!("cannot write {name}"))?)
}

/// A storage reference. A text without a scheme is a path on this machine.
fn reference(text: &str) -> Result<String, Failure> {
    if text.contains("://") {
        return Ok(text.to_owned());
    }
    let path = std::path::absolute(Path::new(text)).with_context(|| text.to_owned())?;
    let escaped = path.display().to_string().replace('%', "%25").replace('?', "%3F").replace('#', "%23");
    Ok(format!("file://{escaped}"))
}

/// The content of a file as JSON. The bytes of a literal map may also decode as an error document and the other way round,
/// so `is_error` says which one the name of the file suggests.
fn decode(bytes: &[u8], is_error: bool) -> anyhow::Result<Value> {
    if is_error {
        let document = ErrorDocument::decode(bytes).context("not an error document")?;
        let error = document.error.unwrap_or_default();
        let kind =
            if error.kind == i32::from(container_error::Kind::Recoverable) { "RECOVERABLE" } else { "NON_RECOVERABLE" };
        let origin = execution_error::ErrorKind::try_from(error.origin).unwrap_or(execution_error::ErrorKind::Unknown);
        return Ok(json!({"error": {
            "code": error.code, "message": error.message, "kind": kind, "origin": origin.as_str_name(),
        }}));
    }
    match LiteralMap::decode(bytes) {
        Ok(literals) => Ok(map_to_json(&literals)),
        Err(error) => match ErrorDocument::decode(bytes) {
            Ok(_) => decode(bytes, true),
            Err(_) => Err(error).context("neither a literal map nor an error document"),
        },
    }
}

/// The outputs of the command line.
fn literals(values: &[String]) -> Result<LiteralMap, Failure> {
    let mut literals = LiteralMap::default();
    for value in values {
        let usage = |text: String| Failure::Usage(format!("{value}: {text}"));
        let Some((name, text)) = value.split_once('=').filter(|(name, _)| !name.is_empty()) else {
            return Err(usage("write NAME=VALUE or NAME:TYPE=VALUE, such as total:int=42".into()));
        };
        let (name, kind) = name.split_once(':').unwrap_or((name, "string"));
        let kind = parse_type(kind).map_err(|error| usage(error.to_string()))?;
        let literal = from_text(&kind, text).map_err(|error| usage(error.to_string()))?;
        literals.literals.insert(name.to_owned(), literal);
    }
    Ok(literals)
}

fn error_document(code: &str, message: &str, for_good: bool) -> ErrorDocument {
    let kind = if for_good { container_error::Kind::NonRecoverable } else { container_error::Kind::Recoverable };
    ErrorDocument {
        error: Some(ContainerError {
            code: code.to_owned(),
            message: message.to_owned(),
            kind: kind.into(),
            origin: execution_error::ErrorKind::User.into(),
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn outputs_have_the_types_of_the_command_line() {
        let values = ["text=a=b", "total:int=42", "parts:list<int>=[1, 2]"].map(ToOwned::to_owned);
        let bytes = literals(&values).unwrap().encode_to_vec();
        assert_eq!(decode(&bytes, false).unwrap(), json!({"parts": [1, 2], "text": "a=b", "total": 42}));
    }

    #[test]
    fn mistakes_name_the_output_and_the_remedy() {
        let refused = |value: &str| literals(&[value.to_owned()]).unwrap_err().to_string();
        assert!(refused("text").contains("text: write NAME=VALUE"));
        assert!(refused("n:integer=1").contains("did you mean `int`?"));
        assert_eq!(refused("n:int=one"), "n:int=one: must be int, such as 41; found one");
    }

    #[test]
    fn an_error_document_is_read_as_it_was_written() {
        let bytes = error_document("Luck", "none", true).encode_to_vec();
        let expected =
            json!({"error": {"code": "Luck", "message": "none", "kind": "NON_RECOVERABLE", "origin": "USER"}});
        assert_eq!(decode(&bytes, true).unwrap(), expected);
    }
}

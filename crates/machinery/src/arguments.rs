//! Placeholders in commands and arguments of a task: `{{.input}}`, `{{ .outputPrefix }}`, `{{$inputs.x}}`.
//!
//! Names are matched without regard to case; a placeholder nobody knows stays as it is. Mirrors `template.Render`.
//!
//! # Differs from upstream
//!
//! Values are inserted as they are. Upstream takes `$1` in a path for a reference to a group of its regular
//! expression, and loses it.

mod literal;
mod msgpack;

use std::borrow::Cow;

use aileron_idl::flyteidl2::core::LiteralMap;

use crate::TaskContext;
use literal::LiteralError;

pub use msgpack::{MsgpackError, to_json as msgpack_to_json};

/// What placeholders stand for.
///
/// ```
/// use aileron_machinery::arguments::{ArgumentContext, render};
/// use aileron_machinery::testing::task;
/// # use aileron_machinery::serde_json::Value;
///
/// let task = task("query", &Value::Null);
/// let arguments = ["--namespace".to_owned(), "{{ .namespace }}".to_owned()];
/// assert_eq!(render(&arguments, &ArgumentContext::of(&task))?, ["--namespace", "p-d"]);
/// # Ok::<(), aileron_machinery::arguments::ArgumentError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ArgumentContext<'a> {
    /// `{{.input}}`: the file of the inputs.
    pub input_path: Cow<'a, str>,
    /// `{{.inputPrefix}}`: the directory of the inputs.
    pub input_prefix: &'a str,
    /// `{{.outputPrefix}}`: where outputs go.
    pub output_prefix: &'a str,
    /// `{{.rawOutputDataPrefix}}`: where data behind outputs goes.
    pub raw_output_prefix: &'a str,
    /// `{{.checkpointOutputPrefix}}`: where checkpoints go.
    pub checkpoint_prefix: Cow<'a, str>,
    /// `{{.prevCheckpointPrefix}}`: where the attempt before left its checkpoints; empty on the first attempt.
    pub prev_checkpoint_prefix: &'a str,
    /// The name of the attempt, from which `{{.perRetryUniqueKey}}` follows.
    pub generated_name: &'a str,
    /// `{{.taskTemplatePath}}`: where the task template can be read.
    pub task_template_path: &'a str,
    /// `{{.namespace}}`: the namespace of the pod.
    pub namespace: &'a str,
    /// `{{.inputs.x}}`: the inputs, `None` if they were not loaded.
    pub inputs: Option<&'a LiteralMap>,
}

impl<'a> ArgumentContext<'a> {
    /// What placeholders stand for in arguments of this task.
    pub fn of(task: &'a TaskContext) -> Self {
        Self {
            input_path: task.paths.input_path().into(),
            input_prefix: &task.paths.input_prefix,
            output_prefix: &task.paths.output_prefix,
            raw_output_prefix: &task.paths.raw_output_prefix,
            checkpoint_prefix: task.paths.checkpoint_prefix().into(),
            prev_checkpoint_prefix: &task.paths.prev_checkpoint_prefix,
            generated_name: &task.metadata.id.generated_name,
            task_template_path: &task.paths.task_template_path,
            namespace: &task.metadata.namespace,
            inputs: task.inputs.as_deref(),
        }
    }
}

/// Why an argument could not be filled.
///
/// ```
/// use aileron_machinery::arguments::{ArgumentContext, ArgumentError, render};
///
/// let error = render(&["{{ .inputs.litres }}".to_owned()], &ArgumentContext::default()).unwrap_err();
/// assert!(matches!(error, ArgumentError::InputsNeeded { argument } if argument.contains("litres")));
/// ```
#[derive(Debug, thiserror::Error)]
pub enum ArgumentError {
    /// An argument refers to an input, and inputs were not loaded.
    #[error("unable to read inputs: argument {argument:?} needs them")]
    InputsNeeded {
        /// The argument.
        argument: String,
    },
    /// References to inputs of one argument that have no value.
    #[error("{}", numbered(.0))]
    Inputs(Vec<InputError>),
}

/// A reference to an input that has no value.
///
/// ```
/// use aileron_machinery::arguments::{ArgumentContext, ArgumentError, render};
/// use aileron_machinery::idl::flyteidl2::core::{Literal, LiteralMap};
///
/// let inputs = LiteralMap { literals: [("litres".to_owned(), Literal::default())].into() };
/// let context = ArgumentContext { inputs: Some(&inputs), ..ArgumentContext::default() };
/// let Err(ArgumentError::Inputs(errors)) = render(&["{{.inputs.size}}".to_owned()], &context) else { panic!() };
/// assert_eq!(errors[0].to_string(), "input template [{{.inputs.size}}]: requested input is not found [size]");
/// ```
#[derive(Debug, thiserror::Error)]
#[error("input template [{placeholder}]: {problem}")]
pub struct InputError {
    placeholder: String,
    problem: InputProblem,
}

#[derive(Debug, thiserror::Error)]
enum InputProblem {
    #[error("requested input is not found [{0}]")]
    Missing(String),
    #[error("failed to bind a value to inputName [{name}]: {source}")]
    Unprintable { name: String, source: LiteralError },
}

/// A placeholder within a text.
struct Placeholder<'a> {
    start: usize,
    end: usize,
    /// The whole of it.
    written: &'a str,
    name: &'a str,
}

/// Written in place of a previous checkpoint when there is none: two quotation marks, which the SDK understands.
const NO_CHECKPOINT: &str = "\"\"";

/// What the name of a reference to an input begins with.
const INPUTS: &str = "inputs.";

/// Whether any of the templates refers to the value of an input.
///
/// Only what is written counts: a path holding such a reference is not looked into, since it is not known yet.
///
/// ```
/// use aileron_machinery::arguments::needs_inputs;
///
/// assert!(needs_inputs(&["--litres={{ .inputs.litres }}".to_owned()]));
/// assert!(!needs_inputs(&["{{ .input }}".to_owned()]), "the path is known without reading the inputs");
/// ```
pub fn needs_inputs(templates: &[String]) -> bool {
    templates.iter().any(|template| placeholders(template).any(|placeholder| input_name(placeholder.name).is_some()))
}

/// The templates with their placeholders filled.
///
/// ```
/// use aileron_machinery::arguments::{ArgumentContext, render};
///
/// let context = ArgumentContext { output_prefix: "s3://data/a0/1", ..ArgumentContext::default() };
/// let filled = render(&["--out={{.outputPrefix}}".to_owned(), "{{.unknown}}".to_owned()], &context)?;
/// assert_eq!(filled, ["--out=s3://data/a0/1", "{{.unknown}}"]);
/// # Ok::<(), aileron_machinery::arguments::ArgumentError>(())
/// ```
pub fn render(templates: &[String], cx: &ArgumentContext<'_>) -> Result<Vec<String>, ArgumentError> {
    let mut texts = templates.to_vec();
    render_in_place(&mut texts, cx)?;
    Ok(texts)
}

/// Fills the placeholders of the templates. After an error some of them are filled.
pub(crate) fn render_in_place(templates: &mut [String], cx: &ArgumentContext<'_>) -> Result<(), ArgumentError> {
    // Most arguments hold none.
    if !templates.iter().any(|template| template.contains("{{")) {
        return Ok(());
    }
    let unique_key = unique_key(cx.generated_name);
    let prev_checkpoint = Some(cx.prev_checkpoint_prefix).filter(|prefix| !prefix.is_empty()).unwrap_or(NO_CHECKPOINT);
    // One after the other, in upstream's order: a value may itself hold a placeholder of a later line, as paths with
    // `{{.namespace}}` do.
    let values = [
        ("input", &*cx.input_path),
        ("outputPrefix", cx.output_prefix),
        ("inputPrefix", cx.input_prefix),
        ("rawOutputDataPrefix", cx.raw_output_prefix),
        ("prevCheckpointPrefix", prev_checkpoint),
        ("checkpointOutputPrefix", &cx.checkpoint_prefix),
        ("perRetryUniqueKey", &unique_key),
        ("taskTemplatePath", cx.task_template_path),
        ("namespace", cx.namespace),
    ];
    for text in templates {
        for (name, value) in values {
            let own = |placeholder: &Placeholder<'_>| placeholder.name.eq_ignore_ascii_case(name);
            replace(text, |placeholder| own(placeholder).then_some(Cow::Borrowed(value)));
        }
        fill_inputs(text, cx.inputs)?;
    }
    Ok(())
}

fn fill_inputs(text: &mut String, inputs: Option<&LiteralMap>) -> Result<(), ArgumentError> {
    if !placeholders(text).any(|placeholder| input_name(placeholder.name).is_some()) {
        return Ok(());
    }
    let Some(inputs) = inputs else {
        return Err(ArgumentError::InputsNeeded { argument: text.clone() });
    };
    // A task without any inputs keeps its text; upstream cannot tell "no inputs" from "nothing to replace".
    if inputs.literals.is_empty() {
        return Ok(());
    }
    let mut errors = Vec::new();
    replace(text, |placeholder| {
        let name = input_name(placeholder.name)?;
        let value = match inputs.literals.get(name) {
            None => Err(InputProblem::Missing(name.to_owned())),
            Some(literal) => {
                literal::print(literal).map_err(|source| InputProblem::Unprintable { name: name.to_owned(), source })
            }
        };
        Some(Cow::Owned(value.unwrap_or_else(|problem| {
            errors.push(InputError { placeholder: placeholder.written.to_owned(), problem });
            String::new()
        })))
    });
    if errors.is_empty() { Ok(()) } else { Err(ArgumentError::Inputs(errors)) }
}

fn input_name(name: &str) -> Option<&str> {
    let (prefix, input) = name.split_at_checked(INPUTS.len())?;
    (prefix.eq_ignore_ascii_case(INPUTS) && !input.is_empty()).then_some(input)
}

/// A name made of letters, digits and underscores: what may stand in a query or an identifier.
fn unique_key(generated_name: &str) -> String {
    let is_leading = |c: char| c.is_ascii_alphabetic() || c == '_';
    let rest = generated_name.trim_start_matches(|c| !is_leading(c));
    let mut key = String::with_capacity(rest.len() + 1);
    if rest.len() < generated_name.len() {
        key.push('a');
    }
    let mut gap = false;
    for c in rest.chars() {
        if c.is_ascii_alphanumeric() || c == '_' {
            key.push(c);
            gap = false;
        } else if !gap {
            key.push('_');
            gap = true;
        }
    }
    key
}

/// Replaces those placeholders that `value` has something for.
fn replace<'v>(text: &mut String, mut value: impl FnMut(&Placeholder<'_>) -> Option<Cow<'v, str>>) {
    let mut filled = String::new();
    let mut copied = 0;
    for placeholder in placeholders(text) {
        // A placeholder may start inside one that was just replaced: `{{.a{{.b}}`.
        if placeholder.start < copied {
            continue;
        }
        if let Some(value) = value(&placeholder) {
            filled.reserve(text.len() + value.len());
            filled.push_str(&text[copied..placeholder.start]);
            filled.push_str(&value);
            copied = placeholder.end;
        }
    }
    if copied > 0 {
        filled.push_str(&text[copied..]);
        *text = filled;
    }
}

/// All places of the form `{{ .name }}` or `{{ $name }}`, in the order they start. Takes time in proportion to the text,
/// whatever a task author writes.
fn placeholders(text: &str) -> impl Iterator<Item = Placeholder<'_>> {
    let is_space = |c: char| matches!(c, '\t' | '\n' | '\x0c' | '\r' | ' ');
    let braces = text.as_bytes().windows(2).enumerate().filter(|(_, pair)| pair == b"{{").map(|(start, _)| start);
    // Where the last name ended, and its placeholder if it is one. Both hold for every name that starts before.
    let mut last: Option<(usize, Option<usize>)> = None;
    let mut ends_of = move |name_start: usize| {
        if let Some(ends) = last.filter(|(name_end, _)| name_start <= *name_end) {
            return ends;
        }
        let rest = &text[name_start..];
        let ends = match rest.find(|c| c == '}' || is_space(c)) {
            None => (text.len(), None),
            Some(length) => {
                let rest = rest[length..].trim_start_matches(is_space).strip_prefix("}}");
                (name_start + length, rest.map(|rest| text.len() - rest.len()))
            }
        };
        last = Some(ends);
        ends
    };
    braces.filter_map(move |start| {
        let inner = text[start + 2..].trim_start_matches(is_space).strip_prefix(['.', '$'])?;
        let name_start = text.len() - inner.len();
        let (name_end, end) = ends_of(name_start);
        let (name, end) = (&text[name_start..name_end], end?);
        (!name.is_empty()).then_some(Placeholder { start, end, written: &text[start..end], name })
    })
}

fn numbered(errors: &[InputError]) -> String {
    errors.iter().enumerate().map(|(index, error)| format!("{index}: {error}\r\n")).collect()
}

#[cfg(test)]
mod tests;

//! Reads the Dockerfile: its stages, and the image that its last stage makes.
//!
//! It knows the few instructions that this Dockerfile uses, and refuses others, so that no instruction is left out silently.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};

/// A stage: the image that it begins with, and its instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stage {
    /// The image, with variables replaced.
    pub base: String,
    /// The name, if the stage has one.
    pub name: Option<String>,
    /// The instructions, each by its name and the rest of its line.
    pub instructions: Vec<(String, String)>,
}

/// What the last stage says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recipe {
    /// User and group of the process.
    pub user: String,
    /// The program and its first arguments.
    pub entrypoint: Vec<String>,
    /// Arguments that a pod can replace.
    pub command: Vec<String>,
    /// Labels, with variables replaced.
    pub labels: BTreeMap<String, String>,
    /// Files that come from other stages.
    pub files: Vec<CopiedFile>,
}

/// A file that comes from another stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedFile {
    /// The name of the stage.
    pub stage: String,
    /// The path in that stage.
    pub source: String,
    /// The path in the image.
    pub path: String,
}

/// The stages of a Dockerfile.
///
/// # Errors
/// There is something in it that this module does not know.
pub fn stages(text: &str) -> Result<Vec<Stage>> {
    let mut stages: Vec<Stage> = Vec::new();
    let mut variables = BTreeMap::new();
    for (name, rest) in instructions(text)? {
        if name == "FROM" {
            let words: Vec<&str> = rest.split_whitespace().collect();
            let (base, name) = match words.as_slice() {
                [base] => (base, None),
                [base, "AS", name] => (base, Some((*name).to_owned())),
                _ => bail!("FROM {rest}: write an image, and `AS` with a name"),
            };
            stages.push(Stage { base: expand(base, &variables)?, name, instructions: Vec::new() });
        } else if let Some(stage) = stages.last_mut() {
            stage.instructions.push((name, rest));
        } else {
            ensure!(name == "ARG", "{name} before the first FROM");
            let (name, value) = rest.split_once('=').with_context(|| format!("ARG {rest} has no value"))?;
            variables.insert(name.to_owned(), value.to_owned());
        }
    }
    Ok(stages)
}

impl Recipe {
    /// Reads a stage that begins with an empty image. The variables are those of `--build-arg`.
    ///
    /// # Errors
    /// The stage begins with another image, or has an instruction that this function does not know.
    pub fn read(stage: &Stage, build_arguments: &BTreeMap<String, String>) -> Result<Self> {
        ensure!(stage.base == "scratch", "the stage begins with {}, and not with an empty image", stage.base);
        let mut recipe = Self::default();
        let mut variables = BTreeMap::new();
        for (name, rest) in &stage.instructions {
            let what = || format!("{name} {rest}");
            match name.as_str() {
                "ARG" => {
                    let (name, default) = rest.split_once('=').with_context(what)?;
                    let value = build_arguments.get(name).cloned().unwrap_or_else(|| default.to_owned());
                    variables.insert(name.to_owned(), value);
                }
                "LABEL" => {
                    for pair in quoted_words(rest) {
                        let (key, value) = pair.split_once('=').with_context(what)?;
                        recipe.labels.insert(key.to_owned(), expand(value, &variables)?);
                    }
                }
                "COPY" => {
                    let words: Vec<&str> = rest.split_whitespace().collect();
                    let [from, source, path] = words.as_slice() else { bail!("{}", what()) };
                    let stage = from.strip_prefix("--from=").with_context(what)?.to_owned();
                    recipe.files.push(CopiedFile { stage, source: (*source).to_owned(), path: (*path).to_owned() });
                }
                "USER" => recipe.user.clone_from(rest),
                "ENTRYPOINT" => recipe.entrypoint = serde_json::from_str(rest).with_context(what)?,
                "CMD" => recipe.command = serde_json::from_str(rest).with_context(what)?,
                _ => bail!("the last stage has an instruction that `make image` does not know: {}", what()),
            }
        }
        Ok(recipe)
    }
}

/// Instructions without comments and with joined lines.
fn instructions(text: &str) -> Result<Vec<(String, String)>> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let joined = lines.join("\n").replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let (name, rest) = line.split_once(' ').with_context(|| format!("{line} is not an instruction"))?;
            Ok((name.to_owned(), rest.trim().to_owned()))
        })
        .collect()
}

/// Words, of which parts in quotes may contain spaces. The quotes are left out.
fn quoted_words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for character in text.chars() {
        match character {
            '"' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            _ => words.iter_mut().last().into_iter().for_each(|word| word.push(character)),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Replaces `${NAME}`.
fn expand(text: &str, variables: &BTreeMap<String, String>) -> Result<String> {
    let mut expanded = String::new();
    let mut left = text;
    while let Some((before, rest)) = left.split_once("${") {
        let (name, after) = rest.split_once('}').with_context(|| format!("{text} has no end of a variable"))?;
        let value = variables.get(name).with_context(|| format!("{text}: there is no ARG {name}"))?;
        expanded = expanded + before + value;
        left = after;
    }
    Ok(expanded + left)
}

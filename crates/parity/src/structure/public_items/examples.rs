//! Examples in documentation that `cargo test` compiles and runs.

use syn::{Attribute, Expr, Lit, Meta};

/// Words after the opening of a code block with which the block is still compiled and run.
const EXECUTED: [&str; 3] = ["rust", "should_panic", "edition2024"];

/// The code of all examples in the documentation of an item, one text per example.
pub(super) fn executed_examples(attributes: &[Attribute]) -> Vec<String> {
    let docs: Vec<String> = attributes.iter().filter_map(doc_text).collect();
    let mut found = Vec::new();
    let mut block: Option<(bool, String)> = None;
    for line in docs.iter().flat_map(|text| text.lines()) {
        let fence = line.trim().strip_prefix("```");
        block = match (block.take(), fence) {
            (None, Some(words)) => Some((is_executed(words), String::new())),
            (None, None) => None,
            (Some((executed, code)), Some(_)) => {
                found.extend((executed && !code.trim().is_empty()).then_some(code));
                None
            }
            (Some((executed, code)), None) => Some((executed, code + line + "\n")),
        };
    }
    found
}

fn is_executed(words: &str) -> bool {
    words.split([',', ' ']).map(str::trim).filter(|word| !word.is_empty()).all(|word| EXECUTED.contains(&word))
}

fn doc_text(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(meta) = &attribute.meta else { return None };
    let Expr::Lit(text) = &meta.value else { return None };
    match &text.lit {
        Lit::Str(text) if meta.path.is_ident("doc") => Some(text.value()),
        _ => None,
    }
}

//! Tokens that `syn` does not interpret: the arguments of macros and attributes.

use proc_macro2::{TokenStream, TokenTree};

/// Whether a `cfg` condition holds in tests only: `test`, or `all(..)` that contains it. `any` and `not` can also hold in
/// other builds.
pub(super) fn demands_test(condition: TokenStream) -> bool {
    let mut tokens = condition.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let TokenTree::Ident(name) = token else { continue };
        match tokens.peek() {
            Some(TokenTree::Group(inner)) => {
                if name == "all" && demands_test(inner.stream()) {
                    return true;
                }
                tokens.next();
            }
            _ if name == "test" => return true,
            _ => {}
        }
    }
    false
}

/// Whether paths inside string literals are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Texts {
    /// As for attributes: `#[serde(with = "crate::text")]` names a module.
    Read,
    /// As for macros, where string literals are not code.
    Skip,
}

/// Paths in tokens: names joined by `::`. `$crate` of a macro is `crate`.
pub(super) fn paths_in(tokens: TokenStream, texts: Texts) -> Vec<(Vec<String>, usize)> {
    let mut found = Vec::new();
    let mut path: Vec<String> = Vec::new();
    let mut line = 0;
    let mut colons = 0;
    for token in tokens {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
            TokenTree::Ident(name) => {
                // Two colons join this name to the path before it.
                if colons != 2 || path.is_empty() {
                    finish(&mut path, line, &mut found);
                    line = name.span().start().line;
                }
                path.push(name.to_string());
                colons = 0;
            }
            other => {
                let prefix = if colons == 2 { path.clone() } else { Vec::new() };
                finish(&mut path, line, &mut found);
                colons = 0;
                match other {
                    TokenTree::Group(group) => {
                        let inner = paths_in(group.stream(), texts);
                        // After `crate::` the group is part of an import; otherwise the prefix is empty.
                        let joined = inner.into_iter().map(|(rest, line)| ([&prefix[..], &rest].concat(), line));
                        found.extend(joined);
                    }
                    TokenTree::Literal(literal) if texts == Texts::Read => {
                        let text = literal.to_string();
                        let inner = text.trim_matches('"');
                        if (inner.starts_with("crate::") || inner.starts_with("super::"))
                            && let Ok(tokens) = inner.parse::<TokenStream>()
                        {
                            let line = literal.span().start().line;
                            found.extend(paths_in(tokens, texts).into_iter().map(|(path, _)| (path, line)));
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    finish(&mut path, line, &mut found);
    found
}

fn finish(path: &mut Vec<String>, line: usize, found: &mut Vec<(Vec<String>, usize)>) {
    if !path.is_empty() {
        found.push((std::mem::take(path), line));
    }
}

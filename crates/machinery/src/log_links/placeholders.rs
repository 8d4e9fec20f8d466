//! Finding `{{ .name }}` in a template.
//!
//! The grammar is the one of upstream's patterns: two braces, optional white space, `.` or `$`, the name in any letter
//! case, optional white space, two braces. Whatever does not read so is text.

/// A variable as it stands in a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placeholder<'a> {
    /// Its name, as spelled there.
    pub(super) name: &'a str,
    /// Length of the whole, braces included.
    pub(super) length: usize,
}

const OPEN: &str = "{{";
const CLOSE: &str = "}}";
const TASK_CONFIG: &str = "taskConfig";

/// Position of the next pair of opening braces.
pub(super) fn next_open(text: &str) -> Option<usize> {
    text.find(OPEN)
}

/// The variable that `text` begins with.
pub(super) fn plain(text: &str) -> Option<Placeholder<'_>> {
    let rest = sigil(skip_space(text.strip_prefix(OPEN)?))?;
    let name_length = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(name_length);
    let rest = skip_space(rest).strip_prefix(CLOSE)?;
    (!name.is_empty()).then_some(Placeholder { name, length: text.len() - rest.len() })
}

/// The variable `taskConfig.name` that `text` begins with.
///
/// Mirrors `taskConfigVarRegex`: any one character may stand before `taskConfig`, and the name has no digits.
pub(super) fn task_config(text: &str) -> Option<Placeholder<'_>> {
    let inner = text.strip_prefix(OPEN)?;
    let blank = inner.len() - skip_space(inner).len();
    // The one character before the word is mostly the dot, but may also be the last of the white space.
    let after_dot = inner[blank..].chars().next().filter(|c| *c != '\n').map(|c| &inner[blank + c.len_utf8()..]);
    let after_space = inner[..blank].chars().next_back().filter(|c| *c != '\n').map(|_| &inner[blank..]);
    let rest = [after_dot, after_space].into_iter().flatten().find_map(|rest| strip_word(rest, TASK_CONFIG))?;
    let rest = sigil(rest)?;
    let name_length = rest.find(|c: char| !(c.is_ascii_alphabetic() || c == '_')).unwrap_or(rest.len());
    let (name, rest) = rest.split_at(name_length);
    let rest = skip_space(rest).strip_prefix(CLOSE)?;
    (!name.is_empty()).then_some(Placeholder { name, length: text.len() - rest.len() })
}

/// Replaces every variable for which `parse` reads one of this name, in any letter case. The value is taken literally.
pub(super) fn replace<'a>(
    text: &'a str,
    parse: impl Fn(&'a str) -> Option<Placeholder<'a>>,
    name: &str,
    value: &str,
) -> Option<String> {
    let mut replaced: Option<String> = None;
    let mut rest = text;
    let mut copied = 0;
    while let Some(at) = next_open(rest) {
        let begin = text.len() - rest.len() + at;
        match parse(&text[begin..]).filter(|found| found.name.eq_ignore_ascii_case(name)) {
            Some(found) => {
                let target = replaced.get_or_insert_default();
                target.push_str(&text[copied..begin]);
                target.push_str(value);
                copied = begin + found.length;
                rest = &text[copied..];
            }
            None => rest = &text[begin + 1..],
        }
    }
    replaced.map(|mut replaced| {
        replaced.push_str(&text[copied..]);
        replaced
    })
}

fn skip_space(text: &str) -> &str {
    text.trim_start_matches(['\t', '\n', '\x0c', '\r', ' '])
}

fn sigil(text: &str) -> Option<&str> {
    text.strip_prefix(['.', '$'])
}

fn strip_word<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(word.len())?;
    head.eq_ignore_ascii_case(word).then_some(rest)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn name_of(found: Option<Placeholder<'_>>) -> Option<&str> {
        found.map(|found| found.name)
    }

    #[test]
    fn white_space_sigil_and_spelling_are_free() {
        for text in ["{{.podName}}", "{{ $podName }}", "{{\t.podName\n}}"] {
            let found = plain(text).unwrap();
            assert_eq!((found.name, found.length), ("podName", text.len()));
        }
        for text in ["{{podName}}", "{{..podName}}", "{{.pod Name}}", "{{.podName}", "{.podName}}", "{{.}}"] {
            assert_eq!(plain(text), None, "{text}");
        }
    }

    #[test]
    fn a_third_brace_is_text() {
        assert_eq!(replace("{{{.a}}}", plain, "A", "x").as_deref(), Some("{x}"));
        assert_eq!(replace("{{.b}}", plain, "a", "x"), None);
    }

    #[test]
    fn the_task_configuration_has_its_own_grammar() {
        assert_eq!(name_of(task_config("{{.taskConfig.entity}}")), Some("entity"));
        assert_eq!(name_of(task_config("{{ $TASKCONFIG$my_key }}")), Some("my_key"));
        assert_eq!(name_of(task_config("{{ taskConfig.x}}")), Some("x"));
        assert_eq!(name_of(task_config("{{taskConfig.x}}")), None);
        assert_eq!(name_of(task_config("{{.taskConfig.x1}}")), None);
    }
}

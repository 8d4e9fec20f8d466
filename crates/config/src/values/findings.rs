//! What the sources of a configuration have besides usable values: mistakes, settings that are probably mistakes, and parts
//! that the executor does not read.

use crate::error::{ConfigError, Origin, Problem, Warning};

/// Everything that was found in one or more sources.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Findings {
    pub errors: Vec<ConfigError>,
    pub warnings: Vec<Warning>,
    /// Values that upstream's loader accepts and with which the executor must not be started.
    pub unlikely: Vec<ConfigError>,
    pub unread: Vec<Unread>,
}

/// What a configuration is loaded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To start the executor. Values that cannot work are mistakes.
    Start,
    /// To show something. What upstream's loader accepts is accepted.
    Show,
}

/// A part of a source that the executor does not read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unread {
    pub origin: Origin,
    pub path: String,
    pub why: WhyUnread,
}

/// Why a part is not read.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WhyUnread {
    /// The section belongs to another service of Flyte, or to a plugin that the executor does not have.
    Foreign { owner: &'static str },
    /// Nobody knows the section. The text is a suggestion.
    UnknownSection(Option<String>),
    /// Nobody knows the key, in a section that has no effect. The text is a suggestion.
    UnknownKey(Option<String>),
}

impl Findings {
    /// Adds what was found in another source.
    pub fn append(&mut self, mut other: Self) {
        self.errors.append(&mut other.errors);
        self.warnings.append(&mut other.warnings);
        self.unlikely.append(&mut other.unlikely);
        self.unread.append(&mut other.unread);
    }

    /// Turns the unlikely values into errors or warnings.
    pub fn settle_unlikely(&mut self, purpose: Purpose) {
        let unlikely = std::mem::take(&mut self.unlikely);
        match purpose {
            Purpose::Start => self.errors.extend(unlikely),
            Purpose::Show => self.warnings.extend(unlikely.into_iter().map(|ConfigError { origin, path, problem }| {
                Warning { origin, path, message: format!("{problem}; `run` refuses it") }
            })),
        }
    }

    /// Turns the parts that are not read into errors or warnings, and those of other services into one note.
    pub fn settle_unread(&mut self, strict: bool) -> Option<String> {
        let mut foreign = Vec::<(String, &str, Vec<String>)>::new();
        for Unread { origin, path, why } in std::mem::take(&mut self.unread) {
            let problem = match why {
                WhyUnread::Foreign { owner } => {
                    match foreign.iter_mut().find(|(known, ..)| known.eq_ignore_ascii_case(&path)) {
                        Some((_, _, origins)) => origins.push(origin.to_string()),
                        None => foreign.push((path, owner, vec![origin.to_string()])),
                    }
                    continue;
                }
                WhyUnread::UnknownSection(suggestion) => Problem::UnknownSection(suggestion),
                WhyUnread::UnknownKey(suggestion) => Problem::UnknownKey(suggestion),
            };
            if strict {
                self.errors.push(ConfigError { origin, path, problem });
            } else {
                let message = format!("{problem}; it is not read, and --strict makes it an error");
                self.warnings.push(Warning { origin, path, message });
            }
        }
        let sections: Vec<_> = foreign
            .into_iter()
            .map(|(path, owner, origins)| format!("{path} ({}): {owner}", origins.join(", ")))
            .collect();
        (!sections.is_empty())
            .then(|| format!("not read, because they belong to other parts of Flyte: {}", sections.join("; ")))
    }
}

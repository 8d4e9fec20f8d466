//! The names of a new plugin, and where they replace those of the template.

use aileron_config::PluginsConfig;
use aileron_machinery::SectionValues;

/// The names of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// The name of the plugin and of its task type: `tea-kettle`.
    pub kebab: String,
    /// For Python and Rust: `tea_kettle`.
    snake: String,
    /// For types: `TeaKettle`.
    pascal: String,
    kind: String,
    plural: String,
    group: String,
    version: String,
}

/// Names that the copy cannot use: keywords of its languages, and names of its own folders and packages.
const RESERVED: &str = "and as assert async await batch-operator break class const continue crate def del dyn elif else enum except \
    extern false finally fn for from global if impl import in is lambda let loop match mod move mut none nonlocal not operator or \
    pass plugin pub raise ref return self static struct super trait true try type union unsafe use where while with yield";

impl Names {
    /// Reads the name of a plugin and `Kind.group/version`. The error says what is wrong.
    pub fn new(name: &str, kind: &str, plural: Option<&str>) -> Result<Self, String> {
        let is_word =
            |word: &str| !word.is_empty() && word.chars().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit());
        let begins_with_letter = name.starts_with(|one: char| one.is_ascii_lowercase());
        if !begins_with_letter || !name.split('-').all(is_word) {
            return Err(format!(
                "{name:?} is not a name for a plugin: use lower-case words, such as kettle or tea-kettle"
            ));
        }
        if let Some(word) = name.split('-').find(|word| word.len() == 1) {
            return Err(format!("{name:?} is not a name for a plugin: {word:?} is too short for a word"));
        }
        if RESERVED.split_whitespace().any(|word| word == name) {
            return Err(format!("{name:?} is a word of Rust, Python or the template: choose another name"));
        }
        if let Some(what) = taken_by(name) {
            return Err(format!("{name:?} is {what}: choose another name"));
        }
        let example = "write Kind.group/version, such as Kettle.kitchen.example.org/v1";
        let wrong = || format!("--kind {kind}: {example}");
        let (kind_name, rest) = kind.split_once('.').ok_or_else(wrong)?;
        let (group, version) = rest.split_once('/').ok_or_else(wrong)?;
        let is_kind = kind_name.starts_with(|one: char| one.is_ascii_uppercase())
            && kind_name.chars().all(|one| one.is_ascii_alphanumeric());
        let is_group = group.split('.').all(|part| part.split('-').all(is_word));
        let is_version = version.starts_with('v') && is_word(version);
        if !is_kind || !is_group || !is_version {
            return Err(wrong());
        }
        if !group.contains('.') {
            return Err(format!(
                "--kind {kind}: the group of a custom resource has a dot, and {group:?} has none; {example}. A kind that Kubernetes \
                 serves itself needs no template: see docs/writing-a-plugin.md"
            ));
        }
        let plural = plural.map_or_else(|| pluralized(&kind_name.to_lowercase()), str::to_owned);
        if !is_word(&plural) {
            return Err(format!("--plural {plural}: write a lower-case word, such as kettles"));
        }
        Ok(Self {
            kebab: name.to_owned(),
            snake: name.replace('-', "_"),
            pascal: name.split('-').map(capitalized).collect(),
            kind: kind_name.to_owned(),
            plural,
            group: group.to_owned(),
            version: version.to_owned(),
        })
    }

    /// A type in a Rust source of the template that would have the same name as a type of the new kind.
    pub fn collision(&self, source: &str) -> Option<String> {
        let types = [self.kind.clone(), format!("{}Spec", self.kind), format!("{}Status", self.kind)];
        let code = source.lines().filter(|line| !line.trim_start().starts_with("//"));
        let words = code.flat_map(|line| line.split(|one: char| !one.is_alphanumeric() && one != '_'));
        words
            .filter(|word| !word.starts_with("BatchJob"))
            .map(|word| self.rename(word))
            .find(|word| types.contains(word))
    }

    /// A text of the template with these names.
    pub fn rename(&self, text: &str) -> String {
        let Self { kebab, snake, pascal, kind, plural, group, version } = self;
        // The first that fits is used, so longer names come before those that they begin with.
        let table = [
            ("compute.example.org/v1", format!("{group}/{version}")),
            ("compute.example.org", group.clone()),
            ("version = \"v1\"", format!("version = \"{version}\"")),
            ("version: v1\n", format!("version: {version}\n")),
            ("name: v1\n", format!("name: {version}\n")),
            ("BatchJob", kind.clone()),
            ("batchjobs", plural.clone()),
            ("batchjob", kind.to_lowercase()),
            ("BATCH", pascal.to_uppercase()),
            ("Batch", pascal.clone()),
            ("aileron_plugin_batch", format!("aileron_plugin_{snake}")),
            ("batch_", format!("{snake}_")),
            ("flyteplugins.batch", format!("flyteplugins.{snake}")),
            ("flyteplugins/batch", format!("flyteplugins/{snake}")),
            ("example.batch.", format!("example.{snake}.")),
            ("batch.proto", format!("{snake}.proto")),
            ("batch", kebab.clone()),
        ];
        let mut renamed = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(one) = rest.chars().next() {
            if let Some((from, to)) = table.iter().find(|(from, _)| rest.starts_with(from)) {
                renamed.push_str(to);
                rest = &rest[from.len()..];
            } else {
                renamed.push(one);
                rest = &rest[one.len_utf8()..];
            }
        }
        renamed
    }
}

/// What has this name already, in every executor: two plugins cannot share it.
fn taken_by(name: &str) -> Option<&'static str> {
    // Built-in plugins have usable defaults; a test makes all of them.
    let plugins = aileron_plugins::builtin().build(&SectionValues::default()).unwrap_or_default();
    let k8s = plugins.k8s().iter().map(|plugin| plugin.entry());
    let mut entries = k8s.chain(plugins.core().iter().map(|plugin| plugin.entry()));
    if entries.any(|entry| &*entry.id == name || entry.task_types.iter().any(|task_type| task_type == name)) {
        return Some("a built-in plugin or one of its task types");
    }
    let sections = serde_json::to_value(PluginsConfig::default()).unwrap_or_default();
    sections.get(name).map(|_| "a section of the configuration")
}

fn capitalized(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

/// The usual plural in English. `--plural` names another one.
fn pluralized(word: &str) -> String {
    match word {
        _ if ["s", "x", "z", "ch", "sh"].iter().any(|end| word.ends_with(end)) => format!("{word}es"),
        _ if word.ends_with('y') && !["ay", "ey", "oy", "uy"].iter().any(|end| word.ends_with(end)) => {
            format!("{}ies", &word[..word.len() - 1])
        }
        _ => format!("{word}s"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn every_form_of_a_name_is_replaced() {
        let names = Names::new("tea-kettle", "Kettle.kitchen.example.org/v2", None).unwrap();
        let text =
            "use aileron_plugin_batch::{BatchJob, BatchPlugin}; // batchjobs.compute.example.org/v1, aileron-batch";
        let expected = "use aileron_plugin_tea_kettle::{Kettle, TeaKettlePlugin}; // kettles.kitchen.example.org/v2, aileron-tea-kettle";
        assert_eq!(names.rename(text), expected);
        assert_eq!(
            names.rename("from flyteplugins.batch.batch_pb2 import X"),
            "from flyteplugins.tea_kettle.tea_kettle_pb2 import X"
        );
    }

    #[test]
    fn names_that_cannot_work_are_refused_with_an_example() {
        for (name, kind, part) in [
            ("Kettle", "Kettle.k.org/v1", "\"Kettle\" is not a name"),
            ("kettle-", "Kettle.k.org/v1", "is not a name"),
            ("9kettles", "Kettle.k.org/v1", "is not a name"),
            ("a-kettle", "Kettle.k.org/v1", "too short"),
            ("class", "Kettle.k.org/v1", "choose another name"),
            ("spark", "Kettle.k.org/v1", "\"spark\" is a built-in plugin"),
            ("clustered-task", "Kettle.k.org/v1", "is a built-in plugin"),
            ("raw-container", "Kettle.k.org/v1", "one of its task types"),
            ("kf-operator", "Kettle.k.org/v1", "is a section of the configuration"),
            ("kettle", "Kettle", "write Kind.group/version"),
            ("kettle", "kettle.k.org/v1", "write Kind.group/version"),
            ("kettle", "Kettle.k.org", "write Kind.group/version"),
            ("kettle", "Kettle.k.org/1", "write Kind.group/version"),
            ("kettle", "Kettle.kitchen/v1", "\"kitchen\" has none"),
            ("yield", "Kettle.k.org/v1", "choose another name"),
            ("elif", "Kettle.k.org/v1", "choose another name"),
        ] {
            let error = Names::new(name, kind, None).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
        assert!(Names::new("kettle", "Kettle.k.org/v1", Some("Kettles")).is_err());
    }

    #[test]
    fn a_kind_must_not_have_the_name_of_a_type_of_the_sources() {
        let source =
            "// Job\nuse k8s_openapi::api::core::v1::Pod;\npub struct BatchConfig;\npub struct BatchJobSpec;\n";
        let collision = |kind: &str| Names::new("kettle", &format!("{kind}.k.org/v1"), None).unwrap().collision(source);
        assert_eq!(collision("Pod").as_deref(), Some("Pod"));
        assert_eq!(collision("KettleConfig").as_deref(), Some("KettleConfig"));
        assert_eq!(collision("Kettle"), None);
        assert_eq!(collision("Job"), None, "a comment is no type");
    }

    #[test]
    fn the_plural_is_the_usual_one_unless_another_is_given() {
        let plural = |kind: &str, given| Names::new("kettle", &format!("{kind}.k.org/v1"), given).unwrap().plural;
        assert_eq!(plural("Kettle", None), "kettles");
        assert_eq!(plural("Batch", None), "batches");
        assert_eq!(plural("Query", None), "queries");
        assert_eq!(plural("Mouse", Some("mice")), "mice");
    }
}

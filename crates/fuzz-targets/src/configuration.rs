//! Any bytes as a configuration: one or more files, and flags.

use aileron_config::{Loader, Secrets, Selection, SourceFile, Sources, dump, show};

use crate::answer::SEPARATOR;

/// Reads configurations from bytes.
pub struct Reader {
    loader: Loader,
}

impl Default for Reader {
    fn default() -> Self {
        Self::new()
    }
}

impl Reader {
    /// Reads with the keys of all built-in plugins.
    #[must_use]
    pub fn new() -> Self {
        Self { loader: Loader::with_sections(aileron_plugins::builtin().sections()) }
    }

    /// Reads files that [`SEPARATOR`] separates. A part that begins with `--` is a list of arguments, one in each line.
    pub fn read(&self, data: &[u8]) {
        let Ok(text) = std::str::from_utf8(data) else { return };
        let mut sources = Sources::default();
        for (number, part) in text.split(SEPARATOR).enumerate() {
            if part.starts_with("--") {
                let arguments: Vec<&str> = part.lines().collect();
                sources.flags.extend(self.loader.parse_arguments(&arguments).unwrap_or_default());
            } else {
                sources.files.push(SourceFile { name: format!("{number}.yaml"), text: part.to_owned() });
            }
        }
        match self.loader.load(&sources) {
            Ok(loaded) => {
                let _ = (
                    show(&loaded, Selection::All, Secrets::Hidden),
                    show(&loaded, Selection::Set, Secrets::Shown),
                    dump(&loaded.config),
                );
                let _ = aileron_plugins::builtin().build(&loaded.config.plugins.section_values());
            }
            Err(errors) => {
                let report = self.loader.check(&sources).render();
                assert!(report.contains("error: "), "a configuration that is refused without a reason");
                assert!(!errors.to_string().is_empty());
            }
        }
    }
}

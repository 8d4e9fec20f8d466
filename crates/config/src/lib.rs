//! The configuration of the executor: its sections, and how it is loaded, checked and explained.
//!
//! Sections, keys and defaults are those of upstream's executor. A file may also configure other Flyte services, such as
//! that of the `flyte-binary` chart: their sections are ignored. An unknown section gives a warning, an unknown key is an
//! error. Several files are merged: a later file wins, and maps are merged entry by entry. Environment variables win over
//! files, and flags win over environment variables. Every value must have the right type. All mistakes are reported at
//! once, each with its file, line and key.
//!
//! | module | task |
//! | --- | --- |
//! | [`config`] | the whole configuration: all sections in one type |
//! | [`sections`] | the keys: one type for each section, with defaults and documentation |
//! | [`sources`] | where settings come from: reads files, environment variables and flags |
//! | [`document`] | parses YAML and keeps the line of every value |
//! | `schema` | describes all keys, from the types of the sections; finds similar names for unknown ones |
//! | `values` | checks what the sources set, merges it, and adds the defaults |
//! | `validate` | finds values that have the right type but cannot be used |
//! | `no_effect` | finds settings that have no effect |
//! | [`load`] | runs these steps and returns the configuration |
//! | [`explain`] | prints the schema, an example, the reference page, and the origin of each value |
//! | [`error`] | errors and warnings |

pub mod config;
pub mod document;
pub mod error;
pub mod explain;
pub mod load;
mod no_effect;
mod schema;
pub mod sections;
pub mod sources;
mod validate;
mod values;

pub use config::{Config, PluginsConfig};
pub use error::{ConfigError, ConfigErrors, Origin, Problem, Warning};
pub use explain::{Report, Selection, check, dump, example, markdown, schema, show};
pub use load::{Draft, Loaded, Loader};
pub use schema::credentials::Secrets;
pub use schema::foreign;
pub use schema::suggest::nearest;
pub use sources::environment::environment_variables;
pub use sources::flags::parse_arguments;
pub use sources::{SourceFile, Sources, files};

#[cfg(test)]
mod tests;

//! Output formats.

use clap::ValueEnum;

/// The format of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DocumentFormat {
    /// YAML
    #[default]
    Yaml,
    /// JSON
    Json,
}

/// The format of the version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum VersionFormat {
    /// One line
    #[default]
    Text,
    /// JSON
    Json,
}

/// The format of an explanation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ExplainFormat {
    /// A table
    #[default]
    Text,
    /// JSON, with full values and all sources
    Json,
}

/// The format of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// A table, and what to do about each finding
    #[default]
    Table,
    /// JSON
    Json,
}

/// The format of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ListFormat {
    /// A table
    #[default]
    Table,
    /// A table with more columns, and no line truncated
    Wide,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Only names, one per line
    Name,
}

/// The format of a description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DescriptionFormat {
    /// Text for people
    #[default]
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
}

/// The format of the result of `submit`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum SubmitFormat {
    /// Text for people
    #[default]
    Text,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Only the names of the TaskActions
    Name,
}

/// The format of log records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object per line
    Json,
    /// Text for people
    Text,
}

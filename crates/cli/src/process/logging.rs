//! Log records: which ones are written, in which format, and where to.

mod record;

use std::fs::OpenOptions;
use std::io::stderr;
use std::path::Path;
use std::sync::Mutex;

use aileron_machinery::config::LoggerConfig;
use anyhow::Context;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::JsonFields;

use crate::arguments::LogFormat;
use crate::display::output;
use crate::failure::Failure;

use record::{Layout, RecordFormat};

/// Libraries that log every request or byte at level `debug`. They are limited to warnings unless a filter names them.
const LIMITED_TO_WARNINGS: [&str; 7] = ["h2", "hyper", "hyper_util", "rustls", "tower", "kube_client", "object_store"];

/// Logs the whole answer of the API server, with all its objects, as a warning when the answer cannot be decoded. The
/// executor logs the error itself.
const LIMITED_TO_ERRORS: &str = "kube_client::client";

/// The target of the records that say what runs with which settings. They are written also at the level `warn`, which is the
/// default: without them a log does not tell which executor wrote it.
pub const START: &str = "aileron::start";

/// The number of the level `info` in `logger.level`.
const INFO_LEVEL: i64 = 4;

/// The format of a log record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json(Layout),
    Text,
}

/// Starts writing the log records of `aileron run` to the error stream.
pub fn start(config: &LoggerConfig, level: Option<&str>, format: Option<LogFormat>) -> Result<(), Failure> {
    let filter = filter_directives(config, level);
    let filter = EnvFilter::try_new(&filter)
        .map_err(|error| Failure::Usage(format!("--log-level: {filter:?} is neither a level nor a filter: {error}")))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    match record_format(config, format)? {
        Format::Json(layout) => builder
            .fmt_fields(JsonFields::new())
            .event_format(RecordFormat { layout, show_source: config.show_source })
            .init(),
        Format::Text => builder
            .with_ansi(output::stderr_has_colours())
            .with_file(config.show_source)
            .with_line_number(config.show_source)
            .init(),
    }
    Ok(())
}

/// Starts writing the log records of a sandbox as text to a file, or to the error stream.
///
/// A process can choose this only once. For a second sandbox in the same process the first choice remains in effect.
pub fn start_sandbox(file: Option<&Path>, level: Option<&str>) -> Result<(), Failure> {
    let filter = filter_directives(&LoggerConfig { level: INFO_LEVEL, ..LoggerConfig::default() }, level);
    let filter = EnvFilter::try_new(&filter)
        .map_err(|error| Failure::Usage(format!("--log-level: {filter:?} is neither a level nor a filter: {error}")))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter);
    let started = match file {
        None => builder.with_writer(stderr).with_ansi(output::stderr_has_colours()).try_init(),
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            let file = file.with_context(|| format!("cannot write {}", path.display()))?;
            builder.with_writer(Mutex::new(file)).with_ansi(false).try_init()
        }
    };
    // Fails only if an earlier sandbox of this process has made the choice.
    let _ = started;
    Ok(())
}

/// The filter of log records: the requested one, else the one of the configuration. `logger.mute` switches all records off.
fn filter_directives(config: &LoggerConfig, requested: Option<&str>) -> String {
    if config.mute {
        return "off".into();
    }
    let level = match (requested.map(str::trim).filter(|text| !text.is_empty()), config.level) {
        (Some(requested), _) => requested.to_lowercase(),
        // Upstream's levels `panic` and `fatal` do not exist here: both are errors.
        (None, ..=2) => "error".into(),
        (None, 3) => "warn".into(),
        (None, 4) => "info".into(),
        (None, 5) => "debug".into(),
        (None, 6..) => "trace".into(),
    };
    let filter = match level.as_str() {
        "info" | "debug" | "trace" => {
            LIMITED_TO_WARNINGS.iter().fold(level, |filter, library| format!("{filter},{library}=warn"))
        }
        "warn" => format!("{level},{START}=info"),
        _ => return level,
    };
    format!("{filter},{LIMITED_TO_ERRORS}=error")
}

fn record_format(config: &LoggerConfig, requested: Option<LogFormat>) -> Result<Format, Failure> {
    Ok(match (requested, config.formatter.kind.to_lowercase().as_str()) {
        (Some(LogFormat::Text), _) | (None, "text") => Format::Text,
        (_, "gcp") => Format::Json(Layout::Gcp),
        (Some(LogFormat::Json), _) | (None, "json" | "") => Format::Json(Layout::Flyte),
        (None, other) => {
            return Err(Failure::Usage(format!("logger.formatter.type: {other:?} is unknown; use json, text or gcp")));
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn level(level: i64) -> LoggerConfig {
        LoggerConfig { level, ..LoggerConfig::default() }
    }

    #[test]
    fn upstream_levels_are_kept() {
        let first = |config: &LoggerConfig| filter_directives(config, None).split(',').next().unwrap().to_owned();
        let levels: Vec<_> = (0..7).map(|number| first(&level(number))).collect();
        assert_eq!(levels, ["error", "error", "error", "warn", "info", "debug", "trace"]);
        assert_eq!(filter_directives(&LoggerConfig { mute: true, ..level(5) }, Some("debug")), "off");
    }

    #[test]
    fn libraries_are_limited_to_warnings_unless_a_filter_is_given() {
        assert!(filter_directives(&level(3), Some("DEBUG")).starts_with("debug,h2=warn,"));
        assert_eq!(filter_directives(&level(3), Some("info,kube=debug")), "info,kube=debug");
        assert_eq!(filter_directives(&level(4), Some("error")), "error");
        assert_eq!(filter_directives(&level(3), None), "warn,aileron::start=info,kube_client::client=error");
        assert!(filter_directives(&level(4), None).ends_with(",kube_client::client=error"));
        assert_eq!(filter_directives(&level(2), Some(" ")), "error");
    }

    #[test]
    fn the_flag_wins_over_the_configuration() {
        let mut config = level(3);
        assert_eq!(record_format(&config, None).unwrap(), Format::Json(Layout::Flyte));
        assert_eq!(record_format(&config, Some(LogFormat::Text)).unwrap(), Format::Text);
        config.formatter.kind = "text".into();
        assert_eq!(record_format(&config, Some(LogFormat::Json)).unwrap(), Format::Json(Layout::Flyte));
        config.formatter.kind = "xml".into();
        assert!(record_format(&config, None).unwrap_err().to_string().contains("logger.formatter.type"));
    }
}

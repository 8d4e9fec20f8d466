//! Log records: which are written, and how. They go to the error stream.

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
use crate::failure::Failure;
use crate::output;

use record::{Layout, Record};

/// Libraries that tell about every byte at `debug`. They are heard at warnings, unless a filter names them.
const NOISY: [&str; 7] = ["h2", "hyper", "hyper_util", "rustls", "tower", "kube_client", "object_store"];

/// The number of the level `info` in the configuration.
const INFO: i64 = 4;

/// How records look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Json(Layout),
    Text,
}

/// Starts writing log records.
pub fn start(config: &LoggerConfig, level: Option<&str>, format: Option<LogFormat>) -> Result<(), Failure> {
    let filter = directives(config, level);
    let filter = EnvFilter::try_new(&filter)
        .map_err(|error| Failure::Usage(format!("--log-level: {filter:?} is no level and no filter: {error}")))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(stderr);
    match chosen(config, format)? {
        Format::Json(layout) => builder
            .fmt_fields(JsonFields::new())
            .event_format(Record { layout, show_source: config.show_source })
            .init(),
        Format::Text => builder
            .with_ansi(output::has_colours())
            .with_file(config.show_source)
            .with_line_number(config.show_source)
            .init(),
    }
    Ok(())
}

/// Starts writing log records of a sandbox, as text: to a file, or to the error stream. A choice that was made before, for
/// an earlier sandbox of the same process, stands.
pub fn start_sandbox(file: Option<&Path>, level: Option<&str>) -> Result<(), Failure> {
    let filter = directives(&LoggerConfig { level: INFO, ..LoggerConfig::default() }, level);
    let filter = EnvFilter::try_new(&filter)
        .map_err(|error| Failure::Usage(format!("--log-level: {filter:?} is no level and no filter: {error}")))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter);
    let started = match file {
        None => builder.with_writer(stderr).with_ansi(output::has_colours()).try_init(),
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            let file = file.with_context(|| format!("cannot write {}", path.display()))?;
            builder.with_writer(Mutex::new(file)).with_ansi(false).try_init()
        }
    };
    // The only way this fails is an earlier choice.
    let _ = started;
    Ok(())
}

/// The filter: what was asked for, else what the configuration says. Muted means muted.
fn directives(config: &LoggerConfig, asked: Option<&str>) -> String {
    if config.mute {
        return "off".into();
    }
    let level = match (asked.map(str::trim).filter(|asked| !asked.is_empty()), config.level) {
        (Some(asked), _) => asked.to_lowercase(),
        // There is nothing above an error here: what upstream calls fatal or panic ends the process and is an error.
        (None, ..=2) => "error".into(),
        (None, 3) => "warn".into(),
        (None, 4) => "info".into(),
        (None, 5) => "debug".into(),
        (None, 6..) => "trace".into(),
    };
    if !matches!(level.as_str(), "info" | "debug" | "trace") {
        return level;
    }
    NOISY.iter().fold(level, |filter, library| format!("{filter},{library}=warn"))
}

fn chosen(config: &LoggerConfig, asked: Option<LogFormat>) -> Result<Format, Failure> {
    Ok(match (asked, config.formatter.kind.to_lowercase().as_str()) {
        (Some(LogFormat::Text), _) | (None, "text") => Format::Text,
        (_, "gcp") => Format::Json(Layout::Gcp),
        (Some(LogFormat::Json), _) | (None, "json" | "") => Format::Json(Layout::Flyte),
        (None, other) => {
            return Err(Failure::Usage(format!("logger.formatter.type: {other:?} is none of json, text and gcp")));
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
        let first = |config: &LoggerConfig| directives(config, None).split(',').next().unwrap().to_owned();
        let levels: Vec<_> = (0..7).map(|number| first(&level(number))).collect();
        assert_eq!(levels, ["error", "error", "error", "warn", "info", "debug", "trace"]);
        assert_eq!(directives(&LoggerConfig { mute: true, ..level(5) }, Some("debug")), "off");
    }

    #[test]
    fn libraries_are_quiet_unless_a_filter_speaks_of_them() {
        assert!(directives(&level(3), Some("DEBUG")).starts_with("debug,h2=warn,"));
        assert_eq!(directives(&level(3), Some("info,kube=debug")), "info,kube=debug");
        assert_eq!(directives(&level(4), Some("error")), "error");
        assert_eq!(directives(&level(2), Some(" ")), "error");
    }

    #[test]
    fn the_flag_wins_over_the_configuration() {
        let mut config = level(3);
        assert_eq!(chosen(&config, None).unwrap(), Format::Json(Layout::Flyte));
        assert_eq!(chosen(&config, Some(LogFormat::Text)).unwrap(), Format::Text);
        config.formatter.kind = "text".into();
        assert_eq!(chosen(&config, Some(LogFormat::Json)).unwrap(), Format::Json(Layout::Flyte));
        config.formatter.kind = "xml".into();
        assert!(chosen(&config, None).unwrap_err().to_string().contains("logger.formatter.type"));
    }
}

//! A log record as one JSON object per line, with the keys of Flyte's services or of Google Cloud.

use std::fmt;

use serde_json::{Map, Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::{LookupSpan, Scope};

/// The keys of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// `json` (fields), `level`, `msg`, `ts`, as the Go services write them.
    Flyte,
    /// `data` (fields), `message`, `severity`, `timestamp`, as Google's log collector reads them.
    Gcp,
}

/// Formats log records.
pub struct RecordFormat {
    pub layout: Layout,
    pub show_source: bool,
}

/// The message and the fields of an event and of its spans.
#[derive(Default)]
struct Content {
    message: String,
    fields: Map<String, Value>,
}

impl<S, N> FormatEvent<S, N> for RecordFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, cx: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut content = Content::default();
        // The fields of spans come first, so that fields of the event replace them.
        for span in cx.event_scope().into_iter().flat_map(Scope::from_root) {
            let extensions = span.extensions();
            let fields = extensions.get::<FormattedFields<N>>().map(|fields| serde_json::from_str(fields));
            if let Some(Ok(Value::Object(fields))) = fields {
                content.fields.extend(fields);
            }
        }
        event.record(&mut content);
        let metadata = event.metadata();
        content.fields.insert("target".into(), metadata.target().into());
        if let (true, Some(file)) = (self.show_source, metadata.file()) {
            let line = metadata.line().unwrap_or_default();
            content.fields.insert("src".into(), format!("{file}:{line}").into());
        }
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        writeln!(writer, "{}", self.layout.record(&content, *metadata.level(), &time))
    }
}

impl Layout {
    fn record(self, content: &Content, level: Level, time: &str) -> Value {
        let name = match level {
            Level::ERROR => "error",
            Level::WARN => "warning",
            Level::INFO => "info",
            Level::DEBUG => "debug",
            Level::TRACE => "trace",
        };
        match self {
            Self::Flyte => json!({"json": content.fields, "level": name, "msg": content.message, "ts": time}),
            Self::Gcp => {
                let severity = if level == Level::TRACE { "DEBUG".into() } else { name.to_uppercase() };
                json!({"data": content.fields, "message": content.message, "severity": severity, "timestamp": time})
            }
        }
    }
}

impl Content {
    fn put(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("message", Value::String(text)) => self.message = text,
            (name, value) => {
                // The field of a raw identifier such as `r#type` is named `type`.
                self.fields.insert(name.trim_start_matches("r#").to_owned(), value);
            }
        }
    }
}

impl Visit for Content {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field, value.to_string().into());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::format::JsonFields;

    use super::*;

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn written(layout: Layout) -> Vec<Value> {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let subscriber = tracing_subscriber::fmt()
            .fmt_fields(JsonFields::new())
            .event_format(RecordFormat { layout, show_source: false })
            .with_writer(move || writer.clone())
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let span = tracing::info_span!("round", action = "a0", attempt = 2, phase = tracing::field::Empty);
            let _entered = span.enter();
            span.record("phase", "Running");
            tracing::warn!(attempt = 3, error = %"no such pod", "cannot look: \"{}\"", "pod");
        });
        let bytes = buffer.0.lock().unwrap();
        std::str::from_utf8(&bytes).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_record_is_one_line_with_the_fields_of_span_and_event() {
        let records = written(Layout::Flyte);
        assert_eq!(records.len(), 1);
        let record = &records[0];
        let fields = json!({"action": "a0", "attempt": 3, "phase": "Running", "error": "no such pod",
            "target": "aileron::process::logging::record::tests"});
        assert_eq!(record["json"], fields);
        assert_eq!((&record["level"], &record["msg"]), (&json!("warning"), &json!("cannot look: \"pod\"")));
        assert!(record["ts"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn the_gcp_layout_has_googles_keys() {
        let record = &written(Layout::Gcp)[0];
        assert_eq!((&record["severity"], &record["message"]), (&json!("WARNING"), &json!("cannot look: \"pod\"")));
        assert_eq!(record["data"]["action"], "a0");
    }
}

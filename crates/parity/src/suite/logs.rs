//! Keeps the log records of executors in this process, to show them when a suite fails.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// How many lines are kept: enough for a failed suite while other suites log too.
const LINES: usize = 20_000;

/// The last lines that were logged.
#[derive(Clone, Debug, Default)]
pub struct Logs {
    lines: Arc<Mutex<VecDeque<String>>>,
}

impl Logs {
    /// Starts to keep the log records of this process. A process has one subscriber, so every call returns the same value.
    pub fn keep() -> Self {
        static KEPT: OnceLock<Logs> = OnceLock::new();
        KEPT.get_or_init(|| {
            let logs = Self::default();
            let filter = EnvFilter::new("warn,aileron_executor=debug,aileron_parity=info");
            // If the test has installed another subscriber before, records go there instead.
            let _ =
                tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(logs.clone()).try_init();
            logs
        })
        .clone()
    }

    /// The lengths of all kept lines that contain `text`.
    pub fn lengths_about(&self, text: &str) -> Vec<usize> {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().filter(|line| line.contains(text)).map(String::len).collect()
    }

    /// The last `count` lines that contain `text`.
    pub fn about(&self, text: &str, count: usize) -> String {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<_> = lines.iter().rev().filter(|line| line.contains(text)).take(count).cloned().collect();
        found.reverse();
        found.concat()
    }
}

impl io::Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push_back(String::from_utf8_lossy(bytes).into_owned());
        if lines.len() > LINES {
            lines.pop_front();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Logs {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

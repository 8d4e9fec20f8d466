//! What a container writes: lines with their times, for the API and in a file.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;

use jiff::Timestamp;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

use crate::logs::{LogLine, PodLogs};

/// A line that is longer is cut into several: one that never ends must not fill the memory.
const LONGEST_LINE: usize = 256 * 1024;
/// A file of this size is put aside and the one put aside before is dropped, as a kubelet does.
const LARGEST_FILE: u64 = 10 * 1024 * 1024;
/// What the kubelet takes of a log as the message of a container that failed.
const TAIL_LINES: usize = 80;
const TAIL_BYTES: usize = 2048;

/// The log of one life of a container.
#[derive(Debug)]
pub(crate) struct Output {
    logs: PodLogs,
    uid: String,
    container: String,
    path: PathBuf,
    file: File,
    written: u64,
    partial: Vec<u8>,
}

impl Output {
    /// A new log: what was there for the API becomes the previous one.
    pub(crate) fn create(logs: &PodLogs, uid: &str, container: &str, path: PathBuf) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let file = File::create(&path)?;
        logs.start(uid, container);
        let (uid, container) = (uid.to_owned(), container.to_owned());
        Ok(Self { logs: logs.clone(), uid, container, path, file, written: 0, partial: Vec::new() })
    }

    /// Takes all that comes until nobody can write any more.
    pub(crate) async fn fill(&mut self, mut from: pipe::Receiver) {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            match from.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(count) => self.take(&buffer[..count], Timestamp::now()),
            }
        }
    }

    fn take(&mut self, mut bytes: &[u8], now: Timestamp) {
        let mut written = Vec::new();
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            self.line(now, &mut written);
        }
        self.partial.extend_from_slice(bytes);
        if self.partial.len() > LONGEST_LINE {
            self.line(now, &mut written);
        }
        self.store(&written);
    }

    fn line(&mut self, time: Timestamp, written: &mut Vec<u8>) {
        let text = String::from_utf8_lossy(&self.partial).into_owned();
        self.partial.clear();
        written.extend_from_slice(format!("{time:.9} {text}\n").as_bytes());
        self.logs.append(&self.uid, &self.container, LogLine { time, text });
    }

    /// A disk that is full must not stop the container: the API still has the lines.
    fn store(&mut self, bytes: &[u8]) {
        if self.written > LARGEST_FILE {
            let _ = fs::rename(&self.path, self.path.with_extension("log.1"));
            if let Ok(file) = File::create(&self.path) {
                self.file = file;
                self.written = 0;
            }
        }
        if self.file.write_all(bytes).is_ok() {
            self.written += bytes.len() as u64;
        }
    }

    /// The container ended.
    pub(crate) fn finish(mut self) {
        if !self.partial.is_empty() {
            let mut written = Vec::new();
            self.line(Timestamp::now(), &mut written);
            self.store(&written);
        }
        self.logs.end(&self.uid, &self.container);
    }
}

/// The last lines of a container, as much as the kubelet takes for a message.
pub(crate) fn tail(logs: &PodLogs, uid: &str, container: &str) -> String {
    let lines = logs.lines(uid, container);
    let mut tail = String::new();
    for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
        tail.push_str(&line.text);
        tail.push('\n');
    }
    let mut cut = tail.len().saturating_sub(TAIL_BYTES);
    while !tail.is_char_boundary(cut) {
        cut += 1;
    }
    tail.split_off(cut)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_from_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let logs = PodLogs::default();
        let mut output = Output::create(&logs, "u", "c", dir.path().join("x/0.log")).unwrap();
        let now = Timestamp::from_second(0).unwrap();
        for piece in ["a", "b\n\nc", "d\n", "tail"] {
            output.take(piece.as_bytes(), now);
        }
        output.finish();
        assert_eq!(tail(&logs, "u", "c"), "ab\n\ncd\ntail\n");
        let lines: Vec<_> = logs.lines("u", "c").into_iter().map(|line| line.text).collect();
        assert_eq!(lines, ["ab", "", "cd", "tail"]);
        let file = fs::read_to_string(dir.path().join("x/0.log")).unwrap();
        assert!(file.starts_with("1970-01-01T00:00:00.000000000Z ab\n"), "{file}");
    }

    #[test]
    fn a_line_without_an_end_is_cut_and_a_message_is_short() {
        let dir = tempfile::tempdir().unwrap();
        let logs = PodLogs::default();
        let mut output = Output::create(&logs, "u", "c", dir.path().join("0.log")).unwrap();
        output.take(&vec![b'x'; LONGEST_LINE + 1], Timestamp::UNIX_EPOCH);
        assert_eq!(logs.lines("u", "c").len(), 1);
        output.finish();
        assert_eq!(tail(&logs, "u", "c").len(), TAIL_BYTES);
    }
}

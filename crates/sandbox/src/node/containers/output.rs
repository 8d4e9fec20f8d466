//! Output of a container: lines with timestamps, for the logs of the API server and in a file.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use aileron_apiserver::{LogLine, PodLogs};
use jiff::Timestamp;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

/// Longest line. A longer one is split, so that output without line breaks cannot fill the memory.
const MAX_LINE_BYTES: usize = 256 * 1024;
/// A log file of this size is renamed and a new one is started; the previously renamed file is deleted. A kubelet does
/// the same.
const MAX_FILE_BYTES: u64 = 10 * 1024 * 1024;
/// Maximum number of log lines in the termination message of a failed container, as in a kubelet.
const TAIL_LINES: usize = 80;
/// Maximum length of the log in the termination message, as in a kubelet.
const TAIL_BYTES: usize = 2048;

/// The log of one run of a container.
#[derive(Debug)]
pub(crate) struct Output {
    logs: PodLogs,
    uid: String,
    container: String,
    path: PathBuf,
    file: File,
    /// Size of the current file.
    written: u64,
    /// The beginning of a line whose end has not been written yet.
    partial: Vec<u8>,
}

/// Creates an empty log file that only its owner can read. An earlier file is replaced, so that its permissions do not
/// apply to the new one.
fn create_file(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::options().write(true).create_new(true).mode(0o600).open(path)
}

impl Output {
    /// Starts a new log. The log of an earlier run becomes the previous log.
    pub(crate) fn create(logs: &PodLogs, uid: &str, container: &str, path: PathBuf) -> io::Result<Self> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let file = create_file(&path)?;
        logs.start(uid, container);
        let (uid, container) = (uid.to_owned(), container.to_owned());
        Ok(Self { logs: logs.clone(), uid, container, path, file, written: 0, partial: Vec::new() })
    }

    /// Reads the output until all writers have closed it.
    pub(crate) async fn read_all(&mut self, mut from: pipe::Receiver) {
        let mut buffer = vec![0; 16 * 1024];
        loop {
            match from.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(count) => self.append(&buffer[..count], Timestamp::now()),
            }
        }
    }

    /// Splits the bytes into lines and stores them.
    fn append(&mut self, mut bytes: &[u8], now: Timestamp) {
        let mut written = Vec::new();
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.partial.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            self.end_line(now, &mut written);
        }
        self.partial.extend_from_slice(bytes);
        if self.partial.len() > MAX_LINE_BYTES {
            self.end_line(now, &mut written);
        }
        self.write_file(&written);
    }

    /// Ends the current line.
    fn end_line(&mut self, time: Timestamp, written: &mut Vec<u8>) {
        let text = String::from_utf8_lossy(&self.partial).into_owned();
        self.partial.clear();
        written.extend_from_slice(format!("{time:.9} {text}\n").as_bytes());
        self.logs.append(&self.uid, &self.container, LogLine { time, text });
    }

    /// Writes to the file. Errors are ignored: a full disk must not stop the container, and the API server has the
    /// lines.
    fn write_file(&mut self, bytes: &[u8]) {
        if self.written > MAX_FILE_BYTES {
            let _ = fs::rename(&self.path, self.path.with_extension("log.1"));
            if let Ok(file) = create_file(&self.path) {
                self.file = file;
                self.written = 0;
            }
        }
        if self.file.write_all(bytes).is_ok() {
            self.written += bytes.len() as u64;
        }
    }

    /// Ends the log after the container has terminated.
    pub(crate) fn finish(mut self) {
        if !self.partial.is_empty() {
            let mut written = Vec::new();
            self.end_line(Timestamp::now(), &mut written);
            self.write_file(&written);
        }
        self.logs.end(&self.uid, &self.container);
    }
}

/// The last lines of a container for its termination message.
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
    fn lines_are_assembled_from_pieces() {
        let dir = tempfile::tempdir().unwrap();
        let logs = PodLogs::default();
        let mut output = Output::create(&logs, "u", "c", dir.path().join("x/0.log")).unwrap();
        let now = Timestamp::from_second(0).unwrap();
        for piece in ["a", "b\n\nc", "d\n", "tail"] {
            output.append(piece.as_bytes(), now);
        }
        output.finish();
        assert_eq!(tail(&logs, "u", "c"), "ab\n\ncd\ntail\n");
        let lines: Vec<_> = logs.lines("u", "c").into_iter().map(|line| line.text).collect();
        assert_eq!(lines, ["ab", "", "cd", "tail"]);
        let file = fs::read_to_string(dir.path().join("x/0.log")).unwrap();
        assert!(file.starts_with("1970-01-01T00:00:00.000000000Z ab\n"), "{file}");
    }

    #[test]
    fn other_users_cannot_read_a_log_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.log");
        for _ in 0..2 {
            Output::create(&PodLogs::default(), "u", "c", path.clone()).unwrap();
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        }
    }

    #[test]
    fn a_long_line_is_split_and_a_termination_message_is_short() {
        let dir = tempfile::tempdir().unwrap();
        let logs = PodLogs::default();
        let mut output = Output::create(&logs, "u", "c", dir.path().join("0.log")).unwrap();
        output.append(&vec![b'x'; MAX_LINE_BYTES + 1], Timestamp::UNIX_EPOCH);
        assert_eq!(logs.lines("u", "c").len(), 1);
        output.finish();
        assert_eq!(tail(&logs, "u", "c").len(), TAIL_BYTES);
    }
}

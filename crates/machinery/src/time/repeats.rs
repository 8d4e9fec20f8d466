//! Messages that repeat: the first one is written at once, the same text again only after a while.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// How many texts are remembered. During an outage a process has a handful of different errors. Texts that contain a number,
/// such as a resource version, may all differ; then the oldest one is forgotten.
const MAX_TEXTS: usize = 64;

/// The messages that were written lately. Retries of the same failed request would otherwise fill the log.
///
/// ```
/// use std::time::{Duration, Instant};
/// use aileron_machinery::time::repeats::Repeats;
///
/// let mut repeats = Repeats::every(Duration::from_secs(30));
/// let start = Instant::now();
/// let mut seen = |seconds| repeats.seen("connection refused", start + Duration::from_secs(seconds));
/// assert_eq!([seen(0), seen(1), seen(2), seen(30)], [Some(0), None, None, Some(2)]);
/// ```
#[derive(Debug)]
pub struct Repeats {
    interval: Duration,
    texts: HashMap<String, Written>,
}

#[derive(Debug)]
struct Written {
    at: Instant,
    left_out: u64,
}

impl Repeats {
    /// The same text is written at most once per interval.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use aileron_machinery::time::repeats::Repeats;
    ///
    /// let mut repeats = Repeats::every(Duration::from_secs(30));
    /// assert_eq!(repeats.seen("no route to host", Instant::now()), Some(0));
    /// ```
    #[must_use]
    pub fn every(interval: Duration) -> Self {
        Self { interval, texts: HashMap::new() }
    }

    /// Whether a message with this text is written now, and how many with the same text were left out since the last one.
    /// `None`: it is left out.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use aileron_machinery::time::repeats::Repeats;
    ///
    /// let (mut repeats, now) = (Repeats::every(Duration::from_secs(30)), Instant::now());
    /// assert_eq!(repeats.seen("pods is forbidden", now), Some(0));
    /// assert_eq!(repeats.seen("pods is forbidden", now), None);
    /// assert_eq!(repeats.seen("leases is forbidden", now), Some(0));
    /// ```
    pub fn seen(&mut self, text: &str, now: Instant) -> Option<u64> {
        if let Some(written) = self.texts.get_mut(text) {
            if now.saturating_duration_since(written.at) < self.interval {
                written.left_out += 1;
                return None;
            }
            let left_out = std::mem::take(&mut written.left_out);
            written.at = now;
            return Some(left_out);
        }
        if self.texts.len() >= MAX_TEXTS {
            let oldest = self.texts.iter().min_by_key(|(_, written)| written.at).map(|(text, _)| text.clone());
            oldest.and_then(|text| self.texts.remove(&text));
        }
        self.texts.insert(text.to_owned(), Written { at: now, left_out: 0 });
        Some(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_remembered_texts_is_bounded() {
        let (mut repeats, start) = (Repeats::every(Duration::from_secs(30)), Instant::now());
        for number in 0..1000 {
            let now = start + Duration::from_millis(number);
            assert_eq!(repeats.seen(&format!("version {number} is too old"), now), Some(0));
            assert!(repeats.texts.len() <= MAX_TEXTS);
        }
        let now = start + Duration::from_secs(1);
        assert_eq!(repeats.seen("version 999 is too old", now), None, "the newest text is remembered");
        assert_eq!(repeats.seen("version 0 is too old", now), Some(0), "the oldest one is not");
    }
}

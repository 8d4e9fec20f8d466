//! Durations as text.

use std::time::Duration;

use jiff::Timestamp;

/// A duration in at most two units, as kubectl shows ages: `119s`, `2m5s`, `3h`.
pub fn age(span: Duration) -> String {
    let seconds = span.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 if !seconds.is_multiple_of(60) => format!("{minutes}m{}s", seconds % 60),
        120..10_800 => format!("{minutes}m"),
        10_800..28_800 if !minutes.is_multiple_of(60) => format!("{hours}h{}m", minutes % 60),
        10_800..172_800 => format!("{hours}h"),
        172_800..691_200 if !hours.is_multiple_of(24) => format!("{days}d{}h", hours % 24),
        _ => format!("{days}d"),
    }
}

/// A duration with tenths of a second below one minute: `1.2s`, `1m01s`, `2h03m`.
pub fn precise(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0..60 => {
            // Rounded down: otherwise a task could seem to reach its time limit before it does.
            format!("{seconds}.{}s", span.subsec_millis() / 100)
        }
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

/// The time from `from` to `to`; zero if `to` is earlier, which happens when two clocks disagree.
pub fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_those_of_kubectl() {
        let expected = [
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (599, "9m59s"),
            (601, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (11_000, "3h3m"),
            (28_801, "8h"),
            (172_799, "47h"),
            (172_800, "2d"),
            (180_000, "2d2h"),
            (700_000, "8d"),
        ];
        for (seconds, text) in expected {
            assert_eq!(age(Duration::from_secs(seconds)), text, "{seconds}");
        }
    }

    #[test]
    fn a_precise_duration_has_tenths_below_one_minute() {
        for (millis, text) in [
            (0, "0.0s"),
            (99, "0.0s"),
            (1_250, "1.2s"),
            (59_999, "59.9s"),
            (61_000, "1m01s"),
            (3_599_000, "59m59s"),
            (7_380_000, "2h03m"),
        ] {
            assert_eq!(precise(Duration::from_millis(millis)), text, "{millis}");
        }
    }

    #[test]
    fn a_duration_is_never_negative() {
        let later = Timestamp::UNIX_EPOCH + jiff::SignedDuration::from_secs(5);
        assert_eq!(between(Timestamp::UNIX_EPOCH, later), Duration::from_secs(5));
        assert_eq!(between(later, Timestamp::UNIX_EPOCH), Duration::ZERO);
    }
}

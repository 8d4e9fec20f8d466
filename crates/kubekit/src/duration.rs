//! Durations as Go writes them: `1h30m0s`, `1.5s`, `100ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

/// A span of time in nanoseconds, with the text form of Go's `time.Duration`.
///
/// It reads from a text or from a number of nanoseconds, and is written as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(pub i64);

/// Why a text is not a duration, in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseDurationError {
    /// Not numbers with units, or more than about 292 years.
    #[error("time: invalid duration {0:?}")]
    Invalid(String),
    /// A number without its unit.
    #[error("time: missing unit in duration {0:?}")]
    MissingUnit(String),
    /// A unit other than `ns us ms s m h`.
    #[error("time: unknown unit {unit:?} in duration {text:?}")]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000 * MICROSECOND;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

impl GoDuration {
    /// So many nanoseconds.
    pub const fn from_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// So many whole seconds, at most what fits.
    pub const fn from_secs(seconds: i64) -> Self {
        Self(seconds.saturating_mul(SECOND as i64))
    }

    /// Nanoseconds.
    pub const fn as_nanos(self) -> i64 {
        self.0
    }

    /// Seconds with their fraction.
    pub fn as_secs_f64(self) -> f64 {
        let second = SECOND as i64;
        (self.0 / second) as f64 + (self.0 % second) as f64 / SECOND as f64
    }

    /// Whether there is no time at all.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The same span, `None` if it is negative.
    pub fn to_std(self) -> Option<Duration> {
        u64::try_from(self.0).ok().map(Duration::from_nanos)
    }
}

impl From<Duration> for GoDuration {
    fn from(duration: Duration) -> Self {
        Self(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX))
    }
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&text(self.0))
    }
}

fn text(nanos: i64) -> String {
    let total = nanos.unsigned_abs();
    let sign = if nanos < 0 { "-" } else { "" };
    match total {
        0 => "0s".to_owned(),
        1..MICROSECOND => format!("{sign}{total}ns"),
        MICROSECOND..MILLISECOND => format!("{sign}{}µs", decimal(total, MICROSECOND)),
        MILLISECOND..SECOND => format!("{sign}{}ms", decimal(total, MILLISECOND)),
        SECOND..MINUTE => format!("{sign}{}s", decimal(total, SECOND)),
        MINUTE..HOUR => format!("{sign}{}m{}s", total / MINUTE, decimal(total % MINUTE, SECOND)),
        HOUR.. => format!("{sign}{}h{}m{}s", total / HOUR, total % HOUR / MINUTE, decimal(total % MINUTE, SECOND)),
    }
}

/// `nanos` in the unit, with as many fraction digits as it has.
fn decimal(nanos: u64, unit: u64) -> String {
    let (whole, fraction) = (nanos / unit, nanos % unit);
    if fraction == 0 {
        return whole.to_string();
    }
    let width = unit.ilog10() as usize;
    let digits = format!("{fraction:0width$}");
    format!("{whole}.{}", digits.trim_end_matches('0'))
}

impl FromStr for GoDuration {
    type Err = ParseDurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || ParseDurationError::Invalid(text.to_owned());
        let negative = text.starts_with('-');
        let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
        if rest == "0" {
            return Ok(Self(0));
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        // The smallest i64 has no positive counterpart, so the sum is taken without sign and may be one larger.
        let limit = i64::MAX as u64 + u64::from(negative);
        let mut total = 0_u64;
        while !rest.is_empty() {
            let nanos;
            (nanos, rest) = term(rest, text)?;
            total = total.checked_add(nanos).filter(|total| *total <= limit).ok_or_else(invalid)?;
        }
        let nanos = if negative { 0_i64.checked_sub_unsigned(total) } else { i64::try_from(total).ok() };
        nanos.map(Self).ok_or_else(invalid)
    }
}

/// One number with its unit from the front of `rest`, in nanoseconds.
fn term<'a>(rest: &'a str, text: &str) -> Result<(u64, &'a str), ParseDurationError> {
    let invalid = || ParseDurationError::Invalid(text.to_owned());
    let digits_end = |s: &str| s.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(s.len());
    let (whole, after) = rest.split_at(digits_end(rest));
    let (fraction, after) = match after.strip_prefix('.') {
        Some(after) => after.split_at(digits_end(after)),
        None => ("", after),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(invalid());
    }
    let (unit, after) = after.split_at(after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len()));
    let unit = match unit {
        "ns" => 1,
        // Both the micro sign and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        "" => return Err(ParseDurationError::MissingUnit(text.to_owned())),
        unknown => {
            return Err(ParseDurationError::UnknownUnit { unit: unknown.to_owned(), text: text.to_owned() });
        }
    };
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
    let nanos = whole.checked_mul(unit).ok_or_else(invalid)?;
    let nanos = nanos.checked_add(fraction_nanos(fraction, unit)).ok_or_else(invalid)?;
    Ok((nanos, after))
}

/// `0.<digits>` of a unit, cut to whole nanoseconds.
fn fraction_nanos(digits: &str, unit: u64) -> u64 {
    // Go keeps the digits that fit a 63-bit number and drops the rest.
    let (mut value, mut scale) = (0_u64, 1_f64);
    for digit in digits.bytes().map(|byte| u64::from(byte - b'0')) {
        let Some(longer) = value.checked_mul(10).and_then(|v| v.checked_add(digit)).filter(|v| *v <= 1 << 63) else {
            break;
        };
        (value, scale) = (longer, scale * 10.0);
    }
    // Floating point on purpose: Go computes it this way and the last nanosecond depends on it.
    (value as f64 * (unit as f64 / scale)) as u64
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextOrNanos)
    }
}

struct TextOrNanos;

impl Visitor<'_> for TextOrNanos {
    type Value = GoDuration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"30s\" or \"1h30m\", or a number of nanoseconds")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<GoDuration, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, nanos: i64) -> Result<GoDuration, E> {
        Ok(GoDuration(nanos))
    }

    fn visit_u64<E: de::Error>(self, nanos: u64) -> Result<GoDuration, E> {
        i64::try_from(nanos)
            .map(GoDuration)
            .map_err(|_| E::custom(format_args!("{nanos} nanoseconds are too many; the most is {}", i64::MAX)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<i64, String> {
        text.parse::<GoDuration>().map(GoDuration::as_nanos).map_err(|error| error.to_string())
    }

    #[test]
    fn printed_as_go_prints() {
        for (nanos, want) in [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (100_000_000, "100ms"),
            (1_500_000_000, "1.5s"),
            (10_000_000_000, "10s"),
            (60_000_000_000, "1m0s"),
            (245_000_000_000, "4m5s"),
            (3_600_000_000_000, "1h0m0s"),
            (18_367_001_000_000, "5h6m7.001s"),
            (480_000_000_001, "8m0.000000001s"),
            (-1_500_000_000, "-1.5s"),
            (i64::MAX, "2562047h47m16.854775807s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(GoDuration(nanos).to_string(), want);
        }
    }

    #[test]
    fn parsed_as_go_parses() {
        for (text, want) in [
            ("0", 0),
            ("+0", 0),
            ("1h30m", 5_400_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("-1m", -60_000_000_000),
            ("10us", 10_000),
            ("10µs", 10_000),
            ("10μs", 10_000),
            ("1h15m30.918273645s", 4_530_918_273_645),
            ("0.3333333333333333333h", 1_200_000_000_000),
            ("9007199254.740993s", 9_007_199_254_740_993_000),
            ("-9223372036854775808ns", i64::MIN),
        ] {
            assert_eq!(parse(text), Ok(want), "{text}");
        }
    }

    #[test]
    fn refused_as_go_refuses() {
        for (text, want) in [
            ("", "time: invalid duration \"\""),
            ("-", "time: invalid duration \"-\""),
            (".s", "time: invalid duration \".s\""),
            ("3", "time: missing unit in duration \"3\""),
            ("1d", "time: unknown unit \"d\" in duration \"1d\""),
            ("1s ", "time: unknown unit \"s \" in duration \"1s \""),
            ("9223372036854775808ns", "time: invalid duration \"9223372036854775808ns\""),
        ] {
            assert_eq!(parse(text), Err(want.to_owned()), "{text}");
        }
    }

    #[test]
    fn serde_takes_text_and_nanoseconds() {
        let read = |json: &str| serde_json::from_str::<GoDuration>(json).unwrap();
        assert_eq!(read("\"30s\""), GoDuration::from_secs(30));
        assert_eq!(read("30000000000"), GoDuration::from_secs(30));
        assert_eq!(serde_json::to_string(&GoDuration::from_secs(90)).unwrap(), "\"1m30s\"");
        assert_eq!(GoDuration::from_secs(2).to_std(), Some(Duration::from_secs(2)));
        assert_eq!(GoDuration(-1).to_std(), None);
    }

    proptest! {
        #[test]
        fn text_round_trips(nanos in -4_000_000_000_000_000_i64..4_000_000_000_000_000) {
            let printed = GoDuration(nanos).to_string();
            prop_assert_eq!(parse(&printed), Ok(nanos));
        }

        #[test]
        fn arbitrary_text_never_panics(text in "\\PC{0,20}") {
            let _ = text.parse::<GoDuration>();
        }
    }
}

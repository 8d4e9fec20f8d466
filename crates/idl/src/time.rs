//! Times and durations of messages.

use jiff::SignedDuration;

/// A duration of a message. A duration beyond what the type holds becomes the longest that it holds.
pub fn signed_duration(duration: &prost_types::Duration) -> SignedDuration {
    SignedDuration::from_secs(duration.seconds).saturating_add(SignedDuration::from_nanos(duration.nanos.into()))
}

#[cfg(test)]
mod tests {
    use prost_types::Duration;

    use super::*;

    #[test]
    fn seconds_and_nanoseconds_are_added_and_the_sum_is_bounded() {
        assert_eq!(signed_duration(&Duration { seconds: 1, nanos: 500_000_000 }), SignedDuration::from_millis(1500));
        assert_eq!(signed_duration(&Duration { seconds: -1, nanos: -1 }), SignedDuration::new(-1, -1));
        assert_eq!(signed_duration(&Duration { seconds: i64::MAX, nanos: i32::MAX }), SignedDuration::MAX);
    }
}

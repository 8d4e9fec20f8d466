//! The labels of actions that have ended. The garbage collector finds actions by them.

use std::collections::BTreeMap;

use jiff::{Timestamp, tz::TimeZone};

/// Says that the action has ended.
pub const TERMINATION_STATUS: &str = "flyte.org/termination-status";
/// The only value of that label.
pub const TERMINATED: &str = "terminated";
/// When it ended, in UTC, to the minute.
pub const COMPLETED_TIME: &str = "flyte.org/completed-time";

/// The format of the time: allowed in a label, and sorted as text it is sorted by time.
const TIME_FORMAT: &str = "%Y-%m-%d.%H-%M";

/// The value of [`COMPLETED_TIME`] for an instant.
pub fn completed_time(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime(TIME_FORMAT).to_string()
}

/// Whether both labels exist.
pub fn are_terminal(labels: Option<&BTreeMap<String, String>>) -> bool {
    labels.is_some_and(|labels| {
        labels.get(TERMINATION_STATUS).is_some_and(|value| value == TERMINATED)
            && labels.get(COMPLETED_TIME).is_some_and(|value| !value.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_is_utc_to_the_minute() {
        let at: Timestamp = "2009-11-10T23:04:59Z".parse().expect("a time");
        assert_eq!(completed_time(at), "2009-11-10.23-04");
    }
}

//! Ages in the short form of `kubectl get`.

use jiff::Timestamp;

/// The time since `moment`: `5s`, `3m20s`, `4h`, `12d`. Mirrors `HumanDuration` of apimachinery.
pub(super) fn since(moment: &str, now: Timestamp) -> String {
    let Ok(moment) = moment.parse::<Timestamp>() else { return "<unknown>".to_owned() };
    let seconds = now.duration_since(moment).as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    let two = |whole: i64, unit: &str, rest: i64, small: &str| {
        if rest == 0 { format!("{whole}{unit}") } else { format!("{whole}{unit}{rest}{small}") }
    };
    match seconds {
        ..-1 => "<invalid>".to_owned(),
        -1..0 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => two(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => two(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_get_coarser_as_they_grow() {
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap_or(Timestamp::UNIX_EPOCH);
        for (moment, text) in [
            ("2025-12-31T23:59:00Z", "60s"),
            ("2025-12-31T23:55:00Z", "5m"),
            ("2025-12-31T23:54:58Z", "5m2s"),
            ("2025-12-31T20:00:00Z", "4h"),
            ("2025-12-29T12:00:00Z", "2d12h"),
            ("2025-12-01T00:00:00Z", "31d"),
            ("2020-01-01T00:00:00Z", "6y2d"),
            ("2026-01-01T00:00:05Z", "<invalid>"),
            ("never", "<unknown>"),
        ] {
            assert_eq!(since(moment, now), text, "{moment}");
        }
    }
}

//! Settings of the gate: the configuration sections `tasks.backoff` and `tasks.launch-gate`.

use std::time::Duration;

use crate::backoff::BackoffSettings;

/// The settings of a [`Gate`](super::Gate).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateSettings {
    /// `tasks.backoff`.
    pub backoff: BackoffSettings,
    /// `tasks.launch-gate.hold-after`: when the oldest waiting action of a namespace has waited this long, free quota is
    /// held for it.
    pub hold_after: Duration,
    /// `tasks.launch-gate.hold-for`: the longest time for which free quota is held without a break. Zero switches holding
    /// off.
    pub hold_for: Duration,
    /// `tasks.launch-gate.settle`, the settle time: quota that became free is used only after this time.
    pub settle: Duration,
}

impl Default for GateSettings {
    fn default() -> Self {
        Self {
            backoff: BackoffSettings::default(),
            hold_after: Duration::from_secs(60),
            hold_for: Duration::from_secs(600),
            settle: Duration::from_millis(150),
        }
    }
}

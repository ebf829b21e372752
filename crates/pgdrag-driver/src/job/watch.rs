//! How are the server's processes watched?

use serde::Deserialize;

use super::check_duration;

/// How to watch what the server's processes wait for.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchJob {
    /// Mean time between two looks; the gaps are drawn, so that nothing periodic is always met, or never.
    pub every_s: f64,
    /// Time between two lines.
    pub interval_s: f64,
}

impl WatchJob {
    pub(super) fn check(self) -> Result<(), String> {
        check_duration("watch.every_s", self.every_s)?;
        check_duration("watch.interval_s", self.interval_s)
    }
}

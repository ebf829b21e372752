//! What time is it, counted from the start of the job?
//!
//! All times of a run are [`Moment`]s of one monotonic clock: they compare as integers, threads can
//! share them through atomics, and a step of the system's clock does nothing to them.

use std::ops::{Add, Sub};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds since the clock began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Moment(pub u64);

impl Moment {
    /// Later than all others.
    pub const NEVER: Self = Self(u64::MAX);

    /// How long ago `earlier` was; nothing if it is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// In seconds.
    #[must_use]
    #[allow(clippy::cast_precision_loss)] // below a microsecond's hundredth in a year
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The moment that is `seconds` after the start of the clock.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a cast of a float saturates
    pub fn at_seconds(seconds: f64) -> Self {
        Self((seconds * 1e9).round() as u64)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    fn add(self, length: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl Sub<Duration> for Moment {
    type Output = Self;

    fn sub(self, length: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// A monotonic clock and its beginning.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
    /// The same moment as the kernel counts it.
    origin_ns: u64,
}

impl Clock {
    /// A clock that begins now.
    #[must_use]
    pub fn start() -> Self {
        Self { origin: Instant::now(), origin_ns: monotonic_ns() }
    }

    /// The time.
    #[must_use]
    pub fn now(self) -> Moment {
        Moment(monotonic_ns().saturating_sub(self.origin_ns))
    }

    /// A moment as the standard library and the runtime have it.
    #[must_use]
    pub fn instant(self, moment: Moment) -> Instant {
        // A century is never waited for, and is far below what overflows.
        self.origin + Duration::from_nanos(moment.0.min(3_000_000_000_000_000_000))
    }
}

/// Nanoseconds on the clock that [`Instant`] has, too, without its checks.
fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("Linux has a monotonic clock");
    // Neither part is negative.
    time.tv_sec().unsigned_abs() * 1_000_000_000 + time.tv_nsec().unsigned_abs()
}

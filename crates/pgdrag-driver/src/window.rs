//! When does the measured window end?
//!
//! Clients compare their own clock with the deadline, so that a commit is either within the window
//! or not, whoever learns of the end first. The deadline is declared ahead of time where it can be.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::job::RunJob;

/// What the threads of a run share while it is on.
#[derive(Debug)]
pub struct Window {
    start: Instant,
    /// Nanoseconds since the start; [`UNKNOWN`] until it is declared.
    deadline_ns: AtomicU64,
    commits: AtomicU64,
}

const UNKNOWN: u64 = u64::MAX;

impl Window {
    /// A window that starts at `start` and whose end is not known yet.
    #[must_use]
    pub fn new(start: Instant) -> Self {
        Self { start, deadline_ns: AtomicU64::new(UNKNOWN), commits: AtomicU64::new(0) }
    }

    /// When it started.
    #[must_use]
    pub fn start(&self) -> Instant {
        self.start
    }

    /// Lets everybody know the end.
    pub fn declare(&self, length: Duration) {
        let nanos = u64::try_from(length.as_nanos()).unwrap_or(UNKNOWN - 1);
        self.deadline_ns.store(nanos, Ordering::Release);
    }

    /// The end, once it is declared.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        match self.deadline_ns.load(Ordering::Acquire) {
            UNKNOWN => None,
            nanos => Some(self.start + Duration::from_nanos(nanos)),
        }
    }

    /// Whether `now` is after the end.
    #[must_use]
    pub fn is_over(&self, now: Instant) -> bool {
        self.deadline().is_some_and(|deadline| now > deadline)
    }

    /// `now`, or the end if that is earlier.
    #[must_use]
    pub fn clamp(&self, now: Instant) -> Instant {
        self.deadline().map_or(now, |deadline| now.min(deadline))
    }

    /// Counts a commit.
    pub fn add_commit(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
    }

    /// Commits up to now.
    #[must_use]
    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }
}

/// How long a window is to be.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    duration: Duration,
    budget: Duration,
    min_commits: u64,
}

/// The end is declared this much before the budget is spent, so that no client misses it.
const NOTICE: Duration = Duration::from_millis(20);

impl Plan {
    /// What the job asks for.
    #[must_use]
    pub fn new(job: &RunJob) -> Self {
        Self {
            duration: Duration::from_secs_f64(job.duration_s),
            budget: Duration::from_secs_f64(job.budget_s),
            min_commits: job.min_commits,
        }
    }

    /// The window's length, if it is known `elapsed` after the start.
    #[must_use]
    pub fn length(&self, elapsed: Duration, commits: u64) -> Option<Duration> {
        if commits >= self.min_commits {
            Some(elapsed.max(self.duration).min(self.budget))
        } else if elapsed + NOTICE >= self.budget {
            Some(self.budget)
        } else {
            None
        }
    }

    /// Whether the window is in its extension.
    #[must_use]
    pub fn is_extended(&self, elapsed: Duration) -> bool {
        elapsed >= self.duration && self.budget > self.duration
    }

    /// Why a window of this length, with so many commits, has ended.
    #[must_use]
    pub fn stopped_by(&self, length: Duration, commits: u64) -> &'static str {
        if commits < self.min_commits {
            "budget"
        } else if length > self.duration {
            "commits"
        } else {
            "deadline"
        }
    }

    /// How long to wait before asking for the length again.
    #[must_use]
    pub fn next_look(&self, elapsed: Duration) -> Duration {
        let until = |end: Duration| end.checked_sub(elapsed).filter(|left| !left.is_zero());
        // While it may still be extended, only the end of its duration needs to be met closely.
        let step = Duration::from_millis(if elapsed < self.duration { 50 } else { 5 });
        [until(self.duration), until(self.budget.saturating_sub(NOTICE))]
            .into_iter()
            .flatten()
            .fold(step, Duration::min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;

    #[test]
    fn the_length_is_known_as_soon_as_the_commits_are_there() {
        let plan = Plan { duration: S(10), budget: S(60), min_commits: 30 };
        // (elapsed, commits, length)
        for (elapsed, commits, length) in [
            (S(0), 0, None),
            (S(3), 30, Some(S(10))),  // enough already: ends on time
            (S(10), 29, None),        // one is missing: goes on
            (S(42), 30, Some(S(42))), // the last one has come: ends now
            (S(60), 29, Some(S(60))), // never beyond the budget
            (S(61), 30, Some(S(60))),
        ] {
            assert_eq!(plan.length(elapsed, commits), length, "{elapsed:?}, {commits}");
        }
    }

    #[test]
    fn the_end_of_the_budget_is_announced_before_it_comes() {
        let plan = Plan { duration: S(10), budget: S(10), min_commits: 30 };
        let mut elapsed = Duration::ZERO;
        while plan.length(elapsed, 0).is_none() {
            elapsed += plan.next_look(elapsed);
        }
        assert!(elapsed < S(10), "{elapsed:?}");
    }

    #[test]
    fn a_window_is_ended_by_its_length_its_commits_or_its_budget() {
        let plan = Plan { duration: S(10), budget: S(60), min_commits: 30 };
        assert_eq!(plan.stopped_by(S(10), 30), "deadline");
        assert_eq!(plan.stopped_by(S(42), 30), "commits");
        assert_eq!(plan.stopped_by(S(60), 29), "budget");
    }

    #[test]
    fn without_room_in_the_budget_nothing_is_extended() {
        let plan = Plan { duration: S(10), budget: S(10), min_commits: 30 };
        assert!(!plan.is_extended(S(10)));
        assert_eq!(plan.length(S(10), 0), Some(S(10)));
    }

    #[test]
    fn a_commit_after_the_deadline_is_outside() {
        let window = Window::new(Instant::now());
        assert!(!window.is_over(window.start() + S(1000)));
        window.declare(S(10));
        assert!(!window.is_over(window.start() + S(10)));
        assert!(window.is_over(window.start() + S(10) + Duration::from_nanos(1)));
        assert_eq!(window.clamp(window.start() + S(11)), window.start() + S(10));
    }
}

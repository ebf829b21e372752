//! When does the measured window open and end?
//!
//! Clients compare their own clock with the window, so that a commit is either within it or not,
//! whoever learns of the end first. Both ends are declared ahead of time, with one exception: where
//! a slow server gets more time until enough has committed, that last commit itself is the end; and
//! where each client runs a number of transactions, the last transaction is.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::io::clock::Moment;
use crate::job::RunJob;

/// An opening or an end that comes unforeseen is declared this much ahead, so that no client misses it.
pub const NOTICE: Duration = Duration::from_millis(20);

const UNKNOWN: u64 = u64::MAX;

/// Where a moment lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In the warm-up.
    Before,
    /// In the window.
    Within,
    /// After its end.
    After,
}

/// How far the clients are that run a number of transactions each.
#[derive(Debug)]
struct Shares {
    clients_left: AtomicU64,
    /// When the last of the others was through.
    through: AtomicU64,
    /// Whether one could not go on before it was through.
    is_partial: AtomicBool,
}

/// What the threads of a run share about its window.
#[derive(Debug)]
pub struct Window {
    duration: Duration,
    budget: Duration,
    min_commits: u64,
    opens: AtomicU64,
    /// Only ever moves to an earlier time.
    ends: AtomicU64,
    /// Counted until there are enough.
    commits: AtomicU64,
    /// When the last commit came that was needed.
    enough: AtomicU64,
    /// Where each client runs a number of transactions.
    shares: Option<Shares>,
    /// Up to here arrivals have been counted in an extension, which therefore does not end before.
    claimed: Mutex<Moment>,
    /// Told when a commit moves the end.
    moved: Notify,
}

impl Window {
    /// A window that is not open yet.
    #[must_use]
    pub fn new(job: &RunJob) -> Self {
        Self {
            duration: Duration::from_secs_f64(job.duration_s),
            budget: Duration::from_secs_f64(job.budget_s),
            min_commits: job.min_commits,
            opens: AtomicU64::new(UNKNOWN),
            ends: AtomicU64::new(UNKNOWN),
            commits: AtomicU64::new(0),
            enough: AtomicU64::new(if job.min_commits == 0 { 0 } else { UNKNOWN }),
            shares: job.transactions.map(|_| Shares::of(job.own_connections())),
            claimed: Mutex::default(),
            moved: Notify::new(),
        }
    }

    /// Declares the opening, and with it the latest end.
    pub fn open(&self, opening: Moment) {
        let length = if self.min_commits == 0 { self.duration } else { self.budget };
        // Whoever sees the opening sees an end as well.
        self.end_by(opening + length);
        self.opens.store(opening.0, Ordering::Release);
    }

    /// Declares an end; an earlier one that is known holds.
    pub fn end_by(&self, end: Moment) {
        self.ends.fetch_min(end.0, Ordering::AcqRel);
    }

    /// When it opens, once that is known.
    #[must_use]
    pub fn opening(&self) -> Option<Moment> {
        known(self.opens.load(Ordering::Acquire))
    }

    /// When it ends, as far as that is known.
    #[must_use]
    pub fn end(&self) -> Option<Moment> {
        known(self.ends.load(Ordering::Acquire))
    }

    /// Where a moment lies that is not in the future.
    #[must_use]
    pub fn place(&self, now: Moment) -> Place {
        if now.0 > self.ends.load(Ordering::Relaxed) {
            Place::After
        } else if now.0 >= self.opens.load(Ordering::Relaxed) {
            Place::Within
        } else {
            Place::Before
        }
    }

    /// Counts a commit within the window towards those that it needs; false if the window ended
    /// with another one.
    pub fn admit_commit(&self, now: Moment) -> bool {
        if self.min_commits == 0 {
            return true;
        }
        let regular_end = Moment(self.opens.load(Ordering::Relaxed)) + self.duration;
        if self.enough.load(Ordering::Relaxed) != UNKNOWN {
            return now <= regular_end;
        }
        let ordinal = self.commits.fetch_add(1, Ordering::Relaxed) + 1;
        if ordinal == self.min_commits {
            let claimed = self.lock_claimed();
            self.enough.store(now.0, Ordering::Relaxed);
            self.end_by(now.max(regular_end).max(*claimed));
            self.moved.notify_one();
        }
        ordinal <= self.min_commits || now <= regular_end
    }

    /// A client is through with its transactions; with the last client the window ends.
    pub fn client_is_through(&self, now: Moment) {
        let Some(shares) = &self.shares else { return };
        shares.through.fetch_max(now.0, Ordering::AcqRel);
        if shares.clients_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            let claimed = self.lock_claimed();
            let through = Moment(shares.through.load(Ordering::Acquire));
            self.end_by(through.max(*claimed));
            self.moved.notify_one();
        }
    }

    /// A client cannot go on; nobody waits for the rest of its transactions.
    pub fn client_is_lost(&self, now: Moment) {
        if let Some(shares) = &self.shares {
            shares.is_partial.store(true, Ordering::Release);
        }
        self.client_is_through(now);
    }

    /// The latest moment, `now` at most, before which the window will not end: up to there arrivals
    /// may be counted. It has opened.
    #[must_use]
    pub fn claim(&self, now: Moment) -> Moment {
        let is_ahead = self.extension().is_none_or(|extension| now <= extension);
        if is_ahead && self.shares.is_none() {
            // Such an end is declared ahead of time.
            return self.end().map_or(now, |end| now.min(end));
        }
        let mut claimed = self.lock_claimed();
        let now = self.end().map_or(now, |end| now.min(end));
        *claimed = now.max(*claimed);
        now
    }

    fn lock_claimed(&self) -> MutexGuard<'_, Moment> {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a commit has moved the end to an earlier time.
    pub async fn end_moved(&self) {
        self.moved.notified().await;
    }

    /// When the window goes on beyond its duration, unless enough commits by then.
    #[must_use]
    pub fn extension(&self) -> Option<Moment> {
        let is_possible = self.min_commits > 0 && self.budget > self.duration;
        self.opening().filter(|_| is_possible).map(|opening| opening + self.duration)
    }

    /// Why a window that was not stopped from outside has ended.
    #[must_use]
    pub fn stopped_by(&self) -> &'static str {
        if let Some(shares) = &self.shares
            && shares.clients_left.load(Ordering::Acquire) == 0
        {
            let is_partial = shares.is_partial.load(Ordering::Acquire);
            return if is_partial { "clients" } else { "transactions" };
        }
        let enough = self.enough.load(Ordering::Relaxed);
        let (Some(opening), Some(end)) = (self.opening(), self.end()) else { return "signal" };
        if enough == UNKNOWN {
            "budget"
        } else if end > opening + self.duration {
            "commits"
        } else if end < opening + self.duration {
            "caller"
        } else {
            "deadline"
        }
    }
}

impl Shares {
    fn of(clients: u32) -> Self {
        Self {
            clients_left: AtomicU64::new(clients.into()),
            through: AtomicU64::new(0),
            is_partial: AtomicBool::new(false),
        }
    }
}

fn known(nanos: u64) -> Option<Moment> {
    (nanos != UNKNOWN).then_some(Moment(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: fn(u64) -> Duration = Duration::from_secs;
    const OPENING: Moment = Moment(5_000_000_000);

    /// A window of 10 s that opens at 5 s.
    fn window(budget_s: u64, min_commits: u64) -> Window {
        let window = Window {
            duration: S(10),
            budget: S(budget_s),
            min_commits,
            opens: AtomicU64::new(UNKNOWN),
            ends: AtomicU64::new(UNKNOWN),
            commits: AtomicU64::new(0),
            enough: AtomicU64::new(if min_commits == 0 { 0 } else { UNKNOWN }),
            shares: None,
            claimed: Mutex::default(),
            moved: Notify::new(),
        };
        window.open(OPENING);
        window
    }

    fn length(window: &Window) -> Duration {
        window.end().expect("an end").since(OPENING)
    }

    #[test]
    fn a_moment_lies_before_within_or_after() {
        let window = window(10, 0);
        let tick = Duration::from_nanos(1);
        // (moment, place)
        for (moment, place) in [
            (OPENING - tick, Place::Before),
            (OPENING, Place::Within),
            (OPENING + S(10), Place::Within),
            (OPENING + S(10) + tick, Place::After),
        ] {
            assert_eq!(window.place(moment), place, "{moment:?}");
        }
    }

    #[test]
    fn with_enough_commits_in_time_the_window_ends_on_time() {
        let window = window(60, 3);
        assert_eq!(length(&window), S(60));
        // The last of the three comes a nanosecond before the regular end.
        let late = OPENING + S(10) - Duration::from_nanos(1);
        assert!([OPENING + S(1), OPENING + S(2), late].iter().all(|now| window.admit_commit(*now)));
        assert_eq!((length(&window), window.stopped_by()), (S(10), "deadline"));
        assert!(window.admit_commit(OPENING + S(10)));
    }

    #[test]
    fn an_extension_ends_with_its_last_commit_to_the_nanosecond() {
        let window = window(60, 3);
        assert!(window.admit_commit(OPENING + S(1)));
        assert!(window.admit_commit(OPENING + S(20)));
        assert!(window.admit_commit(OPENING + S(42)));
        assert_eq!((length(&window), window.stopped_by()), (S(42), "commits"));
        // Another client that committed at the same time, and has not seen the end.
        assert!(!window.admit_commit(OPENING + S(42)));
    }

    #[test]
    fn an_extension_does_not_end_before_what_was_counted_in_it() {
        let window = window(60, 1);
        assert_eq!(window.claim(OPENING + S(43)), OPENING + S(43));
        assert!(window.admit_commit(OPENING + S(42)));
        assert_eq!(length(&window), S(43));
        assert_eq!(window.claim(OPENING + S(44)), OPENING + S(43));
    }

    #[test]
    fn without_enough_commits_the_budget_is_the_end() {
        let window = window(60, 3);
        assert_eq!(window.extension(), Some(OPENING + S(10)));
        assert!(window.admit_commit(OPENING + S(59)));
        assert_eq!((length(&window), window.stopped_by()), (S(60), "budget"));
    }

    #[test]
    fn the_last_client_that_is_through_ends_the_window_whichever_tells_of_it_first() {
        let window = Window { shares: Some(Shares::of(3)), ..window(60, 0) };
        window.client_is_through(OPENING + S(3));
        window.client_is_through(OPENING + S(5));
        assert_eq!((length(&window), window.stopped_by()), (S(10), "deadline"));
        assert_eq!(window.claim(OPENING + S(2)), OPENING + S(2));
        window.client_is_through(OPENING + S(4));
        assert_eq!((length(&window), window.stopped_by()), (S(5), "transactions"));
        assert_eq!(window.claim(OPENING + S(6)), OPENING + S(5));
    }

    #[test]
    fn arrivals_that_were_counted_keep_the_window_of_the_last_client_open() {
        let window = Window { shares: Some(Shares::of(1)), ..window(60, 0) };
        assert_eq!(window.claim(OPENING + S(7)), OPENING + S(7));
        window.client_is_lost(OPENING + S(6));
        assert_eq!((length(&window), window.stopped_by()), (S(7), "clients"));
    }

    #[test]
    fn an_end_never_moves_to_a_later_time() {
        let window = window(60, 0);
        window.end_by(OPENING + S(3));
        window.end_by(OPENING + S(4));
        assert_eq!(length(&window), S(3));
        assert_eq!(window.extension(), None);
    }
}

//! How did the transactions of each type end, interval by interval, and how long did they take?
//!
//! Each worker thread has a [`Recorder`] of its own and hands over whole intervals, so that nothing
//! is locked when a transaction ends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

use crate::error::Error;
use crate::io::clock::Moment;

/// Latencies in microseconds, from 1 µs to 1 hour with three significant figures.
pub type Latencies = Histogram<u32>;

/// The longest latency that is told from longer ones.
const HOUR_US: u64 = 3_600_000_000;

/// An empty histogram of latencies.
#[must_use]
pub fn latencies() -> Latencies {
    Latencies::new_with_bounds(1, HOUR_US, 3).expect("these bounds are valid")
}

/// A duration in microseconds, as far as a histogram goes.
#[must_use]
pub fn whole_us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).clamp(1, HOUR_US)
}

/// Transactions of one type that gave up on one SQLSTATE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failures {
    /// How many.
    pub count: u64,
    /// What the first one said.
    pub message: String,
}

/// A server may call its errors what it likes; more different names than these count as [`OTHER`].
const SQLSTATES_MAX: usize = 50;
/// Errors whose names are too many to tell them apart.
pub const OTHER: &str = "other";

/// How the transactions of one type ended.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Transactions that began, or that a schedule offered.
    pub scheduled: u64,
    /// The server confirmed COMMIT.
    pub committed: u64,
    /// Rolled back by design.
    pub rolled_back: u64,
    /// Gave up on an error, by SQLSTATE.
    pub failed: BTreeMap<String, Failures>,
    /// Not finished at the end of the window.
    pub in_flight: u64,
    /// Gave way in a full queue.
    pub dropped: u64,
    /// Too old to begin when a client was free.
    pub skipped: u64,
    /// Attempts that failed and were tried again; not an end of a transaction.
    pub retried: u64,
    /// Attempts in all.
    pub tried: u64,
    /// Committed, but later than the job's limit; not an end of its own.
    pub over_limit: u64,
    /// Latencies of the committed ones; made with the first of them.
    pub latencies: Option<Latencies>,
}

impl Counts {
    /// All failures together.
    #[must_use]
    pub fn failed_total(&self) -> u64 {
        self.failed.values().map(|failures| failures.count).sum()
    }

    /// Adds what another thread or interval counted.
    pub fn merge(&mut self, other: &Self) {
        self.scheduled += other.scheduled;
        self.committed += other.committed;
        self.rolled_back += other.rolled_back;
        self.in_flight += other.in_flight;
        self.dropped += other.dropped;
        self.skipped += other.skipped;
        self.retried += other.retried;
        self.tried += other.tried;
        self.over_limit += other.over_limit;
        for (sqlstate, failures) in &other.failed {
            self.add_failures(sqlstate, failures.count, || failures.message.clone());
        }
        if let Some(theirs) = other.latencies.as_ref().filter(|theirs| !theirs.is_empty()) {
            let ours = self.latencies.get_or_insert_with(latencies);
            ours.add(theirs).expect("histograms have the same bounds");
        }
    }

    /// Forgets everything, and keeps the memory.
    fn clear(&mut self) {
        let mut latencies = self.latencies.take();
        if let Some(latencies) = latencies.as_mut().filter(|latencies| !latencies.is_empty()) {
            latencies.reset();
        }
        *self = Self { latencies, ..Self::default() };
    }

    /// Makes sure that every scheduled transaction ended in exactly one way.
    ///
    /// # Panics
    /// When they did not: the driver miscounted, and no number of it can be trusted.
    pub fn assert_balanced(&self, transaction: &str) {
        let failed = self.failed_total();
        let ended = self.committed
            + self.rolled_back
            + failed
            + self.in_flight
            + self.dropped
            + self.skipped;
        assert!(
            self.scheduled == ended,
            "{transaction}: scheduled {} != committed {} + rolled_back {} + failed {failed} + \
             in_flight {} + dropped {} + skipped {}",
            self.scheduled,
            self.committed,
            self.rolled_back,
            self.in_flight,
            self.dropped,
            self.skipped,
        );
        let measured = self.latencies.as_ref().map_or(0, Histogram::len);
        assert_eq!(measured, self.committed, "{transaction}: every commit has a latency");
    }

    fn add_failures(&mut self, sqlstate: &str, count: u64, message: impl FnOnce() -> String) {
        if let Some(known) = self.failed.get_mut(sqlstate) {
            known.count += count;
        } else if self.failed.len() < SQLSTATES_MAX || sqlstate == OTHER {
            self.failed.insert(sqlstate.to_owned(), Failures { count, message: message() });
        } else {
            self.add_failures(OTHER, count, message);
        }
    }
}

/// The executions of one statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Laps {
    /// Those that succeeded, and how long they took together.
    pub succeeded: u64,
    /// Their whole time.
    pub total: Duration,
    /// Those that failed, and with them the transaction.
    pub failed: u64,
    /// Those that failed and were tried again.
    pub retried: u64,
}

impl Laps {
    /// Adds what another thread counted.
    pub fn merge(&mut self, other: &Self) {
        self.succeeded += other.succeeded;
        self.total += other.total;
        self.failed += other.failed;
        self.retried += other.retried;
    }
}

/// One thread's counts of one interval, by transaction type.
#[derive(Debug)]
pub struct Batch {
    /// Intervals before this one.
    pub interval: u64,
    /// In the order of the workload's transactions.
    pub counts: Vec<Counts>,
}

/// Counts that were told of, to be used again: histograms are large.
#[derive(Debug, Clone, Default)]
pub struct Spare(Arc<Mutex<Vec<Vec<Counts>>>>);

/// More than these are not kept.
const SPARE_MAX: usize = 64;

impl Spare {
    fn take(&self, types: usize) -> Vec<Counts> {
        self.lock().pop().unwrap_or_else(|| vec![Counts::default(); types])
    }

    /// Takes counts back that nobody needs any more.
    pub fn give(&self, mut counts: Vec<Counts>) {
        counts.iter_mut().for_each(Counts::clear);
        let mut spare = self.lock();
        if spare.len() < SPARE_MAX {
            spare.push(counts);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<Counts>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts what one thread sees, and hands each interval over when it is complete.
pub struct Recorder<H> {
    length: Duration,
    interval: u64,
    /// When the interval that is being counted ends.
    ends: Moment,
    counts: Vec<Counts>,
    spare: Spare,
    hand_over: H,
}

impl<H: FnMut(Batch)> Recorder<H> {
    /// Counts in intervals of this length; [`Recorder::open`] comes first.
    pub fn new(length: Duration, types: usize, spare: Spare, hand_over: H) -> Self {
        let counts = spare.take(types);
        Self { length, interval: 0, ends: Moment::NEVER, counts, spare, hand_over }
    }

    /// Begins with the interval that begins at `opening`.
    pub fn open(&mut self, opening: Moment) {
        self.ends = opening + self.length;
    }

    /// Hands over the intervals that ended at or before `now`.
    pub fn advance(&mut self, now: Moment) {
        while now >= self.ends {
            self.hand_over_interval();
            // A sum of whole nanoseconds is exact, however many there are.
            self.ends = self.ends + self.length;
        }
    }

    /// Hands over what is left.
    pub fn finish(&mut self, end: Moment) {
        self.advance(end);
        self.hand_over_interval();
    }

    /// What the interval has counted about a type, to count more.
    pub fn of(&mut self, transaction: usize) -> &mut Counts {
        &mut self.counts[transaction]
    }

    /// The server confirmed COMMIT.
    pub fn committed(&mut self, transaction: usize, latency: Duration, is_over_limit: bool) {
        let counts = &mut self.counts[transaction];
        counts.committed += 1;
        counts.over_limit += u64::from(is_over_limit);
        counts.latencies.get_or_insert_with(latencies).saturating_record(whole_us(latency));
    }

    /// A transaction gave up.
    pub fn failed(&mut self, transaction: usize, error: &Error) {
        self.counts[transaction].add_failures(error.sqlstate(), 1, || error.to_string());
    }

    fn hand_over_interval(&mut self) {
        let next = self.spare.take(self.counts.len());
        let counts = std::mem::replace(&mut self.counts, next);
        (self.hand_over)(Batch { interval: self.interval, counts });
        self.interval += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const OPENING: Moment = Moment(7_000_000_000);

    fn record(script: impl FnOnce(&mut Recorder<&mut dyn FnMut(Batch)>)) -> Vec<Batch> {
        let mut batches = Vec::new();
        let mut push = |batch| batches.push(batch);
        let push = &mut push as &mut dyn FnMut(Batch);
        let mut recorder = Recorder::new(SECOND, 1, Spare::default(), push);
        recorder.open(OPENING);
        script(&mut recorder);
        batches
    }

    #[test]
    fn what_is_counted_on_the_boundary_belongs_to_the_next_interval() {
        let batches = record(|recorder| {
            recorder.of(0).scheduled += 1;
            recorder.advance(OPENING + SECOND * 2);
            recorder.committed(0, SECOND, false);
            recorder.finish(OPENING + SECOND * 5 / 2);
        });
        let committed: Vec<_> = batches.iter().map(|batch| batch.counts[0].committed).collect();
        assert_eq!(committed, [0, 0, 1]);
        assert_eq!(batches[0].counts[0].scheduled, 1);
    }

    #[test]
    fn merged_counts_keep_the_first_message_and_all_latencies() {
        let mut merged = Counts::default();
        for (message, us) in [("first", 10), ("second", 30)] {
            let batches = record(|recorder| {
                recorder.of(0).scheduled += 2;
                recorder.failed(0, &Error::Protocol(message.into()));
                recorder.committed(0, Duration::from_micros(us), us > 20);
                recorder.finish(OPENING);
            });
            merged.merge(&batches[0].counts[0]);
        }
        merged.assert_balanced("t");
        assert_eq!(merged.failed["08P01"], Failures { count: 2, message: "first".into() });
        assert_eq!(merged.latencies.as_ref().map(Histogram::max), Some(30));
        assert_eq!(merged.over_limit, 1);
    }

    #[test]
    fn counts_that_are_used_again_are_empty() {
        let spare = Spare::default();
        let batches = record(|recorder| {
            recorder.of(0).scheduled += 1;
            recorder.committed(0, SECOND, true);
            recorder.finish(OPENING);
        });
        spare.give(batches.into_iter().next().expect("a batch").counts);
        let counts = spare.take(1).remove(0);
        assert!(counts.latencies.as_ref().expect("kept").is_empty());
        assert_eq!((counts.scheduled, counts.committed, counts.over_limit), (0, 0, 0));
    }

    #[test]
    fn a_server_that_invents_sqlstates_fills_no_memory() {
        let mut counts = Counts::default();
        for number in 0..1000 {
            counts.add_failures(&format!("{number:05}"), 1, || "what".into());
        }
        assert_eq!(counts.failed.len(), SQLSTATES_MAX + 1);
        assert_eq!((counts.failed_total(), counts.failed[OTHER].count), (1000, 950));
    }

    #[test]
    #[should_panic(expected = "t: scheduled 1 != committed 0")]
    fn a_lost_transaction_is_a_panic() {
        Counts { scheduled: 1, ..Counts::default() }.assert_balanced("t");
    }

    #[test]
    fn a_latency_beyond_an_hour_is_an_hour() {
        assert_eq!(whole_us(Duration::from_secs(7200)), 3_600_000_000);
        assert_eq!(whole_us(Duration::ZERO), 1);
    }
}

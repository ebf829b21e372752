//! How did the transactions of each type end, interval by interval, and how long did they take?
//!
//! Each worker thread has a [`Recorder`] of its own and hands over whole intervals, so that nothing
//! is locked when a transaction ends.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::connection::Error;

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

/// How the transactions of one type ended.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Transactions that began, or that a rate's ticker offered.
    pub scheduled: u64,
    /// The server confirmed COMMIT.
    pub committed: u64,
    /// Rolled back by design.
    pub rolled_back: u64,
    /// Gave up on an error, by SQLSTATE.
    pub failed: BTreeMap<String, Failures>,
    /// Not finished at the end of the window.
    pub in_flight: u64,
    /// Refused by a full queue.
    pub dropped: u64,
    /// Attempts that failed and were tried again; not an end of a transaction.
    pub retried: u64,
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
        self.retried += other.retried;
        for (sqlstate, failures) in &other.failed {
            self.add_failures(sqlstate, failures.count, || failures.message.clone());
        }
        if let Some(theirs) = &other.latencies {
            let ours = self.latencies.get_or_insert_with(latencies);
            ours.add(theirs).expect("histograms have the same bounds");
        }
    }

    /// Makes sure that every scheduled transaction ended in exactly one way.
    ///
    /// # Panics
    /// When they did not: the driver miscounted, and no number of it can be trusted.
    pub fn assert_balanced(&self, transaction: &str) {
        let failed = self.failed_total();
        let ended = self.committed + self.rolled_back + failed + self.in_flight + self.dropped;
        assert!(
            self.scheduled == ended,
            "{transaction}: scheduled {} != committed {} + rolled_back {} + failed {failed} + \
             in_flight {} + dropped {}",
            self.scheduled,
            self.committed,
            self.rolled_back,
            self.in_flight,
            self.dropped
        );
        let measured = self.latencies.as_ref().map_or(0, Histogram::len);
        assert_eq!(measured, self.committed, "{transaction}: every commit has a latency");
    }

    fn add_failures(&mut self, sqlstate: &str, count: u64, message: impl FnOnce() -> String) {
        if let Some(known) = self.failed.get_mut(sqlstate) {
            known.count += count;
        } else {
            self.failed.insert(sqlstate.to_owned(), Failures { count, message: message() });
        }
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

/// Counts what one thread sees, and hands each interval over when it is complete.
pub struct Recorder<H> {
    start: Instant,
    length: Duration,
    interval: u64,
    counts: Vec<Counts>,
    hand_over: H,
}

impl<H: FnMut(Batch)> Recorder<H> {
    /// Starts with the interval that begins at `start`.
    pub fn new(start: Instant, length: Duration, types: usize, hand_over: H) -> Self {
        Self { start, length, interval: 0, counts: vec![Counts::default(); types], hand_over }
    }

    /// When the interval that is being counted ends.
    #[must_use]
    pub fn interval_end(&self) -> Instant {
        // The product is exact in nanoseconds, so that a thousand intervals end on time as well.
        let nanos = self.length.as_nanos() * u128::from(self.interval + 1);
        self.start + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Hands over the intervals that ended at or before `now`.
    pub fn advance(&mut self, now: Instant) {
        while now >= self.interval_end() {
            self.hand_over_interval();
        }
    }

    /// Hands over what is left.
    pub fn finish(&mut self, end: Instant) {
        self.advance(end);
        self.hand_over_interval();
    }

    /// A transaction began, or its arrival was disposed of.
    pub fn scheduled(&mut self, transaction: usize, now: Instant) {
        self.advance(now);
        self.counts[transaction].scheduled += 1;
    }

    /// An arrival was refused.
    pub fn dropped(&mut self, transaction: usize, now: Instant) {
        self.advance(now);
        self.counts[transaction].scheduled += 1;
        self.counts[transaction].dropped += 1;
    }

    /// The server confirmed COMMIT.
    pub fn committed(&mut self, transaction: usize, now: Instant, latency: Duration) {
        self.advance(now);
        let counts = &mut self.counts[transaction];
        counts.committed += 1;
        counts.latencies.get_or_insert_with(latencies).saturating_record(whole_us(latency));
    }

    /// A transaction was rolled back by design.
    pub fn rolled_back(&mut self, transaction: usize, now: Instant) {
        self.advance(now);
        self.counts[transaction].rolled_back += 1;
    }

    /// A transaction gave up.
    pub fn failed(&mut self, transaction: usize, now: Instant, error: &Error) {
        self.advance(now);
        self.counts[transaction].add_failures(error.sqlstate(), 1, || error.to_string());
    }

    /// An attempt failed and is tried again.
    pub fn retried(&mut self, transaction: usize, now: Instant) {
        self.advance(now);
        self.counts[transaction].retried += 1;
    }

    fn hand_over_interval(&mut self) {
        let counts = self.counts.iter_mut().map(std::mem::take).collect();
        (self.hand_over)(Batch { interval: self.interval, counts });
        self.interval += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn record(script: impl FnOnce(&mut Recorder<&mut dyn FnMut(Batch)>, Instant)) -> Vec<Batch> {
        let mut batches = Vec::new();
        let start = Instant::now();
        let mut push = |batch| batches.push(batch);
        script(&mut Recorder::new(start, SECOND, 1, &mut push as &mut dyn FnMut(Batch)), start);
        batches
    }

    #[test]
    fn a_transaction_counts_in_the_interval_in_which_it_ends() {
        let batches = record(|recorder, start| {
            recorder.scheduled(0, start);
            recorder.committed(0, start + SECOND * 5 / 2, SECOND * 5 / 2);
            recorder.finish(start + SECOND * 5 / 2);
        });
        let committed: Vec<_> = batches.iter().map(|batch| batch.counts[0].committed).collect();
        assert_eq!(committed, [0, 0, 1]);
        assert_eq!(batches[0].counts[0].scheduled, 1);
    }

    #[test]
    fn what_ends_on_the_boundary_belongs_to_the_next_interval() {
        let batches = record(|recorder, start| {
            recorder.scheduled(0, start + SECOND);
            recorder.finish(start + SECOND);
        });
        assert_eq!(batches.len(), 2);
        assert_eq!((batches[0].counts[0].scheduled, batches[1].counts[0].scheduled), (0, 1));
    }

    #[test]
    fn merged_counts_keep_the_first_message_and_all_latencies() {
        let mut merged = Counts::default();
        for (message, us) in [("first", 10), ("second", 30)] {
            let batches = record(|recorder, start| {
                recorder.scheduled(0, start);
                recorder.scheduled(0, start);
                recorder.failed(0, start, &Error::Protocol(message.into()));
                recorder.committed(0, start, Duration::from_micros(us));
                recorder.finish(start);
            });
            merged.merge(&batches[0].counts[0]);
        }
        merged.assert_balanced("t");
        assert_eq!(merged.failed["08P01"], Failures { count: 2, message: "first".into() });
        assert_eq!(merged.latencies.as_ref().map(Histogram::max), Some(30));
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

//! When does the next transaction arrive, and does it find room to wait?
//!
//! BenchBase's meaning of a rate: one global ticker offers transactions at equal distances, and
//! whichever client is free takes the oldest. What finds the queue full is dropped, and counted.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use crate::samples::{Latencies, latencies, whole_us};

/// A steady stream of arrivals: number `n` is due `n` / rate seconds after the start.
#[derive(Debug, Clone)]
pub struct Ticker {
    rate_per_s: f64,
    offered: u64,
}

impl Ticker {
    /// Starts a stream whose first arrival is due at once.
    #[must_use]
    pub fn new(rate_per_s: f64) -> Self {
        Self { rate_per_s, offered: 0 }
    }

    /// When the next arrival is due, counted from the start.
    #[must_use]
    pub fn next_due(&self) -> Duration {
        // Counted from the start each time: errors of rounding do not add up.
        #[allow(clippy::cast_precision_loss)]
        Duration::from_secs_f64(self.offered as f64 / self.rate_per_s)
    }

    /// Takes the next arrival if it is due `elapsed` after the start, and says when it was due.
    pub fn take_due(&mut self, elapsed: Duration) -> Option<Duration> {
        let due = self.next_due();
        (due <= elapsed).then(|| {
            self.offered += 1;
            due
        })
    }
}

/// Gives transaction types to arrivals that no client took, in proportion to the weights.
///
/// Each goes to the type that is furthest behind its share, so that no chance is needed.
#[derive(Debug, Clone)]
pub struct Shares {
    weights: Vec<f64>,
    given: Vec<f64>,
}

impl Shares {
    /// Starts with nothing given.
    #[must_use]
    pub fn new(weights: &[f64]) -> Self {
        let total: f64 = weights.iter().sum();
        let given = vec![0.0; weights.len()];
        Self { weights: weights.iter().map(|weight| weight / total).collect(), given }
    }

    /// The next arrival's type.
    pub fn next_type(&mut self) -> usize {
        let given: f64 = self.given.iter().sum::<f64>() + 1.0;
        let behind = |index: usize| self.weights[index] * given - self.given[index];
        let chosen = (0..self.weights.len())
            .max_by(|a, b| behind(*a).total_cmp(&behind(*b)))
            .expect("a workload has transactions");
        self.given[chosen] += 1.0;
        chosen
    }
}

/// Arrivals that wait for a free client, oldest first.
pub struct Queue {
    limit: usize,
    state: Mutex<State>,
    arrival: Notify,
}

struct State {
    waiting: VecDeque<Instant>,
    is_closed: bool,
    offered: u64,
    dropped: u64,
    longest: usize,
    waits: Latencies,
}

/// What the queue saw.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Arrivals {
    /// Offered by the ticker.
    pub scheduled: u64,
    /// Refused.
    pub dropped: u64,
    /// Most that waited at one time.
    pub max_queue: usize,
    /// 99th percentile of the time that an arrival waited.
    pub queue_us_p99: u64,
    /// The longest wait.
    pub queue_us_max: u64,
    /// Still waiting when the queue closed.
    pub left: u64,
}

impl Queue {
    /// An empty queue with room for `limit` arrivals.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let state = State {
            waiting: VecDeque::new(),
            is_closed: false,
            offered: 0,
            dropped: 0,
            longest: 0,
            waits: latencies(),
        };
        Self { limit, state: Mutex::new(state), arrival: Notify::new() }
    }

    /// Adds an arrival that was due at `due`; false if there is no room for it.
    pub fn offer(&self, due: Instant) -> bool {
        let mut state = self.lock();
        state.offered += 1;
        if state.waiting.len() >= self.limit {
            state.dropped += 1;
            return false;
        }
        state.waiting.push_back(due);
        state.longest = state.longest.max(state.waiting.len());
        drop(state);
        self.arrival.notify_one();
        true
    }

    /// Waits for an arrival and takes it; for ever once the queue is closed.
    pub async fn take(&self) {
        loop {
            if self.try_take(Instant::now()) {
                return;
            }
            self.arrival.notified().await;
        }
    }

    fn try_take(&self, now: Instant) -> bool {
        let mut state = self.lock();
        let Some(due) = state.waiting.pop_front() else { return false };
        state.waits.saturating_record(whole_us(now.saturating_duration_since(due)));
        if !state.waiting.is_empty() {
            // One permit can stand for several arrivals: pass it on.
            self.arrival.notify_one();
        }
        true
    }

    /// Ends the queue: what still waits has waited until `now`, and nobody takes it.
    pub fn close(&self, now: Instant) -> Arrivals {
        let mut state = self.lock();
        assert!(!state.is_closed, "a queue closes once");
        state.is_closed = true;
        let left = std::mem::take(&mut state.waiting);
        for due in &left {
            state.waits.saturating_record(whole_us(now.saturating_duration_since(*due)));
        }
        Arrivals {
            scheduled: state.offered,
            dropped: state.dropped,
            max_queue: state.longest,
            queue_us_p99: state.waits.value_at_quantile(0.99),
            queue_us_max: state.waits.max(),
            left: left.len() as u64,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn due_within(ticker: &mut Ticker, elapsed_s: f64) -> usize {
        let elapsed = Duration::from_secs_f64(elapsed_s);
        std::iter::from_fn(|| ticker.take_due(elapsed)).count()
    }

    #[test]
    fn arrivals_come_at_equal_distances() {
        // (rate, seconds, arrivals): the first one is due at once
        for (rate, seconds, arrivals) in
            [(1.0, 0.0, 1), (1.0, 0.9, 1), (1.0, 1.0, 2), (0.1, 25.0, 3), (1000.0, 2.0, 2001)]
        {
            assert_eq!(due_within(&mut Ticker::new(rate), seconds), arrivals, "rate {rate}");
        }
    }

    #[test]
    fn a_late_ticker_offers_what_it_missed() {
        let mut ticker = Ticker::new(10.0);
        assert_eq!(due_within(&mut ticker, 0.05), 1);
        assert_eq!(due_within(&mut ticker, 1.0), 10);
    }

    #[test]
    fn arrivals_beyond_the_limit_are_dropped_and_counted() {
        let (queue, now) = (Queue::new(2), Instant::now());
        assert_eq!([queue.offer(now), queue.offer(now), queue.offer(now)], [true, true, false]);
        assert!(queue.try_take(now + Duration::from_millis(5)));
        let seen = queue.close(now + Duration::from_millis(9));
        assert_eq!((seen.scheduled, seen.dropped, seen.max_queue, seen.left), (3, 1, 2, 1));
        assert!((8_900..=9_100).contains(&seen.queue_us_max), "{seen:?}");
    }

    #[test]
    fn an_offer_and_a_take_balance_when_two_wait() {
        let queue = Queue::new(10);
        let both = async { tokio::join!(queue.take(), queue.take()) };
        let offers = async { (queue.offer(Instant::now()), queue.offer(Instant::now())) };
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async { tokio::join!(both, offers) });
        assert_eq!(queue.close(Instant::now()).left, 0);
    }

    proptest! {
        #[test]
        fn every_type_gets_its_share_of_the_arrivals(
            weights in proptest::collection::vec(0.0..100.0_f64, 1..6),
            arrivals in 1_u32..500,
        ) {
            prop_assume!(weights.iter().sum::<f64>() > 0.0);
            let mut shares = Shares::new(&weights);
            let mut given = vec![0.0; weights.len()];
            (0..arrivals).for_each(|_| given[shares.next_type()] += 1.0);
            let total: f64 = weights.iter().sum();
            for (weight, given) in weights.iter().zip(given) {
                let share = weight / total * f64::from(arrivals);
                // Never a whole arrival off for each of the at most five types.
                prop_assert!((share - given).abs() < 5.0, "{given} of {share}");
            }
        }
    }
}

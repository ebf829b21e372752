//! What do the clients of one thread count together?
//!
//! What runs while the window opens counts as scheduled in it, and what runs at its end is in flight:
//! so a window in mid-load loses no more at its end than it gains at its beginning.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::error::Error;
use crate::io::clock::Moment;
use crate::io::process::{thread_cpu, thread_wait};
use crate::load::samples::{Batch, Laps, Latencies, Recorder, latencies, whole_us};
use crate::load::window::{Place, Window};
use crate::session::round_trips;
use crate::workload::{Ended, Lap};

/// What one client is doing, as far as the counts are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// Nothing that counts: it waits, rests or connects.
    Idle,
    /// An arrival of this moment is its own, and not begun.
    Reserved(Moment),
    /// A transaction of this type.
    Running(usize),
}

/// What a client does after a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It goes on.
    GoOn,
    /// It rests: it has run as many as it was to run.
    Rest,
    /// The window was over before the transaction ended.
    Stop,
}

/// What the coordinator may look at while the warm-up lasts.
#[derive(Debug, Default)]
pub(crate) struct Warmed {
    pub(crate) committed: AtomicU64,
    pub(crate) failed: AtomicU64,
}

/// What a thread found out about itself within the window, and about arrivals.
pub(crate) struct Insight {
    /// How late clients that were free began, by schedule.
    pub(crate) lateness: Latencies,
    /// How long arrivals waited until they were begun or the window ended.
    pub(crate) queued: Latencies,
    /// From the loop's wake-up to the end of the transaction that it woke up for.
    pub(crate) send_lag: Latencies,
    /// How late a timer fired.
    pub(crate) stalls: Latencies,
    /// How long it took to connect anew.
    pub(crate) connecting: Latencies,
    /// By statement, where they are told.
    pub(crate) laps: Vec<Laps>,
    /// Arrivals that began late because no client was free.
    pub(crate) late: u64,
    /// Transactions that the window counts, and that were due before it.
    pub(crate) carried: u64,
    /// CPU time of the thread over the window.
    pub(crate) cpu: Duration,
    /// How long the thread ran or waited for a processor; `None` where the kernel does not say.
    pub(crate) busy: Option<Duration>,
    /// Questions that were sent and answered in the window, however many statements were in each.
    pub(crate) round_trips: u64,
}

impl Insight {
    pub(crate) fn new() -> Self {
        Self {
            lateness: latencies(),
            queued: latencies(),
            send_lag: latencies(),
            stalls: latencies(),
            connecting: latencies(),
            laps: Vec::new(),
            late: 0,
            carried: 0,
            cpu: Duration::ZERO,
            busy: None,
            round_trips: 0,
        }
    }

    /// Adds what another thread found; of what a thread used, the larger counts.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (ours, theirs) in [
            (&mut self.lateness, &other.lateness),
            (&mut self.queued, &other.queued),
            (&mut self.send_lag, &other.send_lag),
            (&mut self.stalls, &other.stalls),
            (&mut self.connecting, &other.connecting),
        ] {
            ours.add(theirs).expect("histograms have the same bounds");
        }
        self.laps.resize(self.laps.len().max(other.laps.len()), Laps::default());
        self.laps.iter_mut().zip(&other.laps).for_each(|(ours, theirs)| ours.merge(theirs));
        self.late += other.late;
        self.carried += other.carried;
        self.cpu = self.cpu.max(other.cpu);
        self.busy = self.busy.max(other.busy);
        self.round_trips += other.round_trips;
    }
}

/// How an arrival got to its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// There is no schedule.
    Closed,
    /// It had waited for a free client.
    Waited(Moment),
    /// A free client had waited for it, and woke up so late.
    Awaited { due: Moment, late: Duration },
}

pub(crate) struct Tally {
    pub(crate) recorder: Recorder<Box<dyn FnMut(Batch)>>,
    pub(crate) insight: Insight,
    /// By transaction type.
    pub(crate) in_flight: Vec<u64>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) warmed: Arc<Warmed>,
    /// By slot: transactions that the client may still run.
    left: Vec<u64>,
    window: Arc<Window>,
    latency_limit: Option<Duration>,
    is_open: bool,
    cpu_at_opening: Duration,
    wait_at_opening: Option<Duration>,
    round_trips_at_opening: u64,
}

impl Tally {
    pub(crate) fn new(
        recorder: Recorder<Box<dyn FnMut(Batch)>>,
        window: Arc<Window>,
        types: usize,
        clients: usize,
        transactions: Option<u64>,
        latency_limit: Option<Duration>,
    ) -> Self {
        Self {
            recorder,
            insight: Insight::new(),
            in_flight: vec![0; types],
            slots: vec![Slot::Idle; clients],
            warmed: Arc::default(),
            left: vec![transactions.unwrap_or(u64::MAX); clients],
            window,
            latency_limit,
            is_open: false,
            cpu_at_opening: Duration::ZERO,
            wait_at_opening: None,
            round_trips_at_opening: 0,
        }
    }

    /// Brings the counts up to `now`, and says where that is.
    pub(crate) fn look(&mut self, now: Moment) -> Place {
        let place = match self.window.place(now) {
            // Another client has looked at the clock since, and found the window open.
            Place::Before if self.is_open => Place::Within,
            place => place,
        };
        match place {
            Place::Within => {
                if !self.is_open {
                    self.open();
                }
                self.recorder.advance(now);
            }
            Place::After if !self.is_open => self.open(),
            Place::Before | Place::After => {}
        }
        place
    }

    fn open(&mut self) {
        // A window that was given up before it opened has an end and no opening.
        let Some(opening) = self.window.opening() else { return };
        self.is_open = true;
        self.cpu_at_opening = thread_cpu();
        self.wait_at_opening = thread_wait();
        self.round_trips_at_opening = round_trips();
        self.recorder.open(opening);
        for slot in &self.slots {
            if let Slot::Running(transaction) = *slot {
                let counts = self.recorder.of(transaction);
                counts.scheduled += 1;
                counts.tried += 1;
                self.insight.carried += 1;
            }
        }
    }

    /// A client begins a transaction at `now`; false if the window is over.
    pub(crate) fn begin(
        &mut self,
        slot: usize,
        transaction: usize,
        origin: Origin,
        now: Moment,
    ) -> bool {
        let place = self.look(now);
        if place == Place::After {
            return false;
        }
        self.slots[slot] = Slot::Running(transaction);
        if place == Place::Before {
            return true;
        }
        let counts = self.recorder.of(transaction);
        counts.scheduled += 1;
        counts.tried += 1;
        let due = match origin {
            Origin::Closed => return true,
            Origin::Waited(due) => {
                self.insight.late += 1;
                due
            }
            Origin::Awaited { due, late } => {
                self.insight.lateness.saturating_record(whole_us(late));
                due
            }
        };
        self.insight.queued.saturating_record(whole_us(now.since(due)));
        self.insight.carried +=
            u64::from(self.window.opening().is_some_and(|opening| due < opening));
        true
    }

    /// An attempt failed and is to be tried again; false if the window is over.
    pub(crate) fn retry(&mut self, transaction: usize, now: Moment) -> bool {
        let place = self.look(now);
        if place == Place::Within {
            let counts = self.recorder.of(transaction);
            counts.retried += 1;
            counts.tried += 1;
        }
        place != Place::After
    }

    /// A client's transaction ended at `now`.
    pub(crate) fn end(
        &mut self,
        slot: usize,
        transaction: usize,
        result: &Result<Ended, Error>,
        now: Moment,
        latency: Duration,
        lag: Duration,
    ) -> Next {
        let place = self.look(now);
        let is_commit = matches!(result, Ok(Ended::Committed));
        let is_within = match place {
            Place::Before => return self.end_of_warm_up(slot, result),
            Place::Within => !is_commit || self.window.admit_commit(now),
            Place::After => false,
        };
        self.slots[slot] = Slot::Idle;
        if !is_within {
            // What ended after the window, however it ended, was in flight at its end.
            self.in_flight[transaction] += u64::from(self.is_open);
            return Next::Stop;
        }
        self.insight.send_lag.saturating_record(whole_us(lag));
        match result {
            Ok(Ended::Committed) => {
                let is_over_limit = self.latency_limit.is_some_and(|limit| latency > limit);
                self.recorder.committed(transaction, latency, is_over_limit);
            }
            Ok(Ended::RolledBack) => self.recorder.of(transaction).rolled_back += 1,
            Err(error) => self.recorder.failed(transaction, error),
        }
        self.left[slot] -= 1;
        if self.left[slot] > 0 {
            return Next::GoOn;
        }
        self.window.client_is_through(now);
        Next::Rest
    }

    /// A client cannot go on.
    pub(crate) fn lose_client(&self, slot: usize, now: Moment) {
        if self.left[slot] > 0 {
            self.window.client_is_lost(now);
        }
    }

    fn end_of_warm_up(&mut self, slot: usize, result: &Result<Ended, Error>) -> Next {
        self.slots[slot] = Slot::Idle;
        let ended = match result {
            Ok(Ended::Committed) => &self.warmed.committed,
            Ok(Ended::RolledBack) => return Next::GoOn,
            Err(_) => &self.warmed.failed,
        };
        // This thread alone writes it.
        ended.store(ended.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        Next::GoOn
    }

    /// A statement was executed in a transaction that the window counts; `is_last` where its
    /// failure is that of the transaction.
    pub(crate) fn lap(&mut self, lap: Lap, is_last: bool) {
        if self.insight.laps.len() <= lap.statement {
            self.insight.laps.resize(lap.statement + 1, Laps::default());
        }
        let laps = &mut self.insight.laps[lap.statement];
        match lap.latency {
            Some(latency) => {
                laps.succeeded += 1;
                laps.total += latency;
            }
            None if is_last => laps.failed += 1,
            None => laps.retried += 1,
        }
    }

    /// A client has connected anew.
    pub(crate) fn connected(&mut self, began: Moment, now: Moment) {
        if self.look(now) == Place::Within {
            self.insight.connecting.saturating_record(whole_us(now.since(began)));
        }
    }

    /// A timer fired so late.
    pub(crate) fn stalled(&mut self, late: Duration, now: Moment) {
        if self.look(now) == Place::Within {
            self.insight.stalls.saturating_record(whole_us(late));
        }
    }

    /// The window has ended for this thread: what it used up to now is what the window took.
    pub(crate) fn close(&mut self) {
        if self.is_open {
            self.insight.cpu = thread_cpu().saturating_sub(self.cpu_at_opening);
            let waits = self.wait_at_opening.zip(thread_wait());
            self.insight.busy =
                waits.map(|(before, now)| self.insight.cpu + now.saturating_sub(before));
            self.insight.round_trips = round_trips() - self.round_trips_at_opening;
        }
    }

    /// Whether the window has opened here.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// An arrival that nobody took before the end.
    pub(crate) fn leave(&mut self, transaction: usize, due: Moment, end: Moment) {
        self.recorder.of(transaction).scheduled += 1;
        self.in_flight[transaction] += 1;
        self.insight.queued.saturating_record(whole_us(end.since(due)));
    }

    /// Counts what the clients were doing at the end.
    pub(crate) fn finish(&mut self, mut next_type: impl FnMut() -> usize) {
        let (true, Some(end)) = (self.is_open, self.window.end()) else { return };
        for slot in std::mem::take(&mut self.slots) {
            match slot {
                Slot::Running(transaction) => self.in_flight[transaction] += 1,
                Slot::Reserved(due) if due <= end => {
                    let opening = self.window.opening();
                    self.insight.carried += u64::from(opening.is_some_and(|opening| due < opening));
                    self.leave(next_type(), due, end);
                }
                Slot::Reserved(_) | Slot::Idle => {}
            }
        }
        self.recorder.finish(end);
    }
}

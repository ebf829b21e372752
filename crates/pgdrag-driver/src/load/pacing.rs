//! Which arrival does a free client take, and what becomes of those that nobody takes in time?
//!
//! There is no ticker: a free client takes the oldest arrival that waits, or the next one of the
//! schedule, for which it then sleeps. What happened in between is worked out when somebody asks, and
//! comes out the same whoever asks and when, because only taking shortens the queue.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::io::clock::Moment;
use crate::job::{Arrivals as Distribution, Pacing as PacingJob, RunJob};
use crate::load::schedule::{Chance, Gaps, Schedule};
use crate::load::steps::Steps;
use crate::load::window::Window;

/// What a client does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Begin now what was due at this moment.
    Begin(Moment),
    /// Wait for this moment, and then begin: this arrival is the client's own.
    Reserved(Moment),
    /// Nothing can be said yet: ask again at this moment.
    Ask(Moment),
    /// This client does not work when the next arrival is due.
    Rest,
}

/// Which arrival gives way when too many wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Overflow {
    Oldest,
    Newest,
}

/// How arrivals that nobody took have ended since the last time that somebody asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lost {
    /// Gave way in a full queue.
    pub dropped: u64,
    /// Too old to begin when a client was free.
    pub skipped: u64,
}

/// What the arrivals of a window saw; the rest of the `arrivals` object is counted by the clients.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Due in the window.
    pub due: u64,
    /// Due before the window, still waiting when it opened, and taken by nobody.
    pub carried: u64,
    /// Most that waited at one time.
    pub max_queue: usize,
}

/// Arrivals that wait for a free client, shared by all threads.
pub struct Backlog {
    limit: usize,
    overflow: Overflow,
    latency_limit: Option<Duration>,
    steps: Arc<Steps>,
    window: Arc<Window>,
    state: Mutex<State>,
}

struct State {
    schedule: Schedule,
    /// Due and not taken, oldest first.
    waiting: VecDeque<Moment>,
    /// Reserved by a client, and not due yet.
    ahead: VecDeque<Moment>,
    is_open: bool,
    is_closed: bool,
    seen: Seen,
    lost: Lost,
}

impl State {
    /// Nobody will take the arrival that was due at this moment.
    fn lose(&mut self, due: Moment, opening: Option<Moment>) {
        self.seen.carried += u64::from(opening.is_some_and(|opening| due < opening));
    }
}

impl Backlog {
    /// The job's arrivals from `start` on; `None` in a closed loop.
    #[must_use]
    pub fn new(job: &RunJob, window: &Arc<Window>, start: Moment, seed: u64) -> Option<Self> {
        let share = job.share();
        // So that the arrivals of all drivers together come at equal distances, too.
        let even = Gaps::Uniform(f64::from(share.index) / f64::from(share.of));
        let (gaps, overflow, limit, latency_limit_us) = match job.pacing {
            PacingJob::Closed => return None,
            PacingJob::Open { arrivals, backlog_limit, .. } => {
                let gaps = match arrivals {
                    Distribution::Uniform => even,
                    Distribution::Poisson => Gaps::Poisson(Chance::of_share(seed, share)),
                };
                (gaps, Overflow::Oldest, backlog_limit, job.latency_limit_us)
            }
            // What its queue took in, BenchBase executes, however late.
            PacingJob::Benchbase { queue_limit, .. } => (even, Overflow::Newest, queue_limit, None),
        };
        let limit = u64::from(limit) * u64::from(job.own_connections());
        let limit = limit.div_ceil(u64::from(job.connections));
        let steps = Arc::new(Steps::new(job));
        let state = State {
            schedule: Schedule::new(gaps, Arc::clone(&steps), start),
            waiting: VecDeque::new(),
            ahead: VecDeque::new(),
            is_open: false,
            is_closed: false,
            seen: Seen::default(),
            lost: Lost::default(),
        };
        Some(Self {
            limit: usize::try_from(limit).expect("at most what the job says"),
            overflow,
            latency_limit: latency_limit_us.map(Duration::from_micros),
            steps,
            window: Arc::clone(window),
            state: Mutex::new(state),
        })
    }

    /// What the free client number `client` does at `now`.
    pub fn take(&self, now: Moment, client: u32) -> Turn {
        let opening = self.window.opening();
        let mut state = self.lock();
        self.catch_up(&mut state, now, opening);
        if state.is_closed {
            return Turn::Rest;
        }
        while let Some(due) = state.waiting.pop_front() {
            if self.latency_limit.is_some_and(|limit| now.since(due) > limit) {
                state.lost.skipped += 1;
                state.lose(due, opening);
                continue;
            }
            return Turn::Begin(due);
        }
        let due = state.schedule.due(opening);
        let certain = self.steps.certain_until(now, opening);
        if due > certain {
            // Half of the way: the opening may become known meanwhile, and then steps are as well.
            return Turn::Ask(now + certain.since(now) / 2);
        }
        if due == Moment::NEVER || self.steps.at(due, opening).sessions <= client {
            return Turn::Rest;
        }
        state.schedule.advance();
        state.ahead.push_back(due);
        Turn::Reserved(due)
    }

    /// How arrivals were lost since the last call, as seen at `now`.
    pub fn lost(&self, now: Moment) -> Lost {
        let mut state = self.lock();
        self.catch_up(&mut state, now, self.window.opening());
        std::mem::take(&mut state.lost)
    }

    /// Ends the arrivals with the window: what was lost since the last call, what still waits and
    /// nobody takes any more (oldest first), and what was seen in all.
    pub fn close(&self, end: Moment) -> (Lost, VecDeque<Moment>, Seen) {
        let opening = self.window.opening();
        let mut state = self.lock();
        self.catch_up(&mut state, end, opening);
        state.is_closed = true;
        let left = std::mem::take(&mut state.waiting);
        let carried = left.iter().filter(|due| opening.is_some_and(|opening| **due < opening));
        state.seen.carried += carried.count() as u64;
        (std::mem::take(&mut state.lost), left, std::mem::take(&mut state.seen))
    }

    /// Lets everything arrive that was due by `now`; what belongs to the warm-up is forgotten.
    fn catch_up(&self, state: &mut State, now: Moment, opening: Option<Moment>) {
        if let Some(opening) = opening.filter(|opening| !state.is_open && *opening <= now) {
            self.collect(state, opening - Duration::from_nanos(1), Some(opening));
            state.is_open = true;
            state.lost = Lost::default();
            state.seen = Seen { max_queue: state.waiting.len(), ..Seen::default() };
        }
        let until = if state.is_open { self.window.claim(now) } else { now };
        self.collect(state, until, opening);
        state.is_closed |= until < now;
    }

    fn collect(&self, state: &mut State, until: Moment, opening: Option<Moment>) {
        while state.ahead.front().is_some_and(|due| *due <= until) {
            state.ahead.pop_front();
            state.seen.due += 1;
        }
        loop {
            let due = state.schedule.due(opening);
            if due > until {
                return;
            }
            state.schedule.advance();
            state.seen.due += 1;
            if state.waiting.len() < self.limit {
                state.waiting.push_back(due);
            } else if self.overflow == Overflow::Newest {
                state.lost.dropped += 1;
                state.lose(due, opening);
            } else {
                state.waiting.push_back(due);
                let oldest = state.waiting.pop_front().expect("one was just added");
                state.lost.dropped += 1;
                state.lose(oldest, opening);
            }
            state.seen.max_queue = state.seen.max_queue.max(state.waiting.len());
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
    use serde_json::{Value, json};

    const MS: fn(u64) -> Duration = Duration::from_millis;
    const OPENING: Moment = Moment(1_000_000_000);

    /// Arrivals from one second before the window, which lasts a second; 1,000 a second.
    fn backlog(pacing: &Value, latency_limit_us: Option<u64>) -> Backlog {
        let job: RunJob = serde_json::from_value(json!({
            "connections": 4, "threads": 1, "reconnect": false, "warm_up_s": 1.0, "handshake": false, "duration_s": 1.0,
            "min_commits": 0, "budget_s": 1.0, "interval_s": 1.0, "grace_s": 1.0,
            "pacing": pacing, "steps": [], "latency_limit_us": latency_limit_us,
        }))
        .expect("a sound job");
        let window = Arc::new(Window::new(&job));
        window.open(OPENING);
        Backlog::new(&job, &window, Moment::default(), 1).expect("a schedule")
    }

    fn open(limit: u32) -> Value {
        json!({"kind": "open", "rate_per_s": 1000.0, "arrivals": "uniform", "backlog_limit": limit})
    }

    fn benchbase(limit: u32) -> Value {
        json!({"kind": "benchbase", "rate_per_s": 1000.0, "queue_limit": limit})
    }

    #[test]
    fn a_free_client_takes_the_oldest_that_waits_or_reserves_the_next() {
        let backlog = backlog(&open(100), None);
        let now = Moment::default() + MS(1);
        assert_eq!(backlog.take(now, 0), Turn::Begin(Moment::default()));
        assert_eq!(backlog.take(now, 1), Turn::Begin(now));
        assert_eq!(backlog.take(now, 2), Turn::Reserved(Moment::default() + MS(2)));
        assert_eq!(backlog.take(now, 3), Turn::Reserved(Moment::default() + MS(3)));
    }

    #[test]
    fn of_too_many_the_oldest_gives_way_or_as_in_benchbase_the_newest() {
        // Ten arrive in the window's first ten milliseconds, and two may wait.
        let now = OPENING + MS(9);
        for (pacing, oldest) in [(open(2), OPENING + MS(8)), (benchbase(2), Moment::default())] {
            let backlog = backlog(&pacing, None);
            // In the warm-up the queue fills up with the first two, or the last two.
            assert_eq!(backlog.lost(OPENING - MS(1)).dropped, 998, "{pacing}");
            assert_eq!(backlog.lost(now).dropped, 10, "{pacing}");
            assert_eq!(backlog.take(now, 0), Turn::Begin(oldest), "{pacing}");
        }
    }

    #[test]
    fn what_is_older_than_the_limit_is_skipped() {
        let backlog = backlog(&open(100), Some(3_000));
        let now = OPENING + MS(10);
        assert_eq!(backlog.lost(OPENING - MS(1)), Lost { dropped: 900, skipped: 0 });
        assert_eq!(backlog.take(now, 0), Turn::Begin(OPENING + MS(7)));
        // A hundred waited, eleven came, which drops as many; 89 + 7 were older than 3 ms.
        assert_eq!(backlog.lost(now), Lost { dropped: 11, skipped: 96 });
    }

    #[test]
    fn nobody_takes_anything_after_the_end() {
        let backlog = backlog(&open(100), None);
        assert_eq!(backlog.take(OPENING + MS(1001), 0), Turn::Rest);
        let (_, left, seen) = backlog.close(OPENING + MS(1000));
        assert_eq!((left.len(), seen.due), (100, 1001));
        assert_eq!(backlog.take(OPENING + MS(1000), 0), Turn::Rest);
    }

    proptest! {
        /// Four clients, each busy for a time that the case draws after each of its arrivals.
        #[test]
        fn every_arrival_ends_in_exactly_one_way(
            busy_us in proptest::collection::vec(0_u64..9_000, 1..60),
            limit in 1_u32..50,
            is_benchbase: bool,
            latency_limit_us in proptest::option::of(1_u64..20_000),
        ) {
            let pacing = if is_benchbase { benchbase(limit) } else { open(limit) };
            let backlog = backlog(&pacing, latency_limit_us);
            let end = OPENING + MS(1000);
            let mut busy = busy_us.iter().cycle().map(|us| Duration::from_micros(*us));
            let mut free = [Moment::default(); 4];
            let (mut scheduled, mut carried, mut lost) = (0, 0, Lost::default());
            while let Some(client) = (0..4).filter(|c| free[*c] <= end).min_by_key(|c| free[*c]) {
                let now = free[client];
                let (begin, due) = match backlog.take(now, client.try_into().unwrap()) {
                    Turn::Begin(due) => (now, due),
                    Turn::Reserved(due) => (due, due),
                    turn => panic!("{turn:?} at {now:?}"),
                };
                free[client] = begin + busy.next().unwrap() + Duration::from_micros(1);
                // What runs when the window opens counts, and what was reserved beyond its end does not.
                if free[client] >= OPENING && due <= end {
                    scheduled += 1;
                    carried += u64::from(due < OPENING);
                }
                if now >= OPENING {
                    let more = backlog.lost(now);
                    lost.dropped += more.dropped;
                    lost.skipped += more.skipped;
                }
            }
            let (more, left, seen) = backlog.close(end);
            let dropped = lost.dropped + more.dropped;
            let skipped = lost.skipped + more.skipped;
            let ended = scheduled + dropped + skipped + left.len() as u64;
            prop_assert_eq!(ended, seen.due + seen.carried + carried);
            prop_assert!(seen.max_queue <= limit as usize);
            prop_assert!(latency_limit_us.is_some() && !is_benchbase || skipped == 0);
        }
    }
}

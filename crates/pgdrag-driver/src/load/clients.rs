//! What does one client do, from its first transaction to the end of the window?
//!
//! It waits for its turn, draws a transaction, tries it until it ends, and counts the end. Errors that
//! would repeat at once slow it down; a broken connection is made anew while the run lasts. Nothing here
//! watches for the end of the run: a client that does not count is dropped by its thread, and one that
//! counts finds its work cancelled.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::task::yield_now;

use crate::error::Error;
use crate::io::clock::{Clock, Moment};
use crate::io::reactor::Reactor;
use crate::io::timer::Timers;
use crate::io::waiting::note_within;
use crate::load::pacing::{Backlog, Turn};
use crate::load::tally::{Next, Origin, Slot, Tally};
use crate::session::{CancelToken, Connection, Target, connect_within};
use crate::workload::{Ended, Terminal};

/// A client that has been served for so long lets others have their turn.
const LONGEST_TURN: Duration = Duration::from_millis(2);

/// What all clients of a run share and none changes.
pub(crate) struct Terms {
    pub(crate) target: Target,
    pub(crate) connect_timeout: Duration,
    pub(crate) grace: Duration,
    pub(crate) retries: Retries,
    pub(crate) latency_limit: Option<Duration>,
    /// Whether the executions of statements are told.
    pub(crate) has_laps: bool,
    /// Whether each transaction has a session of its own.
    pub(crate) reconnect: bool,
    /// That each client runs within the window.
    pub(crate) transactions: Option<u64>,
    /// Whether latency counts from the moment at which an arrival was due.
    pub(crate) counts_from_due: bool,
    pub(crate) interval: Duration,
    pub(crate) clock: Clock,
    /// The lowest number of this driver's clients.
    pub(crate) first_client: u32,
    /// What a question takes that asks for nothing; the first client finds it out before it begins.
    pub(crate) round_trip_ns: AtomicU64,
}

/// Which transactions are tried again.
pub(crate) struct Retries {
    /// Attempts in all; 0: no limit.
    pub(crate) max_tries: u32,
    pub(crate) has_deadlocks: bool,
}

/// What the clients of one thread share.
pub(crate) struct Bench {
    pub(crate) terms: Arc<Terms>,
    /// Without one the clients run in a closed loop.
    pub(crate) backlog: Option<Arc<Backlog>>,
    pub(crate) tally: RefCell<Tally>,
    pub(crate) timers: Rc<Timers>,
    /// Clients below this number work, the others rest.
    pub(crate) sessions: Cell<u32>,
    /// By slot: those who rest.
    pub(crate) resting: RefCell<Vec<Option<Waker>>>,
    /// By slot: what cancels the client's work.
    pub(crate) tokens: RefCell<Vec<CancelToken>>,
    /// Tells of the server's answers.
    pub(crate) reactor: Rc<Reactor>,
    /// When the loop woke up with the answers that are being served.
    pub(crate) woke: Rc<Cell<Moment>>,
    /// Clients that can go on.
    pub(crate) live: Cell<usize>,
    /// The first error that ends the run for everybody.
    pub(crate) fatal: RefCell<Option<Error>>,
}

impl Bench {
    /// Waits until client number `number` is to work.
    async fn rest(&self, number: u32, slot: usize) {
        poll_fn(|context| {
            if number < self.sessions.get() {
                return Poll::Ready(());
            }
            self.resting.borrow_mut()[slot] = Some(context.waker().clone());
            note_within();
            Poll::Pending
        })
        .await;
    }

    /// Waits until more clients are to work than now.
    async fn rest_until_more(&self, slot: usize) {
        let mut is_woken = false;
        poll_fn(|context| {
            if std::mem::replace(&mut is_woken, true) {
                return Poll::Ready(());
            }
            self.resting.borrow_mut()[slot] = Some(context.waker().clone());
            note_within();
            Poll::Pending
        })
        .await;
    }

    /// Lets this many clients work from now on.
    pub(crate) fn set_sessions(&self, sessions: u32) {
        if self.sessions.replace(sessions) < sessions {
            // Whoever is not meant goes back to rest.
            self.resting.borrow_mut().iter_mut().filter_map(Option::take).for_each(Waker::wake);
        }
    }

    /// How long ago the loop woke up with what is being served now.
    fn lag(&self, now: Moment) -> Duration {
        now.since(self.woke.get())
    }
}

pub(crate) struct Client<T> {
    pub(crate) bench: Rc<Bench>,
    pub(crate) number: u32,
    pub(crate) slot: usize,
    pub(crate) connection: Connection,
    pub(crate) terminal: T,
}

impl<T: Terminal> Client<T> {
    /// Runs until the window is over, or this client cannot go on.
    pub(crate) async fn run(mut self) {
        let mut pause = Pause::new();
        let mut now = self.bench.terms.clock.now();
        let is_brief = self.bench.terms.reconnect;
        loop {
            if is_brief {
                self.connection.close();
            }
            let (origin, turn) = self.next_turn(now).await;
            let transaction = self.terminal.draw();
            let keying = self.terminal.keying();
            now = if keying.is_zero() { turn } else { self.wait_out(keying, turn).await };
            if is_brief {
                if !self.reconnect(&mut pause).await {
                    return;
                }
                now = self.bench.terms.clock.now();
            }
            let began = now;
            if !self.bench.tally.borrow_mut().begin(self.slot, transaction, origin, began) {
                return;
            }
            let since = match origin {
                Origin::Waited(due) | Origin::Awaited { due, .. }
                    if self.bench.terms.counts_from_due =>
                {
                    due
                }
                _ => began,
            };

            let result = self.transaction(transaction, since).await;
            now = self.bench.terms.clock.now();
            let (latency, lag) = (now.since(since), self.bench.lag(now));
            let end =
                |tally: &mut Tally| tally.end(self.slot, transaction, &result, now, latency, lag);
            let next = end(&mut self.bench.tally.borrow_mut());
            if self.bench.terms.has_laps {
                self.tell_laps(next, result.is_err());
            }
            match result {
                _ if next == Next::Stop => return,
                Err(error) if error.is_fatal() => return self.give_up(error),
                _ if next == Next::Rest => return,
                Err(error) if !error.is_retriable() || self.connection.is_broken() => {
                    self.bench.timers.sleep_until(began + pause.next()).await;
                    if !is_brief && !self.reconnect(&mut pause).await {
                        return;
                    }
                    now = self.bench.terms.clock.now();
                }
                _ => pause.reset(),
            }
            let thinking = self.terminal.thinking();
            if !thinking.is_zero() {
                now = self.wait_out(thinking, now).await;
            }
            if lag > LONGEST_TURN {
                // Transactions that never wait for the server would keep the loop from all else.
                yield_now().await;
                now = self.bench.terms.clock.now();
            }
        }
    }

    /// Hands the executions of the last transaction's statements over to where the counts are.
    fn tell_laps(&mut self, next: Next, has_failed: bool) {
        let mut tally = self.bench.tally.borrow_mut();
        let counts = next != Next::Stop && tally.is_open();
        let mut last = None;
        self.terminal.take_laps(&mut |lap| {
            if let Some(earlier) = last.replace(lap).filter(|_| counts) {
                tally.lap(earlier, false);
            }
        });
        if let Some(last) = last.filter(|_| counts) {
            tally.lap(last, has_failed);
        }
    }

    /// Waits for this client's turn, and says when it came.
    async fn next_turn(&mut self, mut now: Moment) -> (Origin, Moment) {
        let bench = &self.bench;
        let clock = bench.terms.clock;
        loop {
            if self.number >= bench.sessions.get() {
                bench.rest(self.number, self.slot).await;
                now = clock.now();
            }
            let Some(backlog) = &bench.backlog else { return (Origin::Closed, now) };
            match backlog.take(now, self.number) {
                Turn::Begin(due) => {
                    bench.tally.borrow_mut().slots[self.slot] = Slot::Reserved(due);
                    return (Origin::Waited(due), now);
                }
                Turn::Reserved(due) => {
                    bench.tally.borrow_mut().slots[self.slot] = Slot::Reserved(due);
                    bench.timers.sleep_until(due).await;
                    let woke = clock.now();
                    return (Origin::Awaited { due, late: woke.since(due) }, woke);
                }
                Turn::Ask(moment) => {
                    bench.timers.sleep_until(moment).await;
                    now = clock.now();
                }
                Turn::Rest => {
                    bench.rest_until_more(self.slot).await;
                    now = clock.now();
                }
            }
        }
    }

    /// Waits so long from `now` on, and returns the time then.
    async fn wait_out(&self, length: Duration, now: Moment) -> Moment {
        self.bench.timers.sleep_until(now + length).await;
        self.bench.terms.clock.now()
    }

    /// Tries the drawn transaction until it ends.
    async fn transaction(&mut self, transaction: usize, since: Moment) -> Result<Ended, Error> {
        let timers = &self.bench.timers;
        let mut tries = 1;
        loop {
            let error = match self.terminal.attempt(&mut self.connection, timers).await {
                Ok(ended) => return Ok(ended),
                Err(error) => error,
            };
            self.terminal.attempt_failed(self.connection.is_broken());
            // Where not even this works, the connection says so, and the first error is the cause.
            let _ = self.connection.rollback().await;
            if !self.connection.is_broken() {
                let _ = self.terminal.after_failure(&mut self.connection).await;
            }
            let terms = &self.bench.terms;
            let now = terms.clock.now();
            let is_too_late = terms.latency_limit.is_some_and(|limit| now.since(since) > limit);
            let is_worth_it =
                error.is_tried_again(terms.retries.has_deadlocks) && !self.connection.is_broken();
            if !is_worth_it || tries == terms.retries.max_tries || is_too_late {
                return Err(error);
            }
            if !self.bench.tally.borrow_mut().retry(transaction, now) {
                return Err(error);
            }
            tries = tries.saturating_add(1);
        }
    }

    /// Makes a broken connection anew; false if it never will be.
    async fn reconnect(&mut self, pause: &mut Pause) -> bool {
        while self.connection.is_broken() {
            let began = self.bench.terms.clock.now();
            let Err(error) = self.connect().await else { break };
            if error.is_fatal() || error.is_refusal() {
                self.give_up(error);
                return false;
            }
            if pause.is_longest() {
                eprintln!("pgdrag-driver: could not reconnect: {error}");
            }
            self.bench.timers.sleep_until(began + pause.next()).await;
        }
        true
    }

    async fn connect(&mut self) -> Result<(), Error> {
        let terms = &self.bench.terms;
        let began = terms.clock.now();
        let mut connection = connect_within(&terms.target, terms.connect_timeout).await?;
        self.terminal.reconnect(&mut connection).await?;
        connection.watch(&self.bench.reactor)?;
        self.bench.tokens.borrow_mut()[self.slot] = connection.cancel_token();
        self.connection = connection;
        self.bench.tally.borrow_mut().connected(began, terms.clock.now());
        Ok(())
    }

    /// This client cannot go on; where the workload itself is wrong, nobody can.
    fn give_up(&self, error: Error) {
        self.bench.live.set(self.bench.live.get() - 1);
        let now = self.bench.terms.clock.now();
        self.bench.tally.borrow().lose_client(self.slot, now);
        if error.is_fatal() {
            self.bench.fatal.borrow_mut().get_or_insert(error);
        } else {
            eprintln!("pgdrag-driver: client {} ends: {error}", self.number);
        }
    }
}

/// How long to wait after an error that may come again at once: 10 ms, doubled up to 1 s, from the
/// beginning of what failed.
struct Pause(Duration);

const SHORTEST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Pause {
    fn new() -> Self {
        Self(SHORTEST_PAUSE)
    }

    fn reset(&mut self) {
        self.0 = SHORTEST_PAUSE;
    }

    fn is_longest(&self) -> bool {
        self.0 == LONGEST_PAUSE
    }

    /// This pause's length; the next one is longer.
    fn next(&mut self) -> Duration {
        let now = self.0;
        self.0 = (now * 2).min(LONGEST_PAUSE);
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_second_and_start_anew() {
        let mut pause = Pause::new();
        let pauses: Vec<_> = (0..9).map(|_| pause.next().as_millis()).collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        pause.reset();
        assert_eq!(pause.next(), SHORTEST_PAUSE);
    }
}

//! What does one client do, from its first transaction to the end of the window?
//!
//! It draws a transaction, tries it until it ends, and counts the end. Errors that would repeat at
//! once slow it down; a broken connection is made anew while the window lasts.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::connection::{CancelToken, Connection, Error, Target, connect_within};
use crate::pacing::Queue;
use crate::samples::{Batch, Recorder};
use crate::window::Window;
use crate::workload::{Ended, Terminal};

/// How far the run is; only the coordinator moves it on.
#[derive(Debug, Clone)]
pub(crate) enum Stage {
    /// Not all clients are connected.
    Waiting,
    /// The window is open.
    Running(Arc<Window>),
    /// The window is closed: finish or be cancelled.
    Over,
}

/// Waits for the end of the window. A coordinator that is gone has ended it, too.
pub(crate) async fn over(stage: &mut watch::Receiver<Stage>) {
    let _ = stage.wait_for(|stage| matches!(stage, Stage::Over)).await;
}

/// What all clients share and none changes.
pub(crate) struct Terms {
    pub(crate) target: Target,
    pub(crate) connect_timeout: Duration,
    pub(crate) grace: Duration,
    pub(crate) max_retries: u32,
    /// Without one the clients run in a closed loop.
    pub(crate) queue: Option<Queue>,
}

/// What the clients of one thread count together.
pub(crate) struct Tally {
    pub(crate) recorder: Recorder<Box<dyn FnMut(Batch)>>,
    /// By transaction type.
    pub(crate) in_flight: Vec<u64>,
}

pub(crate) struct Client<T> {
    pub(crate) terms: Arc<Terms>,
    pub(crate) window: Arc<Window>,
    pub(crate) stage: watch::Receiver<Stage>,
    pub(crate) tally: Rc<RefCell<Tally>>,
    pub(crate) connection: Connection,
    pub(crate) terminal: T,
}

impl<T: Terminal> Client<T> {
    /// Runs until the window is over and this client's last transaction has ended or was given up.
    pub(crate) async fn run(mut self) {
        let token = RefCell::new(self.connection.cancel_token());
        let mut given_up = pin!(cancel_in_the_end(self.stage.clone(), &token, self.terms.grace));
        let mut pause = Pause::new();
        while self.next_turn().await {
            let transaction = self.terminal.draw();
            let began = self.window.clamp(Instant::now());
            self.tally.borrow_mut().recorder.scheduled(transaction, began);

            let result = tokio::select! {
                biased;
                result = self.transaction(transaction) => Some(result),
                () = &mut given_up => None,
            };
            let ended = Instant::now();
            let result = match result {
                // What ended after the deadline is outside the window, however it ended.
                Some(result) if !self.window.is_over(ended) => result,
                _ => {
                    self.tally.borrow_mut().in_flight[transaction] += 1;
                    return;
                }
            };
            self.count(transaction, &result, ended, ended - began);
            match result {
                Err(error) if !error.is_retriable() || self.connection.is_broken() => {
                    if !self.unless_over(sleep(pause.next())).await
                        || !self.reconnect(&mut pause).await
                    {
                        return;
                    }
                    token.replace(self.connection.cancel_token());
                }
                _ => pause.reset(),
            }
        }
    }

    /// Waits for this client's turn; false once the window is over.
    async fn next_turn(&mut self) -> bool {
        if self.window.is_over(Instant::now()) {
            return false;
        }
        let terms = Arc::clone(&self.terms);
        match &terms.queue {
            Some(queue) => self.unless_over(queue.take()).await,
            None => true,
        }
    }

    /// Waits for `wanted`; false if the window ends before.
    async fn unless_over(&mut self, wanted: impl Future<Output = ()>) -> bool {
        tokio::select! {
            biased;
            () = over(&mut self.stage) => false,
            () = wanted => true,
        }
    }

    /// Tries the drawn transaction until it ends.
    async fn transaction(&mut self, transaction: usize) -> Result<Ended, Error> {
        let mut retries_left = self.terms.max_retries;
        loop {
            let error = match self.terminal.attempt(&mut self.connection).await {
                Ok(ended) => return Ok(ended),
                Err(error) => error,
            };
            // Where not even this works, the connection says so, and the first error is the cause.
            let _ = self.connection.rollback().await;
            let now = Instant::now();
            let is_worth_it = error.is_retriable() && !self.connection.is_broken();
            if !is_worth_it || retries_left == 0 || self.window.is_over(now) {
                return Err(error);
            }
            retries_left -= 1;
            self.tally.borrow_mut().recorder.retried(transaction, now);
        }
    }

    fn count(
        &self,
        transaction: usize,
        result: &Result<Ended, Error>,
        now: Instant,
        latency: Duration,
    ) {
        let recorder = &mut self.tally.borrow_mut().recorder;
        match result {
            Ok(Ended::Committed) => {
                recorder.committed(transaction, now, latency);
                self.window.add_commit();
            }
            Ok(Ended::RolledBack) => recorder.rolled_back(transaction, now),
            Err(error) => recorder.failed(transaction, now, error),
        }
    }

    /// Makes a broken connection anew; false if the window ends before that succeeds.
    async fn reconnect(&mut self, pause: &mut Pause) -> bool {
        while self.connection.is_broken() {
            let mut stage = self.stage.clone();
            let attempt = tokio::select! {
                biased;
                () = over(&mut stage) => return false,
                attempt = self.connect() => attempt,
            };
            if let Err(error) = attempt {
                if pause.is_longest() {
                    eprintln!("pgdrag-driver: could not reconnect: {error}");
                }
                if !self.unless_over(sleep(pause.next())).await {
                    return false;
                }
            }
        }
        true
    }

    async fn connect(&mut self) -> Result<(), Error> {
        let mut connection = connect_within(&self.terms.target, self.terms.connect_timeout).await?;
        self.terminal.reconnect(&mut connection).await?;
        self.connection = connection;
        Ok(())
    }
}

/// Waits for the end of the window, and then cancels what the session does until the grace is over.
///
/// One request is not enough: it may fall between two statements.
async fn cancel_in_the_end(
    mut stage: watch::Receiver<Stage>,
    token: &RefCell<CancelToken>,
    grace: Duration,
) {
    over(&mut stage).await;
    let token = token.borrow().clone();
    let repeat = async {
        loop {
            let _ = timeout(grace, token.cancel()).await;
            sleep(Duration::from_millis(100)).await;
        }
    };
    let _: Result<std::convert::Infallible, _> = timeout(grace, repeat).await;
}

/// How long to wait after an error that may come again at once: 10 ms, doubled up to 1 s.
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

//! What does one thread of the driver do?
//!
//! A worker runs its share of the clients; the ticker offers arrivals at the job's rate. Each has a
//! runtime of its own and reports to the coordinator through a channel.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{sleep, sleep_until, timeout};

use crate::clients::{Client, Stage, Tally, Terms, over};
use crate::connection::{Connection, Error};
use crate::pacing::{Arrivals, Queue, Shares, Ticker};
use crate::samples::{Batch, Latencies, Recorder, latencies, whole_us};
use crate::window::Window;
use crate::workload::Workload;

/// What a thread tells the coordinator. Of [`Event::Final`] each sends one, as its last.
pub(crate) enum Event {
    /// All clients of this worker are connected and ready.
    Ready,
    /// A client could not be made ready.
    NotReady(Error),
    /// An interval is complete in this thread.
    Batch(Batch),
    /// Everything has ended.
    Final(Box<Final>),
}

/// What a thread knows at its end.
pub(crate) struct Final {
    pub(crate) in_flight: Vec<u64>,
    pub(crate) lags: Latencies,
    pub(crate) arrivals: Option<Arrivals>,
}

/// A thread's way to the coordinator, and its share of the run.
pub(crate) struct Post {
    pub(crate) terms: Arc<Terms>,
    pub(crate) stage: watch::Receiver<Stage>,
    pub(crate) events: UnboundedSender<Event>,
    pub(crate) interval: Duration,
}

/// How often the event loop's own lateness is looked at.
const LAG_PERIOD: Duration = Duration::from_millis(10);

impl Post {
    fn tell(&self, event: Event) {
        // A coordinator that is gone has given the run up, and will not miss it.
        let _ = self.events.send(event);
    }

    /// Waits for the start of the window; `None` if there will be none.
    async fn window(&mut self) -> Option<Arc<Window>> {
        let started = self.stage.wait_for(|stage| !matches!(stage, Stage::Waiting)).await;
        match started.as_deref() {
            Ok(Stage::Running(window)) => Some(Arc::clone(window)),
            _ => None,
        }
    }

    fn recorder(&self, window: &Window, types: usize) -> Recorder<Box<dyn FnMut(Batch)>> {
        let events = self.events.clone();
        let hand_over = Box::new(move |batch| drop(events.send(Event::Batch(batch))));
        Recorder::new(window.start(), self.interval, types, hand_over)
    }
}

/// Runs `future`, which need not be `Send`, to its end on a runtime of this thread.
fn block_on(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a thread can have a runtime");
    LocalSet::new().block_on(&runtime, future);
    // Not even a look-up of a host name that hangs may delay the end.
    runtime.shutdown_background();
}

/// Runs the clients with these numbers, of `clients` in all.
pub(crate) fn work<W: Workload>(post: Post, workload: &W, numbers: &[u32], clients: u32) {
    block_on(async move {
        let mut post = post;
        let connecting = connect(&post.terms, workload, numbers, clients);
        let ready = match timeout(post.terms.connect_timeout, connecting).await {
            Ok(Ok(ready)) => ready,
            Ok(Err(error)) => return post.tell(Event::NotReady(error)),
            Err(_) => return post.tell(Event::NotReady(too_late(post.terms.connect_timeout))),
        };
        post.tell(Event::Ready);
        let Some(window) = post.window().await else { return };
        let types = workload.transactions().len();
        let recorder = post.recorder(&window, types);
        let tally = Rc::new(RefCell::new(Tally { recorder, in_flight: vec![0; types] }));

        let mut running = JoinSet::new();
        for (connection, terminal) in ready {
            let client = Client {
                terms: Arc::clone(&post.terms),
                window: Arc::clone(&window),
                stage: post.stage.clone(),
                tally: Rc::clone(&tally),
                connection,
                terminal,
            };
            running.spawn_local(client.run());
        }
        let lags = watch_the_loop(&mut post.stage, &window, &tally).await;
        while let Some(ended) = running.join_next().await {
            ended.expect("a client does not panic");
        }
        let mut tally = tally.borrow_mut();
        tally.recorder.finish(window.clamp(Instant::now()));
        let in_flight = std::mem::take(&mut tally.in_flight);
        post.tell(Event::Final(Box::new(Final { in_flight, lags, arrivals: None })));
    });
}

async fn connect<W: Workload>(
    terms: &Terms,
    workload: &W,
    numbers: &[u32],
    clients: u32,
) -> Result<Vec<(Connection, W::Terminal)>, Error> {
    let mut ready = Vec::with_capacity(numbers.len());
    for number in numbers {
        let mut connection = Connection::connect(&terms.target).await?;
        let terminal = workload.terminal(*number, clients, &mut connection).await?;
        ready.push((connection, terminal));
    }
    Ok(ready)
}

fn too_late(limit: Duration) -> Error {
    let message = format!("server did not answer within {} s", limit.as_secs_f64());
    Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, message))
}

/// Hands intervals over on time, and measures how late this thread's timers fire, until the end.
async fn watch_the_loop(
    stage: &mut watch::Receiver<Stage>,
    window: &Window,
    tally: &RefCell<Tally>,
) -> Latencies {
    let mut lags = latencies();
    let measure = async {
        loop {
            let expected = Instant::now() + LAG_PERIOD;
            sleep_until(expected.into()).await;
            let now = Instant::now();
            lags.saturating_record(whole_us(now - expected));
            tally.borrow_mut().recorder.advance(window.clamp(now));
        }
    };
    tokio::select! {
        biased;
        () = over(stage) => {}
        () = measure => {}
    }
    lags
}

/// Offers arrivals to the queue at the job's rate, and answers for those that no client took.
pub(crate) fn tick(post: Post, rate_per_s: f64, weights: Vec<f64>) {
    block_on(async move {
        let mut post = post;
        let Some(window) = post.window().await else { return };
        let types = weights.len();
        let mut recorder = post.recorder(&window, types);
        let mut shares = Shares::new(&weights);
        let terms = Arc::clone(&post.terms);
        let queue = terms.queue.as_ref().expect("a rate has a queue");
        let mut ticker = Ticker::new(rate_per_s);

        let mut stage = post.stage.clone();
        let ticking = async {
            loop {
                let now = window.clamp(Instant::now());
                recorder.advance(now);
                offer_due(&mut ticker, queue, &window, now, |now| {
                    recorder.dropped(shares.next_type(), now);
                });
                let next = window.start() + ticker.next_due();
                sleep_until(next.min(recorder.interval_end()).into()).await;
                if window.is_over(Instant::now()) {
                    // What is due after the end is never offered; only the end itself is to come.
                    sleep(Duration::MAX).await;
                }
            }
        };
        tokio::select! {
            biased;
            () = over(&mut stage) => {}
            () = ticking => {}
        }

        // A timer may fire late, but every arrival that was due in the window is counted.
        let end = window.clamp(Instant::now());
        offer_due(&mut ticker, queue, &window, end, |now| {
            recorder.dropped(shares.next_type(), now);
        });
        let arrivals = queue.close(end);
        let mut in_flight = vec![0; types];
        for _ in 0..arrivals.left {
            let transaction = shares.next_type();
            recorder.scheduled(transaction, end);
            in_flight[transaction] += 1;
        }
        recorder.finish(end);
        let arrivals = Some(arrivals);
        post.tell(Event::Final(Box::new(Final { in_flight, lags: latencies(), arrivals })));
    });
}

fn offer_due(
    ticker: &mut Ticker,
    queue: &Queue,
    window: &Window,
    now: Instant,
    mut refused: impl FnMut(Instant),
) {
    while let Some(due) = ticker.take_due(now - window.start()) {
        if !queue.offer(window.start() + due) {
            refused(now);
        }
    }
}

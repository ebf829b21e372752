//! What does one thread of the driver do?
//!
//! It connects its share of the clients, runs them on a runtime of its own, looks after them every few
//! milliseconds, and reports to the coordinator through a channel.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::{JoinHandle, LocalSet, spawn_local};
use tokio::time::timeout;

use crate::error::Error;
use crate::io::reactor::Reactor;
use crate::io::timer::Timers;
use crate::load::canceller::cancel_running;
use crate::load::clients::{Bench, Client, Terms};
use crate::load::connecting::{Ready, connect};
use crate::load::crowd::Crowd;
use crate::load::pacing::{Backlog, Lost, Seen};
use crate::load::samples::{Batch, Recorder, Spare};
use crate::load::shares::Shares;
use crate::load::steps::Steps;
use crate::load::tally::{Insight, Slot, Tally, Warmed};
use crate::load::window::Window;
use crate::workload::Workload;

/// How far the run is; only the coordinator moves it on.
#[derive(Clone)]
pub(crate) enum Stage {
    /// Not all clients are connected.
    Waiting,
    /// The clients work.
    Running(Start),
    /// The window is closed: finish or be cancelled.
    Over,
}

/// What is known when the clients begin.
#[derive(Clone)]
pub(crate) struct Start {
    pub(crate) window: Arc<Window>,
    pub(crate) backlog: Option<Arc<Backlog>>,
    pub(crate) steps: Arc<Steps>,
}

/// What a thread tells the coordinator. Of [`Event::Final`] each sends one, as its last.
pub(crate) enum Event {
    /// All clients of this worker are connected and ready.
    Ready,
    /// A client could not be made ready.
    NotReady(Error),
    /// What the coordinator may look at while the warm-up lasts.
    Warming(Arc<Warmed>),
    /// An interval is complete in this thread.
    Batch(Batch),
    /// The run must end, because the job itself is wrong.
    Fatal(Error),
    /// No client of this worker can go on.
    NobodyLeft,
    /// Everything has ended.
    Final(Box<Final>),
}

/// What a thread knows at its end.
pub(crate) struct Final {
    pub(crate) in_flight: Vec<u64>,
    pub(crate) insight: Insight,
    /// From the one thread that answers for the arrivals.
    pub(crate) seen: Option<Seen>,
}

/// A thread's way to the coordinator, and its share of the run.
pub(crate) struct Post<W> {
    pub(crate) terms: Arc<Terms>,
    pub(crate) workload: Arc<W>,
    /// The numbers of its clients, of `clients` in all.
    pub(crate) numbers: Vec<u32>,
    pub(crate) clients: u32,
    pub(crate) stage: watch::Receiver<Stage>,
    pub(crate) events: UnboundedSender<Event>,
    pub(crate) spare: Spare,
}

/// How often a thread looks after its clients, and how late that comes.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Runs a thread's share of the clients, to the end.
pub(crate) fn work<W: Workload>(post: Post<W>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a thread can have a runtime");
    let local = LocalSet::new();
    // A task of its own, so that waking a client does not look into this one as well.
    let work = local.spawn_local(async move { post.perform().await });
    local.block_on(&runtime, work).expect("a worker does not panic");
    // Not even a look-up of a host name that hangs may delay the end.
    runtime.shutdown_background();
}

impl<W: Workload> Post<W> {
    fn tell(&self, event: Event) {
        // A coordinator that is gone has given the run up, and will not miss it.
        let _ = self.events.send(event);
    }

    async fn perform(mut self) {
        let reactor = Rc::new(Reactor::new().expect("a thread can have a reactor"));
        let connecting =
            connect(&self.terms, &self.workload, &reactor, &self.numbers, self.clients);
        let limit = self.terms.connect_timeout;
        let ready = match timeout(limit, connecting).await {
            Ok(Ok(ready)) => ready,
            Ok(Err(error)) => return self.tell(Event::NotReady(error)),
            Err(_) => return self.tell(Event::NotReady(too_late(limit))),
        };
        self.tell(Event::Ready);
        let Some(start) = self.start().await else { return };
        let bench = Rc::new(self.bench(&start, &ready, reactor));
        self.tell(Event::Warming(Arc::clone(&bench.tally.borrow().warmed)));
        let timers = Rc::clone(&bench);
        let serving = spawn_local(async move { timers.timers.serve().await });

        // The first client's thread answers for the arrivals that no client took.
        let is_accountant = self.numbers.first() == Some(&self.terms.first_client);
        let mut shares = Shares::new(&self.workload.weights());
        let crowd = start_clients(ready, &bench);
        let members = Rc::clone(&crowd);
        let running = spawn_local(poll_fn(move |context| members.borrow_mut().poll(context)));
        self.look_after(&bench, &start, is_accountant.then_some(&mut shares)).await;
        bench.tally.borrow_mut().close();
        end_clients(running, &crowd, &bench).await;
        serving.abort();

        let mut tally = bench.tally.borrow_mut();
        let seen = start.backlog.as_ref().filter(|_| is_accountant).map(|backlog| {
            let end = start.window.end().expect("a window that is over has an end");
            let (lost, left, seen) = backlog.close(end);
            count_lost(&mut tally, lost, &mut shares);
            if tally.is_open() {
                for due in left {
                    tally.leave(shares.next_type(), due, end);
                }
            }
            seen
        });
        tally.finish(|| shares.next_type());
        let in_flight = std::mem::take(&mut tally.in_flight);
        let insight = std::mem::replace(&mut tally.insight, Insight::new());
        self.tell(Event::Final(Box::new(Final { in_flight, insight, seen })));
    }

    /// Waits until the clients are to begin; `None` if they never will.
    async fn start(&mut self) -> Option<Start> {
        let started = self.stage.wait_for(|stage| !matches!(stage, Stage::Waiting)).await;
        match started.as_deref() {
            Ok(Stage::Running(start)) => Some(start.clone()),
            _ => None,
        }
    }

    fn bench(&self, start: &Start, ready: &Ready<W::Terminal>, reactor: Rc<Reactor>) -> Bench {
        let types = self.workload.transactions().len();
        let events = self.events.clone();
        let hand_over: Box<dyn FnMut(Batch)> =
            Box::new(move |batch| drop(events.send(Event::Batch(batch))));
        let recorder = Recorder::new(self.terms.interval, types, self.spare.clone(), hand_over);
        let (window, limit) = (Arc::clone(&start.window), self.terms.latency_limit);
        let tally =
            Tally::new(recorder, window, types, ready.len(), self.terms.transactions, limit);
        Bench {
            terms: Arc::clone(&self.terms),
            backlog: start.backlog.clone(),
            tally: RefCell::new(tally),
            timers: Rc::new(Timers::new(self.terms.clock).expect("a thread can have a timer")),
            sessions: Cell::new(start.steps.get(0).map_or(0, |step| step.sessions)),
            resting: RefCell::new((0..ready.len()).map(|_| None).collect()),
            tokens: RefCell::new(
                ready.iter().map(|(_, connection, _)| connection.cancel_token()).collect(),
            ),
            reactor,
            woke: Rc::default(),
            live: Cell::new(ready.len()),
            fatal: RefCell::new(None),
        }
    }

    /// Looks after the clients until the window is over.
    async fn look_after(&mut self, bench: &Bench, start: &Start, mut shares: Option<&mut Shares>) {
        let mut stage = self.stage.clone();
        let looking = async {
            let clock = bench.terms.clock;
            let mut next = clock.now() + LOOK_EVERY;
            let mut has_anybody = true;
            loop {
                let opening = start.window.opening();
                let change = start.steps.next_change(clock.now(), opening);
                bench.timers.sleep_until(change.map_or(next, |change| change.min(next))).await;
                let now = clock.now();
                bench.set_sessions(start.steps.at(now, opening).sessions);
                if now < next {
                    continue;
                }
                bench.tally.borrow_mut().stalled(now.since(next), now);
                // What was missed is one stall, and not many.
                next = now.max(next) + LOOK_EVERY;
                if let (Some(backlog), Some(shares)) = (&start.backlog, shares.as_deref_mut()) {
                    let lost = backlog.lost(now);
                    count_lost(&mut bench.tally.borrow_mut(), lost, shares);
                }
                if let Some(error) = bench.fatal.borrow_mut().take() {
                    self.tell(Event::Fatal(error));
                }
                if bench.live.get() == 0 && std::mem::take(&mut has_anybody) {
                    self.tell(Event::NobodyLeft);
                }
            }
        };
        tokio::select! {
            biased;
            // A coordinator that is gone has ended the run, too.
            _ = stage.wait_for(|stage| matches!(stage, Stage::Over)) => {}
            () = looking => {}
        }
    }
}

fn start_clients<T: crate::workload::Terminal>(
    ready: Ready<T>,
    bench: &Rc<Bench>,
) -> Rc<RefCell<Crowd>> {
    let (reactor, woke) = (Rc::clone(&bench.reactor), Rc::clone(&bench.woke));
    let mut crowd = Crowd::new(bench.terms.clock, reactor, woke);
    crowd.sleep_in_reactor(Rc::clone(&bench.timers)).expect("a timer can be watched");
    for (slot, (number, connection, terminal)) in ready.into_iter().enumerate() {
        crowd.add(Client { bench: Rc::clone(bench), number, slot, connection, terminal }.run());
    }
    Rc::new(RefCell::new(crowd))
}

/// Lets clients whose transactions count end them, cancelled, within the grace; drops the others.
async fn end_clients(mut running: JoinHandle<()>, crowd: &RefCell<Crowd>, bench: &Rc<Bench>) {
    let slots = bench.tally.borrow().slots.clone();
    let (busy, idle): (Vec<_>, Vec<_>) =
        (0..slots.len()).partition(|slot| matches!(slots[*slot], Slot::Running(_)));
    crowd.borrow_mut().drop_slots(&idle);
    // Cancelling the others needs the runtime.
    crowd.borrow_mut().sleep_in_runtime();
    if !busy.is_empty() {
        let cancelling = spawn_local(cancel_running(Rc::clone(bench)));
        let ended = timeout(bench.terms.grace, &mut running).await;
        assert!(!ended.is_ok_and(|ended| ended.is_err()), "a client does not panic");
        cancelling.abort();
    }
    crowd.borrow_mut().drop_slots(&busy);
    running.abort();
}

/// Counts arrivals that no client will take.
fn count_lost(tally: &mut Tally, lost: Lost, shares: &mut Shares) {
    if !tally.is_open() {
        return;
    }
    for _ in 0..lost.dropped {
        let counts = tally.recorder.of(shares.next_type());
        counts.scheduled += 1;
        counts.dropped += 1;
    }
    for _ in 0..lost.skipped {
        let counts = tally.recorder.of(shares.next_type());
        counts.scheduled += 1;
        counts.skipped += 1;
    }
}

fn too_late(limit: Duration) -> Error {
    let message = format!("server did not answer within {} s", limit.as_secs_f64());
    Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, message))
}

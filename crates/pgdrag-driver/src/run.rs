//! How is one phase of load run, from the first connection to the last line?
//!
//! The coordinator starts the threads, opens the window, prints intervals as they become complete,
//! decides when the window ends, and makes sure that the driver ends in bounded time after that.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::clients::{Stage, Terms};
use crate::connection::{Error, Target};
use crate::job::RunJob;
use crate::output::{DriverCost, Output, RunSummary};
use crate::pacing::{Arrivals, Queue};
use crate::process::CpuTime;
use crate::samples::{Batch, Counts, Latencies, latencies};
use crate::window::{Plan, Window};
use crate::worker::{Event, Post, tick, work};
use crate::workload::Workload;

/// How long threads may take beyond the grace until the driver gives them up.
const THREADS_END_WITHIN: Duration = Duration::from_secs(10);

/// Everything that a run needs to be told.
pub struct Order<'a, W> {
    /// The job's `run`.
    pub job: &'a RunJob,
    /// Where to run.
    pub target: Target,
    /// For all connections together.
    pub connect_timeout: Duration,
    /// How often a transaction is tried again.
    pub max_retries: u32,
    /// What the clients do.
    pub workload: Arc<W>,
}

/// Runs one phase of load and writes its lines, the last one only if all went well.
///
/// `stop` ends the window as if the deadline had come. An error says why no window could be opened.
pub async fn run<W: Workload>(
    order: Order<'_, W>,
    output: &mut Output<'_>,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let mut stop = std::pin::pin!(stop);
    output.phase("connect");
    let mut crew = Crew::start(&order);
    let is_stopped = tokio::select! {
        biased;
        () = &mut stop => true,
        ready = crew.ready() => { ready?; false }
    };
    if is_stopped {
        output.done_run(&crew.nothing());
        return Ok(());
    }

    output.phase("run");
    let cpu_before = CpuTime::now();
    let window = Arc::new(Window::new(Instant::now()));
    crew.stage.send_replace(Stage::Running(Arc::clone(&window)));
    let stopped_by = crew.measure(&Plan::new(order.job), &window, output, stop.as_mut()).await;
    let cpu = CpuTime::now().since(cpu_before);

    output.phase("cancel");
    crew.stage.send_replace(Stage::Over);
    let grace = Duration::from_secs_f64(order.job.grace_s);
    if timeout(grace + THREADS_END_WITHIN, crew.finals()).await.is_err() {
        let message = format!("{} threads did not end", crew.posts_left);
        return Err(Error::Workload(message));
    }
    let deadline = window.deadline().expect("a window that is over has an end");
    crew.intervals.finish(&window, deadline, output);

    let threads = crew.workers;
    let driver = DriverCost::new(cpu, &crew.lags, threads);
    output.done_run(&RunSummary {
        elapsed_s: (deadline - window.start()).as_secs_f64(),
        stopped_by,
        totals: crew.intervals.totals,
        arrivals: crew.arrivals,
        driver,
    });
    Ok(())
}

/// The threads of a run, and what they have reported.
struct Crew {
    workers: u32,
    /// Threads that have not sent their last event.
    posts_left: usize,
    stage: watch::Sender<Stage>,
    events: UnboundedReceiver<Event>,
    intervals: Intervals,
    lags: Latencies,
    /// With a rate; nothing has arrived until the ticker's last event says otherwise.
    arrivals: Option<Arrivals>,
}

impl Crew {
    fn start<W: Workload>(order: &Order<'_, W>) -> Self {
        let (job, workload) = (order.job, &order.workload);
        let (stage, stages) = watch::channel(Stage::Waiting);
        let (sender, events) = unbounded_channel();
        let terms = Arc::new(Terms {
            target: order.target.clone(),
            connect_timeout: order.connect_timeout,
            grace: Duration::from_secs_f64(job.grace_s),
            max_retries: order.max_retries,
            queue: job.rate_per_s.map(|_| Queue::new(job.queue_limit)),
        });
        let interval = Duration::from_secs_f64(job.interval_s);
        let post = |events: &UnboundedSender<Event>| Post {
            terms: Arc::clone(&terms),
            stage: stages.clone(),
            events: events.clone(),
            interval,
        };

        let workers = job.threads.min(job.connections);
        for worker in 0..workers {
            let numbers: Vec<u32> =
                (0..job.connections).filter(|number| number % workers == worker).collect();
            let (post, workload) = (post(&sender), Arc::clone(workload));
            let clients = job.connections;
            spawn(format!("worker {worker}"), move || work(post, &*workload, &numbers, clients));
        }
        if let Some(rate_per_s) = job.rate_per_s {
            let (post, weights) = (post(&sender), workload.weights());
            spawn("ticker".into(), move || tick(post, rate_per_s, weights));
        }
        let posts = workers as usize + usize::from(job.rate_per_s.is_some());
        Self {
            workers,
            posts_left: posts,
            stage,
            events,
            intervals: Intervals::new(posts, interval, workload.transactions()),
            lags: latencies(),
            arrivals: job.rate_per_s.map(|_| Arrivals::default()),
        }
    }

    /// Waits until every worker's clients are connected.
    async fn ready(&mut self) -> Result<(), Error> {
        for _ in 0..self.workers {
            match self.next_event().await {
                Event::Ready => {}
                Event::NotReady(error) => return Err(error),
                Event::Batch(_) | Event::Final(_) => unreachable!("nothing runs yet"),
            }
        }
        Ok(())
    }

    /// Reports intervals until the window is over, and says why it is.
    async fn measure(
        &mut self,
        plan: &Plan,
        window: &Window,
        output: &mut Output<'_>,
        mut stop: Pin<&mut impl Future<Output = ()>>,
    ) -> &'static str {
        let mut is_extended = false;
        loop {
            let elapsed = window.start().elapsed();
            if window.deadline().is_none() {
                if let Some(length) = plan.length(elapsed, window.commits()) {
                    window.declare(length);
                } else if plan.is_extended(elapsed) && !is_extended {
                    is_extended = true;
                    output.phase("extend");
                }
            }
            let next_look = match window.deadline() {
                Some(deadline) => match deadline.checked_duration_since(Instant::now()) {
                    Some(left) if !left.is_zero() => left,
                    _ => return plan.stopped_by(deadline - window.start(), window.commits()),
                },
                None => plan.next_look(elapsed),
            };
            tokio::select! {
                biased;
                () = &mut stop => {
                    window.declare(window.start().elapsed());
                    return "signal";
                }
                event = self.next_event() => {
                    self.take(event);
                    self.intervals.print_complete(window, output);
                }
                () = sleep(next_look) => {}
            }
        }
    }

    /// Waits until every thread has sent its last event.
    async fn finals(&mut self) {
        while self.posts_left > 0 {
            let event = self.next_event().await;
            self.take(event);
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Batch(batch) => self.intervals.add(&batch),
            Event::Final(last) => {
                self.posts_left -= 1;
                self.lags.add(&last.lags).expect("histograms have the same bounds");
                for ((_, counts), in_flight) in self.intervals.totals.iter_mut().zip(last.in_flight)
                {
                    counts.in_flight += in_flight;
                }
                if last.arrivals.is_some() {
                    self.arrivals = last.arrivals;
                }
            }
            Event::Ready | Event::NotReady(_) => unreachable!("all are ready"),
        }
    }

    async fn next_event(&mut self) -> Event {
        // Every thread's last event says that it is the last, so none is waited for in vain unless
        // a thread panicked.
        self.events.recv().await.expect("threads send their last event before they end")
    }

    /// The result of a run that was stopped before its window opened.
    fn nothing(&self) -> RunSummary {
        let driver = DriverCost { threads: self.workers, ..DriverCost::default() };
        RunSummary {
            elapsed_s: 0.0,
            stopped_by: "signal",
            totals: self.intervals.totals.clone(),
            arrivals: self.arrivals.clone(),
            driver,
        }
    }
}

fn spawn(name: String, body: impl FnOnce() + Send + 'static) {
    // Nobody joins these threads: their last events say that they are done.
    thread::Builder::new().name(name).spawn(body).expect("a thread can be started");
}

/// Puts the threads' shares of each interval together.
struct Intervals {
    posts: usize,
    length: Duration,
    names: &'static [&'static str],
    /// By interval: how many threads have handed theirs over, and the sum.
    pending: BTreeMap<u64, (usize, Vec<Counts>)>,
    totals: Vec<(&'static str, Counts)>,
}

impl Intervals {
    fn new(posts: usize, length: Duration, names: &'static [&'static str]) -> Self {
        let totals = names.iter().map(|name| (*name, Counts::default())).collect();
        Self { posts, length, names, pending: BTreeMap::new(), totals }
    }

    fn add(&mut self, batch: &Batch) {
        for ((_, total), counts) in self.totals.iter_mut().zip(&batch.counts) {
            total.merge(counts);
        }
        let (posts, sum) =
            self.pending.entry(batch.interval).or_insert_with(|| (0, empty(self.names.len())));
        *posts += 1;
        for (sum, counts) in sum.iter_mut().zip(&batch.counts) {
            sum.merge(counts);
        }
    }

    /// Prints the intervals that all threads have handed over.
    fn print_complete(&mut self, window: &Window, output: &mut Output<'_>) {
        while let Some(first) = self.pending.first_entry() {
            let end = window.start() + end_of(self.length, *first.key());
            // The last interval takes in what threads hand over late: `finish` prints it.
            let is_last = window.deadline().is_some_and(|deadline| end >= deadline);
            if first.get().0 < self.posts || is_last {
                return;
            }
            let (_, counts) = first.remove();
            self.print(end, self.length, counts, output);
        }
    }

    /// Prints what is left; the last interval ends with the window.
    fn finish(&mut self, window: &Window, deadline: Instant, output: &mut Output<'_>) {
        let elapsed = deadline - window.start();
        let mut pending = std::mem::take(&mut self.pending);
        while let Some((interval, (_, mut counts))) = pending.pop_first() {
            let end = end_of(self.length, interval).min(elapsed);
            if end == elapsed {
                // A thread that saw the end late may have begun one more: it belongs to this one.
                for (_, (_, late)) in std::mem::take(&mut pending) {
                    counts.iter_mut().zip(&late).for_each(|(counts, late)| counts.merge(late));
                }
            }
            let begin = end_of(self.length, interval).saturating_sub(self.length);
            self.print(window.start() + end, end.saturating_sub(begin), counts, output);
        }
    }

    fn print(&self, end: Instant, length: Duration, counts: Vec<Counts>, output: &mut Output<'_>) {
        let named: Vec<_> = self.names.iter().copied().zip(counts).collect();
        output.interval(end, length.as_secs_f64(), &named);
    }
}

/// When an interval ends, counted from the start of the window.
fn end_of(length: Duration, interval: u64) -> Duration {
    let nanos = length.as_nanos() * u128::from(interval + 1);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

fn empty(types: usize) -> Vec<Counts> {
    vec![Counts::default(); types]
}

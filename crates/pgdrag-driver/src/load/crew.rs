//! Which threads does a run have, and what have they reported?

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::watch;

use crate::error::Error;
use crate::io::clock::{Clock, Moment};
use crate::job::{Pacing, RunJob};
use crate::load::clients::{Retries, Terms};
use crate::load::intervals::Intervals;
use crate::load::pacing::{Backlog, Seen};
use crate::load::samples::Latencies;
use crate::load::steps::Steps;
use crate::load::tally::{Insight, Warmed};
use crate::load::window::Window;
use crate::load::worker::{Event, Post, Stage, Start, work};
use crate::output::{Arrivals, DriverCost, Output, RunSummary};
use crate::session::Target;
use crate::workload::{StatementName, Workload};

/// Everything that a run needs to be told.
pub struct Order<'a, W> {
    /// The job's `run`.
    pub job: &'a RunJob,
    /// The job's seed, for the arrivals.
    pub seed: u64,
    /// Where to run.
    pub target: Target,
    /// For all connections together, and for the caller to answer a handshake.
    pub connect_timeout: Duration,
    /// What the clients do.
    pub workload: Arc<W>,
}

/// The threads of a run, and what they have reported.
pub(crate) struct Crew {
    terms: Arc<Terms>,
    pub(crate) threads: u32,
    /// Threads that have not sent their last event.
    pub(crate) threads_left: u32,
    pub(crate) stage: watch::Sender<Stage>,
    pub(crate) names: Arc<[Arc<str>]>,
    pub(crate) intervals: Intervals,
    pub(crate) insight: Insight,
    pub(crate) statements: Vec<StatementName>,
    events: UnboundedReceiver<Event>,
    steps: Arc<Steps>,
    warmed: Vec<Arc<Warmed>>,
    /// Committed and failed when the last line about the warm-up was written.
    told: (u64, u64),
    /// Threads with a client that can go on.
    at_work: u32,
    has_schedule: bool,
    /// With a schedule, from the thread that answers for it.
    seen: Option<Seen>,
}

/// What a run begins with.
pub(crate) struct Begun {
    pub(crate) window: Arc<Window>,
    pub(crate) began: Moment,
}

impl Crew {
    pub(crate) fn start<W: Workload>(order: &Order<'_, W>, clock: Clock) -> Self {
        let (job, workload) = (order.job, &order.workload);
        let (stage, stages) = watch::channel(Stage::Waiting);
        let (sender, events) = unbounded_channel();
        let interval = Duration::from_secs_f64(job.interval_s);
        let terms = Arc::new(Terms {
            target: order.target.clone(),
            connect_timeout: order.connect_timeout,
            grace: Duration::from_secs_f64(job.grace_s),
            retries: Retries {
                max_tries: workload.max_tries(),
                has_deadlocks: workload.retries_deadlocks(),
            },
            latency_limit: job.latency_limit_us.map(Duration::from_micros),
            transactions: job.transactions,
            reconnect: job.reconnect,
            has_laps: !workload.statements().is_empty(),
            counts_from_due: matches!(job.pacing, Pacing::Open { .. }),
            interval,
            clock,
            first_client: job.share().index,
            round_trip_ns: AtomicU64::new(0),
        });

        let own: Vec<_> = job.own_clients().collect();
        let threads = job.threads.min(job.own_connections());
        let (names, steps) = (workload.transactions(), Arc::new(Steps::new(job)));
        let intervals =
            Intervals::new(threads as usize, interval, Arc::clone(&names), Arc::clone(&steps));
        for thread in 0..threads {
            let post = Post {
                terms: Arc::clone(&terms),
                workload: Arc::clone(workload),
                numbers: own
                    .iter()
                    .skip(thread as usize)
                    .step_by(threads as usize)
                    .copied()
                    .collect(),
                clients: job.connections,
                stage: stages.clone(),
                events: sender.clone(),
                spare: intervals.spare.clone(),
            };
            spawn(format!("worker {thread}"), move || work(post));
        }
        Self {
            terms,
            threads,
            threads_left: threads,
            stage,
            names,
            intervals,
            insight: Insight::new(),
            statements: workload.statements(),
            events,
            steps,
            warmed: Vec::new(),
            told: (0, 0),
            at_work: threads,
            has_schedule: !matches!(job.pacing, Pacing::Closed),
            seen: None,
        }
    }

    /// What a question took that asks for nothing, before the load.
    pub(crate) fn round_trip(&self) -> Duration {
        Duration::from_nanos(self.terms.round_trip_ns.load(Ordering::Relaxed))
    }

    /// Waits until every thread's clients are connected.
    pub(crate) async fn ready(&mut self) -> Result<(), Error> {
        for _ in 0..self.threads {
            match self.next_event().await {
                Event::Ready => {}
                Event::NotReady(error) => return Err(error),
                _ => unreachable!("nothing runs yet"),
            }
        }
        Ok(())
    }

    /// Lets the clients begin.
    pub(crate) fn begin<W>(&self, order: &Order<'_, W>, clock: Clock) -> Begun {
        let window = Arc::new(Window::new(order.job));
        let began = clock.now();
        let backlog = Backlog::new(order.job, &window, began, order.seed).map(Arc::new);
        let steps = Arc::clone(&self.steps);
        if !order.job.handshake {
            // Known from the beginning, so that window and steps are exact.
            window.open(began + Duration::from_secs_f64(order.job.warm_up_s));
        }
        let start = Start { window: Arc::clone(&window), backlog, steps };
        self.stage.send_replace(Stage::Running(start));
        Begun { window, began }
    }

    /// Waits until every thread has sent its last event.
    pub(crate) async fn finals(&mut self) {
        while self.threads_left > 0 {
            let event = self.next_event().await;
            self.take(event);
        }
    }

    pub(crate) fn take(&mut self, event: Event) {
        match event {
            Event::Warming(warmed) => self.warmed.push(warmed),
            Event::Batch(batch) => self.intervals.add(batch),
            Event::Final(last) => {
                self.threads_left -= 1;
                self.insight.merge(&last.insight);
                for (counts, in_flight) in self.intervals.totals.iter_mut().zip(last.in_flight) {
                    counts.in_flight += in_flight;
                }
                self.seen = self.seen.take().or(last.seen);
            }
            // Once the run ends, it does not matter who could not have gone on.
            Event::Fatal(_) | Event::NobodyLeft => {}
            Event::Ready | Event::NotReady(_) => unreachable!("all are ready"),
        }
    }

    /// A thread has no client left that can go on; true if no other has.
    pub(crate) fn lose_one(&mut self) -> bool {
        self.at_work -= 1;
        self.at_work == 0
    }

    pub(crate) async fn next_event(&mut self) -> Event {
        // Every thread's last event says that it is the last, so none is waited for in vain unless
        // a thread panicked.
        self.events.recv().await.expect("threads send their last event before they end")
    }

    /// Tells what the warm-up has done since the last time.
    pub(crate) fn tell_warming(&mut self, length: Duration, output: &mut Output<'_>) {
        let sum = |count: fn(&Warmed) -> u64| self.warmed.iter().map(|warmed| count(warmed)).sum();
        let now: (u64, u64) = (
            sum(|warmed| warmed.committed.load(Ordering::Relaxed)),
            sum(|warmed| warmed.failed.load(Ordering::Relaxed)),
        );
        output.warming(length, now.0 - self.told.0, now.1 - self.told.1);
        self.told = now;
    }

    /// Whether latency has no schedule to count from.
    pub(crate) fn is_closed_loop(&self) -> bool {
        !self.has_schedule
    }

    /// How long arrivals waited; `None` without any.
    pub(crate) fn queued(&self) -> Option<&Latencies> {
        Some(&self.insight.queued).filter(|queued| self.has_schedule && !queued.is_empty())
    }

    /// What became of the schedule's arrivals, once all threads have ended.
    pub(crate) fn arrivals(&self) -> Option<Arrivals> {
        let nothing = Seen::default();
        let seen = self.seen.as_ref().unwrap_or(&nothing);
        let sum = |count: fn(&crate::load::samples::Counts) -> u64| {
            self.intervals.totals.iter().map(count).sum::<u64>()
        };
        self.has_schedule.then(|| Arrivals {
            scheduled: seen.due + seen.carried + self.insight.carried,
            carried: seen.carried + self.insight.carried,
            dropped: sum(|counts| counts.dropped),
            skipped: sum(|counts| counts.skipped),
            late: self.insight.late,
            max_queue: seen.max_queue,
            queue_us_p50: self.insight.queued.value_at_quantile(0.5),
            queue_us_p99: self.insight.queued.value_at_quantile(0.99),
            queue_us_max: self.insight.queued.max(),
        })
    }

    /// The result of a run that ended before its window opened.
    pub(crate) fn nothing(&self, warm_up: Duration) -> RunSummary {
        RunSummary {
            elapsed_s: 0.0,
            warm_up_s: warm_up.as_secs_f64(),
            stopped_by: "signal",
            names: Arc::clone(&self.names),
            totals: vec![crate::load::samples::Counts::default(); self.names.len()],
            arrivals: self.has_schedule.then(Arrivals::default),
            queued: None,
            connecting: None,
            sums: Vec::new(),
            statements: Vec::new(),
            driver: DriverCost { threads: self.threads, ..DriverCost::default() },
        }
    }
}

fn spawn(name: String, body: impl FnOnce() + Send + 'static) {
    // Nobody joins these threads: their last events say that they are done.
    thread::Builder::new().name(name).spawn(body).expect("a thread can be started");
}

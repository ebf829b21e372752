//! How is load put on the server, from the first connection to the last line?
//!
//! The coordinator starts the threads, lets them warm up, opens the window, prints intervals as they
//! become complete, and makes sure that the driver ends in bounded time after that.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{sleep_until, timeout};

use crate::error::Error;
use crate::io::clock::Moment;
use crate::io::process::CpuTime;
use crate::load::caller::{Caller, Opening, Said};
use crate::load::canceller::AT_A_TIME;
pub use crate::load::crew::Order;
use crate::load::crew::{Begun, Crew};
use crate::load::samples::Laps;
use crate::load::window::{NOTICE, Window};
use crate::load::worker::{Event, Stage};
use crate::output::{DriverCost, Output, RunSummary};
use crate::workload::{StatementName, Workload};

/// How long threads may take beyond the grace until the driver gives them up.
const THREADS_END_WITHIN: Duration = Duration::from_secs(10);

/// Open files that a run needs besides its connections.
#[must_use]
pub fn open_files_besides(threads: u32) -> u64 {
    // Standard streams, signals and the coordinator's runtime; for each thread its runtime, its timer
    // and the requests to cancel.
    32 + u64::from(threads) * (8 + AT_A_TIME as u64)
}

/// Why there is nothing to wait for any more.
enum Stop {
    /// A signal, a caller that has gone, or a line that could not be written.
    Outside,
    /// The job itself is wrong.
    Fatal(Error),
    /// No client can go on.
    NobodyLeft,
}

/// Runs warm-up and window, and writes their lines, the last one only if all went well.
///
/// `stop` ends the run as if the deadline had come. `said` is what the caller says; with a handshake, when the
/// window opens. An error says why no window could be opened, or what is wrong with the job.
pub async fn run<W: Workload>(
    order: Order<'_, W>,
    output: &mut Output<'_>,
    stop: impl Future<Output = ()>,
    said: UnboundedReceiver<Said>,
) -> Result<(), Error> {
    let mut stop = pin!(stop);
    output.phase("connect");
    let mut crew = Crew::start(&order, output.clock());
    let mut caller = Caller::new(said, order.job.share.is_some());
    let is_stopped = {
        let mut ready = pin!(crew.ready());
        loop {
            tokio::select! {
                biased;
                () = &mut stop => break true,
                ready = &mut ready => { ready?; break false; }
                said = caller.hear() => match said {
                    Said::Clock { id, received } => output.time(id, received),
                    Said::Measure(_) => {}
                    Said::EndOfFile | Said::End(_) => break true,
                    Said::Strange(line) => return Err(strange(&line)),
                },
            }
        }
    };
    if is_stopped {
        output.done_run(&crew.nothing(Duration::ZERO));
        return Ok(());
    }
    let Begun { window, began } = crew.begin(&order, output.clock());
    let mut run = Run { crew, output, stop, caller, window, cpu: CpuTime::default() };
    let mut stopped = run.warm_up(&order, began).await?;
    if stopped.is_none() {
        run.output.phase("run");
        stopped = run.measure().await;
    }
    run.end(&order, stopped, began).await
}

fn strange(line: &str) -> Error {
    Error::Workload(format!("caller wrote {line:?}, which the contract does not know"))
}

/// Puts each statement beside its executions.
fn with_laps(statements: Vec<StatementName>, laps: &[Laps]) -> Vec<(StatementName, Laps)> {
    let laps = laps.iter().cloned().chain(std::iter::repeat(Laps::default()));
    statements.into_iter().zip(laps).collect()
}

struct Run<'a, 'o, S> {
    crew: Crew,
    output: &'a mut Output<'o>,
    stop: Pin<&'a mut S>,
    caller: Caller,
    window: Arc<Window>,
    /// At the opening of the window, and then over it.
    cpu: CpuTime,
}

impl<S: Future<Output = ()>> Run<'_, '_, S> {
    /// Waits until the window opens; what comes back ended the run before that.
    async fn warm_up<W>(
        &mut self,
        order: &Order<'_, W>,
        began: Moment,
    ) -> Result<Option<Stop>, Error> {
        let clock = self.output.clock();
        let end = began + Duration::from_secs_f64(order.job.warm_up_s);
        if end > began {
            self.output.phase("warm_up");
        }
        let interval = Duration::from_secs_f64(order.job.interval_s);
        let mut told = began;
        while clock.now() < end {
            if let Some(stop) = self.wait_until((told + interval).min(end)).await {
                return Ok(Some(stop));
            }
            if clock.now() >= told + interval {
                self.crew.tell_warming(interval, self.output);
                told = told + interval;
            }
        }
        if !order.job.handshake {
            return Ok(None);
        }
        self.output.warm();
        let limit = clock.now() + order.connect_timeout;
        let asked = loop {
            if let Some(asked) = self.caller.asked() {
                break asked;
            }
            if let Some(stop) = self.wait_until((told + interval).min(limit)).await {
                return Ok(Some(stop));
            }
            if clock.now() >= limit {
                return self.give_up(format!(
                    "caller did not answer \"warm\" within {} s",
                    order.connect_timeout.as_secs_f64()
                ));
            }
            if clock.now() >= told + interval {
                self.crew.tell_warming(interval, self.output);
                told = told + interval;
            }
        };
        let soonest = clock.now() + NOTICE;
        let opening = match asked {
            Opening::Soon => soonest,
            Opening::At(moment) if moment >= soonest => moment,
            Opening::At(moment) => {
                return self.give_up(format!(
                    "window was to open at {} s, and that was too late to ask for at {} s",
                    moment.seconds(),
                    clock.now().seconds()
                ));
            }
        };
        self.window.open(opening);
        while clock.now() < opening {
            if let Some(stop) = self.wait_until(opening).await {
                return Ok(Some(stop));
            }
        }
        Ok(None)
    }

    /// Ends the threads without a result.
    fn give_up<T>(&mut self, message: String) -> Result<T, Error> {
        self.crew.stage.send_replace(Stage::Over);
        Err(Error::Workload(message))
    }

    /// Reports intervals until the window is over, or something else ends it.
    async fn measure(&mut self) -> Option<Stop> {
        let clock = self.output.clock();
        self.cpu = CpuTime::now();
        let mut extension = self.window.extension();
        loop {
            let end = self.window.end().expect("a window that opens has an end");
            let now = clock.now();
            if now > end {
                return None;
            }
            if extension.is_some_and(|extension| extension < now) {
                extension = None;
                self.output.phase("extend");
            }
            // Beyond a moment, so that what is compared with it later lies behind it.
            let next = end.min(extension.unwrap_or(Moment::NEVER)) + Duration::from_nanos(1);
            let window = Arc::clone(&self.window);
            tokio::select! {
                biased;
                () = window.end_moved() => {}
                stop = self.wait_until(next) => if stop.is_some() { return stop; },
            }
        }
    }

    /// Takes events until `moment`, or until the caller has said when the window opens or ends; something else
    /// may end the run before.
    async fn wait_until(&mut self, moment: Moment) -> Option<Stop> {
        let clock = self.output.clock();
        loop {
            if self.output.is_broken() {
                return Some(Stop::Outside);
            }
            tokio::select! {
                biased;
                () = &mut self.stop => return Some(Stop::Outside),
                event = self.crew.next_event() => match event {
                    Event::Fatal(error) => return Some(Stop::Fatal(error)),
                    Event::NobodyLeft => {
                        if self.crew.lose_one() {
                            return Some(Stop::NobodyLeft);
                        }
                    }
                    event => {
                        self.crew.take(event);
                        self.crew.intervals.print_complete(&self.window, self.output);
                    }
                },
                said = self.caller.hear() => match said {
                    Said::Clock { id, received } => self.output.time(id, received),
                    Said::Measure(_) => return None,
                    Said::End(moment) if self.window.opening().is_some() => {
                        self.window.end_by(moment.max(clock.now() + NOTICE));
                        return None;
                    }
                    Said::EndOfFile | Said::End(_) => return Some(Stop::Outside),
                    Said::Strange(line) => return Some(Stop::Fatal(strange(&line))),
                },
                () = sleep_until(clock.instant(moment).into()) => return None,
            }
        }
    }

    /// Reports what all threads have handed over, and which have not ended.
    ///
    /// Nobody but a thread itself can read its counts: that is why it counts without a lock. Clients that
    /// hang do not keep a thread from ending, so one that does not is stuck in the driver's own
    /// code, or gets no processor. Intervals without its share would tell of a slower server.
    fn without_threads(&mut self, limit: Duration) -> Error {
        self.crew.intervals.print_complete(&self.window, self.output);
        let (left, all) = (self.crew.threads_left, self.crew.threads);
        let within = limit.as_secs_f64();
        Error::Workload(format!(
            "{left} of {all} threads did not end within {within} s of the window's end: what they counted \
             last is lost"
        ))
    }

    /// Ends the window and the threads, and writes the last line.
    async fn end<W: Workload>(
        mut self,
        order: &Order<'_, W>,
        stopped: Option<Stop>,
        began: Moment,
    ) -> Result<(), Error> {
        let clock = self.output.clock();
        if stopped.is_some() {
            self.window.end_by(clock.now() + NOTICE);
        }
        let end = self.window.end().expect("a window that is over has an end");
        sleep_until(clock.instant(end).into()).await;
        self.cpu = CpuTime::now().since(self.cpu);

        self.output.phase("cancel");
        self.crew.stage.send_replace(Stage::Over);
        let limit = Duration::from_secs_f64(order.job.grace_s) + THREADS_END_WITHIN;
        let have_ended = timeout(limit, self.crew.finals()).await.is_ok();
        if !have_ended {
            return Err(self.without_threads(limit));
        }
        let opening = self.window.opening().filter(|opening| *opening < end);
        if let Some(opening) = opening {
            self.crew.intervals.finish((opening, end), self.output);
        }
        let stopped_by = match stopped {
            None => self.window.stopped_by(),
            Some(Stop::Outside) => "signal",
            Some(Stop::NobodyLeft) => "clients",
            Some(Stop::Fatal(error)) => return Err(error),
        };
        let Some(opening) = opening else {
            let nothing = RunSummary { stopped_by, ..self.crew.nothing(end.since(began)) };
            self.output.done_run(&nothing);
            return Ok(());
        };
        let crew = self.crew;
        let driver = DriverCost::new(
            self.cpu,
            &crew.insight,
            crew.threads,
            !crew.is_closed_loop(),
            crew.round_trip(),
        );
        self.output.done_run(&RunSummary {
            elapsed_s: end.since(opening).as_secs_f64(),
            warm_up_s: opening.since(began).as_secs_f64(),
            stopped_by,
            arrivals: crew.arrivals(),
            queued: crew.queued().cloned(),
            statements: with_laps(crew.statements, &crew.insight.laps),
            sums: order.workload.sums(),
            connecting: order.job.reconnect.then_some(crew.insight.connecting),
            names: crew.names,
            totals: crew.intervals.totals,
            driver,
        });
        Ok(())
    }
}

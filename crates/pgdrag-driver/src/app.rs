//! Who does what a job asks for?

use std::future::Future;
use std::io::{BufRead, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::error::Error;
use crate::io::clock::Clock;
use crate::io::process::{Parent, raise_open_files};
use crate::job::{Action, Job, WorkloadJob};
use crate::load::caller::Said;
use crate::load::run::{Order, open_files_besides, run};
use crate::output::Output;
use crate::script::Scripts;
use crate::session::{Target, connect_within};
use crate::tpcc::Tpcc;
use crate::watch::watch;
use crate::workload::{Dataset, Progress, Workload};

/// The last line is `done`.
pub const EXIT_DONE: i32 = 0;
/// The last line is `error`.
pub const EXIT_ERROR: i32 = 1;
/// The job could not be understood.
pub const EXIT_MISUSE: i32 = 2;

/// More than this is no line of the caller's.
const ANSWER_BYTES_MAX: u64 = 4096;

/// How long a load or a check that was stopped may take to cancel its statements.
const CANCEL_WITHIN: Duration = Duration::from_secs(2);

/// Does the job on `line`, writes its lines to `sink`, and returns the exit status.
pub fn perform(line: &str, parent: Parent, sink: &mut dyn Write) -> i32 {
    let mut output = Output::new(sink);
    // The one place that knows all workloads: each is an arm.
    let understood = Job::parse(line).and_then(|job| match &job.workload {
        Some(WorkloadJob::Tpcc(tpcc)) => {
            let workload = Tpcc::new(tpcc, job.seed)?;
            let work = async |output: &mut Output<'_>| dispatch(&job, workload, output).await;
            Ok(perform_understood(&job, parent, &mut output, work))
        }
        Some(WorkloadJob::Pgbench(pgbench)) => {
            let workload = Scripts::new(pgbench, job.action, job.seed)?;
            let work = async |output: &mut Output<'_>| dispatch(&job, workload, output).await;
            Ok(perform_understood(&job, parent, &mut output, work))
        }
        None => {
            let work = async |output: &mut Output<'_>| watch_for(&job, output).await;
            Ok(perform_understood(&job, parent, &mut output, work))
        }
    });
    let status = understood.unwrap_or_else(|message| {
        output.error(&message, None);
        EXIT_MISUSE
    });
    if output.is_broken() { EXIT_ERROR } else { status }
}

fn perform_understood(
    job: &Job,
    parent: Parent,
    output: &mut Output<'_>,
    work: impl AsyncFnOnce(&mut Output<'_>) -> Result<(), Error>,
) -> i32 {
    output.hello(job.action);
    if let Err(message) = prepare(job, parent) {
        output.error(&message, None);
        return EXIT_ERROR;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a thread can have a runtime");
    let result = runtime.block_on(work(output));
    // A look-up of a host name that hangs must not keep the driver from ending.
    runtime.shutdown_background();
    match result {
        Ok(()) => EXIT_DONE,
        Err(error) => {
            output.error(&error.to_string(), Some(error.sqlstate()));
            EXIT_ERROR
        }
    }
}

/// Ties the driver to its parent, and gets it as many files as it may open.
fn prepare(job: &Job, parent: Parent) -> Result<(), String> {
    if job.die_with_parent {
        match parent.die_with_it() {
            Ok(true) => {}
            Ok(false) => return Err("the process that started the driver is gone".into()),
            Err(error) => return Err(format!("could not ask to die with the parent: {error}")),
        }
    }
    let files = raise_open_files();
    let Some(run) = &job.run else { return Ok(()) };
    let connections = run.own_connections();
    let needed = u64::from(connections) + open_files_besides(run.threads.min(connections));
    if needed <= files {
        return Ok(());
    }
    Err(format!(
        "{connections} connections need {needed} open files, and the driver may open {files}: raise its hard \
         limit (ulimit -n), or ask for fewer connections"
    ))
}

async fn dispatch<W: Workload + Dataset>(
    job: &Job,
    workload: W,
    output: &mut Output<'_>,
) -> Result<(), Error> {
    let stop = stop_signal();
    let target = job.target()?;
    let connect_timeout = Duration::from_secs_f64(job.server.connect_timeout_s);
    match job.action {
        Action::Run => {
            let run_job = job.run.as_ref().expect("a job to run says how");
            let workload = Arc::new(workload);
            let order = Order { job: run_job, seed: job.seed, target, connect_timeout, workload };
            let said = if run_job.handshake { hear(output.clock()) } else { unbounded_channel().1 };
            run(order, output, stop, said).await
        }
        Action::Load => {
            let parallelism = job.load.as_ref().expect("a job to load says how").parallelism;
            let broken = output.broken();
            let work = async {
                output.phase("connect");
                // Fails here, within the time limit, rather than in the middle of loading.
                drop(connect_within(&target, connect_timeout).await?);
                let began = Instant::now();
                let summary = workload
                    .load(&target, parallelism as usize, &mut |progress: Progress| {
                        output.progress(progress);
                    })
                    .await?;
                output.done_load(&summary, began.elapsed().as_secs_f64());
                Ok(())
            };
            or_cancel(work, either(stop, broken.notified()), &target).await
        }
        Action::Check => {
            let work = async {
                output.phase("connect");
                let mut connection = connect_within(&target, connect_timeout).await?;
                output.phase("check");
                let violations = workload.check(&mut connection).await?;
                output.done_check(&violations, &workload.conditions());
                Ok(())
            };
            or_cancel(work, stop, &target).await
        }
        Action::Compile => {
            // A mistake would have ended the job before it came here.
            output.done_compile(&workload.transactions(), &workload.examples());
            Ok(())
        }
        Action::Watch => unreachable!("a watch has no workload"),
    }
}

/// Watches until the caller has seen enough, or has gone.
async fn watch_for(job: &Job, output: &mut Output<'_>) -> Result<(), Error> {
    let how = job.watch.expect("a job to watch says how");
    let connect_timeout = Duration::from_secs_f64(job.server.connect_timeout_s);
    let stop = stop_signal();
    let is_resting = Arc::new(AtomicBool::new(false));
    let told = told_to_end(Arc::clone(&is_resting));
    let target = job.target()?;
    let stop = either(stop, told);
    watch((how, job.seed), (&target, connect_timeout), output, &is_resting, stop).await
}

/// Waits until the caller says that the watch is to end, or is gone; meanwhile it may be told to rest, and
/// to look again.
async fn told_to_end(is_resting: Arc<AtomicBool>) {
    let (sender, receiver) = oneshot::channel();
    // See `hear`.
    std::thread::spawn(move || {
        while let Some(rests) = rest_or_look() {
            is_resting.store(rests, Ordering::Relaxed);
        }
        let _ = sender.send(());
    });
    let _ = receiver.await;
}

/// Reads a line of the caller's: true: the watch is to rest, false: to look. None: it is to end.
fn rest_or_look() -> Option<bool> {
    let mut line = String::new();
    std::io::stdin().lock().take(ANSWER_BYTES_MAX).read_line(&mut line).ok()?;
    let said: Value = serde_json::from_str(&line).ok()?;
    match said["type"].as_str()? {
        "rest" => Some(true),
        "look" => Some(false),
        _ => None,
    }
}

/// Passes on what the caller says while a run lasts.
fn hear(clock: Clock) -> UnboundedReceiver<Said> {
    let (sender, receiver) = unbounded_channel();
    // Standard input can only be waited for by a thread, which ends with the process.
    std::thread::spawn(move || {
        loop {
            let mut line = String::new();
            let read = std::io::stdin().lock().take(ANSWER_BYTES_MAX).read_line(&mut line);
            let now = clock.now();
            let said = match read {
                Ok(0) | Err(_) => Said::EndOfFile,
                Ok(_) => Said::read(line.trim_end(), now),
            };
            let is_last = matches!(said, Said::EndOfFile | Said::Strange(_));
            if sender.send(said).is_err() || is_last {
                return;
            }
        }
    });
    receiver
}

/// Waits for whichever comes first.
async fn either(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    tokio::select! {
        () = one => {}
        () = other => {}
    }
}

/// Does `work`, unless a signal comes first: then its sessions are cancelled, and it has failed,
/// because half a dataset and half a check are of no use.
async fn or_cancel(
    work: impl Future<Output = Result<(), Error>>,
    stop: impl Future<Output = ()>,
    target: &Target,
) -> Result<(), Error> {
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased;
        result = &mut work => return result,
        () = stop => {}
    }
    // A server that is busy with an index would not notice that its client has gone.
    let _ = timeout(CANCEL_WITHIN, target.cancel_all()).await;
    Err(Error::Stopped)
}

/// Ends at the first SIGINT or SIGTERM from now on.
fn stop_signal() -> impl Future<Output = ()> {
    let mut interrupt = signal(SignalKind::interrupt()).expect("SIGINT can be handled");
    let mut terminate = signal(SignalKind::terminate()).expect("SIGTERM can be handled");
    async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}

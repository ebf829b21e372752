//! Who does what a job asks for?

use std::future::Future;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use crate::connection::{Error, Target, connect_within};
use crate::job::{Action, Job, WorkloadJob};
use crate::output::Output;
use crate::process::Parent;
use crate::run::{Order, run};
use crate::tpcc::Tpcc;
use crate::workload::{Dataset, Progress};

/// The last line is `done`.
pub const EXIT_DONE: i32 = 0;
/// The last line is `error`.
pub const EXIT_ERROR: i32 = 1;
/// The job could not be understood.
pub const EXIT_MISUSE: i32 = 2;

/// How long a load or a check that was stopped may take to cancel its statements.
const CANCEL_WITHIN: Duration = Duration::from_secs(2);

/// Does the job on `line`, writes its lines to `sink`, and returns the exit status.
pub fn perform(line: &str, parent: Parent, sink: &mut dyn Write) -> i32 {
    let mut output = Output::new(sink);
    match Job::parse(line).and_then(|job| Ok((workload(&job)?, job))) {
        Ok((workload, job)) => {
            output.hello(job.action);
            perform_understood(&job, workload, parent, &mut output)
        }
        Err(message) => {
            output.error(&message, None);
            EXIT_MISUSE
        }
    }
}

fn workload(job: &Job) -> Result<Tpcc, String> {
    let WorkloadJob::Tpcc(tpcc) = &job.workload;
    Tpcc::new(tpcc, job.seed)
}

fn perform_understood(job: &Job, workload: Tpcc, parent: Parent, output: &mut Output<'_>) -> i32 {
    if job.die_with_parent {
        match parent.die_with_it() {
            Ok(true) => {}
            Ok(false) => {
                output.error("the process that started the driver is gone", None);
                return EXIT_ERROR;
            }
            Err(error) => {
                output.error(&format!("could not ask to die with the parent: {error}"), None);
                return EXIT_ERROR;
            }
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a thread can have a runtime");
    let result = runtime.block_on(dispatch(job, workload, output));
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

async fn dispatch(job: &Job, workload: Tpcc, output: &mut Output<'_>) -> Result<(), Error> {
    let stop = stop_signal();
    let target = job.target();
    let connect_timeout = Duration::from_secs_f64(job.server.connect_timeout_s);
    match job.action {
        Action::Run => {
            let WorkloadJob::Tpcc(tpcc) = &job.workload;
            let order = Order {
                job: job.run.as_ref().expect("a job to run says how"),
                target,
                connect_timeout,
                max_retries: tpcc.max_retries,
                workload: Arc::new(workload),
            };
            run(order, output, stop).await
        }
        Action::Load => {
            let parallelism = job.load.as_ref().expect("a job to load says how").parallelism;
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
            or_cancel(work, stop, &target).await
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

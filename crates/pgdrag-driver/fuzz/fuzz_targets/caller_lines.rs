//! Can any line of a caller make the driver panic: its job, or what it says while a run lasts?
#![no_main]

use libfuzzer_sys::fuzz_target;
use pgdrag_driver::io::clock::Moment;
use pgdrag_driver::job::{Action, Job, WorkloadJob};
use pgdrag_driver::load::caller::Said;
use pgdrag_driver::script::Scripts;
use pgdrag_driver::tpcc::Tpcc;

/// As long as jobs are that say something; longer ones only repeat.
const LONGEST: usize = 8_192;

fuzz_target!(|line: &str| {
    if line.len() > LONGEST {
        return;
    }
    let _ = Said::read(line, Moment(7));
    let Ok(job) = Job::parse(line) else { return };
    let _ = job.target();
    match &job.workload {
        Some(WorkloadJob::Tpcc(tpcc)) => drop(Tpcc::new(tpcc, job.seed)),
        Some(WorkloadJob::Pgbench(pgbench)) => {
            drop(Scripts::new(pgbench, Action::Compile, job.seed));
        }
        None => {}
    }
});

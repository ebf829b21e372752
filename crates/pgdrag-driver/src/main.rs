//! The command `pgdrag-driver`: one job in, lines out.

use std::io::{BufRead, Read};

use pgdrag_driver::app::{self, EXIT_DONE, EXIT_MISUSE};
use pgdrag_driver::io::process::Parent;
use pgdrag_driver::output::VERSION;

const HELP: &str = "\
Usage: pgdrag-driver < JOB

Reads one JSON job from standard input (one line), puts the load on PostgreSQL
that it describes, and writes JSON lines to standard output. The job and the
lines are described in docs/reference/driver-contract.md. Connections are Unix
sockets or TCP without TLS.

Options:
  --help     Print this text
  --version  Print the version

Exit status: 0 done, 1 error, 2 the job could not be understood.
";

/// A job is a few hundred bytes and the text of its scripts; more than this is something else.
const JOB_BYTES_MAX: u64 = 16 << 20;

/// A panic of any thread ends the process with this status.
const EXIT_PANIC: i32 = 101;

fn main() {
    let parent = Parent::now();
    die_of_any_panic();
    std::process::exit(match std::env::args().nth(1).as_deref() {
        None => perform_job(parent),
        Some("--help" | "-h") => {
            print!("{HELP}");
            EXIT_DONE
        }
        Some("--version") => {
            println!("pgdrag-driver {VERSION}");
            EXIT_DONE
        }
        Some(other) => {
            eprintln!("pgdrag-driver: unknown argument \"{other}\"");
            eprintln!("hint: The job is read from standard input; see pgdrag-driver --help.");
            EXIT_MISUSE
        }
    });
}

fn perform_job(parent: Parent) -> i32 {
    let mut line = String::new();
    let stdin = std::io::stdin().lock();
    if let Err(error) = stdin.take(JOB_BYTES_MAX).read_line(&mut line) {
        eprintln!("pgdrag-driver: could not read the job: {error}");
    }
    app::perform(&line, parent, &mut std::io::stdout())
}

/// A thread that panics would leave the others waiting for it.
fn die_of_any_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::exit(EXIT_PANIC);
    }));
}

//! How do pgbench's scripts become a workload?
//!
//! Each script is a transaction type. They are compiled once, before any connection is made; each
//! client then has variables, random numbers and prepared statements of its own. Where it differs
//! from pgbench:
//!
//! - A statement that fails counts as a failed transaction, and the client goes on.
//! - A meta command that fails ends the run for all clients.

mod examples;
mod pools;
mod shell;
mod sums;
pub mod tables;
mod terminal;

use std::sync::Arc;

use pgbench_script::{Choice, Client, Generator, Programs, Protocol, Value, is_variable_name};

use self::pools::{Pools, Taker};
use self::sums::Sums;
pub use self::terminal::Terminal;
use crate::error::Error;
use crate::job::{Action, PgbenchJob, Statements};
use crate::session::Connection;
use crate::session::Target;
use crate::workload::{
    Dataset, Example, LoadSummary, OnProgress, StatementName, Sum, Violation, Workload,
};

/// The scripts of a job, ready to run.
#[derive(Debug, Clone)]
pub struct Scripts {
    shared: Arc<Shared>,
}

/// What all clients share and none changes.
#[derive(Debug)]
struct Shared {
    job: PgbenchJob,
    seed: u64,
    programs: Arc<Programs>,
    /// None if there is no script, which only a run needs.
    choice: Option<Choice>,
    sums: Arc<Sums>,
    pools: Pools,
}

impl Scripts {
    /// Compiles the scripts.
    ///
    /// The error is one line that names the script and the place, or the key.
    pub fn new(job: &PgbenchJob, action: Action, seed: u64) -> Result<Self, String> {
        if matches!(action, Action::Run | Action::Compile) && job.scripts.is_empty() {
            return Err(r#"key "workload.scripts" must not be empty"#.into());
        }
        let protocol = match job.statements {
            Statements::Simple => Protocol::Simple,
            Statements::Extended | Statements::Prepared => Protocol::Parameters,
        };
        let mut programs = Programs::new(protocol);
        for script in &job.scripts {
            programs
                .add(&script.name, &script.text)
                .map_err(|error| format!("script \"{}\", {error}", script.name))?;
            if programs.uses_shell() && !job.allow_shell {
                return Err(format!(
                    "script \"{}\" runs programs of this machine, and key \"workload.allow_shell\" is false",
                    script.name
                ));
            }
        }
        if let Some(name) = job.variables.keys().find(|name| !is_variable_name(name)) {
            return Err(format!("key \"workload.variables\": invalid variable name: \"{name}\""));
        }
        let weights: Vec<u32> = job.scripts.iter().map(|script| script.weight).collect();
        let sums = Arc::new(Sums::new(&job.sums, &programs)?);
        let pools = Pools::new(job, &programs)?;
        let (job, programs) = (job.clone(), Arc::new(programs));
        let choice = Choice::new(&weights);
        Ok(Self { shared: Arc::new(Shared { job, seed, programs, choice, sums, pools }) })
    }
}

impl Workload for Scripts {
    type Terminal = Terminal;

    fn transactions(&self) -> Arc<[Arc<str>]> {
        self.shared.job.scripts.iter().map(|script| Arc::from(script.name.as_str())).collect()
    }

    fn weights(&self) -> Vec<f64> {
        let PgbenchJob { scripts, clients, .. } = &self.shared.job;
        if clients.is_empty() {
            return scripts.iter().map(|script| f64::from(script.weight)).collect();
        }
        let mut counts = vec![0.0; scripts.len()];
        for script in clients {
            counts[*script] += 1.0;
        }
        counts
    }

    fn statements(&self) -> Vec<StatementName> {
        if !self.shared.job.time_statements {
            return Vec::new();
        }
        let name = |statement: &pgbench_script::Statement| {
            let (transaction, line) = statement.place;
            StatementName { transaction, line, text: statement.source() }
        };
        self.shared.programs.statements().iter().map(name).collect()
    }

    fn max_tries(&self) -> u32 {
        self.shared.job.max_tries
    }

    fn sums(&self) -> Vec<(String, Sum)> {
        self.shared.sums.add_up()
    }

    fn examples(&self) -> Vec<Example> {
        examples::examples(&self.shared)
    }

    async fn expect_dataset(&self, conn: &mut Connection) -> Result<(), Error> {
        self.shared.pools.fetch(conn).await
    }

    async fn terminal(
        &self,
        client: u32,
        clients: u32,
        conn: &mut Connection,
    ) -> Result<Terminal, Error> {
        let (shared, draws) =
            (Arc::clone(&self.shared), Draws::new(self.shared.seed, client, clients));
        Terminal::open(shared, client, draws, conn).await
    }
}

impl Dataset for Scripts {
    async fn load(
        &self,
        target: &Target,
        _parallelism: usize,
        progress: OnProgress<'_>,
    ) -> Result<LoadSummary, Error> {
        let job = &self.shared.job;
        let tables = job.tables.as_ref().ok_or_else(|| {
            Error::Fatal(r#"key "workload.tables" must be given when "action" is "load""#.into())
        })?;
        tables::load(tables, job.scale, target, progress).await
    }

    async fn check(&self, conn: &mut Connection) -> Result<Vec<Violation>, Error> {
        tables::check(self.shared.job.scale, conn).await
    }

    fn conditions(&self) -> Vec<String> {
        tables::conditions()
    }
}

impl Shared {
    /// Makes a client with the variables that pgbench gives it.
    fn client(&self, number: u32, functions: Generator, default_seed: Value) -> Client {
        let can_retry = self.job.max_tries != 1;
        let mut client = Client::new(Arc::clone(&self.programs), functions, can_retry);
        let variables = &mut client.variables;
        variables.set_named("scale", Value::Int(self.job.scale.into()));
        variables.set_named("client_id", Value::Int(number.into()));
        variables.set_named("random_seed", Value::Int(self.seed.cast_signed()));
        variables.set_named("default_seed", default_seed);
        for (name, text) in &self.job.variables {
            variables.set_text_named(name, text);
        }
        client
    }
}

/// A client's sources of random numbers.
struct Draws {
    /// For the scripts' functions.
    functions: Generator,
    /// For the choice of scripts.
    choice: Generator,
    /// For rows of pools.
    pools: Taker,
    /// For hashes without a seed of their own; the same for all clients.
    default_seed: Value,
}

impl Draws {
    /// Seeds them in pgbench's order, so that the functions return what they return there.
    fn new(seed: u64, client: u32, clients: u32) -> Self {
        let mut base = Generator::new(seed);
        let seeds = (0..clients).map(|_| base.next_u64());
        let functions = seeds.enumerate().filter(|(number, _)| *number == client as usize).last();
        let default_seed = Value::Int(base.next_u64().cast_signed());
        let choice = std::iter::repeat_with(|| base.split()).nth(client as usize);
        let choice = choice.expect("the repetition has no end");
        Self {
            functions: Generator::new(functions.expect("the client is one of them").1),
            // What pgbench draws stays as it is.
            pools: Taker::new(choice.clone().split(), client, clients),
            choice,
            default_seed,
        }
    }
}

//! What does a client do with each step of its script?

use std::sync::Arc;
use std::time::Instant;

use pgbench_script::{Client, Deck, Generator, ResultKind, Results, Slot, Step, Value};
use pgwire::value::Format;

use super::pools::Taker;
use super::sums::Account;
use super::{Draws, Shared, Statements, shell};
use crate::error::Error;
use crate::io::timer::Timers;
use crate::session::{Answer, Answers, Connection, Flight, Params, Protocol, Row, Statement};
use crate::workload::{self, Ended, Lap};

/// One client: its place in a script, and what its connection has prepared.
#[derive(Debug)]
pub struct Terminal {
    shared: Arc<Shared>,
    client: Client,
    choice: Generator,
    /// What it draws scripts from, where not each draw is by lot.
    deck: Option<Deck>,
    /// Where it is in the pools.
    taker: Taker,
    /// What it runs throughout, where it draws nothing.
    own: Option<usize>,
    /// Whether the drawn script has been begun before, so that this is a retry.
    has_begun: bool,
    /// Whether this attempt has sent something.
    has_sent: bool,
    /// By a statement's number, once it was needed.
    statements: Vec<Option<Ready>>,
    params: Params,
    text: String,
    /// Executions of statements, where they are to be told.
    laps: Vec<Lap>,
    /// Where variables are summed.
    account: Option<Account>,
}

/// A statement that the connection can execute.
#[derive(Debug)]
struct Ready {
    statement: Statement,
    /// By column, where the server said which there are.
    targets: Vec<Option<Slot>>,
}

impl Terminal {
    pub(super) async fn open(
        shared: Arc<Shared>,
        number: u32,
        mut draws: Draws,
        conn: &mut Connection,
    ) -> Result<Self, Error> {
        let client = shared.client(number, draws.functions, draws.default_seed);
        let account = shared.sums.open();
        let own = shared.job.clients.get(number as usize).copied();
        let deck = shared.job.even_mix.then(|| Deck::new(&mut draws.choice));
        let mut terminal = Self {
            shared,
            client,
            choice: draws.choice,
            deck,
            taker: draws.pools,
            own,
            has_begun: false,
            has_sent: false,
            statements: Vec::new(),
            params: Params::new(),
            text: String::new(),
            laps: Vec::new(),
            account,
        };
        terminal.attach(conn).await?;
        Ok(terminal)
    }

    /// Begins with a connection on which nothing is prepared.
    async fn attach(&mut self, conn: &mut Connection) -> Result<(), Error> {
        self.statements.clear();
        self.statements.resize_with(self.shared.programs.statements().len(), || None);
        conn.set_protocol(match self.shared.job.statements {
            Statements::Simple => Protocol::Simple,
            Statements::Extended => Protocol::Extended,
            Statements::Prepared => Protocol::Prepared,
        })
        .await
    }

    fn step(&mut self) -> Result<Step, Error> {
        let step = self.client.step(&mut |line| eprintln!("{line}"));
        step.map_err(|error| Error::Fatal(error.to_string()))
    }

    /// The end of the run for what the last step failed with.
    fn failed(&self, message: &str) -> Error {
        Error::Fatal(self.client.failed(message).to_string())
    }

    /// Does a step that has nothing to do with the server.
    async fn locally(&mut self, step: Step, timers: &Timers) -> Result<(), Error> {
        match step {
            Step::Sleep(length) => timers.sleep(length).await,
            Step::Shell(number) => self.shell(number).await?,
            other => unreachable!("the scripts' compiler has checked that {other:?} comes here"),
        }
        Ok(())
    }

    async fn shell(&mut self, number: usize) -> Result<(), Error> {
        let shell = &self.shared.programs.shells()[number];
        let text = shell.text(&self.client.variables).map_err(|error| self.failed(&error))?;
        let Some(target) = shell.target() else {
            let done = shell::run(&text).await;
            return done.map_err(|error| self.failed(&format!("{}: {error}", shell.program())));
        };
        let output = shell::first_line(&text).await;
        let output =
            output.map_err(|error| self.failed(&format!("{}: {error}", shell.program())))?;
        let number = shell.number(&output).map_err(|error| self.failed(&error))?;
        self.client.variables.set(target, Value::Int(number));
        Ok(())
    }

    /// Executes a statement, and notes how long that took.
    async fn timed_sql(&mut self, conn: &mut Connection, number: usize) -> Result<(), Error> {
        let began = Instant::now();
        let result = self.sql(conn, number).await;
        let latency = result.is_ok().then(|| began.elapsed());
        self.laps.push(Lap { statement: number, latency });
        result
    }

    async fn sql(&mut self, conn: &mut Connection, number: usize) -> Result<(), Error> {
        if self.statements[number].is_none() {
            self.make_ready(conn, number).await?;
        }
        let has_results = self.shared.programs.statements()[number].results.is_some();
        let mut flight = conn.flight()?;
        if !has_results {
            flight.discard_rows();
        }
        self.put(&mut flight, number)?;
        if let Some(account) = &mut self.account {
            account.sends(number, &self.client.variables)?;
        }
        let answers = flight.send().await?;
        self.has_sent = true;
        if let Some(account) = &mut self.account {
            account.answered(number, &answers)?;
        }
        if has_results { self.take_results(number, answers) } else { Ok(()) }
    }

    /// Collects statements, and sends them together.
    async fn pipeline(&mut self, conn: &mut Connection, timers: &Timers) -> Result<(), Error> {
        let is_missing = |number: &usize| self.statements[*number].is_none();
        let mut missing = self.client.pipeline_statements().find(is_missing);
        while let Some(number) = missing {
            self.make_ready(conn, number).await?;
            let is_missing = |number: &usize| self.statements[*number].is_none();
            missing = self.client.pipeline_statements().find(is_missing);
        }
        let mut flight = conn.flight()?;
        flight.discard_rows();
        loop {
            match self.step()? {
                Step::Sql(number) => self.put(&mut flight, number)?,
                Step::SyncPipeline => drop(flight.sync()),
                Step::EndPipeline => return flight.send().await.map(drop),
                other => self.locally(other, timers).await?,
            }
        }
    }

    /// Prepares a statement when it is needed for the first time, as pgbench does.
    async fn make_ready(&mut self, conn: &mut Connection, number: usize) -> Result<(), Error> {
        let mode = self.shared.job.statements;
        if mode == Statements::Simple || self.statements[number].is_some() {
            return Ok(());
        }
        let source = &self.shared.programs.statements()[number];
        let sql = source.parameterised();
        let statement = if mode == Statements::Prepared {
            conn.statement(&sql, Protocol::Prepared, Format::Text).await?
        } else {
            // The compiler allows 255 parameters.
            let parameters = u16::try_from(source.parameters().len()).unwrap_or(u16::MAX);
            Statement::unnamed(&sql, parameters)?
        };
        let targets = match &source.results {
            Some(results) => self.targets(results, statement.columns())?,
            None => Vec::new(),
        };
        self.statements[number] = Some(Ready { statement, targets });
        Ok(())
    }

    /// Queues a statement with its variables' values.
    fn put(&mut self, flight: &mut Flight<'_>, number: usize) -> Result<(), Error> {
        let Self { shared, client, statements, params, text, .. } = self;
        let source = &shared.programs.statements()[number];
        let Some(ready) = &statements[number] else {
            text.clear();
            source.write_text(&client.variables, text);
            flight.text(text)?;
            return Ok(());
        };
        for slot in source.parameters() {
            text.clear();
            if client.variables.write_text(*slot, text) {
                params.text(text);
            } else {
                params.null();
            }
        }
        if source.results.is_some() && ready.targets.is_empty() {
            flight.execute_described(&ready.statement, params)?;
        } else {
            flight.execute(&ready.statement, params)?;
        }
        Ok(())
    }

    /// The variables that columns are assigned to; none for a column that no script reads.
    fn targets(
        &self,
        results: &Results,
        columns: &[(String, u32)],
    ) -> Result<Vec<Option<Slot>>, Error> {
        let slot = |(column, _): &(String, u32)| {
            let slot = self.shared.programs.result_slot(results, column);
            slot.map_err(|name| self.failed(&format!("invalid variable name: \"{name}\"")))
        };
        columns.iter().map(slot).collect()
    }

    fn take_results(&mut self, number: usize, mut answers: Answers<'_>) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let results = shared.programs.statements()[number].results.as_ref();
        let results = results.expect("only a \\gset or an \\aset asks for results");
        let mut last = None;
        while let Some(answer) = answers.next()? {
            if results.kind == ResultKind::Each {
                self.assign_last_row(number, results, &answer)?;
            }
            last = Some(answer);
        }
        if results.kind == ResultKind::Each {
            return Ok(());
        }
        let answer = last.ok_or_else(|| Error::Protocol("answer has too few parts".into()))?;
        match answer.rows().count() {
            1 => self.assign_last_row(number, results, &answer),
            count => Err(self.failed(&format!("expected one row, got {count}"))),
        }
    }

    fn assign_last_row(
        &mut self,
        number: usize,
        results: &Results,
        answer: &Answer<'_>,
    ) -> Result<(), Error> {
        let mut rows = answer.rows();
        let mut last = None;
        while let Some(row) = rows.next()? {
            last = Some(row);
        }
        let Some(row) = last else { return Ok(()) };
        match &self.statements[number] {
            Some(ready) if !ready.targets.is_empty() => {
                assign(&mut self.client, &ready.targets, &row);
            }
            _ => {
                let columns = answer.columns()?.unwrap_or_default();
                let targets = self.targets(results, &columns)?;
                assign(&mut self.client, &targets, &row);
            }
        }
        Ok(())
    }
}

/// Assigns a row's values; NULL is an empty text, as in pgbench.
fn assign(client: &mut Client, targets: &[Option<Slot>], row: &Row<'_>) {
    for (target, value) in targets.iter().zip(row.values()) {
        if let Some(slot) = target {
            let text = String::from_utf8_lossy(value.unwrap_or_default());
            client.variables.set_text(*slot, &text);
        }
    }
}

impl workload::Terminal for Terminal {
    fn draw(&mut self) -> usize {
        let script = self.own.unwrap_or_else(|| {
            let choice = self.shared.choice.as_ref().expect("a run has scripts with weights");
            match &mut self.deck {
                Some(deck) => deck.draw(choice, &mut self.choice),
                None => choice.draw(&mut self.choice),
            }
        });
        // Before the script begins, so that a retry has the same row.
        self.shared.pools.take(script, &mut self.taker, &mut self.client.variables);
        self.client.begin(script);
        self.has_begun = false;
        script
    }

    async fn attempt(&mut self, conn: &mut Connection, timers: &Timers) -> Result<Ended, Error> {
        if std::mem::replace(&mut self.has_begun, true) {
            self.client.again();
        }
        self.has_sent = false;
        loop {
            match self.step()? {
                Step::Done if conn.is_in_transaction() => {
                    let problem = "end of script reached without completing the last transaction";
                    return Err(self.failed(problem));
                }
                Step::Done => {
                    if !self.has_sent {
                        // A script without SQL would never let the thread see the run's end.
                        tokio::task::yield_now().await;
                    }
                    return Ok(Ended::Committed);
                }
                Step::Sql(number) if self.shared.job.time_statements => {
                    self.timed_sql(conn, number).await?;
                }
                Step::Sql(number) => self.sql(conn, number).await?,
                Step::StartPipeline => self.pipeline(conn, timers).await?,
                other => self.locally(other, timers).await?,
            }
        }
    }

    fn attempt_failed(&mut self, is_broken: bool) {
        if let Some(account) = &mut self.account {
            account.failed(is_broken);
        }
    }

    async fn after_failure(&mut self, conn: &mut Connection) -> Result<(), Error> {
        match self.shared.job.after_failure.as_str() {
            "" => Ok(()),
            sql => conn.simple(sql).await,
        }
    }

    fn take_laps(&mut self, take: &mut dyn FnMut(Lap)) {
        self.laps.drain(..).for_each(take);
    }

    async fn reconnect(&mut self, conn: &mut Connection) -> Result<(), Error> {
        self.attach(conn).await
    }
}

//! How does a workload talk to the server?
//!
//! A [`Connection`] is one session: statements are prepared once and then run with binary
//! parameters and results, one round trip each. BEGIN costs no round trip of its own: it travels
//! with the transaction's first statement. Dropping a future that this module returned leaves the
//! connection in the middle of an answer; it then refuses further work and must be dropped, too.

use std::time::Duration;

use pgwire::backend::{self, Tag};
use pgwire::frontend::{self, BindTemplate};
use pgwire::value;

pub use crate::copy_in::CopyIn;
pub use crate::error::Error;
use crate::exchange::{Arrived, Exchange};
use crate::session;
use crate::target::Registration;
pub use crate::target::{CancelToken, Target};
pub use crate::values::{Params, Row, Rows};

/// A prepared statement of one connection.
#[derive(Debug, Clone)]
pub struct Statement {
    template: BindTemplate,
    parameter_types: Vec<u32>,
    columns: Vec<(String, u32)>,
}

impl Statement {
    /// The type OIDs that the server inferred for the parameters.
    #[must_use]
    pub fn parameter_types(&self) -> &[u32] {
        &self.parameter_types
    }

    /// The name and type OID of each column.
    #[must_use]
    pub fn columns(&self) -> &[(String, u32)] {
        &self.columns
    }
}

/// A row of [`Connection::simple_rows`]: its values as text, `None` for NULL.
pub type TextRow = Vec<Option<String>>;

/// One session with the server.
pub struct Connection {
    pub(crate) exchange: Exchange,
    cancel: CancelToken,
    controls: Controls,
    transaction: Status,
    is_begin_queued: bool,
    /// True while an answer is outstanding, and for good once the connection is unusable.
    is_unusable: bool,
    statements_prepared: u64,
    _registration: Registration,
}

/// What the server said about the transaction with its last `ReadyForQuery`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Idle,
    Open,
    Failed,
}

/// The statements that every connection prepares for itself.
struct Controls {
    begin: BindTemplate,
    commit: BindTemplate,
    rollback: BindTemplate,
}

/// What an answer said besides its rows.
pub(crate) struct Answer {
    /// The last command's tag: where its text is in the receive buffer.
    command: Option<Arrived>,
}

impl Connection {
    /// Opens a session. Waits for as long as the server does, so give it a time limit.
    pub async fn connect(target: &Target) -> Result<Self, Error> {
        let (exchange, cancel) = session::open(target).await?;
        let mut connection = Self {
            exchange,
            controls: Controls {
                begin: BindTemplate::new("begin", 0)?,
                commit: BindTemplate::new("commit", 0)?,
                rollback: BindTemplate::new("rollback", 0)?,
            },
            transaction: Status::Idle,
            is_begin_queued: false,
            is_unusable: false,
            statements_prepared: 0,
            _registration: target.register(&cancel),
            cancel,
        };
        connection.start()?;
        for sql in ["begin", "commit", "rollback"] {
            frontend::parse(&mut connection.exchange.out, sql, sql)?;
        }
        connection.finish().await?;
        Ok(connection)
    }

    /// What it takes to cancel this session's work from outside.
    #[must_use]
    pub fn cancel_token(&self) -> CancelToken {
        self.cancel.clone()
    }

    /// Whether the connection cannot be used any more.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.is_unusable
    }

    /// Whether a transaction block is open, be it failed or not.
    #[must_use]
    pub fn is_in_transaction(&self) -> bool {
        self.transaction != Status::Idle || self.is_begin_queued
    }

    /// Prepares a statement. One round trip.
    pub async fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        self.start()?;
        self.statements_prepared += 1;
        let name = format!("s{}", self.statements_prepared);
        self.put_queued_begin();
        frontend::parse(&mut self.exchange.out, &name, sql)?;
        frontend::describe_statement(&mut self.exchange.out, &name)?;
        self.finish().await?;

        let (mut parameter_types, mut columns) = (Vec::new(), Vec::new());
        let mut rest = self.exchange.parsed();
        while let Some(message) = backend::decode(rest)? {
            match message.tag {
                Tag::ParameterDescription => {
                    parameter_types = backend::parameter_types(message.body)?;
                }
                Tag::RowDescription => columns = backend::columns(message.body)?,
                _ => {}
            }
            rest = &rest[message.wire_bytes()..];
        }
        let parameters = u16::try_from(parameter_types.len()).expect("counted by 16 bits");
        let template = BindTemplate::new(&name, parameters)?;
        Ok(Statement { template, parameter_types, columns })
    }

    /// Runs a statement and returns its rows. One round trip; `params` is empty afterwards.
    ///
    /// The number of values must be the one that the server said the statement has.
    pub async fn query(
        &mut self,
        statement: &Statement,
        params: &mut Params,
    ) -> Result<Rows<'_>, Error> {
        self.run(statement, params).await?;
        Ok(Rows::new(self.exchange.parsed()))
    }

    /// Runs a statement and returns the number of rows that it affected. One round trip; `params`
    /// is empty afterwards.
    ///
    /// The number of values must be the one that the server said the statement has.
    pub async fn execute(
        &mut self,
        statement: &Statement,
        params: &mut Params,
    ) -> Result<u64, Error> {
        let answer = self.run(statement, params).await?;
        Ok(backend::rows_affected(self.command_tag(&answer)?))
    }

    /// Runs a statement once for each group of values in `params`, all in one round trip, as JDBC's
    /// batches do. With no values it does nothing. `params` is empty afterwards.
    ///
    /// The number of values must be a multiple of the one that the server said the statement has.
    pub async fn batch(&mut self, statement: &Statement, params: &mut Params) -> Result<(), Error> {
        if params.count == 0 {
            return Ok(());
        }
        let width = statement.template.parameters();
        if width == 0 || !params.count.is_multiple_of(width) {
            return Err(params.misfit(width));
        }
        let started = self.start();
        if started.is_ok() {
            self.put_queued_begin();
            let mut rest = params.bytes.as_slice();
            while !rest.is_empty() {
                let (values, others) = rest.split_at(value::bytes_of(rest, width));
                statement.template.bind(&mut self.exchange.out, values);
                frontend::execute(&mut self.exchange.out);
                rest = others;
            }
        }
        params.clear();
        started?;
        self.finish().await?;
        Ok(())
    }

    /// Queues BEGIN, to be sent together with the transaction's first statement.
    pub fn begin(&mut self) {
        self.is_begin_queued = true;
    }

    /// Commits. One round trip.
    ///
    /// A transaction that had failed is rolled back by COMMIT; that is an error here (25P02).
    pub async fn commit(&mut self) -> Result<(), Error> {
        self.start()?;
        self.put_queued_begin();
        self.controls.commit.bind(&mut self.exchange.out, &[]);
        frontend::execute(&mut self.exchange.out);
        let answer = self.finish().await?;
        match self.command_tag(&answer)? {
            "COMMIT" => Ok(()),
            tag => Err(Error::Server {
                sqlstate: "25P02".into(),
                severity: "ERROR".into(),
                message: format!("transaction had failed, and COMMIT answered {tag}"),
                detail: String::new(),
            }),
        }
    }

    /// Rolls back, after an error as well. One round trip, or none if no transaction is open.
    pub async fn rollback(&mut self) -> Result<(), Error> {
        self.is_begin_queued = false;
        if self.transaction == Status::Idle && !self.is_unusable {
            return Ok(());
        }
        self.start()?;
        self.controls.rollback.bind(&mut self.exchange.out, &[]);
        frontend::execute(&mut self.exchange.out);
        self.finish().await?;
        Ok(())
    }

    /// Runs one or more statements given as text; without BEGIN among them they are one transaction.
    pub async fn simple(&mut self, sql: &str) -> Result<(), Error> {
        self.start_simple(sql)?;
        self.gather().await?;
        Ok(())
    }

    /// Like [`Connection::simple`], and returns the rows of all statements as text.
    pub async fn simple_rows(&mut self, sql: &str) -> Result<Vec<TextRow>, Error> {
        self.simple(sql).await?;
        let mut rows = Vec::new();
        let mut rest = self.exchange.parsed();
        while let Some(message) = backend::decode(rest)? {
            if message.tag == Tag::DataRow {
                let row = backend::RawRow::parse(message.body)?;
                let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
                rows.push(row.iter().map(|value| value.map(text)).collect());
            }
            rest = &rest[message.wire_bytes()..];
        }
        Ok(rows)
    }

    /// Starts `COPY … FROM STDIN`. One round trip.
    pub async fn copy_in(&mut self, sql: &str) -> Result<CopyIn<'_>, Error> {
        self.start_simple(sql)?;
        self.exchange.send().await?;
        loop {
            let message = self.exchange.next().await?;
            match message.tag {
                Tag::CopyInResponse => return Ok(CopyIn::new(self)),
                Tag::ErrorResponse => {
                    let error = self.server_error(&message)?;
                    self.gather_after(Some(error)).await?;
                }
                Tag::ReadyForQuery => {
                    self.note_ready(&message)?;
                    return Err(Error::Protocol("statement is not a COPY FROM STDIN".into()));
                }
                _ => {}
            }
        }
    }

    async fn run(&mut self, statement: &Statement, params: &mut Params) -> Result<Answer, Error> {
        let width = statement.template.parameters();
        if params.count != width {
            return Err(params.misfit(width));
        }
        let started = self.start();
        if started.is_ok() {
            self.put_queued_begin();
            statement.template.bind(&mut self.exchange.out, &params.bytes);
            frontend::execute(&mut self.exchange.out);
        }
        // Empty whatever happened: values left behind would join those of the next execution.
        params.clear();
        started?;
        self.finish().await
    }

    fn start(&mut self) -> Result<(), Error> {
        if self.is_unusable {
            return Err(Error::Io(std::io::Error::new(
                std::io::ErrorKind::NotConnected,
                "connection is broken",
            )));
        }
        self.exchange.forget_parsed();
        self.exchange.out.clear();
        Ok(())
    }

    fn start_simple(&mut self, sql: &str) -> Result<(), Error> {
        self.start()?;
        if std::mem::take(&mut self.is_begin_queued) {
            frontend::query(&mut self.exchange.out, &format!("begin; {sql}"))?;
        } else {
            frontend::query(&mut self.exchange.out, sql)?;
        }
        self.is_unusable = true;
        Ok(())
    }

    fn put_queued_begin(&mut self) {
        if std::mem::take(&mut self.is_begin_queued) {
            self.controls.begin.bind(&mut self.exchange.out, &[]);
            frontend::execute(&mut self.exchange.out);
        }
    }

    /// Ends the batch of messages with Sync, and gathers the answer.
    async fn finish(&mut self) -> Result<Answer, Error> {
        frontend::sync(&mut self.exchange.out);
        self.is_unusable = true;
        self.gather().await
    }

    pub(crate) async fn gather(&mut self) -> Result<Answer, Error> {
        self.exchange.send().await?;
        self.gather_after(None).await
    }

    /// Reads up to `ReadyForQuery`. The first error in the answer is the result.
    pub(crate) async fn gather_after(&mut self, mut error: Option<Error>) -> Result<Answer, Error> {
        let mut command = None;
        loop {
            let message = match self.exchange.next().await {
                Ok(message) => message,
                // A server that ends says why, and closes: that reason is the better error.
                Err(broken) => return Err(error.unwrap_or(broken)),
            };
            match message.tag {
                Tag::CommandComplete => command = Some(message),
                Tag::ErrorResponse if error.is_none() => error = Some(self.server_error(&message)?),
                Tag::CopyInResponse => {
                    frontend::copy_fail(&mut self.exchange.out, "no rows were expected")?;
                    self.exchange.send().await?;
                }
                Tag::ReadyForQuery => {
                    self.note_ready(&message)?;
                    return error.map_or(Ok(Answer { command }), Err);
                }
                _ => {}
            }
        }
    }

    fn note_ready(&mut self, message: &Arrived) -> Result<(), Error> {
        self.transaction = match self.exchange.body(message) {
            b"I" => Status::Idle,
            b"T" => Status::Open,
            b"E" => Status::Failed,
            other => {
                return Err(Error::Protocol(format!("unknown transaction status {other:?}")));
            }
        };
        self.is_unusable = false;
        Ok(())
    }

    pub(crate) fn server_error(&self, message: &Arrived) -> Result<Error, Error> {
        Ok(Error::from_report(backend::report(self.exchange.body(message))?))
    }

    pub(crate) fn command_tag(&self, answer: &Answer) -> Result<&str, Error> {
        match &answer.command {
            Some(message) => Ok(backend::command_tag(self.exchange.body(message))?),
            None => Ok(""),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.exchange.terminate();
    }
}

/// Opens a session within a time limit; running out of it is an I/O error.
pub async fn connect_within(target: &Target, limit: Duration) -> Result<Connection, Error> {
    match tokio::time::timeout(limit, Connection::connect(target)).await {
        Ok(result) => result,
        Err(_) => Err(Error::Io(std::io::Error::new(
            std::io::ErrorKind::TimedOut,
            format!("server did not answer within {:.1} s", limit.as_secs_f64()),
        ))),
    }
}

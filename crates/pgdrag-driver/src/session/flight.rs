//! How do several statements travel together?
//!
//! A [`Flight`] is queued, sent at once, and answered as a whole: [`Flight::send`] returns when the
//! server has answered all of it, and its [`Answers`] are read one statement after the other, in
//! place. If anything in a flight fails, the flight fails, and there are no answers to be misread:
//! the server has skipped what stood between the failed statement and the next
//! [`Flight::sync`], and has run what stood behind that.

use std::mem::take;

use bytes::BytesMut;
use pgwire::backend::Report;
use pgwire::frontend;
use pgwire::value::{self, Format};

use crate::error::Error;
use crate::session::answers::{Answer, Answers, Owed};
use crate::session::connection::{Connection, Controls};
use crate::session::statement::Statement;
use crate::session::values::{Params, Rows};

/// Statements that are sent together. One that is dropped was not sent.
pub struct Flight<'a> {
    connection: &'a mut Connection,
    owed: Owed,
    /// Answers before the caller's own: that of a BEGIN which travels with them.
    hidden: usize,
    format: Option<Format>,
    is_synced: bool,
}

impl<'a> Flight<'a> {
    pub(crate) fn new(connection: &'a mut Connection) -> Result<Self, Error> {
        connection.start()?;
        let owed = Owed::default();
        Ok(Self { connection, owed, hidden: 0, format: None, is_synced: true })
    }

    /// Queues a statement with its values; `params` is empty afterwards.
    pub fn execute(
        &mut self,
        statement: &Statement,
        params: &mut Params,
    ) -> Result<&mut Self, Error> {
        self.queue(statement, params, false)
    }

    /// Like [`Flight::execute`], and asks for the columns, see [`Answer::columns`].
    ///
    /// A statement in [`Protocol::Simple`](crate::session::statement::Protocol::Simple) has them anyway.
    pub fn execute_described(
        &mut self,
        statement: &Statement,
        params: &mut Params,
    ) -> Result<&mut Self, Error> {
        self.queue(statement, params, true)
    }

    /// Queues a statement once for each group of values, as JDBC's batches do; `params` is empty
    /// afterwards. Returns the number of groups, each of which has an answer of its own.
    pub fn batch(&mut self, statement: &Statement, params: &mut Params) -> Result<usize, Error> {
        if params.count == 0 {
            return Ok(0);
        }
        let executions = statement.executions(params)?;
        let queued = self.put_batch(statement, &params.bytes);
        params.clear();
        queued.map(|()| executions)
    }

    /// Queues one or more statements as text, each with an answer of its own; without BEGIN among
    /// them they are one transaction. What was queued before ends with [`Flight::sync`].
    pub fn text(&mut self, sql: &str) -> Result<&mut Self, Error> {
        self.put_text(|out| {
            out.extend_from_slice(sql.as_bytes());
            Ok(())
        })?;
        Ok(self)
    }

    /// Ends a part of the flight: what follows is run even if something before has failed.
    ///
    /// Statements before it that no BEGIN precedes are one transaction.
    pub fn sync(&mut self) -> &mut Self {
        frontend::sync(&mut self.connection.exchange.out);
        self.owed.ends += 1;
        self.is_synced = true;
        self
    }

    /// Throws rows away as they arrive, so that an answer of any length takes no room.
    pub fn discard_rows(&mut self) -> &mut Self {
        self.owed.discards_rows = true;
        self
    }

    /// Sends everything queued, and waits until all of it is answered.
    ///
    /// The first error in the answer is the result. An empty flight does nothing.
    pub async fn send(mut self) -> Result<Answers<'a>, Error> {
        if !self.is_synced {
            self.sync();
        }
        let Self { connection, owed, hidden, format, .. } = self;
        if owed.ends > 0 {
            connection.is_unusable = true;
            connection.gather(owed).await?;
        }
        let is_open = connection.is_in_transaction();
        let format = format.unwrap_or_default();
        let mut answers = Answers::new(connection.exchange.kept(), format, is_open);
        for _ in 0..hidden {
            answers.take()?;
        }
        Ok(answers)
    }

    /// Sends everything queued and COMMIT, and waits until all of it is answered.
    ///
    /// If anything fails, the server does not get as far as COMMIT. A transaction that had failed
    /// before is rolled back by COMMIT; that is an error here (25P02).
    pub async fn commit(mut self) -> Result<Answers<'a>, Error> {
        self.put_begin()?;
        self.put_control(|controls| &controls.commit)?;
        let answers = self.send().await?;
        match answers.last()?.command()? {
            "COMMIT" => Ok(answers),
            tag => Err(Error::from_report(Report {
                sqlstate: "25P02".into(),
                severity: "ERROR".into(),
                message: format!("transaction had failed, and COMMIT answered {tag}"),
                detail: String::new(),
            })),
        }
    }

    /// Sends everything queued and ROLLBACK, and waits until all of it is answered.
    pub async fn rollback(mut self) -> Result<Answers<'a>, Error> {
        self.put_control(|controls| &controls.rollback)?;
        self.send().await
    }

    fn queue(
        &mut self,
        statement: &Statement,
        params: &mut Params,
        is_described: bool,
    ) -> Result<&mut Self, Error> {
        if params.count != statement.parameters() {
            return Err(params.misfit(statement.parameters()));
        }
        let queued = self.put(statement, &params.bytes, is_described);
        // Empty whatever happened: values left behind would join those of the next execution.
        params.clear();
        queued.map(|()| self)
    }

    fn put(
        &mut self,
        statement: &Statement,
        values: &[u8],
        is_described: bool,
    ) -> Result<(), Error> {
        self.expect_format(statement)?;
        if statement.is_text() {
            return self.put_text(|out| statement.put_text(out, values));
        }
        self.put_begin()?;
        self.is_synced = false;
        let out = &mut self.connection.exchange.out;
        self.owed.put_parse(out, statement);
        statement.put_bind(out, values);
        if is_described {
            frontend::describe_portal(out);
        }
        self.owed.put_execute(out);
        Ok(())
    }

    fn put_batch(&mut self, statement: &Statement, values: &[u8]) -> Result<(), Error> {
        self.expect_format(statement)?;
        let groups = Groups { rest: values, width: statement.parameters() };
        if statement.is_text() {
            return self.put_text(|out| {
                for (index, group) in groups.enumerate() {
                    out.extend_from_slice(if index == 0 { b"" } else { b"; " });
                    statement.put_text(out, group)?;
                }
                Ok(())
            });
        }
        self.put_begin()?;
        self.is_synced = false;
        let out = &mut self.connection.exchange.out;
        self.owed.put_parse(out, statement);
        for group in groups {
            statement.put_bind(out, group);
            self.owed.put_execute(out);
        }
        Ok(())
    }

    fn put_text(
        &mut self,
        write: impl FnOnce(&mut BytesMut) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if !self.is_synced {
            self.sync();
        }
        let has_begin = take(&mut self.connection.is_begin_queued);
        self.hidden += usize::from(has_begin);
        frontend::query_written(&mut self.connection.exchange.out, |out| {
            out.extend_from_slice(if has_begin { b"begin; " } else { b"" });
            write(out)
        })?;
        self.owed.texts += 1;
        self.owed.ends += 1;
        self.format.get_or_insert(Format::Text);
        Ok(())
    }

    fn put_begin(&mut self) -> Result<(), Error> {
        if take(&mut self.connection.is_begin_queued) {
            self.hidden += 1;
            self.put_control(|controls| &controls.begin)?;
        }
        Ok(())
    }

    /// Queues a statement that has no rows, so that their form does not matter.
    fn put_control(&mut self, control: impl Fn(&Controls) -> &Statement) -> Result<(), Error> {
        if !self.is_synced && control(&self.connection.controls).is_text() {
            self.sync();
        }
        let Connection { controls, exchange, .. } = &mut *self.connection;
        let (statement, out) = (control(controls), &mut exchange.out);
        if statement.is_text() {
            frontend::query_written(out, |out| statement.put_text(out, &[]))?;
            self.owed.texts += 1;
            self.owed.ends += 1;
        } else {
            self.is_synced = false;
            self.owed.put_parse(out, statement);
            statement.put_bind(out, &[]);
            self.owed.put_execute(out);
        }
        Ok(())
    }

    /// All rows of a flight have one form: nothing in an answer says which.
    fn expect_format(&mut self, statement: &Statement) -> Result<(), Error> {
        let format = statement.format();
        if *self.format.get_or_insert(format) == format {
            Ok(())
        } else {
            Err(Error::Protocol("a flight cannot mix rows as text with rows in binary form".into()))
        }
    }
}

/// A row of [`Connection::simple_rows`]: its values as text, `None` for NULL.
pub type TextRow = Vec<Option<String>>;

impl Connection {
    /// Starts a flight: statements that are sent together.
    pub fn flight(&mut self) -> Result<Flight<'_>, Error> {
        Flight::new(self)
    }

    /// Runs a statement and returns its rows. One round trip; `params` is empty afterwards.
    ///
    /// The number of values must be the one that the server said the statement has.
    pub async fn query(
        &mut self,
        statement: &Statement,
        params: &mut Params,
    ) -> Result<Rows<'_>, Error> {
        Ok(self.run(statement, params).await?.rows())
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
        self.run(statement, params).await?.rows_affected()
    }

    async fn run(
        &mut self,
        statement: &Statement,
        params: &mut Params,
    ) -> Result<Answer<'_>, Error> {
        let started = self.flight();
        if started.is_err() {
            params.clear();
        }
        let mut flight = started?;
        flight.execute(statement, params)?;
        flight.send().await?.take()
    }

    /// Runs a statement once for each group of values in `params`, all in one round trip, as JDBC's
    /// batches do, and returns the number of rows that all of them affected. With no values it does
    /// nothing. `params` is empty afterwards.
    ///
    /// The number of values must be a multiple of the one that the server said the statement has.
    pub async fn batch(
        &mut self,
        statement: &Statement,
        params: &mut Params,
    ) -> Result<u64, Error> {
        let started = self.flight();
        if started.is_err() {
            params.clear();
        }
        let mut flight = started?;
        flight.batch(statement, params)?;
        let mut answers = flight.send().await?;
        let mut rows = 0;
        while let Some(answer) = answers.next()? {
            rows += answer.rows_affected()?;
        }
        Ok(rows)
    }

    /// Commits. One round trip.
    ///
    /// A transaction that had failed is rolled back by COMMIT; that is an error here (25P02).
    pub async fn commit(&mut self) -> Result<(), Error> {
        self.flight()?.commit().await.map(drop)
    }

    /// Rolls back, after an error as well. One round trip, or none if no transaction is open.
    pub async fn rollback(&mut self) -> Result<(), Error> {
        self.is_begin_queued = false;
        if !self.is_in_transaction() && !self.is_unusable {
            return Ok(());
        }
        self.flight()?.rollback().await.map(drop)
    }

    /// Runs one or more statements given as text; without BEGIN among them they are one transaction.
    pub async fn simple(&mut self, sql: &str) -> Result<(), Error> {
        let mut flight = self.flight()?;
        flight.text(sql)?;
        flight.send().await.map(drop)
    }

    /// Like [`Connection::simple`], and returns the rows of all statements as text.
    pub async fn simple_rows(&mut self, sql: &str) -> Result<Vec<TextRow>, Error> {
        let mut flight = self.flight()?;
        flight.text(sql)?;
        let mut answers = flight.send().await?;
        let mut rows = Vec::new();
        while let Some(answer) = answers.next()? {
            for row in answer.rows() {
                let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
                rows.push(row?.values().map(|value| value.map(text)).collect());
            }
        }
        Ok(rows)
    }
}

impl Owed {
    fn put_parse(&mut self, out: &mut BytesMut, statement: &Statement) {
        self.parts += usize::from(statement.put_parse(out));
    }

    /// Executes what was just bound.
    fn put_execute(&mut self, out: &mut BytesMut) {
        frontend::execute(out);
        self.parts += 2;
    }
}

/// The values of a batch, one execution's after the other.
struct Groups<'a> {
    rest: &'a [u8],
    width: usize,
}

impl<'a> Iterator for Groups<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let (group, rest) = self.rest.split_at(value::bytes_of(self.rest, self.width));
        self.rest = rest;
        Some(group)
    }
}

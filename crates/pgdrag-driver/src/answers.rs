//! What does the server answer to a flight?
//!
//! The answer is gathered to its end and checked against what is owed; then [`Answers`] reads it in
//! place, one statement's [`Answer`] after the other.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use pgwire::backend::{self, Tag};
use pgwire::frontend;
use pgwire::value::Format;

use crate::connection::Connection;
use crate::error::Error;
use crate::exchange::Arrived;
use crate::values::Rows;

/// What the server has to answer.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Owed {
    /// `ParseComplete`, `BindComplete` and the end of each statement.
    pub(crate) parts: usize,
    /// Texts, of which nobody has counted the statements.
    pub(crate) texts: usize,
    /// `ReadyForQuery`.
    pub(crate) ends: usize,
    /// Whether rows are counted by the server, and then thrown away.
    pub(crate) discards_rows: bool,
}

impl Owed {
    /// What is owed for one text.
    pub(crate) const TEXT: Self = Self { parts: 0, texts: 1, ends: 1, discards_rows: false };

    /// What is owed for `parts` of the extended protocol and a Sync behind them.
    pub(crate) fn one(parts: usize) -> Self {
        Self { parts, ends: 1, ..Self::default() }
    }
}

/// An answer on its way.
#[derive(Default)]
struct Gathering {
    owed: Owed,
    /// What of the question the socket has taken; `None` once that is all.
    sent: Option<usize>,
    parts: usize,
    /// The first one.
    error: Option<Error>,
}

impl Connection {
    /// Sends what is queued, and gathers the answer to all of it.
    pub(crate) async fn gather(&mut self, owed: Owed) -> Result<(), Error> {
        self.wait_for(Gathering { owed, sent: Some(0), ..Gathering::default() }).await
    }

    /// Gathers an answer that has begun, and that begins with an error.
    pub(crate) async fn gather_after(&mut self, owed: Owed, error: Error) -> Result<(), Error> {
        self.wait_for(Gathering { owed, error: Some(error), ..Gathering::default() }).await
    }

    /// Reads up to the last `ReadyForQuery` that is owed. The first error is the result.
    ///
    /// Until then, and for good after a breach of the protocol, the connection is unusable.
    async fn wait_for(&mut self, mut answer: Gathering) -> Result<(), Error> {
        // One future for all of it: each statement goes through here.
        let gathered = poll_fn(|context| self.poll_gather(context, &mut answer)).await;
        if let Some(error) = answer.error {
            // A server that ends says why, and closes: that reason is the better error.
            self.is_unusable = gathered.is_err();
            return Err(error);
        }
        gathered?;
        // Without an error the server owes an answer to each statement, and at least one to a text.
        let (owed, parts) = (answer.owed, answer.parts);
        let wanted = owed.parts + owed.texts;
        if parts < wanted || (owed.texts == 0 && parts > wanted) {
            return Err(Error::Protocol(format!("answer has {parts} parts instead of {wanted}")));
        }
        self.is_unusable = false;
        Ok(())
    }

    fn poll_gather(
        &mut self,
        context: &mut Context<'_>,
        answer: &mut Gathering,
    ) -> Poll<Result<(), Error>> {
        loop {
            if let Some(sent) = &mut answer.sent {
                ready!(self.exchange.poll_send(context, sent))?;
                answer.sent = None;
            }
            while let Some(message) = self.exchange.next_buffered()? {
                self.take_in(&message, answer)?;
                if answer.owed.ends == 0 {
                    return Poll::Ready(Ok(()));
                }
            }
            if answer.sent.is_none() {
                ready!(self.exchange.poll_receive(context))?;
            }
        }
    }

    #[inline]
    fn take_in(&mut self, message: &Arrived, answer: &mut Gathering) -> Result<(), Error> {
        match message.tag {
            Tag::ParseComplete
            | Tag::BindComplete
            | Tag::CommandComplete
            | Tag::EmptyQueryResponse => answer.parts += 1,
            Tag::DataRow if answer.owed.discards_rows => self.exchange.discard(message),
            Tag::DataRow | Tag::RowDescription | Tag::NoData | Tag::ParameterDescription => {}
            Tag::ErrorResponse => {
                let reported = self.server_error(message)?;
                answer.error.get_or_insert(reported);
                self.exchange.discard(message);
            }
            Tag::ReadyForQuery => {
                answer.owed.ends -= 1;
                self.note_ready(message)?;
            }
            Tag::CopyInResponse => {
                self.refuse_copy(&answer.owed)?;
                answer.sent = Some(0);
            }
            Tag::CopyOutResponse | Tag::CopyData | Tag::CopyDone => self.exchange.discard(message),
            tag if is_in_passing(tag) => self.exchange.discard(message),
            tag => return Err(Error::Protocol(format!("unexpected {tag:?} in an answer"))),
        }
        Ok(())
    }

    /// A statement that wants rows, where there are none, must not wait for them for ever.
    fn refuse_copy(&mut self, owed: &Owed) -> Result<(), Error> {
        if owed.texts == 0 {
            // The server has swallowed the Sync: nobody could tell where the answer ends.
            return Err(Error::Protocol("COPY FROM STDIN is not supported here".into()));
        }
        Ok(frontend::copy_fail(&mut self.exchange.out, "no rows were expected")?)
    }
}

/// What a server may say at any time, and nobody here wants to know.
pub(crate) fn is_in_passing(tag: Tag) -> bool {
    matches!(tag, Tag::NoticeResponse | Tag::ParameterStatus | Tag::NotificationResponse)
}

/// The answers of a flight, in place and in order.
#[derive(Debug, Clone, Copy)]
pub struct Answers<'a> {
    rest: &'a [u8],
    format: Format,
    is_open: bool,
}

impl<'a> Answers<'a> {
    pub(crate) fn new(messages: &'a [u8], format: Format, is_open: bool) -> Self {
        Self { rest: messages, format, is_open }
    }

    /// Whether a transaction block was open behind the last one.
    #[must_use]
    pub fn is_transaction_open(&self) -> bool {
        self.is_open
    }

    /// The next statement's answer; `None` after the last one.
    #[allow(clippy::should_implement_trait)] // the trait's method cannot be used with `?`
    pub fn next(&mut self) -> Result<Option<Answer<'a>>, Error> {
        let messages = self.rest;
        let mut end = 0;
        while let Some(message) = backend::decode(&messages[end..])? {
            end += message.wire_bytes();
            if matches!(message.tag, Tag::CommandComplete | Tag::EmptyQueryResponse) {
                self.rest = &messages[end..];
                let (messages, command) = (&messages[..end], message.body);
                return Ok(Some(Answer { messages, command, format: self.format }));
            }
        }
        self.rest = &[];
        Ok(None)
    }

    /// The next statement's answer; that there is none is an error.
    pub fn take(&mut self) -> Result<Answer<'a>, Error> {
        self.next()?.ok_or_else(|| Error::Protocol("answer has too few parts".into()))
    }

    /// The last statement's answer; that there is none is an error.
    pub fn last(mut self) -> Result<Answer<'a>, Error> {
        let mut last = self.take()?;
        while let Some(next) = self.next()? {
            last = next;
        }
        Ok(last)
    }
}

/// What the server answered to one statement.
#[derive(Debug, Clone, Copy)]
pub struct Answer<'a> {
    messages: &'a [u8],
    command: &'a [u8],
    format: Format,
}

impl<'a> Answer<'a> {
    /// The rows, unless the flight discarded them.
    #[must_use]
    pub fn rows(&self) -> Rows<'a> {
        Rows::new(self.messages, self.format)
    }

    /// The command's tag, for example `UPDATE 3`; empty for an empty statement.
    pub fn command(&self) -> Result<&'a str, Error> {
        if self.command.is_empty() { Ok("") } else { Ok(backend::command_tag(self.command)?) }
    }

    /// The number of rows that the statement returned or changed.
    pub fn rows_affected(&self) -> Result<u64, Error> {
        Ok(backend::rows_affected(self.command()?))
    }

    /// The name and type OID of each column, where the server was asked for them and there are any.
    pub fn columns(&self) -> Result<Option<Vec<(String, u32)>>, Error> {
        let mut rest = self.messages;
        while let Some(message) = backend::decode(rest)? {
            if message.tag == Tag::RowDescription {
                return Ok(Some(backend::columns(message.body)?));
            }
            rest = &rest[message.wire_bytes()..];
        }
        Ok(None)
    }
}

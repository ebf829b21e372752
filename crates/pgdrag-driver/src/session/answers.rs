//! What does the server answer to a flight?
//!
//! [`Answers`] reads an answer in place, one statement's [`Answer`] after the other.

use pgwire::backend::{self, Tag};
use pgwire::value::Format;

use crate::error::Error;
use crate::session::values::Rows;

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

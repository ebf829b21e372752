//! How is the answer to a flight read to its end, and checked against what is owed?

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use pgwire::backend::Tag;
use pgwire::frontend;

use super::answers::{Owed, is_in_passing};
use super::connection::Connection;
use super::exchange::Arrived;
use crate::error::Error;

thread_local! {
    static ROUND_TRIPS: Cell<u64> = const { Cell::new(0) };
}

/// How often this thread has sent something and waited for the answer.
pub(crate) fn round_trips() -> u64 {
    ROUND_TRIPS.get()
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
        ROUND_TRIPS.set(ROUND_TRIPS.get() + 1);
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

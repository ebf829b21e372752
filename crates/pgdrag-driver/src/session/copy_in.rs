//! How do many rows get to the server at once?

use std::mem::take;

use pgwire::backend::Tag;
use pgwire::frontend;
use pgwire::value::Format;

use crate::error::Error;
use crate::session::answers::{Answers, Owed};
use crate::session::connection::Connection;

/// A COPY that takes in rows. Dropping it without [`CopyIn::finish`] makes its connection unusable.
pub struct CopyIn<'a> {
    connection: &'a mut Connection,
}

/// One message's worth: a socket takes far less at once.
const COPY_CHUNK_BYTES: usize = 256 * 1024;

impl<'a> CopyIn<'a> {
    pub(crate) fn new(connection: &'a mut Connection) -> Self {
        Self { connection }
    }

    /// Sends a part of the rows; parts may be cut anywhere. An empty part sends nothing.
    pub async fn send(&mut self, part: &[u8]) -> Result<(), Error> {
        let exchange = &mut self.connection.exchange;
        for chunk in part.chunks(COPY_CHUNK_BYTES) {
            frontend::copy_data(&mut exchange.out, chunk);
            exchange.send().await?;
            while let Some(message) = exchange.next_buffered()? {
                if message.tag == Tag::ErrorResponse {
                    // The server swallows the rest up to the end of the COPY.
                    let error = self.connection.server_error(&message)?;
                    return self.connection.gather_after(Owed::TEXT, error).await;
                }
                exchange.discard(&message);
            }
        }
        Ok(())
    }

    /// Ends the COPY and returns the number of rows that the server took in.
    pub async fn finish(self) -> Result<u64, Error> {
        frontend::copy_done(&mut self.connection.exchange.out);
        self.connection.gather(Owed::TEXT).await?;
        Answers::new(self.connection.exchange.kept(), Format::Text, false).last()?.rows_affected()
    }
}

impl Connection {
    /// Starts `COPY … FROM STDIN`. One round trip.
    pub async fn copy_in(&mut self, sql: &str) -> Result<CopyIn<'_>, Error> {
        self.start()?;
        let begin = if take(&mut self.is_begin_queued) { "begin; " } else { "" };
        frontend::query(&mut self.exchange.out, &format!("{begin}{sql}"))?;
        self.is_unusable = true;
        self.exchange.send().await?;
        loop {
            let message = self.exchange.next().await?;
            match message.tag {
                Tag::CopyInResponse => return Ok(CopyIn::new(self)),
                Tag::ErrorResponse => {
                    let error = self.server_error(&message)?;
                    self.gather_after(Owed::TEXT, error).await?;
                }
                Tag::ReadyForQuery => {
                    self.note_ready(&message)?;
                    self.is_unusable = false;
                    return Err(Error::Protocol("statement is not a COPY FROM STDIN".into()));
                }
                _ => self.exchange.discard(&message),
            }
        }
    }
}

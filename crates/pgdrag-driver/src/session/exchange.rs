//! How do messages get to the server and back, with two buffers that are never given up?
//!
//! [`Exchange`] sends what was queued and gathers the answer, in place, up to the message that the
//! caller waits for. What is discarded on the way, such as a notice, takes no room.

use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use pgwire::backend::{self, Tag};

use crate::error::Error;
use crate::io::reactor::Reactor;
use crate::session::link::Link;
use crate::session::room::{ALL_BYTES_MAX, Room};

/// What a receive buffer starts with, and how much room a read has at least.
const RECEIVE_BYTES: usize = 4 * 1024;

/// A buffer of this size is kept whatever the answers; COPY needs it for its parts.
const LASTING_BYTES: usize = 512 * 1024;

/// What one connection may hold of an answer: far more than any workload's, and far less than a
/// server that has lost its mind can send.
const ANSWER_BYTES_MAX: usize = 64 << 20;

pub(crate) struct Exchange {
    link: Link,
    /// Messages that the next [`Exchange::send`] sends.
    pub(crate) out: BytesMut,
    /// `received[..kept]` is what was looked at and not discarded, `received[looked_at..filled]` what
    /// has arrived and was not looked at; between them is what was discarded.
    received: Vec<u8>,
    kept: usize,
    looked_at: usize,
    filled: usize,
    /// What `received` takes of the memory of all connections.
    room: Room,
}

/// One message: its tag, and where its body is; see [`Exchange::body`].
#[derive(Debug, Clone)]
pub(crate) struct Arrived {
    pub(crate) tag: Tag,
    pub(crate) body: Range<usize>,
}

impl Exchange {
    pub(crate) fn new(link: Link) -> Self {
        Self {
            link,
            out: BytesMut::with_capacity(4096),
            received: vec![0; RECEIVE_BYTES],
            kept: 0,
            looked_at: 0,
            filled: 0,
            room: Room::new(RECEIVE_BYTES),
        }
    }

    /// What carries the messages.
    pub(crate) fn link(&self) -> &Link {
        &self.link
    }

    /// Lets `reactor` watch the stream; nothing may be on its way.
    pub(crate) fn watch(&mut self, reactor: &Rc<Reactor>) -> Result<(), Error> {
        Ok(self.link.watch(reactor)?)
    }

    /// Forgets the messages that were looked at; ranges given out before are void.
    pub(crate) fn forget(&mut self) {
        // A huge answer's room is given back by halves, as answers of its size fail to come.
        let is_oversized = self.filled < self.received.len() / 4;
        self.kept = 0;
        self.close_gap();
        if is_oversized && !self.keeps(self.received.len()) {
            self.received.truncate((self.received.len() / 2).max(self.filled));
            self.received.shrink_to_fit();
            self.room.shrink_to(self.received.len());
        }
    }

    /// Whether so much is kept whatever the answers; nearly all sessions never have more than the first few bytes.
    fn keeps(&self, bytes: usize) -> bool {
        bytes <= RECEIVE_BYTES || bytes <= LASTING_BYTES && !self.room.is_scarce()
    }

    fn close_gap(&mut self) {
        if self.kept < self.looked_at {
            self.received.copy_within(self.looked_at..self.filled, self.kept);
            self.filled -= self.looked_at - self.kept;
            self.looked_at = self.kept;
        }
    }

    /// Sends everything queued.
    pub(crate) async fn send(&mut self) -> Result<(), Error> {
        let mut sent = 0;
        poll_fn(|context| self.poll_send(context, &mut sent)).await
    }

    /// Sends everything queued, of which the socket has taken `sent` bytes.
    pub(crate) fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        sent: &mut usize,
    ) -> Poll<Result<(), Error>> {
        while *sent < self.out.len() {
            match self.link.poll_write(context, &self.out[*sent..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(Error::closed_by_server())),
                Poll::Ready(Ok(count)) => *sent += count,
                // A server that ends says why before it closes: what it said is read next.
                Poll::Ready(Err(error)) if is_disconnect(&error) => break,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error.into())),
                // Take in what the server has to say meanwhile, or both sides could wait for ever.
                Poll::Pending => ready!(self.poll_receive(context))?,
            }
        }
        if !self.keeps(self.out.capacity()) {
            self.out = BytesMut::new();
        }
        self.out.clear();
        Poll::Ready(Ok(()))
    }

    /// The next message; waits for it if need be.
    pub(crate) async fn next(&mut self) -> Result<Arrived, Error> {
        loop {
            if let Some(message) = self.next_buffered()? {
                return Ok(message);
            }
            poll_fn(|context| self.poll_receive(context)).await?;
        }
    }

    /// The next message if all of it is here already.
    #[inline]
    pub(crate) fn next_buffered(&mut self) -> Result<Option<Arrived>, Error> {
        let Some(message) = backend::decode(&self.received[self.looked_at..self.filled])? else {
            return Ok(None);
        };
        let (tag, bytes) = (message.tag, message.wire_bytes());
        let end = self.looked_at + bytes;
        if self.kept < self.looked_at {
            self.received.copy_within(self.looked_at..end, self.kept);
        }
        let body = self.kept + backend::HEADER_BYTES..self.kept + bytes;
        (self.kept, self.looked_at) = (self.kept + bytes, end);
        Ok(Some(Arrived { tag, body }))
    }

    /// Gives back the room of the message that was returned last.
    pub(crate) fn discard(&mut self, message: &Arrived) {
        debug_assert_eq!(message.body.end, self.kept);
        self.kept = message.body.start - backend::HEADER_BYTES;
    }

    /// The body of a message that has not been forgotten.
    pub(crate) fn body(&self, message: &Arrived) -> &[u8] {
        &self.received[message.body.clone()]
    }

    /// All messages that were looked at and neither discarded nor forgotten.
    pub(crate) fn kept(&self) -> &[u8] {
        &self.received[..self.kept]
    }

    /// Says goodbye, if the socket has room for it.
    pub(crate) fn terminate(&mut self) {
        self.out.clear();
        pgwire::frontend::terminate(&mut self.out);
        let _ = self.link.try_write(&self.out);
    }

    /// Takes in more of the answer; that there is no more is an error.
    pub(crate) fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        if self.received.len() - self.filled < RECEIVE_BYTES / 4 {
            self.close_gap();
        }
        if self.received.len() - self.filled < RECEIVE_BYTES / 4 {
            // Room grows with what has arrived, never with what a length field promises.
            let bytes = self.received.len() * 2;
            if bytes > ANSWER_BYTES_MAX {
                let message = format!("answer is longer than {ANSWER_BYTES_MAX} bytes");
                return Poll::Ready(Err(Error::Protocol(message)));
            }
            if !self.room.grow_to(bytes) {
                let message =
                    format!("answers to all connections are longer than {ALL_BYTES_MAX} bytes");
                return Poll::Ready(Err(Error::Protocol(message)));
            }
            self.received.resize(bytes, 0);
        }
        match ready!(self.link.poll_receive(context, &mut self.received[self.filled..]))? {
            0 => Poll::Ready(Err(Error::closed_by_server())),
            count => {
                self.filled += count;
                Poll::Ready(Ok(()))
            }
        }
    }
}

fn is_disconnect(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionReset)
}

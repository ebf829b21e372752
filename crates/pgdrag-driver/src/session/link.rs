//! What carries a session: a stream as it is, or an encrypted one.

use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::AsyncWrite;

use crate::io::reactor::Reactor;
use crate::io::stream::Stream;
use crate::tls::stream::TlsStream;

pub(crate) enum Link {
    Plain(Stream),
    Tls(Box<TlsStream>),
}

impl Link {
    /// Whether nobody can listen.
    pub(crate) fn is_private(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_local(),
            Self::Tls(_) => true,
        }
    }

    /// The certificate that the server has shown.
    pub(crate) fn server_certificate(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => stream.server_certificate(),
        }
    }

    /// Lets `reactor` watch the stream from now on, in place of the runtime.
    pub(crate) fn watch(&mut self, reactor: &Rc<Reactor>) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.watch(reactor),
            Self::Tls(stream) => stream.watch(reactor),
        }
    }

    /// Takes in what has arrived, or waits for it; 0 when the other side has ended.
    pub(crate) fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => stream.poll_receive(context, room),
            Self::Tls(stream) => stream.poll_receive(context, room),
        }
    }

    /// Sends some of it, or waits until that is possible.
    pub(crate) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tls(stream) => stream.poll_write(context, bytes),
        }
    }

    /// Sends what the socket takes now.
    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.try_write(bytes),
            Self::Tls(stream) => stream.try_write(bytes),
        }
    }
}

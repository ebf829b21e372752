//! How do encrypted bytes travel over a socket that does not block?
//!
//! rustls encrypts into buffers of its own, and reads and writes through [`Waiting`], for which a socket that is not
//! ready is an error. So a stream with TLS waits for the same events as the socket below it.

use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use rustls::ClientConnection;
use tokio::io::AsyncWrite;

use crate::io::reactor::Reactor;
use crate::io::stream::Stream;

/// A socket whose bytes are encrypted.
pub(crate) struct TlsStream {
    socket: Stream,
    session: ClientConnection,
}

impl TlsStream {
    /// Agrees with the server on keys, and verifies who it is.
    pub(crate) async fn handshake(socket: Stream, session: ClientConnection) -> io::Result<Self> {
        let mut stream = Self { socket, session };
        poll_fn(|context| stream.poll_handshake(context)).await?;
        Ok(stream)
    }

    /// The certificate that the server has shown.
    pub(crate) fn server_certificate(&self) -> Option<&[u8]> {
        self.session.peer_certificates()?.first().map(AsRef::as_ref)
    }

    /// The protocol that the server has chosen of those offered.
    pub(crate) fn protocol(&self) -> Option<&[u8]> {
        self.session.alpn_protocol()
    }

    pub(crate) fn watch(&mut self, reactor: &Rc<Reactor>) -> io::Result<()> {
        self.socket.watch(reactor)
    }

    /// Takes in what has arrived, or waits for it; 0 when the other side has ended.
    pub(crate) fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.session.reader().read(room) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // Messages have lengths: whoever cuts the connection off cannot shorten one unnoticed.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    return Poll::Ready(Ok(0));
                }
                result => return Poll::Ready(result),
            }
            // What the socket did not take at once goes now, or the server might wait for it for ever.
            if let Poll::Ready(sent) = self.poll_flush(context) {
                sent?;
            }
            ready!(self.poll_take_in(context))?;
        }
    }

    /// Encrypts and sends; what the socket does not take at once is sent with the next read or write.
    pub(crate) fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_flush(context))?;
        let count = self.session.writer().write(bytes)?;
        if let Poll::Ready(sent) = self.poll_flush(context) {
            sent?;
        }
        Poll::Ready(Ok(count))
    }

    /// Sends what is encrypted and has not been sent.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.session.wants_write() {
            let sent = self.session.write_tls(&mut Waiting { socket: &mut self.socket, context });
            ready!(unless_waiting(sent))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Encrypts, and sends what the socket takes now.
    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.session.writer().write(bytes)?;
        self.session.write_tls(&mut Now(&mut self.socket))?;
        Ok(count)
    }

    fn poll_handshake(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            ready!(self.poll_flush(context))?;
            if !self.session.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            if ready!(self.poll_take_in(context))? == 0 {
                let message = "server closed the connection while TLS began";
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, message)));
            }
        }
    }

    /// Takes in and decrypts what has arrived; 0 when the other side has ended.
    fn poll_take_in(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let arrived = self.session.read_tls(&mut Waiting { socket: &mut self.socket, context });
        let count = ready!(unless_waiting(arrived))?;
        if let Err(error) = self.session.process_new_packets() {
            // The server is told why, if the socket takes it.
            let _ = self.poll_flush(context);
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
        }
        Poll::Ready(Ok(count))
    }
}

fn unless_waiting(result: io::Result<usize>) -> Poll<io::Result<usize>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        result => Poll::Ready(result),
    }
}

/// A socket for which it is an error that one has to wait: the task is woken when it is ready.
struct Waiting<'a, 'b> {
    socket: &'a mut Stream,
    context: &'a mut Context<'b>,
}

impl Read for Waiting<'_, '_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        or_would_block(self.socket.poll_receive(self.context, room))
    }
}

impl Write for Waiting<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        or_would_block(Pin::new(&mut *self.socket).poll_write(self.context, bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn or_would_block(polled: Poll<io::Result<usize>>) -> io::Result<usize> {
    match polled {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

/// A socket that nobody waits for.
struct Now<'a>(&'a mut Stream);

impl Write for Now<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

//! What carries the bytes: a Unix socket, or TCP without delay.
//!
//! A stream begins as one of the runtime's; once its session is open it can be given to its thread's
//! [`Reactor`], which costs less for each answer.

use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::net::sockopt;
use serde::Deserialize;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

use crate::io::reactor::{Reactor, Watched};

/// A Unix socket, or a host name or address with a port.
#[derive(Debug, Clone)]
pub(crate) enum Address {
    Unix(PathBuf),
    Tcp(String, u16),
}

/// How a TCP connection notices that the other side is gone; what is not given is the system's default.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeepAlive {
    /// Silence after which it asks.
    pub idle_s: Option<u32>,
    /// Between two questions.
    pub interval_s: Option<u32>,
    /// Questions without an answer that end the connection.
    pub count: Option<u32>,
    /// How long what was sent may stay unacknowledged.
    pub user_timeout_ms: Option<u32>,
}

impl KeepAlive {
    fn apply(self, stream: &TcpStream) -> io::Result<()> {
        let seconds = |number: u32| Duration::from_secs(number.into());
        sockopt::set_socket_keepalive(stream, true)?;
        if let Some(idle) = self.idle_s {
            sockopt::set_tcp_keepidle(stream, seconds(idle))?;
        }
        if let Some(interval) = self.interval_s {
            sockopt::set_tcp_keepintvl(stream, seconds(interval))?;
        }
        if let Some(count) = self.count {
            sockopt::set_tcp_keepcnt(stream, count)?;
        }
        if let Some(timeout) = self.user_timeout_ms {
            sockopt::set_tcp_user_timeout(stream, timeout)?;
        }
        Ok(())
    }
}

pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
    Watched(Watched),
}

impl Stream {
    pub(crate) async fn connect(
        address: &Address,
        keep_alive: Option<KeepAlive>,
    ) -> io::Result<Self> {
        match address {
            Address::Unix(path) => UnixStream::connect(path).await.map(Self::Unix),
            Address::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                // A statement is one small write that waits for its answer: never hold it back.
                stream.set_nodelay(true)?;
                keep_alive.map_or(Ok(()), |keep_alive| keep_alive.apply(&stream))?;
                Ok(Self::Tcp(stream))
            }
        }
        .map_err(|error| name_address(address, &error))
    }

    /// Whether nobody can listen, since it does not leave this machine.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::Unix(_) => true,
            Self::Tcp(stream) => {
                stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback())
            }
            Self::Watched(_) => false,
        }
    }

    /// Lets `reactor` watch this stream from now on, in place of the runtime.
    pub(crate) fn watch(&mut self, reactor: &Rc<Reactor>) -> io::Result<()> {
        let socket = match &*self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
            Self::Watched(_) => return Ok(()),
        };
        *self = Self::Watched(Watched::new(socket.try_clone_to_owned()?, reactor)?);
        Ok(())
    }

    /// Takes in what has arrived, or waits for it; 0 when the other side has ended.
    pub(crate) fn poll_receive(
        &mut self,
        context: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if let Self::Watched(stream) = self {
            return stream.poll_read(context, room);
        }
        let mut room = ReadBuf::new(room);
        let read = Pin::new(self).poll_read(context, &mut room);
        read.map_ok(|()| room.filled().len())
    }

    /// Sends what the socket takes now.
    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.try_write(bytes),
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Watched(stream) => stream.try_write(bytes),
        }
    }
}

fn name_address(address: &Address, error: &io::Error) -> io::Error {
    let place = match address {
        Address::Unix(path) => format!("\"{}\"", path.display()),
        Address::Tcp(host, port) => format!("\"{host}\", port {port}"),
    };
    io::Error::new(error.kind(), format!("could not connect to server at {place}: {error}"))
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Watched(stream) => {
                let read = stream.poll_read(context, buffer.initialize_unfilled());
                read.map_ok(|count| buffer.advance(count))
            }
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Watched(stream) => stream.poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Watched(_) => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Watched(_) => Poll::Ready(Ok(())),
        }
    }
}

//! What does the load driver do where no server limits it? A server that answers at once, and does nothing.
//!
//! It speaks PostgreSQL's protocol on a Unix socket, lets every session in, and answers each statement with one
//! row. `make bench` runs it beside the driver.
//!
//! `stub_server SOCKET THREADS` prints a line once it listens, and serves until it is killed.

use std::error::Error;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::thread;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// The number of the listener's events; those of sessions are below.
const LISTENER: u64 = u64::MAX;

const CANCEL_REQUEST: &[u8] = &80_877_102_u32.to_be_bytes();
const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x01";
const READY: &[u8] = b"Z\0\0\0\x05I";
const ROW: &[u8] = b"D\0\0\0\x0b\0\x01\0\0\0\x011";
const DONE: &[u8] = b"C\0\0\0\x0dSELECT 1\0";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, threads] = &arguments[..] else {
        return Err("usage: stub_server SOCKET THREADS".into());
    };
    let threads: u32 = threads.parse()?;
    let listener = UnixListener::bind(socket)?;
    listener.set_nonblocking(true)?;
    println!("listening");
    thread::scope(|scope| {
        let serving: Vec<_> = (0..threads).map(|_| scope.spawn(|| serve(&listener))).collect();
        serving.into_iter().try_for_each(|thread| thread.join().expect("a thread ends"))
    })?;
    Ok(())
}

/// Serves whatever sessions this thread gets, for ever.
fn serve(listener: &UnixListener) -> io::Result<()> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    let flags = EventFlags::IN | EventFlags::EXCLUSIVE;
    epoll::add(&epoll, listener, EventData::new_u64(LISTENER), flags)?;
    let mut sessions: Vec<Option<Session>> = Vec::new();
    let mut free = Vec::new();
    let (mut events, mut answer) = (Vec::with_capacity(256), Vec::new());
    loop {
        epoll::wait(&epoll, spare_capacity(&mut events), None)?;
        for event in events.drain(..) {
            let number = event.data.u64();
            if number == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    let slot = free.pop().unwrap_or(sessions.len());
                    let data = EventData::new_u64(slot as u64);
                    epoll::add(&epoll, &stream, data, EventFlags::IN)?;
                    if slot == sessions.len() {
                        sessions.push(None);
                    }
                    sessions[slot] = Some(Session::new(stream));
                }
                continue;
            }
            let slot = usize::try_from(number).expect("it was a usize");
            if let Some(session) = &mut sessions[slot]
                && session.serve(&mut answer).is_err()
            {
                sessions[slot] = None;
                free.push(slot);
            }
        }
    }
}

struct Session {
    stream: UnixStream,
    /// Of a message that has not come whole.
    unread: Vec<u8>,
    place: Place,
}

/// How far a session is.
#[derive(Default)]
struct Place {
    has_begun: bool,
    /// Parameters of the statement that was parsed last.
    parameters: u16,
}

impl Session {
    fn new(stream: UnixStream) -> Self {
        Self { stream, unread: Vec::new(), place: Place::default() }
    }

    /// Answers what has arrived; an error ends the session.
    fn serve(&mut self, answer: &mut Vec<u8>) -> io::Result<()> {
        let mut room = [0; 4096];
        let (count, _) = recv(&self.stream, &mut room, RecvFlags::empty())?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.clear();
        if self.unread.is_empty() {
            let read = self.place.answer(&room[..count], answer)?;
            self.unread.extend_from_slice(&room[read..count]);
        } else {
            self.unread.extend_from_slice(&room[..count]);
            let read = self.place.answer(&self.unread, answer)?;
            self.unread.drain(..read);
        }
        let mut rest = answer.as_slice();
        while !rest.is_empty() {
            rest = &rest[send(&self.stream, rest, SendFlags::NOSIGNAL)?..];
        }
        Ok(())
    }
}

impl Place {
    /// Answers all whole messages, and says how many bytes these are; an error ends the session.
    fn answer(&mut self, arrived: &[u8], answer: &mut Vec<u8>) -> io::Result<usize> {
        let mut read = 0;
        loop {
            let rest = &arrived[read..];
            // The first message of a session has no tag.
            let tag = usize::from(self.has_begun);
            let Some(length) = rest.get(tag..tag + 4) else { return Ok(read) };
            let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
            let Some(body) = rest.get(tag + 4..tag + length) else { return Ok(read) };
            read += tag + length;
            if !self.has_begun {
                if body.starts_with(CANCEL_REQUEST) {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                self.has_begun = true;
                answer.extend_from_slice(WELCOME);
                answer.extend_from_slice(READY);
                continue;
            }
            match rest[0] {
                b'P' => {
                    self.parameters = parameters(body);
                    answer.extend_from_slice(b"1\0\0\0\x04");
                }
                b'B' => answer.extend_from_slice(b"2\0\0\0\x04"),
                b'D' => {
                    let types = usize::from(self.parameters);
                    let length = u32::try_from(6 + 4 * types).expect("counted by 16 bits");
                    answer.push(b't');
                    answer.extend_from_slice(&length.to_be_bytes());
                    answer.extend_from_slice(&self.parameters.to_be_bytes());
                    answer.extend_from_slice(&23_u32.to_be_bytes().repeat(types));
                    answer.extend_from_slice(b"n\0\0\0\x04");
                }
                b'E' => {
                    answer.extend_from_slice(ROW);
                    answer.extend_from_slice(DONE);
                }
                b'Q' => {
                    answer.extend_from_slice(DONE);
                    answer.extend_from_slice(READY);
                }
                b'S' => answer.extend_from_slice(READY),
                _ => return Err(io::ErrorKind::ConnectionAborted.into()),
            }
        }
    }
}

/// How many parameters a statement has: the highest number behind a `$`.
fn parameters(body: &[u8]) -> u16 {
    let text = String::from_utf8_lossy(body);
    let number = |piece: &str| {
        let digits = piece.bytes().take_while(u8::is_ascii_digit).count();
        piece[..digits].parse().unwrap_or(0)
    };
    text.split('$').skip(1).map(number).max().unwrap_or(0)
}

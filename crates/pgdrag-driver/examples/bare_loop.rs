//! How little can a client do that sends a prepared select and reads its answer, over and over?
//!
//! The measure for every client that does something useful as well: bytes made by hand, a random key, and
//! nothing looked at in the answer but its end. A thread sleeps in an `epoll` of its connections, or, where it
//! has only one, in that. `make bench` runs it beside pgdrag and pgbench.
//!
//! `bare_loop SOCKET USER DATABASE CONNECTIONS SECONDS ROWS THREADS` prints how many selects it made.

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use pgwire::frontend::{self, BindTemplate};
use pgwire::value::{self, Format};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::net::{RecvFlags, SendFlags, recv, send};

const SELECT: &str = "SELECT abalance FROM pgbench_accounts WHERE aid = $1;";

type Failed = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, user, database, connections, seconds, rows, threads] = &arguments[..] else {
        return Err("usage: bare_loop SOCKET USER DATABASE CONNECTIONS SECONDS ROWS THREADS".into());
    };
    let (connections, threads): (u64, u64) = (connections.parse()?, threads.parse()?);
    let mut shares: Vec<Vec<UnixStream>> = (0..threads).map(|_| Vec::new()).collect();
    for number in 0..connections {
        shares[usize::try_from(number % threads)?].push(connect(socket, user, database)?);
    }
    let (rows, end) = (rows.parse()?, Instant::now() + Duration::from_secs_f64(seconds.parse()?));
    let selects = thread::scope(|scope| {
        let mut running = Vec::new();
        for (number, streams) in (1..).zip(&shares) {
            running.push(scope.spawn(move || {
                let select = Select::new(rows, number)?;
                match streams.as_slice() {
                    [stream] => alone(stream, select, end),
                    streams => by_turns(streams, select, end),
                }
            }));
        }
        let ends = running.into_iter().map(|thread| thread.join().expect("a thread ends"));
        ends.sum::<Result<u64, Failed>>()
    });
    println!("{}", selects?);
    Ok(())
}

/// Selects on one connection until `end`, and how many that were.
fn alone(mut stream: &UnixStream, mut select: Select, end: Instant) -> Result<u64, Failed> {
    let mut answer = [0; 4096];
    let mut selects = 0;
    while Instant::now() < end {
        stream.write_all(select.bytes())?;
        receive(stream, &mut answer)?;
        selects += 1;
    }
    Ok(selects)
}

/// Selects on connections of which each waits for its own answer alone.
fn by_turns(streams: &[UnixStream], mut select: Select, end: Instant) -> Result<u64, Failed> {
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    for (number, mut stream) in (0..).zip(streams) {
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, stream, EventData::new_u64(number), flags)?;
        stream.write_all(select.bytes())?;
    }
    let (mut events, mut answer) = (Vec::with_capacity(64), [0; 4096]);
    let mut selects = 0;
    while Instant::now() < end {
        epoll::wait(&epoll, spare_capacity(&mut events), None)?;
        for event in events.drain(..) {
            let stream = &streams[usize::try_from(event.data.u64())?];
            receive(stream, &mut answer)?;
            selects += 1;
            send(stream, select.bytes(), SendFlags::NOSIGNAL)?;
        }
    }
    Ok(selects)
}

fn receive(stream: &UnixStream, answer: &mut [u8]) -> Result<(), Failed> {
    let (arrived, _) = recv(stream, &mut *answer, RecvFlags::empty())?;
    // Such an answer comes whole, and ends with ReadyForQuery.
    if answer[..arrived].ends_with(b"Z\0\0\0\x05I") {
        return Ok(());
    }
    Err(format!("unexpected answer: {}", String::from_utf8_lossy(&answer[..arrived])).into())
}

/// The messages of one select after the other, each with another key.
struct Select {
    bind: BindTemplate,
    out: BytesMut,
    key: Vec<u8>,
    rows: u64,
    random: u64,
}

impl Select {
    /// Of another thread other keys.
    fn new(rows: u64, thread: u64) -> Result<Self, Failed> {
        let bind = BindTemplate::new("s", 1, Format::Text)?;
        Ok(Self {
            bind,
            out: BytesMut::new(),
            key: Vec::new(),
            rows,
            random: 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(thread),
        })
    }

    fn bytes(&mut self) -> &[u8] {
        // Xorshift: good enough to touch all rows alike.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.key.clear();
        value::put_text(&mut self.key, &(self.random % self.rows + 1).to_string());
        self.out.clear();
        self.bind.bind(&mut self.out, &self.key);
        frontend::execute(&mut self.out);
        frontend::sync(&mut self.out);
        &self.out
    }
}

/// Opens a session without a password, and prepares the select.
fn connect(socket: &str, user: &str, database: &str) -> Result<UnixStream, Failed> {
    let mut stream = UnixStream::connect(socket)?;
    let mut out = BytesMut::new();
    frontend::startup(&mut out, &[("user", user), ("database", database)])?;
    exchange(&mut stream, &out)?;
    out.clear();
    frontend::parse(&mut out, "s", SELECT, &[])?;
    frontend::sync(&mut out);
    exchange(&mut stream, &out)?;
    Ok(stream)
}

fn exchange(stream: &mut UnixStream, out: &[u8]) -> Result<(), Failed> {
    stream.write_all(out)?;
    let (mut answer, mut filled) = (vec![0; 16 * 1024], 0);
    while !answer[..filled].ends_with(b"Z\0\0\0\x05I") {
        match stream.read(&mut answer[filled..])? {
            0 => return Err(String::from_utf8_lossy(&answer[..filled]).into()),
            count => filled += count,
        }
    }
    Ok(())
}

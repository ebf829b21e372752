//! How does a thread learn at the least cost which of its sockets have news?
//!
//! The clients' sockets are in an `epoll` of their own, which the thread asks itself, and in which it
//! sleeps. The runtime watches it as well, for when a client needs the runtime. Only what is waited for
//! is asked for: a socket that also reported room to send would wake the thread each time the server
//! reads a statement.

use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::io::waiting::note_within;

/// What one look takes in; the others wait for the next look.
const EVENTS_A_LOOK: usize = 128;
const NO_TIME: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The sockets of one thread's clients.
pub(crate) struct Reactor {
    epoll: AsyncFd<Descriptor>,
    /// By the number that a socket's events carry.
    news: RefCell<Vec<Option<Rc<News>>>>,
    /// Numbers below that are not in use.
    free: RefCell<Vec<usize>>,
    events: RefCell<Vec<Event>>,
}

struct Descriptor(OwnedFd);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// What is known of a socket, and who waits for more.
pub(crate) struct News {
    is_readable: Cell<bool>,
    /// The other side has ended: reads say so, for good.
    is_ended: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Reactor {
    /// Without sockets; the thread's runtime must be entered.
    pub(crate) fn new() -> io::Result<Self> {
        let epoll = Descriptor(epoll::create(CreateFlags::CLOEXEC)?);
        // SAFETY: the descriptor is owned by what is registered, and stays the same for all its life.
        #[allow(unsafe_code)]
        let epoll = unsafe { AsyncFd::register_with_interest(epoll, Interest::READABLE)? };
        let events = RefCell::new(Vec::with_capacity(EVENTS_A_LOOK));
        Ok(Self { epoll, news: RefCell::default(), free: RefCell::default(), events })
    }

    /// Takes in what has happened, and wakes whom it concerns.
    pub(crate) fn look(&self) {
        self.take_in(Some(&NO_TIME));
    }

    /// Sleeps until something happens, and takes it in; a signal ends the sleep as well.
    pub(crate) fn sleep(&self) {
        self.take_in(None);
    }

    fn take_in(&self, limit: Option<&Timespec>) {
        let mut events = self.events.borrow_mut();
        events.clear();
        let room = spare_capacity(&mut events);
        // An interruption leaves no events, and there is nothing else that could fail.
        let _ = epoll::wait(&self.epoll.get_ref().0, room, limit);
        let news = self.news.borrow();
        for event in events.iter() {
            let number = usize::try_from(event.data.u64()).expect("it was a usize");
            if let Some(news) = &news[number] {
                news.note(event.flags);
            }
        }
    }

    /// Ready if it is time for another look; otherwise the task is woken when it is.
    pub(crate) fn poll_news(&self, context: &mut Context<'_>) -> Poll<()> {
        match self.epoll.poll_read_ready(context) {
            Poll::Ready(Ok(mut ready)) => {
                ready.clear_ready();
                Poll::Ready(())
            }
            // A runtime that ends has no more news.
            Poll::Ready(Err(_)) | Poll::Pending => Poll::Pending,
        }
    }

    /// Watches a descriptor, whose news carry this number.
    pub(crate) fn add(&self, socket: BorrowedFd<'_>) -> io::Result<(usize, Rc<News>)> {
        let mut all = self.news.borrow_mut();
        let number = self.free.borrow_mut().pop().unwrap_or(all.len());
        let data = EventData::new_u64(number as u64);
        epoll::add(&self.epoll.get_ref().0, socket, data, interest(EventFlags::empty()))?;
        // Nothing is known of it, so the first read finds out.
        let news = Rc::new(News {
            is_readable: Cell::new(true),
            is_ended: Cell::new(false),
            waker: RefCell::new(None),
        });
        if number == all.len() {
            all.push(None);
        }
        all[number] = Some(Rc::clone(&news));
        Ok((number, news))
    }
}

impl News {
    fn note(&self, flags: EventFlags) {
        let ended = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if flags.intersects(ended) {
            self.is_ended.set(true);
        }
        if flags.intersects(ended | EventFlags::IN) {
            self.is_readable.set(true);
        }
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Whether there may be something to read.
    pub(crate) fn is_readable(&self) -> bool {
        self.is_readable.get()
    }

    /// Whether there is something to read, of which nobody knew.
    pub(crate) fn take_readable(&self) -> bool {
        self.is_readable.replace(false)
    }

    /// Whoever waits for this socket, one at a time, is woken at each news of it.
    fn wait(&self, context: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        match &mut *waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
    }
}

/// News of arrivals and of the end, once each, and of whatever else is asked for.
fn interest(more: EventFlags) -> EventFlags {
    EventFlags::IN | EventFlags::RDHUP | EventFlags::ET | more
}

/// A socket that does not block, and whose news come through its thread's [`Reactor`].
///
/// Its calls go straight to the kernel: the C library's check each time whether the thread is to end.
pub(crate) struct Watched {
    socket: OwnedFd,
    reactor: Rc<Reactor>,
    number: usize,
    news: Rc<News>,
    waits_for_room: bool,
}

impl Watched {
    /// Lets `reactor` watch a socket, of which nothing may be awaited elsewhere.
    pub(crate) fn new(socket: OwnedFd, reactor: &Rc<Reactor>) -> io::Result<Self> {
        let (number, news) = reactor.add(socket.as_fd())?;
        Ok(Self { socket, reactor: Rc::clone(reactor), number, news, waits_for_room: false })
    }

    pub(crate) fn poll_read(
        &mut self,
        context: &Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        while self.news.is_readable() {
            match recv(&self.socket, &mut *room, RecvFlags::DONTWAIT) {
                Ok((count, _)) => {
                    // Less than there was room for is all there was.
                    self.news.is_readable.set(count == room.len() || self.news.is_ended.get());
                    return Poll::Ready(Ok(count));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.news.is_readable.set(false),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
        self.news.wait(context);
        // Not so a wait for room: whoever cannot write goes on to read, and may then wait elsewhere.
        note_within();
        Poll::Pending
    }

    pub(crate) fn poll_write(
        &mut self,
        context: &Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.try_write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.wait_for_room(true)?;
                self.news.wait(context);
                Poll::Pending
            }
            result => {
                self.wait_for_room(false)?;
                Poll::Ready(result)
            }
        }
    }

    /// Sends what the socket takes now.
    pub(crate) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match send(&self.socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Err(Errno::INTR) => {}
                result => return Ok(result?),
            }
        }
    }

    fn wait_for_room(&mut self, waits: bool) -> io::Result<()> {
        if std::mem::replace(&mut self.waits_for_room, waits) == waits {
            return Ok(());
        }
        let more = if waits { EventFlags::OUT } else { EventFlags::empty() };
        let data = EventData::new_u64(self.number as u64);
        Ok(epoll::modify(&self.reactor.epoll.get_ref().0, &self.socket, data, interest(more))?)
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Before the number is given to another socket, its events must be gone.
        let _ = epoll::delete(&self.reactor.epoll.get_ref().0, &self.socket);
        self.reactor.news.borrow_mut()[self.number] = None;
        self.reactor.free.borrow_mut().push(self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    /// A watched socket, and its other end, which blocks.
    fn pair(reactor: &Rc<Reactor>) -> (Watched, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        (Watched::new(ours.into(), reactor).expect("watched"), theirs)
    }

    /// Runs `test` beside a task that looks whenever there is news.
    fn with_reactor(test: impl AsyncFnOnce(&Rc<Reactor>)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let reactor = Rc::new(Reactor::new().expect("a reactor"));
            let looking = async {
                loop {
                    poll_fn(|context| reactor.poll_news(context)).await;
                    reactor.look();
                }
            };
            let limit = Duration::from_secs(60);
            tokio::select! {
                ended = tokio::time::timeout(limit, test(&reactor)) => ended.expect("no news is lost"),
                () = looking => {}
            }
        });
    }

    async fn read(watched: &mut Watched, room: &mut [u8]) -> io::Result<usize> {
        poll_fn(|context| watched.poll_read(context, room)).await
    }

    #[test]
    fn what_arrives_later_and_the_end_are_both_told() {
        with_reactor(async |reactor| {
            let (mut watched, mut other) = pair(reactor);
            let thread = std::thread::spawn(move || {
                for byte in [1, 2] {
                    std::thread::sleep(Duration::from_millis(5));
                    other.write_all(&[byte]).expect("sent");
                }
            });
            let mut room = [0; 16];
            for byte in [1, 2] {
                assert_eq!(read(&mut watched, &mut room).await.expect("arrived"), 1);
                assert_eq!(room[0], byte);
            }
            // Once it is known, it is known for good.
            for _ in 0..2 {
                assert_eq!(read(&mut watched, &mut room).await.expect("ended"), 0);
            }
            thread.join().expect("the thread ends");
        });
    }

    #[test]
    fn an_end_that_comes_together_with_the_last_bytes_is_not_lost() {
        with_reactor(async |reactor| {
            let (mut watched, mut other) = pair(reactor);
            other.write_all(&[1; 3]).expect("sent");
            drop(other);
            let mut room = [0; 16];
            assert_eq!(read(&mut watched, &mut room).await.expect("arrived"), 3);
            assert_eq!(read(&mut watched, &mut room).await.expect("ended"), 0);
        });
    }

    #[test]
    fn a_socket_that_is_full_takes_more_when_the_other_side_has_read() {
        with_reactor(async |reactor| {
            let (mut watched, mut other) = pair(reactor);
            let bytes = vec![7; 4 << 20];
            let thread = std::thread::spawn(move || {
                let mut received = Vec::new();
                other.read_to_end(&mut received).map(|_| received)
            });
            let mut sent = 0;
            while sent < bytes.len() {
                let write = poll_fn(|context| watched.poll_write(context, &bytes[sent..]));
                sent += write.await.expect("sent");
            }
            drop(watched);
            let received = thread.join().expect("the thread ends").expect("received");
            assert!(received == bytes, "{} bytes arrived", received.len());
        });
    }

    #[test]
    fn the_number_of_a_socket_that_is_gone_is_given_to_the_next_one() {
        with_reactor(async |reactor| {
            let (first, _other) = pair(reactor);
            let (second, _another) = pair(reactor);
            let number = first.number;
            drop(first);
            let (third, _third) = pair(reactor);
            assert_eq!((third.number, reactor.news.borrow().len()), (number, 2));
            assert_ne!(second.number, third.number);
        });
    }
}

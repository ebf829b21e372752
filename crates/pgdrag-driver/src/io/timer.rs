//! How does a client wait for a moment without the runtime's millisecond of slack?
//!
//! One timer of the kernel a thread (`timerfd`) serves everybody who waits: it is always armed for the
//! first of them. Whoever learns first that it has fired, the runtime or the thread's own loop, wakes those
//! whose moment has come.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::io::clock::{Clock, Moment};
use crate::io::waiting::note_within;

struct Descriptor(TimerFd);

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// The waiters of one thread.
pub struct Timers {
    clock: Clock,
    timer: AsyncFd<Descriptor>,
    waiting: RefCell<BTreeMap<Key, Waker>>,
    armed: Cell<Moment>,
    tickets: Cell<u64>,
}

/// The moment, and a number that tells waiters for the same moment apart.
type Key = (Moment, u64);

impl Timers {
    /// A timer of this thread, whose runtime must be entered.
    pub fn new(clock: Clock) -> io::Result<Self> {
        let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
        let timer = Descriptor(TimerFd::new(ClockId::CLOCK_MONOTONIC, flags)?);
        // SAFETY: the descriptor is owned by what is registered, and stays the same for all its life.
        #[allow(unsafe_code)]
        let timer = unsafe { AsyncFd::register_with_interest(timer, Interest::READABLE)? };
        Ok(Self {
            clock,
            timer,
            waiting: RefCell::default(),
            armed: Cell::new(Moment::NEVER),
            tickets: Cell::new(0),
        })
    }

    /// Waits until `moment`; the task of [`Timers::serve`] must be running.
    pub fn sleep_until(&self, moment: Moment) -> Sleep<'_> {
        self.tickets.set(self.tickets.get() + 1);
        Sleep { timers: self, key: (moment, self.tickets.get()), is_waiting: false }
    }

    /// Waits at least so long from now on, as [`Timers::sleep_until`] does.
    pub fn sleep(&self, length: Duration) -> Sleep<'_> {
        self.sleep_until(self.clock.now() + length)
    }

    /// Wakes whoever's moment has come, for ever.
    pub async fn serve(&self) -> io::Result<std::convert::Infallible> {
        loop {
            self.timer.readable().await?.clear_ready();
            self.expire();
        }
    }

    /// Wakes whoever's moment has come, now that the timer has fired.
    pub(crate) fn expire(&self) {
        // Reads the number of expirations, which only makes the timer unreadable again.
        let _ = self.timer.get_ref().0.wait();
        self.armed.set(Moment::NEVER);
        self.wake_due(self.clock.now());
        let next = self.waiting.borrow().keys().next().map(|(moment, _)| *moment);
        if let Some(next) = next {
            self.arm(next);
        }
    }

    /// What is readable when the timer has fired.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.timer.get_ref().0.as_fd()
    }

    fn wake_due(&self, now: Moment) {
        let mut waiting = self.waiting.borrow_mut();
        while let Some(first) = waiting.first_entry() {
            if first.key().0 > now {
                return;
            }
            first.remove().wake();
        }
    }

    /// Lets the timer fire at `moment`, unless it will before.
    pub(crate) fn arm(&self, moment: Moment) {
        if moment >= self.armed.get() {
            return;
        }
        self.armed.set(moment);
        // A length of zero would disarm the timer.
        let length = moment.since(self.clock.now()).max(Duration::from_nanos(1));
        self.timer
            .get_ref()
            .0
            .set(Expiration::OneShot(length.into()), TimerSetTimeFlags::empty())
            .expect("a timer can be set to any length");
    }
}

/// Waits for a moment; dropped, it waits no more.
pub struct Sleep<'a> {
    timers: &'a Timers,
    key: Key,
    is_waiting: bool,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let timers = self.timers;
        if self.is_waiting {
            let mut waiting = timers.waiting.borrow_mut();
            let Some(waker) = waiting.get_mut(&self.key) else {
                self.is_waiting = false;
                return Poll::Ready(());
            };
            waker.clone_from(context.waker());
            note_within();
            return Poll::Pending;
        }
        if self.key.0 <= timers.clock.now() {
            return Poll::Ready(());
        }
        timers.waiting.borrow_mut().insert(self.key, context.waker().clone());
        timers.arm(self.key.0);
        self.is_waiting = true;
        note_within();
        Poll::Pending
    }
}

impl Drop for Sleep<'_> {
    fn drop(&mut self) {
        if self.is_waiting {
            self.timers.waiting.borrow_mut().remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    /// Runs `test` beside the task that serves the timers.
    fn with_timers<T>(test: impl AsyncFnOnce(Rc<Timers>, Clock) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        runtime.expect("a runtime").block_on(async {
            let clock = Clock::start();
            let timers = Rc::new(Timers::new(clock).expect("a timer"));
            tokio::select! {
                found = test(Rc::clone(&timers), clock) => found,
                error = timers.serve() => panic!("{error:?}"),
            }
        })
    }

    #[test]
    fn every_waiter_wakes_and_none_of_them_early() {
        let mut woken = with_timers(async |timers, clock| {
            let woken = RefCell::new(Vec::new());
            let wait = async |name: u8, us: u64| {
                let moment = clock.now() + Duration::from_micros(us);
                timers.sleep_until(moment).await;
                assert!(clock.now() >= moment);
                woken.borrow_mut().push(name);
            };
            tokio::join!(wait(3, 9000), wait(1, 300), wait(2, 3000), wait(0, 0));
            woken.into_inner()
        });
        // On a busy processor several moments may have passed at once: these wake in any order.
        woken.sort_unstable();
        assert_eq!(woken, [0, 1, 2, 3]);
    }

    #[test]
    fn a_wait_that_was_given_up_leaves_nothing_behind() {
        with_timers(async |timers, clock| {
            let after = |length| timers.sleep_until(clock.now() + length);
            tokio::select! {
                biased;
                () = after(Duration::from_secs(3600)) => panic!("woke an hour early"),
                () = after(Duration::from_micros(100)) => {}
            }
            assert!(timers.waiting.borrow().is_empty());
        });
    }
}

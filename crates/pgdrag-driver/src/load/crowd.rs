//! How do the clients of one thread take turns?
//!
//! Whoever has news is served in one batch, in the order of the news, before the reactor is asked for
//! more. So one reading of the clock says when all of them could have been served, and nobody is served
//! twice while another waits.
//!
//! When nobody has news, the thread sleeps in the reactor, which costs much less than to return to the
//! runtime and to sleep there. Its other tasks have their turn whenever a timer has fired. While any client
//! waits for something else than the thread's sockets and timers, the thread sleeps in the runtime.

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::task::{Unconstrained, unconstrained};

use crate::io::calls::{Call, Ready};
use crate::io::clock::{Clock, Moment};
use crate::io::reactor::{News, Reactor};
use crate::io::timer::Timers;
use crate::io::waiting::observe;

/// Clients that have been served for so long let the runtime and the thread's other tasks have their turn.
const LONGEST_TURN: Duration = Duration::from_micros(100);

/// The thread's other tasks have a turn this often, even if no timer is theirs.
const LONGEST_SLEEP: Duration = Duration::from_millis(10);

/// The futures of a thread's clients, by slot.
pub(crate) struct Crowd {
    clock: Clock,
    /// `None`: it has ended, or was dropped.
    members: Vec<Option<Member>>,
    live: usize,
    /// How many of those wait for what only the runtime will tell them.
    outside: usize,
    ready: Arc<Ready>,
    batch: Vec<usize>,
    reactor: Rc<Reactor>,
    /// When the batch that is being served woke up.
    woke: Rc<Cell<Moment>>,
    /// `None`: the thread sleeps in the runtime.
    alarm: Option<Alarm>,
    /// Whether the thread's other tasks have had their turn since this one's last.
    has_given_way: bool,
}

/// What ends a sleep in the reactor in time.
#[derive(Clone)]
struct Alarm {
    timers: Rc<Timers>,
    news: Rc<News>,
}

impl Alarm {
    /// Wakes whoever's moment has come; false if no timer has fired.
    fn ring(&self) -> bool {
        let has_fired = self.news.take_readable();
        if has_fired {
            self.timers.expire();
        }
        has_fired
    }
}

struct Member {
    // A batch serves everybody once: no budget needs to keep one from taking another's turn.
    future: Unconstrained<Pin<Box<dyn Future<Output = ()>>>>,
    waker: Waker,
    call: Arc<Call>,
    is_outside: bool,
}

impl Crowd {
    /// Nobody yet; `woke` is told when each batch woke up.
    pub(crate) fn new(clock: Clock, reactor: Rc<Reactor>, woke: Rc<Cell<Moment>>) -> Self {
        let ready = Arc::default();
        Self {
            clock,
            members: Vec::new(),
            live: 0,
            outside: 0,
            ready,
            batch: Vec::new(),
            reactor,
            woke,
            alarm: None,
            has_given_way: false,
        }
    }

    /// Adds a client, whose slot is the next one.
    pub(crate) fn add(&mut self, future: impl Future<Output = ()> + 'static) {
        let call = Call::new(self.members.len(), &self.ready);
        let future = unconstrained(Box::pin(future) as Pin<Box<dyn Future<Output = ()>>>);
        let waker = Waker::from(Arc::clone(&call));
        self.members.push(Some(Member { future, waker, call, is_outside: false }));
        self.live += 1;
    }

    /// Drops clients, wherever they are.
    pub(crate) fn drop_slots(&mut self, slots: &[usize]) {
        for slot in slots {
            if let Some(member) = self.members[*slot].take() {
                self.live -= 1;
                self.outside -= usize::from(member.is_outside);
            }
        }
    }

    /// Lets the thread sleep in the reactor from now on, until the first of `timers` at the latest.
    pub(crate) fn sleep_in_reactor(&mut self, timers: Rc<Timers>) -> io::Result<()> {
        let (_, news) = self.reactor.add(timers.descriptor())?;
        self.alarm = Some(Alarm { timers, news });
        Ok(())
    }

    /// Lets the thread sleep in the runtime from now on.
    pub(crate) fn sleep_in_runtime(&mut self) {
        self.alarm = None;
    }

    /// Serves whoever has news; ready when no client is left.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let has_given_way = std::mem::take(&mut self.has_given_way);
        match &self.alarm {
            Some(alarm) if self.outside == 0 && has_given_way => {
                let alarm = alarm.clone();
                self.poll_alone(&alarm, context)
            }
            // A task that is ready would have to wait until the thread wakes up.
            Some(_) if self.outside == 0 => self.give_way(context),
            _ => self.poll_in_runtime(context),
        }
    }

    /// Serves and sleeps until a timer fires, or a client needs the runtime.
    fn poll_alone(&mut self, alarm: &Alarm, context: &Context<'_>) -> Poll<()> {
        while self.live > 0 {
            // A firing of which an earlier look has learned ends no sleep.
            if self.ready.is_empty() && !alarm.news.is_readable() {
                alarm.timers.arm(self.woke.get() + LONGEST_SLEEP);
                self.reactor.sleep();
            } else {
                self.reactor.look();
            }
            let has_fired = alarm.ring();
            self.ready.take(&mut self.batch);
            self.serve();
            if has_fired || self.outside > 0 {
                return self.give_way(context);
            }
        }
        Poll::Ready(())
    }

    /// Lets every other task of the thread that is ready have its turn.
    fn give_way(&mut self, context: &Context<'_>) -> Poll<()> {
        self.has_given_way = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Serves for a short while, and leaves it to the runtime to sleep.
    fn poll_in_runtime(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let began = self.clock.now();
        // The first look sees what has woken this task: it is no reason to look once more.
        let _ = self.reactor.poll_news(context);
        while self.live > 0 {
            self.reactor.look();
            self.ready.take(&mut self.batch);
            if !self.batch.is_empty() {
                self.serve();
                if self.woke.get().since(began) > LONGEST_TURN {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
            } else if self.reactor.poll_news(context).is_pending()
                && self.ready.is_empty_until(context)
            {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    fn serve(&mut self) {
        self.woke.set(self.clock.now());
        for slot in self.batch.drain(..) {
            let Some(member) = &mut self.members[slot] else { continue };
            member.call.answer();
            let mut context = Context::from_waker(&member.waker);
            let future = Pin::new(&mut member.future);
            let (polled, is_within) = observe(|| future.poll(&mut context));
            self.outside -= usize::from(member.is_outside);
            member.is_outside = polled.is_pending() && !is_within;
            self.outside += usize::from(member.is_outside);
            if polled.is_ready() {
                self.members[slot] = None;
                self.live -= 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::future::{pending, poll_fn};
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use tokio::task::LocalSet;

    use crate::io::reactor::Watched;

    /// Yields once.
    async fn pass() {
        let mut has_passed = false;
        poll_fn(|context| {
            if std::mem::replace(&mut has_passed, true) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Runs `test` with a crowd and the timers up to which it sleeps in the reactor; nobody else serves them.
    fn with_sleeper<T>(test: impl AsyncFnOnce(Crowd, Rc<Timers>) -> T) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        let test = async {
            let clock = Clock::start();
            let timers = Rc::new(Timers::new(clock).expect("a timer"));
            let reactor = Rc::new(Reactor::new().expect("a reactor"));
            let mut crowd = Crowd::new(clock, reactor, Rc::default());
            crowd.sleep_in_reactor(Rc::clone(&timers)).expect("watched");
            test(crowd, timers).await
        };
        LocalSet::new().block_on(&runtime.expect("a runtime"), test)
    }

    /// Adds a client that waits for one byte, and returns the end from which it comes.
    fn add_reader(crowd: &mut Crowd) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        let mut watched = Watched::new(ours.into(), &crowd.reactor).expect("watched");
        crowd.add(async move {
            let mut room = [0; 1];
            let read = poll_fn(|context| watched.poll_read(context, &mut room)).await;
            assert_eq!(read.expect("arrived"), 1);
        });
        theirs
    }

    /// Adds clients to a crowd, and serves them to their end.
    fn serve(add: impl FnOnce(&mut Crowd)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        runtime.expect("a runtime").block_on(async {
            let reactor = Rc::new(Reactor::new().expect("a reactor"));
            let mut crowd = Crowd::new(Clock::start(), reactor, Rc::default());
            add(&mut crowd);
            poll_fn(|context| crowd.poll(context)).await;
        });
    }

    #[test]
    fn everybody_is_served_once_before_anybody_is_served_twice() {
        let turns = Rc::new(RefCell::new(Vec::new()));
        serve(|crowd| {
            for name in ["a", "b"] {
                let turns = Rc::clone(&turns);
                crowd.add(async move {
                    for _ in 0..3 {
                        turns.borrow_mut().push(name);
                        pass().await;
                    }
                });
            }
        });
        assert_eq!(turns.borrow().concat(), "ababab");
    }

    #[test]
    fn a_client_that_is_dropped_is_not_waited_for() {
        serve(|crowd| {
            crowd.add(pending());
            crowd.add(pass());
            crowd.drop_slots(&[0]);
        });
    }

    #[test]
    fn a_client_that_another_thread_wakes_is_served() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let thread = std::thread::spawn(|| sender.send(()).expect("received"));
        serve(|crowd| crowd.add(async { receiver.await.expect("sent") }));
        thread.join().expect("the thread ends");
    }
    #[test]
    fn a_thread_that_sleeps_in_the_reactor_wakes_clients_whose_moment_has_come() {
        with_sleeper(async |mut crowd, timers| {
            let mut other = add_reader(&mut crowd);
            crowd.add(async move {
                for _ in 0..3 {
                    timers.sleep(Duration::from_micros(300)).await;
                }
                other.write_all(&[1]).expect("sent");
            });
            poll_fn(|context| crowd.poll(context)).await;
        });
    }

    #[test]
    fn a_firing_that_an_earlier_look_took_in_wakes_its_client() {
        with_sleeper(async |mut crowd, timers| {
            let mut other = add_reader(&mut crowd);
            let woken = Rc::new(Cell::new(false));
            let (sleeping, moment) = (Rc::clone(&timers), Rc::clone(&woken));
            crowd.add(async move {
                sleeping.sleep(Duration::from_micros(100)).await;
                moment.set(true);
            });
            let mut context = Context::from_waker(Waker::noop());
            assert!(crowd.poll_in_runtime(&mut context).is_pending());
            std::thread::sleep(Duration::from_millis(1));
            crowd.reactor.look();
            // Ends a sleep that nothing else would end.
            let thread = std::thread::spawn(move || {
                std::thread::sleep(Duration::from_secs(1));
                other.write_all(&[1]).expect("sent");
            });
            let alarm = crowd.alarm.clone().expect("it sleeps in the reactor");
            while !woken.get() {
                assert!(crowd.poll_alone(&alarm, &context).is_pending());
                assert_eq!(crowd.live, 1 + usize::from(!woken.get()), "the reader was first");
            }
            thread.join().expect("the thread ends");
        });
    }

    #[test]
    fn other_tasks_have_their_turn_when_their_moment_has_come() {
        with_sleeper(async |mut crowd, timers| {
            let mut other = add_reader(&mut crowd);
            let serving = tokio::task::spawn_local(poll_fn(move |context| crowd.poll(context)));
            timers.sleep(Duration::from_millis(1)).await;
            other.write_all(&[1]).expect("sent");
            serving.await.expect("served");
        });
    }

    #[test]
    fn a_thread_sleeps_in_the_runtime_while_a_living_client_needs_it() {
        with_sleeper(async |mut crowd, _| {
            let (sender, receiver) = tokio::sync::oneshot::channel();
            crowd.add(pending());
            crowd.add(async { receiver.await.expect("sent") });
            let _other = add_reader(&mut crowd);
            let mut context = Context::from_waker(Waker::noop());
            assert!(crowd.poll_in_runtime(&mut context).is_pending());
            assert_eq!((crowd.live, crowd.outside), (3, 2));
            crowd.drop_slots(&[0]);
            assert_eq!((crowd.live, crowd.outside), (2, 1));
            sender.send(()).expect("received");
            assert!(crowd.poll_in_runtime(&mut context).is_pending());
            assert_eq!((crowd.live, crowd.outside), (1, 0));
        });
    }
}

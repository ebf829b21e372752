//! How do the clients of one thread take turns?
//!
//! Whoever has news is served in one batch, in the order of the news, before the reactor is asked for
//! more. So one reading of the clock says when all of them could have been served, and nobody is served
//! twice while another waits.

use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::task::{Unconstrained, unconstrained};

use crate::clock::{Clock, Moment};
use crate::reactor::Reactor;

/// Clients that have been served for so long let the thread's timers and other tasks have their turn.
const LONGEST_TURN: Duration = Duration::from_micros(100);

/// The futures of a thread's clients, by slot.
pub(crate) struct Crowd {
    clock: Clock,
    /// `None`: it has ended, or was dropped.
    members: Vec<Option<Member>>,
    live: usize,
    ready: Arc<Ready>,
    batch: Vec<usize>,
    reactor: Rc<Reactor>,
    /// When the batch that is being served woke up.
    woke: Rc<Cell<Moment>>,
}

struct Member {
    // A batch serves everybody once: no budget needs to keep one from taking another's turn.
    future: Unconstrained<Pin<Box<dyn Future<Output = ()>>>>,
    waker: Waker,
    call: Arc<Call>,
}

/// Who is to be served next, and who serves them.
#[derive(Default)]
struct Ready(Mutex<(Vec<usize>, Option<Waker>)>);

impl Ready {
    fn lock(&self) -> MutexGuard<'_, (Vec<usize>, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody is to be served; who serves is woken as soon as somebody is.
    fn is_empty(&self, context: &Context<'_>) -> bool {
        let mut ready = self.lock();
        let is_empty = ready.0.is_empty();
        ready.1 = is_empty.then(|| context.waker().clone());
        is_empty
    }
}

/// What wakes one client.
struct Call {
    slot: usize,
    is_ready: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_ready.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut ready = self.ready.lock();
        ready.0.push(self.slot);
        if let Some(server) = ready.1.take() {
            server.wake();
        }
    }
}

impl Crowd {
    /// Nobody yet; `woke` is told when each batch woke up.
    pub(crate) fn new(clock: Clock, reactor: Rc<Reactor>, woke: Rc<Cell<Moment>>) -> Self {
        let ready = Arc::default();
        Self { clock, members: Vec::new(), live: 0, ready, batch: Vec::new(), reactor, woke }
    }

    /// Adds a client, whose slot is the next one.
    pub(crate) fn add(&mut self, future: impl Future<Output = ()> + 'static) {
        let (slot, ready) = (self.members.len(), Arc::clone(&self.ready));
        let call = Arc::new(Call { slot, is_ready: AtomicBool::new(true), ready });
        let future = unconstrained(Box::pin(future) as Pin<Box<dyn Future<Output = ()>>>);
        let waker = Waker::from(Arc::clone(&call));
        self.members.push(Some(Member { future, waker, call }));
        self.ready.lock().0.push(slot);
        self.live += 1;
    }

    /// Drops clients, wherever they are.
    pub(crate) fn drop_slots(&mut self, slots: &[usize]) {
        for slot in slots {
            self.live -= usize::from(self.members[*slot].take().is_some());
        }
    }

    /// Serves whoever has news, for a short while; ready when no client is left.
    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let began = self.clock.now();
        // The first look sees what has woken this task: it is no reason to look once more.
        let _ = self.reactor.poll_news(context);
        while self.live > 0 {
            self.reactor.look();
            std::mem::swap(&mut self.ready.lock().0, &mut self.batch);
            if !self.batch.is_empty() {
                self.serve();
                if self.woke.get().since(began) > LONGEST_TURN {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
            } else if self.reactor.poll_news(context).is_pending() && self.ready.is_empty(context) {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    fn serve(&mut self) {
        self.woke.set(self.clock.now());
        for slot in self.batch.drain(..) {
            let Some(member) = &mut self.members[slot] else { continue };
            member.call.is_ready.store(false, Ordering::Release);
            let mut context = Context::from_waker(&member.waker);
            if Pin::new(&mut member.future).poll(&mut context).is_ready() {
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
    use std::future::poll_fn;

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
            crowd.add(std::future::pending());
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
}

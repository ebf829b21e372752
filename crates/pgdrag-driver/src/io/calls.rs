//! Which clients of a thread are to be served next?
//!
//! A client's waker calls for service once, until it is served; from whichever thread, and in the order
//! of the calls.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Wake, Waker};

/// The slots of those who have called, and who serves them.
#[derive(Default)]
pub(crate) struct Ready(Mutex<(Vec<usize>, Option<Waker>)>);

impl Ready {
    fn lock(&self) -> MutexGuard<'_, (Vec<usize>, Option<Waker>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody is to be served now.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().0.is_empty()
    }

    /// Whether nobody is to be served; who serves is woken as soon as somebody is.
    pub(crate) fn is_empty_until(&self, context: &Context<'_>) -> bool {
        let mut ready = self.lock();
        let is_empty = ready.0.is_empty();
        ready.1 = is_empty.then(|| context.waker().clone());
        is_empty
    }

    /// Moves everybody who has called to `batch`, which is empty.
    pub(crate) fn take(&self, batch: &mut Vec<usize>) {
        std::mem::swap(&mut self.lock().0, batch);
    }
}

/// What wakes one client.
pub(crate) struct Call {
    slot: usize,
    is_ready: AtomicBool,
    ready: Arc<Ready>,
}

impl Call {
    /// The client of this slot, which is to be served at once.
    pub(crate) fn new(slot: usize, ready: &Arc<Ready>) -> Arc<Self> {
        ready.lock().0.push(slot);
        Arc::new(Self { slot, is_ready: AtomicBool::new(true), ready: Arc::clone(ready) })
    }

    /// The client is being served, and may call again.
    pub(crate) fn answer(&self) {
        self.is_ready.store(false, Ordering::Release);
    }
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

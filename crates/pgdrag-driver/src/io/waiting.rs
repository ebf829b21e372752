//! Who will wake a client that waits: its thread's own loop, or the runtime?
//!
//! The thread may sleep outside of the runtime only while its loop will wake everybody itself, who wait
//! for the thread's sockets, timers or other clients, and who note it. Whatever else a client waits for needs
//! no note.

use std::cell::Cell;

thread_local! {
    static IS_WITHIN: Cell<bool> = const { Cell::new(false) };
}

/// Notes that what is being polled will wait for this thread's loop, and for nothing else.
pub(crate) fn note_within() {
    IS_WITHIN.set(true);
}

/// What `poll` returns, and whether it has noted that it waits for this thread's loop.
pub(crate) fn observe<T>(poll: impl FnOnce() -> T) -> (T, bool) {
    IS_WITHIN.set(false);
    let result = poll();
    (result, IS_WITHIN.get())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use crate::io::clock::Clock;
    use crate::io::timer::Timers;

    type Wait<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

    #[test]
    fn only_waits_for_the_thread_itself_are_noted() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let timers = Timers::new(Clock::start()).expect("a timer");
            let hour = Duration::from_secs(3600);
            let cases: [(Wait<'_>, bool); 4] = [
                (Box::pin(timers.sleep(hour)), true),
                (Box::pin(tokio::time::sleep(hour)), false),
                (Box::pin(tokio::task::yield_now()), false),
                (Box::pin(std::future::pending()), false),
            ];
            for (number, (mut future, is_noted)) in cases.into_iter().enumerate() {
                let mut context = Context::from_waker(Waker::noop());
                // A wait that is polled again notes it again.
                for _ in 0..2 {
                    let (polled, noted) = observe(|| future.as_mut().poll(&mut context));
                    if polled.is_pending() {
                        assert_eq!(noted, is_noted, "case {number}");
                    }
                }
            }
        });
    }
}

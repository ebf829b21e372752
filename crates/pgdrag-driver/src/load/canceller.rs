//! How does a thread end what its sessions still do when the window is over?
//!
//! One request a session is not enough, because it may fall between two statements: as long as work is
//! left, and the grace lasts, each of them is cancelled again. A few at a time: each request is a
//! connection of its own, and a server that is out of them would answer none.

use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::load::clients::Bench;
use crate::load::tally::Slot;
use crate::session::CancelToken;

/// How long to wait before the same session is cancelled again.
const REPEAT: Duration = Duration::from_millis(100);
/// Requests that one thread has on their way.
pub(crate) const AT_A_TIME: usize = 16;

/// Cancels what runs, over and over, for ever.
pub(crate) async fn cancel_running(bench: Rc<Bench>) {
    loop {
        let mut requests = JoinSet::new();
        for token in running(&bench) {
            if requests.len() >= AT_A_TIME {
                requests.join_next().await;
            }
            let limit = bench.terms.grace;
            requests.spawn_local(async move {
                let _ = timeout(limit, token.cancel()).await;
            });
        }
        while requests.join_next().await.is_some() {}
        sleep(REPEAT).await;
    }
}

fn running(bench: &Bench) -> Vec<CancelToken> {
    let tally = bench.tally.borrow();
    let tokens = bench.tokens.borrow();
    let is_running = |slot: &Slot| matches!(slot, Slot::Running(_));
    let running = tally.slots.iter().zip(tokens.iter()).filter(|(slot, _)| is_running(slot));
    running.map(|(_, token)| token.clone()).collect()
}

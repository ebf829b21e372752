//! How do thousands of clients get their sessions in a short time?
//!
//! A thread opens a few sessions at once: as many as keep a server busy that starts a process for each,
//! and far fewer than its queue of new connections holds.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::task::JoinSet;

use crate::error::Error;
use crate::io::reactor::Reactor;
use crate::load::clients::Terms;
use crate::session::Connection;
use crate::workload::Workload;

/// Sessions that one thread opens at the same time.
const AT_A_TIME: usize = 32;

/// A thread's clients, in the order of their numbers.
pub(crate) type Ready<T> = Vec<(u32, Connection, T)>;

/// Connects the clients with these numbers, of `clients` in all, and lets `reactor` watch them.
pub(crate) async fn connect<W: Workload>(
    terms: &Arc<Terms>,
    workload: &Arc<W>,
    reactor: &Rc<Reactor>,
    numbers: &[u32],
    clients: u32,
) -> Result<Ready<W::Terminal>, Error> {
    let ready = Rc::new(RefCell::new(Vec::with_capacity(numbers.len())));
    let left = Rc::new(RefCell::new(VecDeque::from(numbers.to_vec())));
    let mut connecting: JoinSet<Result<(), Error>> = JoinSet::new();
    for _ in 0..AT_A_TIME.min(numbers.len()) {
        let (terms, workload) = (Arc::clone(terms), Arc::clone(workload));
        let (ready, left) = (Rc::clone(&ready), Rc::clone(&left));
        let reactor = Rc::clone(reactor);
        connecting.spawn_local(async move {
            loop {
                let Some(number) = left.borrow_mut().pop_front() else { return Ok(()) };
                let mut connection = Connection::connect(&terms.target).await?;
                if number == terms.first_client {
                    workload.expect_dataset(&mut connection).await?;
                    let round_trip = connection.round_trip().await?;
                    let nanoseconds = u64::try_from(round_trip.as_nanos()).unwrap_or(u64::MAX);
                    terms.round_trip_ns.store(nanoseconds, Ordering::Relaxed);
                }
                let terminal = workload.terminal(number, clients, &mut connection).await?;
                connection.watch(&reactor)?;
                ready.borrow_mut().push((number, connection, terminal));
            }
        });
    }
    while let Some(ended) = connecting.join_next().await {
        ended.expect("connecting does not panic")?;
    }
    let mut ready = ready.take();
    ready.sort_unstable_by_key(|(number, _, _)| *number);
    Ok(ready)
}

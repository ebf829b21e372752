//! What do the server's processes wait for? One session looks now and then, and counts what it sees.
//!
//! The looks come by a Poisson process: on the long run they meet each state as often as it lasts, also
//! what recurs at the same intervals as they would.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::sleep_until;

use crate::error::Error;
use crate::io::clock::Moment;
use crate::io::process::CpuTime;
use crate::job::WatchJob;
use crate::load::schedule::Chance;
use crate::output::{Output, Seen, WatchSummary};
use crate::session::looking;
use crate::session::{Params, Rows, Target, connect_within};

/// All processes that do something or wait for something, but for this session; "" is on a processor,
/// or wants one.
///
/// Of the function and not of the view, which joins names to it. A process in its main loop (Activity)
/// has nothing to do, and a session that is idle outside of a transaction has not been asked anything. Who
/// holds the horizon for pgdrag waits for no client of the workload's.
const LOOK: &str = "\
    SELECT backend_type, coalesce(wait_event_type || ':' || wait_event, ''), count(*)
        FROM pg_stat_get_activity(NULL)
        WHERE pid <> pg_backend_pid()
            AND wait_event_type IS DISTINCT FROM 'Activity'
            AND backend_type IS NOT NULL
            AND (state IS NULL OR state <> 'idle')
            AND coalesce(application_name, '') NOT LIKE 'pgdrag horizon%'
        GROUP BY 1, 2";

impl Seen {
    fn add(&mut self, mut rows: Rows<'_>) -> Result<(), Error> {
        self.looks += 1;
        while let Some(row) = rows.next()? {
            let count = u64::try_from(row.int8(2)?).unwrap_or(0);
            let waits = self.processes.entry(row.text(0)?.to_owned()).or_default();
            *waits.entry(row.text(1)?.to_owned()).or_default() += count;
        }
        Ok(())
    }
}

/// Watches until `stop`, and writes a line for each interval; while `is_resting` it does not look.
pub async fn watch(
    (job, seed): (WatchJob, u64),
    (target, connect_timeout): (&Target, Duration),
    output: &mut Output<'_>,
    is_resting: &AtomicBool,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let mut stop = pin!(stop);
    output.phase("connect");
    let mut connection = connect_within(target, connect_timeout).await?;
    looking::prepare(&mut connection).await?;
    let look = connection.prepare(LOOK).await?;
    output.phase("watch");
    let (clock, cpu) = (output.clock(), CpuTime::now());
    let began = clock.now();
    let mut chance = Chance::new(seed);
    let mut interval = Interval { seen: Seen::default(), began };
    let mut params = Params::new();
    // However soon it is to end, it has looked once.
    interval.seen.add(connection.query(&look, &mut params).await?)?;
    let (mut looks, mut due) = (1, began);
    let length = Duration::from_secs_f64(job.interval_s);
    while !output.is_broken() {
        // A look that took longer than its gap is not made up for.
        due = (due + Duration::from_secs_f64(job.every_s * chance.exponential())).max(clock.now());
        tokio::select! {
            biased;
            () = &mut stop => break,
            () = sleep_until(clock.instant(due).into()) => {}
        }
        if is_resting.load(Ordering::Relaxed) {
            interval.tell(clock.now(), output);
            continue;
        }
        tokio::select! {
            biased;
            () = &mut stop => break,
            rows = connection.query(&look, &mut params) => interval.seen.add(rows?)?,
        }
        looks += 1;
        let now = clock.now();
        if now >= interval.began + length {
            interval.tell(now, output);
        }
    }
    let now = clock.now();
    interval.tell(now, output);
    let elapsed_s = now.since(began).as_secs_f64();
    output.done_watch(WatchSummary { looks, elapsed_s, cpu: CpuTime::now().since(cpu) });
    Ok(())
}

struct Interval {
    seen: Seen,
    began: Moment,
}

impl Interval {
    /// Writes what was seen in it, if anything was looked at, and begins the next one.
    fn tell(&mut self, now: Moment, output: &mut Output<'_>) {
        if self.seen.looks > 0 {
            output.waits(now, now.since(self.began).as_secs_f64(), &self.seen);
        }
        *self = Self { seen: Seen::default(), began: now };
    }
}

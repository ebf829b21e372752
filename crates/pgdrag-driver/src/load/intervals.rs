//! What did all threads together count, interval by interval?

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::io::clock::Moment;
use crate::load::samples::{Batch, Counts, Spare};
use crate::load::steps::Steps;
use crate::load::window::Window;
use crate::output::Output;

/// Puts the threads' shares of each interval together.
pub(crate) struct Intervals {
    threads: usize,
    length: Duration,
    names: Arc<[Arc<str>]>,
    steps: Arc<Steps>,
    /// By interval: how many threads have handed theirs over, and the sum.
    pending: BTreeMap<u64, (usize, Vec<Counts>)>,
    pub(crate) totals: Vec<Counts>,
    pub(crate) spare: Spare,
}

impl Intervals {
    pub(crate) fn new(
        threads: usize,
        length: Duration,
        names: Arc<[Arc<str>]>,
        steps: Arc<Steps>,
    ) -> Self {
        let totals = vec![Counts::default(); names.len()];
        let (pending, spare) = (BTreeMap::new(), Spare::default());
        Self { threads, length, names, steps, pending, totals, spare }
    }

    pub(crate) fn add(&mut self, batch: Batch) {
        use std::collections::btree_map::Entry;
        match self.pending.entry(batch.interval) {
            Entry::Vacant(entry) => {
                entry.insert((1, batch.counts));
            }
            Entry::Occupied(mut entry) => {
                let (threads, sum) = entry.get_mut();
                *threads += 1;
                add_up(sum, &batch.counts);
                self.spare.give(batch.counts);
            }
        }
    }

    /// Prints the intervals that all threads have handed over.
    pub(crate) fn print_complete(&mut self, window: &Window, output: &mut Output<'_>) {
        let Some(opening) = window.opening() else { return };
        while let Some(first) = self.pending.first_entry() {
            let end = opening + end_of(self.length, *first.key());
            // The last interval takes in what threads hand over late: `finish` prints it.
            let is_last = window.end().is_some_and(|last| end >= last);
            if first.get().0 < self.threads || is_last {
                return;
            }
            let (_, counts) = first.remove();
            self.print((end, opening), self.length, counts, output);
        }
    }

    /// Prints what is left; the last interval ends with the window.
    pub(crate) fn finish(&mut self, (opening, last): (Moment, Moment), output: &mut Output<'_>) {
        let elapsed = last.since(opening);
        let mut pending = std::mem::take(&mut self.pending);
        while let Some((interval, (_, mut counts))) = pending.pop_first() {
            let end = end_of(self.length, interval).min(elapsed);
            if end == elapsed {
                // A thread that saw the end late may have begun one more: it belongs to this one.
                for (_, (_, late)) in std::mem::take(&mut pending) {
                    add_up(&mut counts, &late);
                }
            }
            let begin = end_of(self.length, interval).saturating_sub(self.length);
            self.print((opening + end, opening), end.saturating_sub(begin), counts, output);
        }
    }

    fn print(
        &mut self,
        (end, opening): (Moment, Moment),
        length: Duration,
        counts: Vec<Counts>,
        output: &mut Output<'_>,
    ) {
        add_up(&mut self.totals, &counts);
        // A step that begins with the interval's end belongs to the next one.
        let inside = end - Duration::from_nanos(1);
        let sessions = self.steps.at(inside, Some(opening)).own_sessions;
        output.interval(end, length.as_secs_f64(), sessions, &self.names, &counts);
        self.spare.give(counts);
    }
}

/// When an interval ends, counted from the opening of the window.
fn end_of(length: Duration, interval: u64) -> Duration {
    let nanos = length.as_nanos() * u128::from(interval + 1);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

fn add_up(sum: &mut [Counts], more: &[Counts]) {
    sum.iter_mut().zip(more).for_each(|(sum, more)| sum.merge(more));
}

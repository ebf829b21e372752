//! When is the next transaction due?
//!
//! Arrivals are numbers on an axis on which they come at rate one: every whole number (uniform), or
//! after exponential gaps (Poisson). The rate stretches that axis into time, so that both stay exact
//! under any sequence of constant rates, and errors of rounding do not add up.

use std::sync::Arc;

use crate::io::clock::Moment;
use crate::job::Share;
use crate::load::steps::Steps;

/// The distribution of the gaps between arrivals.
#[derive(Debug, Clone)]
pub enum Gaps {
    /// All equal; the first arrival is due after this share of a gap.
    Uniform(f64),
    /// Exponential: a Poisson process.
    Poisson(Chance),
}

/// A stream of pseudo-random numbers (SplitMix64), the same for the same seed.
#[derive(Debug, Clone)]
pub struct Chance(u64);

impl Chance {
    /// The stream of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        // Another stream than that of a client which has the same seed.
        Self(seed ^ 0x5CED_01E5_A221_7A15)
    }

    /// The stream of one of several drivers that have the same seed.
    #[must_use]
    pub fn of_share(seed: u64, share: Share) -> Self {
        let mut seeds = Self::new(!seed);
        let others = std::iter::repeat_with(|| seeds.next());
        Self::new(std::iter::once(seed).chain(others).nth(share.index as usize).unwrap_or(seed))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// An exponential variate with mean one.
    pub(crate) fn exponential(&mut self) -> f64 {
        // In (0, 1]: its logarithm is finite.
        #[allow(clippy::cast_precision_loss)]
        let fraction = ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -fraction.ln()
    }
}

/// The arrivals of a run, one after the other.
#[derive(Debug, Clone)]
pub struct Schedule {
    gaps: Gaps,
    steps: Arc<Steps>,
    /// The next arrival on the axis of rate one.
    next: f64,
    /// The step that holds, when it began in seconds since the clock began, and where that is on the axis.
    step: usize,
    begun_s: f64,
    begun: f64,
}

impl Schedule {
    /// Arrivals from `start` on.
    #[must_use]
    pub fn new(mut gaps: Gaps, steps: Arc<Steps>, start: Moment) -> Self {
        let next = match &mut gaps {
            Gaps::Uniform(first) => *first,
            Gaps::Poisson(chance) => chance.exponential(),
        };
        Self { gaps, steps, next, step: 0, begun_s: start.seconds(), begun: 0.0 }
    }

    /// When the next arrival is due, as far as the steps are known; [`Moment::NEVER`] if none is.
    pub fn due(&mut self, opening: Option<Moment>) -> Moment {
        loop {
            let rate = self.steps.get(self.step).expect("a run has a step").rate_per_s;
            let due_s = self.begun_s + (self.next - self.begun) / rate;
            let following = self.steps.get(self.step + 1);
            let end = opening.zip(following).map(|(opening, step)| opening + step.at);
            match end.map(Moment::seconds) {
                // A rate of zero makes the due time infinite, or no number at all.
                Some(end_s) if due_s.is_nan() || due_s >= end_s => {
                    self.begun += (end_s - self.begun_s) * rate;
                    self.begun_s = end_s;
                    self.step += 1;
                }
                _ if due_s.is_finite() => return Moment::at_seconds(due_s),
                _ => return Moment::NEVER,
            }
        }
    }

    /// Goes on to the arrival after this one.
    pub fn advance(&mut self) {
        self.next += match &mut self.gaps {
            Gaps::Uniform(_) => 1.0,
            Gaps::Poisson(chance) => chance.exponential(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::RunJob;
    use proptest::prelude::*;

    const START: Moment = Moment(3_000_000_000);

    /// Steps of `(begin in seconds, rate)`.
    fn steps(rates: &[(f64, f64)]) -> Arc<Steps> {
        steps_of(rates, Share { index: 0, of: 1 })
    }

    fn steps_of(rates: &[(f64, f64)], share: Share) -> Arc<Steps> {
        let steps: Vec<_> = rates
            .iter()
            .map(
                |(at_s, rate)| serde_json::json!({"at_s": at_s, "sessions": 6, "rate_per_s": rate}),
            )
            .collect();
        let job: RunJob = serde_json::from_value(serde_json::json!({
            "connections": 6, "threads": 1, "reconnect": false, "warm_up_s": 0.0, "handshake": false, "duration_s": 1.0,
            "min_commits": 0, "budget_s": 1.0, "interval_s": 1.0, "grace_s": 1.0,
            "pacing": {"kind": "open", "rate_per_s": 1.0, "arrivals": "uniform", "backlog_limit": 1},
            "steps": steps, "latency_limit_us": null, "share": {"index": share.index, "of": share.of},
        }))
        .expect("a sound job");
        Arc::new(Steps::new(&job))
    }

    /// Arrivals up to `until_s` seconds after the start, which is the opening, in seconds.
    fn arrivals(gaps: Gaps, rates: &[(f64, f64)], until_s: f64) -> Vec<f64> {
        let mut schedule = Schedule::new(gaps, steps(rates), START);
        std::iter::from_fn(|| {
            let due_s = schedule.due(Some(START)).since(START).as_secs_f64();
            schedule.advance();
            (due_s <= until_s).then_some(due_s)
        })
        .collect()
    }

    #[test]
    fn uniform_arrivals_come_at_equal_distances_the_first_at_once() {
        // (rate, seconds, arrivals)
        for (rate, seconds, count) in
            [(1.0, 0.0, 1), (1.0, 0.9, 1), (1.0, 1.0, 2), (0.1, 25.0, 3), (1000.0, 2.0, 2001)]
        {
            let found = arrivals(Gaps::Uniform(0.0), &[(0.0, rate)], seconds);
            assert_eq!(found.len(), count, "rate {rate}");
        }
    }

    #[test]
    fn uniform_arrivals_of_all_drivers_together_come_at_equal_distances() {
        let mut found: Vec<_> = (0..3)
            .flat_map(|index| {
                let share = Share { index, of: 3 };
                let gaps = Gaps::Uniform(f64::from(index) / 3.0);
                let mut schedule = Schedule::new(gaps, steps_of(&[(0.0, 30.0)], share), START);
                std::iter::repeat_with(move || {
                    let due_s = schedule.due(Some(START)).since(START).as_secs_f64();
                    schedule.advance();
                    due_s
                })
                .take(10)
            })
            .collect();
        found.sort_by(f64::total_cmp);
        for (number, due_s) in (0_u32..).zip(&found) {
            assert!((due_s - f64::from(number) / 30.0).abs() < 1e-8, "{found:?}");
        }
    }

    #[test]
    fn no_two_drivers_draw_the_same_arrivals_and_the_first_those_of_one_alone() {
        let draw = |mut chance: Chance| std::iter::repeat_with(move || chance.next()).take(100);
        let mut all: Vec<_> =
            (0..5).flat_map(|index| draw(Chance::of_share(42, Share { index, of: 5 }))).collect();
        assert!(draw(Chance::new(42)).eq(all[..100].iter().copied()));
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 500);
    }

    #[test]
    fn a_step_changes_the_rate_at_its_moment_and_a_rate_of_zero_is_a_pause() {
        // Two a second, none from 1 to 3, four a second: the gap that began before goes on.
        let found = arrivals(Gaps::Uniform(0.0), &[(0.0, 2.0), (1.25, 0.0), (3.0, 4.0)], 3.7);
        assert_eq!(found, [0.0, 0.5, 1.0, 3.125, 3.375, 3.625]);
        assert_eq!(arrivals(Gaps::Uniform(0.0), &[(0.0, 2.0), (0.7, 0.0)], 100.0), [0.0, 0.5]);
    }

    #[test]
    fn an_opening_that_becomes_known_moves_only_what_comes_after_a_step() {
        let mut schedule =
            Schedule::new(Gaps::Uniform(0.0), steps(&[(0.0, 1.0), (10.0, 2.0)]), START);
        schedule.advance();
        assert_eq!(schedule.due(None), Moment(START.0 + 1_000_000_000));
        let opening = START - std::time::Duration::from_secs(2);
        assert_eq!(schedule.due(Some(opening)), Moment(START.0 + 1_000_000_000));
        (0..8).for_each(|_| schedule.advance());
        assert_eq!(schedule.due(Some(opening)), Moment(START.0 + 8_500_000_000));
    }

    /// The largest distance between the distribution of `sample` and `cdf`, in units of 1/√n.
    fn kolmogorov_smirnov(mut sample: Vec<f64>, cdf: impl Fn(f64) -> f64) -> f64 {
        sample.sort_by(f64::total_cmp);
        #[allow(clippy::cast_precision_loss)]
        let n = sample.len() as f64;
        let mut rank = 0.0;
        let distances = sample.iter().map(|x| {
            let (below, above) = (rank / n, (rank + 1.0) / n);
            rank += 1.0;
            (cdf(*x) - below).abs().max((above - cdf(*x)).abs())
        });
        distances.fold(0.0, f64::max) * n.sqrt()
    }

    #[test]
    fn poisson_gaps_are_exponential_and_the_arrivals_of_a_step_are_uniform() {
        let poisson = || Gaps::Poisson(Chance::new(42));
        let found = arrivals(poisson(), &[(0.0, 100.0)], 100.0);
        let gaps: Vec<_> = found.windows(2).map(|pair| pair[1] - pair[0]).collect();
        // 1.63 is the bound that one true sample in a hundred exceeds; the seed is fixed.
        let distance = kolmogorov_smirnov(gaps, |gap| 1.0 - (-100.0 * gap).exp());
        assert!(distance < 1.63, "{distance}");

        let found = arrivals(poisson(), &[(0.0, 20.0), (50.0, 200.0)], 100.0);
        let (slow, fast): (Vec<_>, Vec<_>) = found.into_iter().partition(|due_s| *due_s < 50.0);
        // 1,000 and 10,000 are expected, within four standard deviations.
        assert!((874..=1126).contains(&slow.len()), "{}", slow.len());
        assert!((9_600..=10_400).contains(&fast.len()), "{}", fast.len());
        assert!(kolmogorov_smirnov(slow, |due_s| due_s / 50.0) < 1.63);
        assert!(kolmogorov_smirnov(fast, |due_s| due_s / 50.0 - 1.0) < 1.63);
    }

    proptest! {
        #[test]
        fn arrivals_never_go_back_in_time(
            seed: u64,
            rates in proptest::collection::vec(0.0..1000.0_f64, 1..6),
            gap_s in 0.001..0.5_f64,
        ) {
            let mut at_s = -gap_s;
            let rates: Vec<_> = rates.into_iter().map(|rate| { at_s += gap_s; (at_s, rate) }).collect();
            let found = arrivals(Gaps::Poisson(Chance::new(seed)), &rates, 1.0);
            prop_assert!(found.windows(2).all(|pair| pair[0] <= pair[1]));
        }
    }
}

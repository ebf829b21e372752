//! When is the next transaction due?
//!
//! Arrivals are numbers on an axis on which they come at rate one: every whole number (uniform), or
//! after exponential gaps (Poisson). The rate stretches that axis into time, so that both stay exact
//! under any sequence of constant rates, and errors of rounding do not add up.

use std::sync::Arc;

use crate::clock::Moment;
use crate::steps::Steps;

/// The distribution of the gaps between arrivals.
#[derive(Debug, Clone)]
pub enum Gaps {
    /// All equal; the first arrival is due at once.
    Uniform,
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

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// An exponential variate with mean one.
    fn exponential(&mut self) -> f64 {
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
            Gaps::Uniform => 0.0,
            Gaps::Poisson(chance) => chance.exponential(),
        };
        Self { gaps, steps, next, step: 0, begun_s: seconds(start), begun: 0.0 }
    }

    /// When the next arrival is due, as far as the steps are known; [`Moment::NEVER`] if none is.
    pub fn due(&mut self, opening: Option<Moment>) -> Moment {
        loop {
            let rate = self.steps.get(self.step).expect("a run has a step").rate_per_s;
            let due_s = self.begun_s + (self.next - self.begun) / rate;
            let following = self.steps.get(self.step + 1);
            let end = opening.zip(following).map(|(opening, step)| opening + step.at);
            match end.map(seconds) {
                // A rate of zero makes the due time infinite, or no number at all.
                Some(end_s) if due_s.is_nan() || due_s >= end_s => {
                    self.begun += (end_s - self.begun_s) * rate;
                    self.begun_s = end_s;
                    self.step += 1;
                }
                _ if due_s.is_finite() => return moment(due_s),
                _ => return Moment::NEVER,
            }
        }
    }

    /// Goes on to the arrival after this one.
    pub fn advance(&mut self) {
        self.next += match &mut self.gaps {
            Gaps::Uniform => 1.0,
            Gaps::Poisson(chance) => chance.exponential(),
        };
    }
}

#[allow(clippy::cast_precision_loss)] // below a microsecond's hundredth in a year
fn seconds(moment: Moment) -> f64 {
    moment.0 as f64 / 1e9
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a cast of a float saturates
fn moment(seconds: f64) -> Moment {
    Moment((seconds * 1e9).round() as u64)
}

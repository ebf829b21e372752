//! Which number comes next, and from which distribution?
//!
//! The generator is pgbench's, so that a seed gives pgbench's numbers.

use std::f64::consts::PI;

/// xoroshiro128**, seeded through splitmix64: the generator that PostgreSQL uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generator {
    low: u64,
    high: u64,
}

impl Generator {
    /// Makes the generator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut seed = seed;
        let low = splitmix(&mut seed);
        let high = splitmix(&mut seed);
        Self { low, high }
    }

    /// Makes a generator from the next number, as pgbench does for each of its clients.
    #[must_use]
    pub fn split(&mut self) -> Self {
        Self::new(self.next_u64())
    }

    /// Draws the next number.
    pub fn next_u64(&mut self) -> u64 {
        let drawn = self.low.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let mixed = self.low ^ self.high;
        self.low = self.low.rotate_left(24) ^ mixed ^ (mixed << 16);
        self.high = mixed.rotate_left(37);
        drawn
    }

    /// Draws from 0 to `largest`, both included, without bias.
    pub fn up_to(&mut self, largest: u64) -> u64 {
        if largest == 0 {
            return 0;
        }
        let unused_bits = largest.leading_zeros();
        loop {
            let drawn = self.next_u64() >> unused_bits;
            if drawn <= largest {
                return drawn;
            }
        }
    }
}

fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let first = (*state ^ (*state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let second = (first ^ (first >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    second ^ (second >> 31)
}

/// Draws from [0, 1).
#[allow(clippy::cast_precision_loss)] // 52 bits, as many as PostgreSQL takes, are exact
fn unit(random: &mut Generator) -> f64 {
    (random.next_u64() >> 12) as f64 / (1_u64 << 52) as f64
}

/// The limits of a draw, both included; the caller has checked that their count fits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub low: i64,
    pub high: i64,
}

impl Range {
    fn count(self) -> i64 {
        self.high - self.low + 1
    }

    /// Takes the element that lies at a share, in [0, 1), of the range.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
    fn at(self, share: f64) -> i64 {
        self.low.wrapping_add((self.count() as f64 * share) as i64)
    }
}

/// Draws with every element equally likely.
pub(crate) fn uniform(random: &mut Generator, range: Range) -> i64 {
    range.low.wrapping_add_unsigned(random.up_to(range.high.abs_diff(range.low)))
}

/// Draws with a density that falls by e^-parameter from the first element to the last.
pub(crate) fn exponential(random: &mut Generator, range: Range, parameter: f64) -> i64 {
    let cut = (-parameter).exp();
    let uniform = 1.0 - unit(random);
    range.at(-(cut + (1.0 - cut) * uniform).ln() / parameter)
}

/// Draws from a bell over the range, cut at `parameter` standard deviations on both sides.
pub(crate) fn gaussian(random: &mut Generator, range: Range, parameter: f64) -> i64 {
    loop {
        // The Box-Muller transform; neither variate is zero.
        let radius = (-2.0 * (1.0 - unit(random)).ln()).sqrt();
        let deviations = radius * (2.0 * PI * (1.0 - unit(random))).sin();
        if (-parameter..parameter).contains(&deviations) {
            return range.at((deviations + parameter) / (parameter * 2.0));
        }
    }
}

/// Draws element k with a weight of k^-parameter.
///
/// Source: Devroye, Non-Uniform Random Variate Generation, 1986, pages 550-551.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
pub(crate) fn zipfian(random: &mut Generator, range: Range, parameter: f64) -> i64 {
    if range.count() <= 1 {
        return range.low;
    }
    let power = parameter - 1.0;
    let base = 2.0_f64.powf(power);
    loop {
        let (first, second) = (unit(random), unit(random));
        let element = first.powf(-1.0 / power).floor();
        let growth = (1.0 + 1.0 / element).powf(power);
        let accepted = second * element * (growth - 1.0) / (base - 1.0) <= growth / base;
        if accepted && element <= range.count() as f64 {
            return range.low.wrapping_add(element as i64 - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_stay_within_their_range() {
        let mut random = Generator::new(7);
        let range = Range { low: -3, high: 4 };
        for _ in 0..2_000 {
            for drawn in [
                uniform(&mut random, range),
                exponential(&mut random, range, 2.5),
                gaussian(&mut random, range, 2.0),
                zipfian(&mut random, range, 1.5),
            ] {
                assert!((-3..=4).contains(&drawn), "{drawn}");
            }
        }
    }

    #[test]
    fn a_seed_gives_the_same_numbers_again() {
        let draws = |seed| {
            let mut random = Generator::new(seed);
            [random.next_u64(), random.next_u64()]
        };
        assert_eq!(draws(5), draws(5));
        assert_ne!(draws(5), draws(6));
    }

    #[test]
    fn a_zipfian_draw_prefers_the_first_element() {
        let mut random = Generator::new(1);
        let range = Range { low: 1, high: 100 };
        let firsts = (0..1_000).filter(|_| zipfian(&mut random, range, 2.0) == 1).count();
        // The weight of 1 among 1/k^2 is about 61 %.
        assert!((500..720).contains(&firsts), "{firsts}");
    }
}

//! How long does a terminal's user type and think (TPC-C 5.2.5)?

use std::time::Duration;

use super::Tpcc;
use super::random::{Purpose, Stream};

/// TPC-C 5.2.5.7: the least keying time and the mean think time of each transaction, in seconds.
const KEYING_S: [f64; Tpcc::TRANSACTIONS.len()] = [18.0, 3.0, 2.0, 2.0, 2.0];
const THINKING_MEAN_S: [f64; Tpcc::TRANSACTIONS.len()] = [12.0, 12.0, 10.0, 5.0, 5.0];
/// TPC-C 5.2.5.4: think times may be cut at ten times their mean.
const THINKING_CUT: f64 = 10.0;

/// One user's waits.
#[derive(Debug)]
pub struct Waits {
    scale: f64,
    stream: Stream,
}

impl Waits {
    /// Multiplies all waits by `scale`; 0 is none. The stream is apart from that of the inputs, which
    /// so are the same with and without waits.
    pub fn new(scale: f64, seed: u64, client: u32) -> Self {
        Self { scale, stream: Stream::new(seed, Purpose::Wait, u64::from(client)) }
    }

    /// How long it takes to enter a transaction's input.
    pub fn keying(&self, transaction: usize) -> Duration {
        Duration::from_secs_f64(self.scale * KEYING_S[transaction])
    }

    /// Draws how long the user thinks about a transaction's output.
    pub fn thinking(&mut self, transaction: usize) -> Duration {
        if self.scale == 0.0 {
            return Duration::ZERO;
        }
        let drawn = -(1.0 - self.stream.fraction()).ln();
        let mean_s = self.scale * THINKING_MEAN_S[transaction];
        Duration::from_secs_f64(drawn.min(THINKING_CUT) * mean_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_scale_nobody_waits() {
        let mut waits = Waits::new(0.0, 1, 0);
        assert!((0..5).all(|transaction| waits.keying(transaction).is_zero()));
        assert!((0..5).all(|transaction| waits.thinking(transaction).is_zero()));
    }

    #[test]
    fn think_times_have_the_mean_of_the_specification_and_an_end() {
        let mut waits = Waits::new(0.5, 1, 0);
        assert_eq!(waits.keying(0), Duration::from_secs(9));
        let thoughts: Vec<f64> = (0..100_000).map(|_| waits.thinking(2).as_secs_f64()).collect();
        let mean = thoughts.iter().sum::<f64>() / 100_000.0;
        // Five standard errors of an exponential mean.
        assert!((4.92..5.08).contains(&mean), "{mean} s of 5 s");
        assert!(thoughts.iter().all(|thought| (0.0..=50.0).contains(thought)));
        // More than e⁻¹⁰ of them are cut: 4.5 of 100,000.
        let above = thoughts.iter().filter(|thought| **thought > 5.0).count();
        assert!((36_000..37_600).contains(&above), "{above} of 36,788 above the mean");
    }
}

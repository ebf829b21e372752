//! Of which types are the transactions that arrived, and that no client took?

/// Gives transaction types to arrivals that no client took, in proportion to the weights.
///
/// Each goes to the type that is furthest behind its share, so that no chance is needed.
#[derive(Debug, Clone)]
pub struct Shares {
    weights: Vec<f64>,
    given: Vec<f64>,
}

impl Shares {
    /// Starts with nothing given.
    #[must_use]
    pub fn new(weights: &[f64]) -> Self {
        let total: f64 = weights.iter().sum();
        let given = vec![0.0; weights.len()];
        Self { weights: weights.iter().map(|weight| weight / total).collect(), given }
    }

    /// The next arrival's type.
    pub fn next_type(&mut self) -> usize {
        let given: f64 = self.given.iter().sum::<f64>() + 1.0;
        let behind = |index: usize| self.weights[index] * given - self.given[index];
        let chosen = (0..self.weights.len())
            .max_by(|a, b| behind(*a).total_cmp(&behind(*b)))
            .expect("a workload has transactions");
        self.given[chosen] += 1.0;
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_type_gets_its_share_of_the_arrivals(
            weights in proptest::collection::vec(0.0..100.0_f64, 1..6),
            arrivals in 1_u32..500,
        ) {
            prop_assume!(weights.iter().sum::<f64>() > 0.0);
            let mut shares = Shares::new(&weights);
            let mut given = vec![0.0; weights.len()];
            (0..arrivals).for_each(|_| given[shares.next_type()] += 1.0);
            let total: f64 = weights.iter().sum();
            for (weight, given) in weights.iter().zip(given) {
                let share = weight / total * f64::from(arrivals);
                // Never a whole arrival off for each of the at most five types.
                prop_assert!((share - given).abs() < 5.0, "{given} of {share}");
            }
        }
    }
}

//! Which script does a client run next?

use crate::random::Generator;

/// Splits `name@weight`; without an `@` the weight is 1.  The error is one line.
pub fn split_weight(text: &str) -> Result<(&str, u32), String> {
    let Some((name, weight)) = text.rsplit_once('@') else { return Ok((text, 1)) };
    let number: i64 =
        weight.parse().map_err(|_| format!("invalid weight specification: @{weight}"))?;
    // pgbench's limit: what an int of C holds.
    let largest = i32::MAX;
    let in_range = u32::try_from(number).ok().filter(|number| *number <= largest.cast_unsigned());
    let problem = || format!("weight specification out of range (0 .. {largest}): {number}");
    in_range.map(|weight| (name, weight)).ok_or_else(problem)
}

/// Draws scripts by their weights.
#[derive(Debug, Clone)]
pub struct Choice {
    weights: Vec<u64>,
    total: u64,
}

impl Choice {
    /// Makes the draw of these weights; none if all of them are 0.
    #[must_use]
    pub fn new(weights: &[u32]) -> Option<Self> {
        let weights: Vec<u64> = weights.iter().map(|weight| u64::from(*weight)).collect();
        let total = weights.iter().sum();
        (total > 0).then_some(Self { weights, total })
    }

    /// Draws the number of a script; one alone costs no random number.
    pub fn draw(&self, random: &mut Generator) -> usize {
        if self.weights.len() == 1 {
            return 0;
        }
        let mut rest = random.up_to(self.total - 1);
        for (script, weight) in self.weights.iter().enumerate() {
            if rest < *weight {
                return script;
            }
            rest -= weight;
        }
        unreachable!("the draw is below the sum of the weights")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_weight_follows_the_last_at_sign() {
        let cases =
            [("a.sql", ("a.sql", 1)), ("a@b@3", ("a@b", 3)), ("select-only@0", ("select-only", 0))];
        for (text, expected) in cases {
            assert_eq!(split_weight(text), Ok(expected));
        }
        assert_eq!(split_weight("a@"), Err("invalid weight specification: @".to_owned()));
        assert_eq!(split_weight("a@b"), Err("invalid weight specification: @b".to_owned()));
        let error = split_weight("a@-1").expect_err("negative");
        assert_eq!(error, "weight specification out of range (0 .. 2147483647): -1");
    }

    #[test]
    fn scripts_are_drawn_in_proportion_to_their_weights() {
        let choice = Choice::new(&[7, 0, 3]).expect("a sum above 0");
        let mut random = Generator::new(3);
        let mut counts = [0_u32; 3];
        for _ in 0..10_000 {
            counts[choice.draw(&mut random)] += 1;
        }
        assert_eq!(counts[1], 0);
        // Five standard deviations of 10,000 draws are 230.
        assert!(counts[0].abs_diff(7_000) < 230, "{counts:?}");
    }

    #[test]
    fn weights_without_a_sum_draw_nothing() {
        assert!(Choice::new(&[0, 0]).is_none());
        assert!(Choice::new(&[]).is_none());
    }
}

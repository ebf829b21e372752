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
        self.at(random.up_to(self.total - 1))
    }

    /// The script that a place has, of as many places as the weights' sum.
    fn at(&self, place: u64) -> usize {
        let mut rest = place;
        for (script, weight) in self.weights.iter().enumerate() {
            if rest < *weight {
                return script;
            }
            rest -= weight;
        }
        unreachable!("the place is below the sum of the weights")
    }
}

/// How many scripts are drawn before they are shuffled.
const DECK: usize = 32;

/// Draws scripts as often as their weights say, also in a short run: by lot is only the order.
///
/// Places a golden section apart are spread evenly over all weights, however many there are (a Kronecker sequence).
#[derive(Debug, Clone)]
pub struct Deck {
    /// Of 2^64.
    place: u64,
    scripts: Vec<usize>,
}

impl Deck {
    /// Begins at a place by lot.
    pub fn new(random: &mut Generator) -> Self {
        Self { place: random.next_u64(), scripts: Vec::with_capacity(DECK) }
    }

    /// Draws the number of a script.
    pub fn draw(&mut self, choice: &Choice, random: &mut Generator) -> usize {
        if self.scripts.is_empty() {
            for _ in 0..DECK {
                self.place = self.place.wrapping_add(0x9E37_79B9_7F4A_7C15);
                let place = (u128::from(self.place) * u128::from(choice.total)) >> 64;
                self.scripts.push(choice.at(u64::try_from(place).expect("it is below the sum")));
            }
            for last in (1..DECK).rev() {
                let other = random.up_to(last as u64);
                self.scripts.swap(last, usize::try_from(other).expect("a place of the deck"));
            }
        }
        self.scripts.pop().expect("the deck has just been filled")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn a_deck_has_each_script_as_often_as_its_weight_says(
            weights in proptest::collection::vec(0_u32..1000, 1..20),
            decks in 1_u32..20,
            seed: u64,
        ) {
            prop_assume!(weights.iter().any(|weight| *weight > 0));
            let choice = Choice::new(&weights).expect("a sum above 0");
            let mut random = Generator::new(seed);
            let mut deck = Deck::new(&mut random);
            let draws = decks * u32::try_from(DECK).expect("small");
            let mut counts = vec![0_u32; weights.len()];
            for _ in 0..draws {
                counts[deck.draw(&choice, &mut random)] += 1;
            }
            let total: u32 = weights.iter().sum();
            for (weight, count) in weights.iter().zip(counts) {
                let wanted = f64::from(draws) * f64::from(*weight) / f64::from(total);
                // Two ends of a stretch, each less than 2 log(draws) off; by lot it would be up to 60.
                prop_assert!((f64::from(count) - wanted).abs() < 6.0, "{count} for {wanted}");
            }
        }
    }

    #[test]
    fn clients_draw_from_their_decks_in_different_orders() {
        let choice = Choice::new(&[1, 1]).expect("a sum above 0");
        let drawn = [1, 2].map(|seed| {
            let mut random = Generator::new(seed);
            let mut deck = Deck::new(&mut random);
            [0; DECK].map(|_| deck.draw(&choice, &mut random))
        });
        assert_ne!(drawn[0], drawn[1]);
    }

    #[test]
    fn weights_without_a_sum_draw_nothing() {
        assert!(Choice::new(&[0, 0]).is_none());
        assert!(Choice::new(&[]).is_none());
    }
}

//! Do random numbers come as often as their distributions say?
//!
//! The seeds are fixed; each test is a chi-square test over twenty classes.

use std::sync::Arc;

use pgbench_script::{Client, Generator, Programs, Protocol};

const DRAWS: u32 = 20_000;
const CLASSES: u8 = 20;

/// The 99.9 % quantile of chi-square with 19 degrees of freedom.
const LIMIT: f64 = 43.82;

/// How often each of the numbers 1 to 20 is drawn.
fn counts(expression: &str, seed: u64) -> [u32; CLASSES as usize] {
    let mut programs = Programs::new(Protocol::Simple);
    let script = format!("\\set drawn debug({expression})");
    programs.add("script", &script).expect("a good script");
    let mut client = Client::new(Arc::new(programs), Generator::new(seed), false);
    let mut counts = [0; CLASSES as usize];
    for _ in 0..DRAWS {
        client.begin(0);
        let mut line = String::new();
        client.step(&mut |debug| line.push_str(debug)).expect("a number");
        let drawn: usize = line.rsplit(' ').next().expect("a number").parse().expect("a number");
        counts[drawn - 1] += 1;
    }
    counts
}

fn expect_weights(expression: &str, weight: impl Fn(f64) -> f64) {
    let weights: Vec<f64> = (1..=CLASSES).map(|class| weight(f64::from(class))).collect();
    let sum: f64 = weights.iter().sum();
    for seed in 1..=3 {
        let mut chi_square = 0.0;
        for (count, weight) in counts(expression, seed).into_iter().zip(&weights) {
            let expected = f64::from(DRAWS) * weight / sum;
            assert!(expected > 4.0, "{expression}: a class is too rare for the test");
            chi_square += (f64::from(count) - expected).powi(2) / expected;
        }
        assert!(chi_square < LIMIT, "{expression}, seed {seed}: chi-square is {chi_square}");
    }
}

#[test]
fn uniform_numbers_are_equally_frequent() {
    expect_weights("random(1, 20)", |_| 1.0);
}

#[test]
fn exponential_numbers_fall_by_the_parameter_over_the_range() {
    let steps = f64::from(CLASSES);
    expect_weights("random_exponential(1, 20, 2.5)", |class| {
        (-2.5 * (class - 1.0) / steps).exp() - (-2.5 * class / steps).exp()
    });
}

#[test]
fn gaussian_numbers_are_a_bell_cut_at_the_parameter() {
    let density = |deviations: f64| (-deviations * deviations / 2.0).exp();
    let width = 2.0 * 2.5 / f64::from(CLASSES);
    expect_weights("random_gaussian(1, 20, 2.5)", |class| {
        // Simpson's rule is exact enough over a quarter of a deviation.
        let low = -2.5 + (class - 1.0) * width;
        density(low) + 4.0 * density(low + width / 2.0) + density(low + width)
    });
}

#[test]
fn zipfian_numbers_fall_with_a_power_of_their_rank() {
    for parameter in [1.1, 1.5, 2.0] {
        let expression = format!("random_zipfian(1, 20, {parameter})");
        expect_weights(&expression, |class| class.powf(-parameter));
    }
}

//! Which statements do the scripts send, and with which values?
//!
//! Each script is gone through once as by the first client of a run, without a server: what a query
//! or a program of the shell would have assigned has no value.

use pgbench_script::{Client, Statement, Step};

use super::{Draws, Shared};
use crate::workload::Example;

/// Every statement of every script once, in their order.
pub fn examples(shared: &Shared) -> Vec<Example> {
    let statements = shared.programs.statements();
    let mut found: Vec<Option<Example>> = vec![None; statements.len()];
    for script in 0..shared.job.scripts.len() {
        let draws = Draws::new(shared.seed, 0, 1);
        let mut client = shared.client(0, draws.functions, draws.default_seed);
        client.begin(script);
        // A command that fails, as one may that needs an answer, ends it early.
        while let Ok(step) = client.step(&mut |_| {}) {
            match step {
                Step::Done => break,
                Step::Sql(number) => {
                    found[number].get_or_insert_with(|| example(&statements[number], &client));
                }
                _ => {}
            }
        }
        // Those that it did not come to: with what the variables are at the end.
        for (number, statement) in statements.iter().enumerate() {
            if statement.place.0 == script {
                found[number].get_or_insert_with(|| example(statement, &client));
            }
        }
    }
    found.into_iter().flatten().collect()
}

fn example(statement: &Statement, client: &Client) -> Example {
    let value = |slot: &_| {
        let mut text = String::new();
        client.variables.write_text(*slot, &mut text).then_some(text)
    };
    Example {
        transaction: statement.place.0,
        text: statement.parameterised(),
        values: statement.parameters().iter().map(value).collect(),
    }
}

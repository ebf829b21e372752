//! Does any text make the parser, the compiler or a client panic?
#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use pgbench_script::{Client, Generator, Programs, Protocol, Step, Value};

/// As long as scripts of people are; longer ones only repeat.
const LONGEST: usize = 4_096;

fuzz_target!(|text: &str| {
    if text.len() > LONGEST {
        return;
    }
    for protocol in [Protocol::Simple, Protocol::Parameters] {
        let mut programs = Programs::new(protocol);
        if programs.add("fuzzed", text).is_ok() {
            run(Arc::new(programs));
        }
    }
});

fn run(programs: Arc<Programs>) {
    let mut client = Client::new(Arc::clone(&programs), Generator::new(1), true);
    client.variables.set_named("scale", Value::Int(1));
    client.begin(0);
    let mut text = String::new();
    while let Ok(step) = client.step(&mut |_| {}) {
        match step {
            Step::Done => break,
            Step::Sql(number) => {
                let statement = &programs.statements()[number];
                statement.write_text(&client.variables, &mut text);
                let _ = statement.parameterised();
                if let Some(results) = &statement.results {
                    if let Ok(Some(slot)) = programs.result_slot(results, "a") {
                        client.variables.set_text(slot, &text);
                    }
                }
                text.clear();
            }
            Step::Shell(number) => {
                let _ = programs.shells()[number].text(&client.variables);
            }
            _ => {}
        }
    }
    client.again();
}

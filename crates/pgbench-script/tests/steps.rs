//! What does a client do, step by step?

use std::sync::Arc;

use pgbench_script::{BUILTINS, Client, Generator, Programs, Protocol, Step, Value, builtin};

fn compiled(protocol: Protocol, script: &str) -> Arc<Programs> {
    let mut programs = Programs::new(protocol);
    programs.add("test", script).expect("a good script");
    Arc::new(programs)
}

/// Steps through a script to its end, and writes what the caller is to do.
fn steps(client: &mut Client, programs: &Programs) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    loop {
        let step = client.step(&mut |_| {}).map_err(|error| error.to_string())?;
        found.push(match step {
            Step::Done => return Ok(found),
            Step::Sql(number) => {
                let mut text = String::new();
                programs.statements()[number].write_text(&client.variables, &mut text);
                text
            }
            Step::Shell(number) => programs.shells()[number].text(&client.variables)?,
            Step::Sleep(duration) => format!("{} us", duration.as_micros()),
            other => format!("{other:?}"),
        });
    }
}

fn run(script: &str) -> Result<Vec<String>, String> {
    let programs = compiled(Protocol::Simple, script);
    let mut client = Client::new(Arc::clone(&programs), Generator::new(1), false);
    client.begin(0);
    steps(&mut client, &programs)
}

#[test]
fn conditions_lead_to_one_branch() {
    let branches =
        "\\set x X\n\\if :x = 1\nA;\n\\elif :x = 2\nB;\n\\elif :x = 3\n\\else\nC;\n\\endif\nD;";
    for (x, expected) in [("1", "A; D;"), ("2", "B; D;"), ("3", "D;"), ("4", "C; D;")] {
        let script = branches.replace('X', x);
        assert_eq!(run(&script).map(|steps| steps.join(" ")), Ok(expected.to_owned()));
    }
    let nested =
        "\\if 0\n\\if 1\nA;\n\\endif\nB;\n\\else\n\\if 1\nC;\n\\else\nD;\n\\endif\n\\endif";
    assert_eq!(run(nested), Ok(vec!["C;".to_owned()]));
}

#[test]
fn sleeps_have_units_and_take_variables() {
    let script = "\\set x 3\n\\sleep 2\n\\sleep 5 ms\n\\sleep 7us\n\\sleep :x ms\n\\sleep -1 s";
    let expected = ["2000000 us", "5000 us", "7 us", "3000 us", "0 us"];
    assert_eq!(run(script), Ok(expected.map(str::to_owned).to_vec()));
}

#[test]
fn a_shell_s_words_have_variables_and_escaped_colons() {
    let script = "\\set x 3\n\\shell echo :x ::x a:x\n\\shell echo :y";
    let error = run(script).expect_err("y has no value");
    assert_eq!(error, "echo: undefined variable \":y\"");
    let programs = compiled(Protocol::Simple, "\\set x 3\n\\setshell y echo :x ::x a:x");
    let mut client = Client::new(Arc::clone(&programs), Generator::new(1), false);
    client.begin(0);
    assert_eq!(steps(&mut client, &programs), Ok(vec!["echo 3 :x a:x".to_owned()]));
    let shell = &programs.shells()[0];
    assert_eq!(shell.number(" 12 \nmore"), Ok(12));
    let error = shell.number("5 6\n").expect_err("two numbers");
    assert_eq!(error, "echo: shell command must return an integer (not \"5 6\")");
}

#[test]
fn an_error_names_script_line_and_command() {
    let error = run("\\set x 1\n\nSELECT 1;\n\\set y :x / 0").expect_err("division");
    assert_eq!(error, "script \"test\", line 4, command 2 (\\set): division by zero");
}

#[test]
fn variables_stay_from_one_script_to_the_next() {
    let mut programs = Programs::new(Protocol::Simple);
    programs.add("first", "\\set x 5").expect("a good script");
    programs.add("second", "SELECT :x;").expect("a good script");
    let programs = Arc::new(programs);
    let mut client = Client::new(Arc::clone(&programs), Generator::new(1), false);
    client.begin(0);
    assert_eq!(client.step(&mut |_| {}), Ok(Step::Done));
    client.begin(1);
    assert_eq!(steps(&mut client, &programs), Ok(vec!["SELECT 5;".to_owned()]));
}

#[test]
fn a_retry_draws_the_same_numbers_for_the_same_variables() {
    let script = "\\set n :n + 1\n\\set x random(1, 1000000)\nSELECT :n, :x;";
    let programs = compiled(Protocol::Simple, script);
    let mut client = Client::new(Arc::clone(&programs), Generator::new(1), true);
    client.variables.set_named("n", Value::Int(0));
    client.begin(0);
    let first = steps(&mut client, &programs).expect("steps");
    client.again();
    assert_eq!(steps(&mut client, &programs), Ok(first.clone()));
    client.begin(0);
    let second = steps(&mut client, &programs).expect("steps");
    assert!(second[0].starts_with("SELECT 2,"), "{second:?}");
    assert_ne!(first[0].split(", ").nth(1), second[0].split(", ").nth(1));
}

#[test]
fn columns_become_the_variables_that_scripts_read() {
    let programs = compiled(Protocol::Simple, "SELECT 1 AS a, 2 AS b \\gset p_\nSELECT :p_a;");
    let results = programs.statements()[0].results.as_ref().expect("a \\gset");
    let slot = programs.result_slot(results, "a").expect("a name").expect("it is read");
    assert_eq!(programs.result_slot(results, "b"), Ok(None));
    assert_eq!(programs.result_slot(results, "a b"), Err("p_a b".to_owned()));
    let mut client = Client::new(Arc::clone(&programs), Generator::new(1), false);
    client.variables.set_text(slot, "it's");
    client.begin(0);
    let found = steps(&mut client, &programs).expect("steps");
    assert_eq!(found[1], "SELECT it's;");
}

#[test]
fn pipelines_are_open_between_their_ends() {
    let script = "\\startpipeline\nA;\n\\syncpipeline\nB;\n\\endpipeline\nC;";
    let programs = compiled(Protocol::Parameters, script);
    let mut client = Client::new(Arc::clone(&programs), Generator::new(1), false);
    client.begin(0);
    let mut open = Vec::new();
    while client.step(&mut |_| {}) != Ok(Step::Done) {
        open.push(client.is_in_pipeline());
    }
    assert_eq!(open, [true, true, true, true, false, false]);
}

#[test]
fn a_pipeline_that_stays_open_is_an_error() {
    let programs = compiled(Protocol::Parameters, "\\startpipeline\nA;");
    let mut client = Client::new(programs, Generator::new(1), false);
    client.begin(0);
    let last = std::iter::repeat_with(|| client.step(&mut |_| {})).nth(2).expect("a third step");
    let error = last.expect_err("the pipeline is open").message;
    assert_eq!(error, "end of script reached with pipeline open");
}

#[test]
fn a_statement_has_no_more_parameters_than_pgbench_allows() {
    let script = format!("SELECT {}1;", ":x, ".repeat(256));
    assert!(Programs::new(Protocol::Simple).add("many", &script).is_ok());
    let error = Programs::new(Protocol::Parameters).add("many", &script).expect_err("too many");
    assert_eq!(error.message, "statement has too many arguments (maximum is 255)");
}

#[test]
fn builtin_scripts_compile_and_know_their_commands() {
    let commands = BUILTINS.map(|builtin| {
        let programs = compiled(Protocol::Parameters, builtin.text);
        (builtin.name, programs.statements().len())
    });
    assert_eq!(commands, [("tpcb-like", 7), ("simple-update", 5), ("select-only", 1)]);
    let programs = compiled(Protocol::Parameters, builtin("select").expect("a name").text);
    assert_eq!(programs.statements()[0].parameters().len(), 1);
}

#[test]
fn an_empty_script_is_refused() {
    for script in ["", "  \n", "-- nothing\n"] {
        let error = Programs::new(Protocol::Simple).add("empty", script).expect_err("empty");
        assert_eq!(error.message, "empty command list");
    }
    let error = Programs::new(Protocol::Simple).add("zero", "SELECT 1;\n\0").expect_err("a zero");
    assert_eq!((error.line, error.message.as_str()), (2, "script contains a zero byte"));
}

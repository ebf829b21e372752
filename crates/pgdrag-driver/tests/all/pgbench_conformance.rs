//! Do scripts mean here what they mean to pgbench?
//!
//! Both evaluate the same expressions, split the same scripts, and refuse the same mistakes.
//! `PGDRAG_TEST_BIN` names the directory of a PostgreSQL 18, whose pgbench is asked.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use crate::support::Server;
use pgbench_script::{Action, Client, Generator, Programs, Protocol, Step, Value, parse};

const SEED: u64 = 42;

/// pgbench, and a server for it to connect to.
struct Pgbench {
    program: PathBuf,
    server: Server,
}

struct Told {
    out: String,
    errors: String,
    is_success: bool,
}

impl Pgbench {
    async fn start(test: &str) -> Option<Self> {
        let server = Server::start(test).await?;
        let directory = std::env::var_os("PGDRAG_TEST_BIN").expect("the server needed it, too");
        let program = PathBuf::from(directory).join("pgbench");
        let version = Command::new(&program).arg("--version").output().expect("pgbench runs");
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        if !version.contains(") 18") {
            eprintln!("skipped: {test} compares with pgbench 18, not with {}", version.trim());
            return None;
        }
        Some(Self { program, server })
    }

    /// Runs a script once as one client.
    fn run(&self, script: &str, options: &[&str]) -> Told {
        let name = format!("pgdrag-script-{}.sql", self.server.port());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, script).expect("a temporary file can be written");
        let output = Command::new(&self.program)
            .args(["-h", self.server.host(), "-p", &self.server.port().to_string()])
            .args(["-U", "postgres", "-n", "-t", "1", "--random-seed", &SEED.to_string()])
            .args(options)
            .arg("-f")
            .arg(&file)
            .arg("postgres")
            .stdin(Stdio::null())
            .output()
            .expect("pgbench runs");
        std::fs::remove_file(&file).expect("it is there");
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Told {
            out: text(output.stdout),
            errors: text(output.stderr),
            is_success: output.status.success(),
        }
    }
}

/// A client as pgbench makes its first one, with two variables as `-D` gives them.
fn client(programs: Programs) -> Client {
    let mut base = Generator::new(SEED);
    let random = base.split();
    let default_seed = base.next_u64().cast_signed();
    let mut client = Client::new(Arc::new(programs), random, false);
    client.variables.set_named("client_id", Value::Int(0));
    client.variables.set_named("scale", Value::Int(1));
    client.variables.set_named("random_seed", Value::Int(SEED.cast_signed()));
    client.variables.set_named("default_seed", Value::Int(default_seed));
    client.begin(0);
    client
}

/// What `debug()` writes in a script without SQL, and how the script ends.
fn evaluate(script: &str, protocol: Protocol) -> (Vec<String>, Result<(), String>) {
    let mut lines = Vec::new();
    let mut programs = Programs::new(protocol);
    if let Err(error) = programs.add("script", script) {
        return (lines, Err(error.message));
    }
    let mut client = client(programs);
    loop {
        match client.step(&mut |line| lines.push(line.to_owned())) {
            Ok(Step::Done) => return (lines, Ok(())),
            Ok(_) => {}
            Err(error) => return (lines, Err(error.message)),
        }
    }
}

#[test]
fn expressions_have_pgbench_s_values() {
    crate::support::run(async {
        let Some(pgbench) = Pgbench::start("expressions_have_pgbench_s_values").await else {
            return;
        };
        let setting = |line: &str| match line.strip_prefix('\\') {
            Some(_) => format!("{line}\n"),
            None => format!("\\set it debug({line})\n"),
        };
        let script: String =
            EXPRESSIONS.lines().filter(|line| !line.is_empty()).map(setting).collect();
        let told = pgbench.run(&script, &[]);
        assert!(told.is_success, "{}", told.errors);
        let (ours, end) = evaluate(&script, Protocol::Simple);
        assert_eq!(end, Ok(()));
        let theirs: Vec<&str> =
            told.errors.lines().filter(|line| line.starts_with("debug(")).collect();
        let commands: Vec<&str> = script.lines().collect();
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let digits = theirs["debug(script=0,command=".len()..].split(')').next();
            let number: usize = digits.expect("a number").parse().expect("a number");
            assert_eq!(ours, theirs, "{}", commands[number - 1]);
        }
        assert_eq!(ours.len(), theirs.len());
        assert!(ours.len() > 250, "{}", ours.len());
    });
}

#[test]
fn mistakes_have_pgbench_s_words() {
    crate::support::run(async {
        let Some(pgbench) = Pgbench::start("mistakes_have_pgbench_s_words").await else { return };
        for (mode, protocol, scripts) in [
            ("simple", Protocol::Simple, MISTAKES),
            ("extended", Protocol::Parameters, PIPELINE_MISTAKES),
        ] {
            for script in scripts {
                let told = pgbench.run(script, &["-M", mode]);
                let (_, end) = evaluate(script, protocol);
                let error = end.expect_err(script);
                assert!(!told.is_success, "{script}: pgbench takes it, here it is {error}");
                assert!(told.errors.contains(&error), "{script}\n{error}\n{}", told.errors);
            }
        }
    });
}

#[test]
fn a_script_has_pgbench_s_commands() {
    crate::support::run(async {
        let Some(pgbench) = Pgbench::start("a_script_has_pgbench_s_commands").await else { return };
        for script in SCRIPTS {
            let told = pgbench.run(script, &["-r"]);
            assert!(told.is_success, "{script}\n{}", told.errors);
            let theirs: Vec<&str> = reported_commands(&told.out).collect();
            assert!(!theirs.is_empty(), "{script}\n{}", told.out);
            let parsed = parse(script).expect(script);
            assert_eq!(parsed.commands.len(), theirs.len(), "{script}\n{theirs:#?}");
            for (command, theirs) in parsed.commands.iter().zip(theirs) {
                assert_eq!(first_line(script, command), theirs, "{script}");
            }
        }
    });
}

/// The first line of each command, as `-r` reports them.
fn reported_commands(report: &str) -> impl Iterator<Item = &str> {
    let lines = report.lines().skip_while(|line| !line.starts_with("statement latencies"));
    // Two numbers stand in front, milliseconds and failures, but not where a line is continued.
    lines.skip(1).filter_map(|line| {
        let (latency, rest) = line.trim_start().split_once(' ')?;
        let (failures, command) = rest.trim_start().split_once(' ')?;
        let are_numbers = latency.parse::<f64>().is_ok() && failures.parse::<u64>().is_ok();
        are_numbers.then(|| command.trim())
    })
}

/// A command's first line: of a statement as it is sent, of a meta command as it is written.
fn first_line<'a>(script: &'a str, command: &'a pgbench_script::Command) -> &'a str {
    let place = script.lines().nth(command.line - 1).expect("the line is there");
    let start = place.char_indices().nth(command.column - 1).expect("the column is there").0;
    match &command.action {
        Action::Sql { text, .. } => {
            assert_eq!(text.chars().next(), place[start..].chars().next(), "{script}");
            text.lines().next().unwrap_or_default().trim_end()
        }
        _ => place[start..].trim_end(),
    }
}

const MISTAKES: &[&str] = &[
    // Found when a script is read.
    "\\set",
    "\\set x",
    "\\set x 1 +",
    "\\set x 1 $ 2",
    "\\set x 'a'",
    "\\set x ()",
    "\\set x (1",
    "\\set x 1)",
    "\\set x 1 2",
    "\\set x 1 = 2 = 3",
    "\\set x 1 < 2 < 3",
    "\\set x foo(1)",
    "\\set x random(1)",
    "\\set x random(1, 2, 3)",
    "\\set x pi(1)",
    "\\set x abs()",
    "\\set x hash(1, 2, 3)",
    "\\set x hash()",
    "\\set x permute(1)",
    "\\set x greatest()",
    "\\set x least()",
    "\\set x random",
    "\\set x CASE END",
    "\\set x CASE WHEN 1 END",
    "\\set x CASE WHEN 1 THEN 2",
    "\\set x CASE 1 WHEN 1 THEN 2 END",
    "\\set x 1 IS 2",
    "\\set x 1 IS NOT",
    "\\set x NOT",
    "\\set x 9223372036854775808",
    "\\set x 9223372036854775809",
    "\\set x 1e999",
    "\\set x 1..2",
    "\\set x 1 + * 2",
    "\\set x 1 &| 2",
    "\\set x :",
    "\\bad",
    "\\setrandom x 1 2",
    "\\sleep",
    "\\sleep a",
    "\\sleep 1.5",
    "\\sleep 1 min",
    "\\sleep 10ms5",
    "\\sleep 1 ms x",
    "\\shell",
    "\\setshell",
    "\\setshell x",
    "\\if",
    "\\if 1",
    "\\else",
    "\\elif 1",
    "\\endif",
    "\\if 1\n\\else\n\\else\n\\endif",
    "\\if 1\n\\else\n\\elif 1\n\\endif",
    "\\if 1\n\\if 2\n\\endif",
    "\\endif x",
    "\\else x",
    "\\gset",
    "\\set x 1\n\\gset",
    "SELECT 1 AS a \\gset p q",
    "SELECT 1 AS a \\gset\n\\gset",
    "SELECT 1 AS a \\aset\n\\gset",
    "\\startpipeline x",
    "\\syncpipeline x",
    "\\endpipeline x",
    // Found when a script runs.
    "\\set x 1 / 0",
    "\\set x 1 % 0",
    "\\set x mod(1, 0)",
    "\\set x 9223372036854775807 + 1",
    "\\set x -9223372036854775808 - 1",
    "\\set x 9223372036854775807 * 2",
    "\\set x -9223372036854775808 / -1",
    "\\set x - (-9223372036854775808)",
    "\\set x int(1e30)",
    "\\set x int(9223372036854775808.0)",
    "\\set x int(0.0 / 0.0)",
    "\\set x :y",
    "\\set x TRUE + 1",
    "\\set x 1 AND TRUE",
    "\\set x TRUE AND 1",
    "\\set x NOT 1",
    "\\set x 1.5 OR TRUE",
    "\\set x TRUE = TRUE",
    "\\set x 1.0 = TRUE",
    "\\set x double(TRUE)",
    "\\set x int(FALSE)",
    "\\set x sqrt(TRUE)",
    "\\set x least(1, TRUE)",
    "\\set x greatest(1.0, TRUE)",
    "\\set x 1e100 & 1",
    "\\set x random(2, 1)",
    "\\set x random(-9223372036854775808, 9223372036854775807)",
    "\\set x random_gaussian(1, 10, 1.9)",
    "\\set x random_exponential(1, 10, 0)",
    "\\set x random_exponential(1, 10, -1.5)",
    "\\set x random_zipfian(1, 10, 1.0)",
    "\\set x random_zipfian(1, 10, 1000.5)",
    "\\set x random_zipfian(2, 1, 1.5)",
    "\\set x permute(1, 0, 1)",
    "\\set x permute(1, -5, 1)",
    "\\set x least(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17)",
    "\\if 1 / 0\n\\endif",
    "\\if FALSE\n\\elif 1 / 0\n\\endif",
    "\\sleep :y",
    "\\startpipeline",
    "\\syncpipeline",
    "\\endpipeline",
];

const PIPELINE_MISTAKES: &[&str] = &[
    "\\startpipeline",
    "\\startpipeline\n\\startpipeline",
    "\\endpipeline",
    "\\syncpipeline",
    "\\startpipeline\nSELECT 1 AS a \\gset\n\\endpipeline",
    "\\startpipeline\nSELECT 1 AS a \\aset\n\\endpipeline",
    "\\startpipeline\n\\endpipeline\n\\endpipeline",
];

const SCRIPTS: &[&str] = &[
    "SELECT 1",
    "SELECT 1;",
    "SELECT 1; SELECT 2; SELECT 3",
    "SELECT ';', 'it''s;'; SELECT 2;",
    "SELECT 1 AS \"a;b\", 2 AS \"c\"\"d;\"; SELECT 2;",
    "SELECT E'\\';', 2; SELECT 3;",
    "SELECT e'a\\\\'; SELECT 3;",
    "SELECT 'a\\'; SELECT 3;",
    "SELECT E'a'\n '\\';'; SELECT 3;",
    "SELECT $$;$$, $a$ ; $b$ ; $$ $a$; SELECT 2;",
    "SELECT 1 /* ; /* ; */ ; */; SELECT 2;",
    "SELECT 1 -- ;\n; SELECT 2;",
    "-- only a comment\nSELECT 1;\n-- another one\n",
    "SELECT (1); SELECT ((2));",
    "SELECT 1 \\; SELECT 2; SELECT 3;",
    "SELECT 1 \\; SELECT 2 AS a \\gset\nSELECT 3;",
    "SELECT 1 AS a\\gset\n\\set b :a + 1\nSELECT :b;",
    "SELECT 1 AS a \\gset p_\n\\set b :p_a\n",
    "SELECT 1 AS a \\aset\n\\set b :a\n",
    "\\set x 1 + \\\n 2\nSELECT :x;",
    "\\if 1\nSELECT 1;\n\\elif 2\nSELECT 2;\n\\else\nSELECT 3;\n\\endif\n",
    "SELECT 1\n\\set x 1\n",
    "\n\n  SELECT\n  1\n;\n\n\\sleep 1 us\n\\sleep 1us\n",
    "CREATE OR REPLACE FUNCTION pg_temp.f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE 1 WHEN 1 THEN 2 END; END; SELECT 2;",
    "CREATE FUNCTION pg_temp.g() RETURNS int LANGUAGE sql AS 'SELECT 1; SELECT 2'; SELECT 2;",
    "BEGIN; SELECT 1; END;",
    "SELECT 1::int, '12:30'::time; SELECT 2;",
    "SELECT U&'d\\0061t;', B'1', N'f;'; SELECT 2",
    "\\set x 5 \nSELECT :x; \\set y 6\nSELECT :y;",
    "select 1;;select 2;",
    "/* first */ SELECT 1;",
    "SELECT 1; -- behind\n",
    "SELECT 1; /* behind */",
    "SELECT 1 AS a\n\\gset\nSELECT 2;",
];

/// One expression a line; a line with a backslash is a command as it stands.
const EXPRESSIONS: &str = include_str!("pgbench_expressions.txt");

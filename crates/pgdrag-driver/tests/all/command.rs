//! Does the command keep the contract's promises about its input, its last line and its end?

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Server, one_number, run};
use serde_json::{Value, json};

const DRIVER: &str = env!("CARGO_BIN_EXE_pgdrag-driver");

/// A job to run against a port of this machine.
fn job(port: u16) -> Value {
    json!({
        "contract": 2, "action": "run", "die_with_parent": false, "seed": 1,
        "server": {
            "host": "127.0.0.1", "port": port, "user": "u", "database": "d", "password": "hunter2",
            "application_name": "pgdrag test", "connect_timeout_s": 600.0,
        },
        "workload": {
            "kind": "tpcc", "warehouses": 1, "isolation": "read committed", "max_tries": 3,
            "statements": "prepared", "terminals": "benchbase", "wait_scale": 0.0,
            "mix": {"new_order": 45, "payment": 43, "order_status": 4, "delivery": 4,
                    "stock_level": 4},
        },
        "run": {
            "connections": 2, "threads": 1, "reconnect": false, "warm_up_s": 0.0, "handshake": false,
            "duration_s": 1.0, "min_commits": 0, "budget_s": 1.0, "interval_s": 1.0,
            "grace_s": 1.0, "pacing": {"kind": "closed"}, "steps": [], "latency_limit_us": null,
            "transactions": null,
        },
        "load": null,
    })
}

/// `job` with the value at a path like `/run/threads` replaced.
fn with(mut job: Value, path: &str, value: Value) -> Value {
    *job.pointer_mut(path).expect(path) = value;
    job
}

/// A job of two scripts that names the script of each client.
fn with_clients(clients: &[usize]) -> String {
    let script = |name: &str| json!({"name": name, "text": "SELECT 1;", "weight": 1});
    let workload = json!({
        "kind": "pgbench", "scripts": [script("a"), script("b")], "statements": "simple", "variables": {},
        "scale": 1, "max_tries": 1, "allow_shell": false, "time_statements": false, "clients": clients,
        "tables": null,
    });
    with(job(1), "/workload", workload).to_string()
}

fn start(line: &str) -> Child {
    let mut driver = start_open(line);
    drop(driver.stdin.take());
    driver
}

/// Like [`start`], and leaves standard input open.
fn start_open(line: &str) -> Child {
    let mut driver = Command::new(DRIVER)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the driver starts");
    let stdin = driver.stdin.as_mut().expect("a pipe");
    writeln!(stdin, "{line}").expect("the driver reads");
    driver
}

fn finish(driver: Child) -> (i32, Vec<Value>) {
    let output = driver.wait_with_output().expect("the driver ends");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    (output.status.code().expect("an exit status"), lines)
}

/// A port whose connections are taken in and never answered.
fn mute() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("an address").port();
    (listener, port)
}

fn wait_for_phase(driver: &mut Child, phase: &str) -> BufReader<std::process::ChildStdout> {
    let mut lines = BufReader::new(driver.stdout.take().expect("a pipe"));
    let mut line = String::new();
    while !line.contains(phase) {
        line.clear();
        assert!(lines.read_line(&mut line).expect("lines") > 0, "the driver ended early");
    }
    lines
}

#[test]
fn a_job_that_is_only_compiled_needs_no_server() {
    // (the script, exit status, type of the last line)
    for (text, status, last) in [("SELECT 1;", 0, "done"), ("\\set a 1 +", 2, "error")] {
        let workload = json!({
            "kind": "pgbench", "scripts": [{"name": "mine", "text": text, "weight": 1}],
            "statements": "simple", "variables": {}, "scale": 1, "max_tries": 1,
            "allow_shell": false, "time_statements": false, "tables": null,
        });
        let compile = with(with(job(1), "/action", json!("compile")), "/run", json!(null));
        let (found, lines) = finish(start(&with(compile, "/workload", workload).to_string()));
        let line = lines.last().expect("a line");
        assert_eq!((found, line["type"].as_str()), (status, Some(last)), "{line}");
        if status != 0 {
            assert!(line["message"].as_str().expect("a text").contains("script \"mine\", line 1"));
        }
    }
}

#[test]
fn a_compiled_job_tells_what_would_be_sent() {
    let compile = |workload: Value| {
        let job = with(with(job(1), "/action", json!("compile")), "/run", json!(null));
        let (status, lines) = finish(start(&with(job, "/workload", workload).to_string()));
        assert_eq!(status, 0, "{lines:?}");
        lines.last().expect("a line")["examples"].clone()
    };
    let text = "\\set a 40 + 2\nSELECT :a, :b;\n\\if :a < 0\nDELETE FROM t;\n\\endif";
    let script = json!({
        "kind": "pgbench", "scripts": [{"name": "mine", "text": text, "weight": 1}],
        "statements": "simple", "variables": {}, "scale": 1, "max_tries": 1,
        "allow_shell": false, "time_statements": false, "tables": null,
    });
    let expected = json!([
        {"transaction": "mine", "text": "SELECT $1, $2;", "values": ["42", null]},
        {"transaction": "mine", "text": "DELETE FROM t;", "values": []},
    ]);
    assert_eq!(compile(script), expected);
    let tpcc = compile(job(1)["workload"].clone());
    let of = |name: &str| {
        let examples = tpcc.as_array().expect("a list").iter();
        examples.filter(|one| one["transaction"] == name).count()
    };
    let counts = ["new_order", "payment", "order_status", "delivery", "stock_level"].map(of);
    assert_eq!(counts, [10, 10, 4, 7, 2]);
}

/// A job to watch a real server.
fn watch_on(server: &Server) -> Value {
    let mut job = job_on(server, "watch");
    job["workload"] = json!(null);
    job["watch"] = json!({"every_s": 0.02, "interval_s": 0.1});
    job
}

#[test]
fn a_watch_ends_when_it_is_told_to_or_nobody_listens() {
    run(async {
        let test = "a_watch_ends_when_it_is_told_to";
        let Some(server) = Server::start(test).await else { return };
        // (what the caller says, exit status, type of the last line)
        let cases = [(Some(r#"{"type": "end"}"#), 0, "done"), (None, 0, "done")];
        for (said, status, last) in cases {
            let mut driver = start_open(&watch_on(&server).to_string());
            let seen = wait_for_phase(&mut driver, "waits");
            let mut stdin = driver.stdin.take().expect("a pipe");
            if let Some(line) = said {
                writeln!(stdin, "{line}").expect("the driver reads");
            }
            drop(stdin);
            let lines: Vec<String> = seen.lines().map(|line| line.expect("text")).collect();
            let line = lines.last().expect("a last line");
            let found = driver.wait().expect("an end").code();
            assert_eq!(found, Some(status), "{line}");
            assert!(line.contains(&format!(r#""type":"{last}""#)), "{line}");
        }
    });
}

#[test]
fn a_watch_that_is_told_to_rest_looks_at_nothing_until_it_is_told_to_look() {
    run(async {
        let test = "a_watch_that_is_told_to_rest";
        let Some(server) = Server::start(test).await else { return };
        let mut driver = start_open(&watch_on(&server).to_string());
        let seen = wait_for_phase(&mut driver, "waits");
        let mut stdin = driver.stdin.take().expect("a pipe");
        // There is to be an interval before the rest, of those that are read below.
        std::thread::sleep(Duration::from_millis(300));
        for (said, then_s) in [("rest", 0.7), ("look", 0.4), ("end", 0.0)] {
            writeln!(stdin, r#"{{"type": "{said}"}}"#).expect("the driver reads");
            std::thread::sleep(Duration::from_secs_f64(then_s));
        }
        drop(stdin);
        let lines = seen.lines().map(|line| serde_json::from_str::<Value>(&line.expect("text")));
        let intervals: Vec<(f64, f64)> = lines
            .map(|line| line.expect("JSON"))
            .filter(|line| line["type"] == "waits")
            .map(|line| {
                let end_s = line["t_s"].as_f64().expect("a number");
                (end_s - line["duration_s"].as_f64().expect("a number"), end_s)
            })
            .collect();
        assert_eq!(driver.wait().expect("an end").code(), Some(0));
        let rests = intervals.windows(2).filter(|pair| pair[1].0 - pair[0].1 > 0.4).count();
        assert_eq!(rests, 1, "{intervals:?}");
    });
}

#[test]
fn a_watch_has_no_workload_and_all_else_has_one() {
    let watch = json!({"every_s": 0.1, "interval_s": 1.0});
    let no_run = with(job(1), "/run", json!(null));
    let mut with_workload = with(no_run, "/action", json!("watch"));
    with_workload["watch"] = watch.clone();
    let cases = [
        (with_workload.clone(), r#"key "workload" must be given unless"#),
        (with(job(1), "/workload", json!(null)), r#"key "workload" must be given unless"#),
        (with(with_workload, "/watch", json!(null)), r#"key "watch" must be given exactly when"#),
    ];
    for (job, message) in cases {
        let (status, lines) = finish(start(&job.to_string()));
        assert_eq!((status, lines.len()), (2, 1));
        assert!(lines[0]["message"].as_str().expect("a text").contains(message), "{}", lines[0]);
    }
}

#[test]
fn a_job_that_cannot_be_understood_is_one_error_line_and_status_2() {
    // (the line, what the message says)
    let cases = [
        (String::new(), "could not read the job"),
        ("{".into(), "could not read the job"),
        (with(job(1), "/contract", json!(1)).to_string(), "cannot speak version 1 of the contract"),
        (with(job(1), "/action", json!("jump")).to_string(), "unknown variant `jump`"),
        (with(job(1), "/run", json!(null)).to_string(), r#"key "run" must be given exactly when"#),
        (
            with(job(1), "/run/threads", json!(0)).to_string(),
            r#"key "run.threads" must be at leas"#,
        ),
        (
            with(job(1), "/run/budget_s", json!(0.5)).to_string(),
            r#""run.budget_s" must be at least"#,
        ),
        (
            with(with(job(1), "/run/transactions", json!(5)), "/run/min_commits", json!(1))
                .to_string(),
            r#"keys "run.transactions" and "run.min_commits" cannot both be given"#,
        ),
        (
            with(
                job(1),
                "/run/pacing",
                json!({"kind": "benchbase", "rate_per_s": 0, "queue_limit": 1}),
            )
            .to_string(),
            r#"key "run.pacing.rate_per_s" must be"#,
        ),
        (
            with(job(1), "/run/steps", json!([{"at_s": 0, "sessions": 3, "rate_per_s": null}]))
                .to_string(),
            r#"key "run.steps[0].sessions" must be at most run.connections (2), not 3"#,
        ),
        (
            with(job(1), "/run/steps", json!([{"at_s": 1, "sessions": 1, "rate_per_s": null}]))
                .to_string(),
            r#"key "run.steps[0].at_s" must be 0, not 1"#,
        ),
        (
            with(job(1), "/run/steps", json!([{"at_s": 0, "sessions": 1, "rate_per_s": 5}]))
                .to_string(),
            "must be null in a closed loop",
        ),
        (
            with(job(1), "/workload/mix/payment", json!(-1)).to_string(),
            r#"key "workload.mix" must"#,
        ),
        (
            with(
                with(job(1), "/workload/wait_scale", json!(0.5)),
                "/run/pacing",
                json!({"kind": "open", "rate_per_s": 9, "arrivals": "poisson", "backlog_limit": 1}),
            )
            .to_string(),
            r#"key "workload.wait_scale" must be 0 unless run.pacing is closed, not 0.5"#,
        ),
        (
            with(
                with(job(1), "/workload/wait_scale", json!(1)),
                "/run/pacing",
                json!({"kind": "benchbase", "rate_per_s": 9, "queue_limit": 1}),
            )
            .to_string(),
            r#"key "workload.wait_scale" must be 0 unless"#,
        ),
        (
            with_clients(&[0, 2]),
            r#"key "workload.clients" must name scripts by their index, below 2, not 2"#,
        ),
        (
            with_clients(&[0]),
            r#"key "workload.clients" must have as many scripts as "run.connections", 2, not 1"#,
        ),
        (with(job(1), "/workload", json!({"kind": "x"})).to_string(), "unknown variant `x`"),
        (with(job(1), "/seed", json!(-1)).to_string(), "invalid value: integer `-1`, expected u64"),
        (
            with(job(1), "/server/host", json!("a\u{0}b")).to_string(),
            "must not contain a zero byte",
        ),
    ];
    for (line, expected) in cases {
        let (status, lines) = finish(start(&line));
        assert_eq!((status, lines.len()), (2, 1), "{line}");
        assert_eq!(lines[0]["type"], "error");
        let message = lines[0]["message"].as_str().expect("a message");
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn unknown_keys_are_refused_at_every_level() {
    for path in ["", "/server", "/workload", "/workload/mix", "/run"] {
        let mut job = job(1);
        let object = job.pointer_mut(path).and_then(Value::as_object_mut).expect(path);
        object.insert("surprise".into(), json!(1));
        let (status, lines) = finish(start(&job.to_string()));
        let message = lines[0]["message"].as_str().expect("a message");
        assert!(status == 2 && message.contains("unknown field `surprise`"), "{path}: {message}");
    }
}

#[test]
fn a_server_that_refuses_is_an_error_line_and_status_1_without_the_password() {
    let (listener, port) = mute();
    drop(listener);
    let (status, lines) = finish(start(&job(port).to_string()));
    let last = lines.last().expect("lines");
    assert_eq!((status, &last["type"], &last["sqlstate"]), (1, &json!("error"), &json!("08006")));
    assert_eq!(last["phase"], "connect");
    assert_eq!(lines[0]["type"], "hello");
    assert!(!format!("{lines:?}").contains("hunter2"));
}

#[test]
fn a_server_that_never_answers_is_an_error_after_the_time_limit() {
    let (_listener, port) = mute();
    let job = with(job(port), "/server/connect_timeout_s", json!(0.2));
    let (status, lines) = finish(start(&job.to_string()));
    let last = lines.last().expect("lines");
    assert_eq!((status, &last["message"]), (1, &json!("server did not answer within 0.2 s")));
}

#[test]
fn a_signal_ends_a_run_as_done_and_a_load_or_a_check_as_error() {
    for action in ["run", "load", "check"] {
        for signal in ["TERM", "INT"] {
            let (_listener, port) = mute();
            let mut job = with(job(port), "/action", json!(action));
            if action != "run" {
                job["run"] = json!(null);
            }
            if action == "load" {
                job["load"] = json!({"parallelism": 2});
            }
            let mut driver = start(&job.to_string());
            let lines = wait_for_phase(&mut driver, "connect");
            let pid = driver.id().to_string();
            Command::new("kill").args(["-s", signal, &pid]).status().expect("kill runs");
            let last = lines.lines().last().expect("a last line").expect("UTF-8");
            let last: Value = serde_json::from_str(&last).expect("JSON");
            let status = driver.wait().expect("the driver ends").code();
            if action == "run" {
                assert_eq!((status, &last["type"]), (Some(0), &json!("done")), "{last}");
                assert_eq!(last["stopped_by"], "signal");
                assert_eq!(last["transactions"]["new_order"]["scheduled"], 0);
            } else {
                // Half a dataset and half a check must not look like whole ones.
                assert_eq!((status, &last["type"]), (Some(1), &json!("error")), "{last}");
                assert_eq!(last["sqlstate"], "57014");
            }
        }
    }
}

/// A job for a real server.
fn job_on(server: &Server, action: &str) -> Value {
    let mut job = with(job(server.port()), "/action", json!(action));
    job["server"]["host"] = json!(server.host());
    job["server"]["user"] = json!("postgres");
    job["server"]["database"] = json!("postgres");
    match action {
        "run" => {}
        "load" => {
            job["run"] = json!(null);
            job["load"] = json!({"parallelism": 2});
        }
        _ => job["run"] = json!(null),
    }
    job
}

#[test]
fn a_dataset_is_loaded_run_upon_and_still_consistent() {
    run(async {
        let test = "a_dataset_is_loaded_run_upon_and_still_consistent";
        let Some(server) = Server::start(test).await else { return };
        for action in ["load", "run", "check"] {
            let mut job = job_on(&server, action);
            if action == "run" {
                job["run"]["handshake"] = json!(true);
                job["run"]["warm_up_s"] = json!(0.2);
            }
            let mut driver = start_open(&job.to_string());
            // Whatever the action, an answer that comes early is there when it is asked for.
            writeln!(driver.stdin.as_mut().expect("a pipe"), r#"{{"type": "measure"}}"#)
                .expect("the driver reads");
            let (status, lines) = finish(driver);
            let done = lines.last().expect("lines");
            assert_eq!((status, &done["type"]), (0, &json!("done")), "{action}: {done}");
            match action {
                "load" => assert!(done["rows"].as_u64() > Some(500_000), "{done}"),
                "run" => assert!(done["transactions"]["payment"]["committed"].as_u64() > Some(0)),
                _ => assert_eq!(done["violations"], json!([])),
            }
        }
    });
}

#[test]
fn a_stopped_load_leaves_nothing_running_on_the_server() {
    run(async {
        let test = "a_stopped_load_leaves_nothing_running_on_the_server";
        let Some(server) = Server::start(test).await else { return };
        let mut driver = start(&job_on(&server, "load").to_string());
        let lines = wait_for_phase(&mut driver, "index");
        crate::support::kill("TERM", &driver.id().to_string());
        let last = lines.lines().last().expect("a last line").expect("UTF-8");
        assert_eq!(driver.wait().expect("the driver ends").code(), Some(1), "{last}");
        assert!(last.contains("57014"), "{last}");

        let mut conn = server.connect().await;
        let limit = Instant::now() + Duration::from_secs(60);
        let others = "select count(*) from pg_stat_activity
                      where backend_type = 'client backend' and pid <> pg_backend_pid()";
        while one_number(&mut conn, others).await > 0 {
            assert!(Instant::now() < limit, "the load goes on without its driver");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn the_driver_dies_with_the_process_that_started_it() {
    let (_listener, port) = mute();
    let job = with(job(port), "/die_with_parent", json!(true));
    let file = std::env::temp_dir().join(format!("pgdrag-job-{}", std::process::id()));
    std::fs::write(&file, format!("{job}\n")).expect("a file is written");
    let mut parent = Command::new("sh")
        .args(["-c", r#""$1" <"$2" & wait"#, "sh", DRIVER])
        .arg(&file)
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh runs");
    let mut lines = BufReader::new(parent.stdout.take().expect("a pipe")).lines();
    let mut pid = None;
    for line in &mut lines {
        let line = line.expect("UTF-8");
        if let Ok(hello) = serde_json::from_str::<Value>(&line) {
            pid = hello["pid"].as_u64().or(pid);
        }
        if line.contains("connect") {
            break;
        }
    }
    let driver = format!("/proc/{}", pid.expect("hello came"));
    parent.kill().expect("the parent is killed");
    parent.wait().expect("the parent has ended");
    let limit = Instant::now() + Duration::from_secs(60);
    while is_running(&driver) {
        assert!(Instant::now() < limit, "the driver outlived its parent");
        std::thread::sleep(Duration::from_millis(10));
    }
    std::fs::remove_file(file).expect("the file is there");
}

/// Whether the process is there, and not only waiting to be reaped.
fn is_running(process: &str) -> bool {
    std::fs::read_to_string(format!("{process}/stat")).is_ok_and(|stat| !stat.contains(") Z"))
}

#[test]
fn help_and_version_go_to_standard_output() {
    let say = |argument| Command::new(DRIVER).arg(argument).output().expect("the driver runs");
    let version = say("--version");
    let expected = format!("pgdrag-driver {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&version.stdout), expected);
    let help = say("--help");
    assert!(help.status.success());
    assert!(String::from_utf8_lossy(&help.stdout).contains("without TLS"));
    let unknown = say("--frobnicate");
    assert_eq!((unknown.status.code(), unknown.stdout.len()), (Some(2), 0));
}

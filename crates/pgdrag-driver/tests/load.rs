//! Does the load come as the job says: its warm-up, its schedule, its steps, its many sessions?

#[path = "all/support/mod.rs"]
mod support;

use std::time::Duration;

use pgdrag_driver::io::clock::Moment;
use pgdrag_driver::job::{RunJob, Share};
use pgdrag_driver::load::caller::{Opening, Said};
use pgdrag_driver::session::{Connection, Target};
use serde_json::{Value, json};
use support::scripts::{
    MISTAKE, QUICK, Script, assert_sums, job, lines, of_type, phases, run_hearing, run_until,
    run_with, total,
};
use support::{Server, one_number, run};
use tokio::sync::mpsc::unbounded_channel;

const SLOW: Script = Script { names: &["slow"], transactions: &[&["select pg_sleep(0.05)"]] };
const INSERT: Script =
    Script { names: &["insert"], transactions: &[&["insert into t values (pg_backend_pid())"]] };

async fn server_with_table(test: &str) -> Option<(Server, Connection)> {
    let server = Server::start(test).await?;
    let mut conn = server.connect().await;
    conn.simple("create table t (pid int)").await.expect("table is made");
    Some((server, conn))
}

fn open(rate_per_s: f64, backlog_limit: u32) -> Value {
    json!({"kind": "open", "rate_per_s": rate_per_s, "arrivals": "poisson",
           "backlog_limit": backlog_limit})
}

#[test]
fn a_warm_up_is_load_that_is_not_counted() {
    run(async {
        let test = "a_warm_up_is_load_that_is_not_counted";
        let Some((server, mut conn)) = server_with_table(test).await else { return };
        let lines = lines(server.target(), INSERT, &job(&json!({"warm_up_s": 0.5}))).await;
        assert_eq!(phases(&lines), ["connect", "warm_up", "run", "cancel"]);
        let done = lines.last().expect("lines");
        assert_eq!((&done["warm_up_s"], &done["elapsed_s"]), (&json!(0.5), &json!(0.5)));
        assert_sums(&lines);
        let warming = of_type(&lines, "warming");
        let warmed: u64 = warming.iter().map(|line| line["committed"].as_u64().unwrap()).sum();
        assert!(warmed > 0);
        let rows = one_number(&mut conn, "select count(*) from t").await;
        assert!(rows >= warmed + total(done, "insert", "committed"), "{rows}: {done}");
    });
}

#[test]
fn an_open_loop_beyond_the_servers_counts_latency_from_when_it_was_due() {
    run(async {
        let Some(server) = Server::start("an_open_loop_beyond_the_servers").await else { return };
        // 80 transactions a second at most, and five times as many arrive: 64 wait after the warm-up.
        let job = job(&json!({"pacing": open(400.0, 200), "duration_s": 1.0, "budget_s": 1.0,
                              "warm_up_s": 0.2}));
        let lines = lines(server.target(), SLOW, &job).await;
        assert_sums(&lines);
        let done = lines.last().expect("lines");
        let arrivals = &done["arrivals"];
        assert_eq!(arrivals["max_queue"], 200);
        assert_eq!(arrivals["scheduled"], total(done, "slow", "scheduled"));
        assert!(
            total(done, "slow", "dropped") > 0 && arrivals["late"].as_u64() > Some(0),
            "{done}"
        );
        // The service takes 50 ms, and what is taken has waited for more than a hundred.
        let p50_us = done["transactions"]["slow"]["latency"]["p50_us"].as_u64();
        assert!(p50_us > Some(100_000), "{done}");
    });
}

#[test]
fn an_open_loop_that_the_server_can_follow_loses_nothing() {
    run(async {
        let Some(server) = Server::start("an_open_loop_loses_nothing").await else { return };
        let job = job(&json!({"pacing": open(200.0, 1000)}));
        let lines = lines(server.target(), QUICK, &job).await;
        assert_sums(&lines);
        let done = lines.last().expect("lines");
        let lost = ["dropped", "skipped", "failed"].map(|key| total(done, "quick", key));
        assert_eq!(lost, [0; 3], "{done}");
        let (committed, in_flight) =
            (total(done, "quick", "committed"), total(done, "quick", "in_flight"));
        assert_eq!(committed + in_flight, done["arrivals"]["scheduled"].as_u64().expect("a count"));
        // A hundred are expected, and the seed is fixed.
        assert!((60..=140).contains(&(committed + in_flight)), "{done}");
        assert!(done["driver"]["lateness_us_max"].is_u64(), "{done}");
    });
}

#[test]
fn arrivals_beyond_the_latency_limit_are_skipped() {
    run(async {
        let Some(server) = Server::start("arrivals_beyond_the_limit").await else { return };
        let job = job(&json!({"pacing": open(400.0, 1000), "latency_limit_us": 60_000}));
        let lines = lines(server.target(), SLOW, &job).await;
        assert_sums(&lines);
        let done = lines.last().expect("lines");
        assert!(total(done, "slow", "skipped") > 0, "{done}");
        assert_eq!(done["arrivals"]["skipped"], total(done, "slow", "skipped"));
        // Nothing waited for more than 60 ms and was begun, but what began late took longer in all.
        assert!(total(done, "slow", "over_limit") > 0, "{done}");
    });
}

#[test]
fn each_client_runs_its_transactions_and_the_last_one_ends_the_window() {
    run(async {
        let test = "each_client_runs_its_transactions";
        let Some((server, mut conn)) = server_with_table(test).await else { return };
        for (changes, kind) in [
            (json!({}), "closed loop"),
            (json!({"pacing": open(500.0, 1000)}), "open loop"),
            (json!({"warm_up_s": 0.2}), "closed loop with warm-up"),
        ] {
            conn.simple("truncate t").await.expect("emptied");
            let mut changes = changes;
            changes["transactions"] = json!(25);
            changes["duration_s"] = json!(100.0);
            changes["budget_s"] = json!(100.0);
            let lines = lines(server.target(), INSERT, &job(&changes)).await;
            assert_sums(&lines);
            let done = lines.last().expect("lines");
            assert_eq!(done["stopped_by"], "transactions", "{kind}: {done}");
            assert_eq!(total(done, "insert", "committed"), 100, "{kind}: {done}");
            if kind == "closed loop" {
                assert_eq!(total(done, "insert", "scheduled"), 100, "{done}");
                assert_eq!(one_number(&mut conn, "select count(*) from t").await, 100);
                let most =
                    "select max(n) from (select count(*) as n from t group by pid) as counts";
                assert_eq!(one_number(&mut conn, most).await, 25);
            }
        }
    });
}

#[test]
fn each_transaction_has_a_session_of_its_own_where_the_job_says_so() {
    run(async {
        let test = "each_transaction_has_a_session_of_its_own";
        let Some((server, mut conn)) = server_with_table(test).await else { return };
        for pacing in [json!({"kind": "closed"}), open(200.0, 1000)] {
            conn.simple("truncate t").await.expect("emptied");
            let job = job(&json!({"reconnect": true, "transactions": 10, "duration_s": 100.0,
                                  "budget_s": 100.0, "pacing": pacing}));
            let lines = lines(server.target(), INSERT, &job).await;
            assert_sums(&lines);
            let done = lines.last().expect("lines");
            assert_eq!(total(done, "insert", "committed"), 40, "{done}");
            let sessions = one_number(&mut conn, "select count(distinct pid) from t").await;
            assert_eq!(sessions, one_number(&mut conn, "select count(*) from t").await);
            let connected = done["connecting"]["count"].as_u64().expect("a count");
            // In an open loop a client may have connected for an arrival that came too late.
            assert!((40..=44).contains(&connected), "{done}");
        }
    });
}

#[test]
fn a_failure_is_one_of_a_clients_transactions_and_the_deadline_holds_nevertheless() {
    run(async {
        let Some(server) = Server::start("a_failure_is_one_of_a_clients").await else { return };
        let fails = Script { names: &["fails"], transactions: &[&["select 1 / 0"]] };
        let job = |transactions: u64| {
            job(&json!({"transactions": transactions, "duration_s": 1.0, "budget_s": 1.0}))
        };
        for (transactions, stopped_by) in [(3, "transactions"), (1_000_000, "deadline")] {
            let lines = lines(server.target(), fails, &job(transactions)).await;
            assert_sums(&lines);
            let done = lines.last().expect("lines");
            assert_eq!(done["stopped_by"], stopped_by, "{done}");
            if transactions == 3 {
                assert_eq!(total(done, "fails", "failed"), 12, "{done}");
            }
        }
    });
}

#[test]
fn steps_set_how_many_sessions_work() {
    run(async {
        let test = "steps_set_how_many_sessions_work";
        let Some((server, mut conn)) = server_with_table(test).await else { return };
        let steps = json!([{"at_s": 0.0, "sessions": 1, "rate_per_s": null},
                           {"at_s": 0.4, "sessions": 3, "rate_per_s": null},
                           {"at_s": 0.6, "sessions": 2, "rate_per_s": null}]);
        let job = job(&json!({"steps": steps, "duration_s": 0.8, "budget_s": 0.8,
                              "warm_up_s": 0.1}));
        let lines = lines(server.target(), INSERT, &job).await;
        assert_sums(&lines);
        let intervals = of_type(&lines, "interval");
        let sessions: Vec<_> = intervals.iter().map(|line| &line["sessions"]).collect();
        assert_eq!(sessions, [1, 1, 3, 2]);
        let used = one_number(&mut conn, "select count(distinct pid) from t").await;
        assert_eq!(used, 3, "of four that are connected");
    });
}

#[test]
fn with_a_handshake_the_load_goes_on_until_the_caller_says_measure() {
    run(async {
        let test = "with_a_handshake_the_load_goes_on";
        let Some((server, mut conn)) = server_with_table(test).await else { return };
        let answer = async {
            // The warm-up has been over for long when so much is there.
            while one_number(&mut conn, "select count(*) from t").await < 500 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Said::Measure(Opening::Soon)
        };
        let job = job(&json!({"handshake": true, "warm_up_s": 0.01}));
        let never = std::future::pending();
        let lines = run_with(server.target(), INSERT, &job, never, answer).await.expect("a run");
        assert_eq!(of_type(&lines, "warm").len(), 1);
        assert_eq!(phases(&lines), ["connect", "warm_up", "run", "cancel"]);
        assert_sums(&lines);
        let done = lines.last().expect("lines");
        assert_eq!(done["elapsed_s"], 0.5);
        assert!(done["warm_up_s"].as_f64() > Some(0.01), "{done}");
    });
}

#[test]
fn a_handshake_without_its_answer_is_no_measurement() {
    run(async {
        let Some(server) = Server::start("a_handshake_without_its_answer").await else { return };
        let job = job(&json!({"handshake": true}));
        let answered = async |answer| {
            let never = std::future::pending();
            run_with(server.target(), QUICK, &job, never, std::future::ready(answer)).await
        };
        let lines = answered(Said::EndOfFile).await.expect("a run");
        let done = lines.last().expect("lines");
        assert_eq!((&done["stopped_by"], &done["elapsed_s"]), (&json!("signal"), &json!(0.0)));
        let error = answered(Said::Strange("what?".into())).await.expect_err("strange");
        assert!(error.to_string().contains(r#"caller wrote "what?""#), "{error}");
        let error = run_until(server.target(), QUICK, &job, std::future::pending()).await;
        let message = error.expect_err("no answer").to_string();
        assert_eq!(message, "caller did not answer \"warm\" within 2 s");
    });
}

#[test]
fn the_caller_sets_when_the_window_begins_and_ends() {
    run(async {
        let Some(server) = Server::start("a_window_opens_and_ends").await else { return };
        let job = job(&json!({"handshake": true, "duration_s": 600.0, "budget_s": 600.0}));
        let (say, said) = unbounded_channel();
        let opening = Moment::at_seconds(0.5);
        say.send(Said::Clock { id: 8, received: Moment(1_000) }).expect("heard");
        say.send(Said::Measure(Opening::At(opening))).expect("heard");
        let stop = async {
            tokio::time::sleep(Duration::from_millis(700)).await;
            say.send(Said::End(Moment::at_seconds(2.0))).expect("heard");
            std::future::pending::<()>().await;
        };
        let (lines, ended) = run_hearing(server.target(), QUICK, &job, stop, said).await;
        ended.expect("a run");
        let clock = of_type(&lines, "clock")[0];
        assert_eq!((&clock["id"], &clock["received_s"]), (&json!(8), &json!(1e-6)));
        assert!(clock["t_s"].as_f64() > Some(1e-6), "{clock}");
        assert_sums(&lines);
        let done = lines.last().expect("lines");
        assert_eq!((&done["stopped_by"], &done["elapsed_s"]), (&json!("caller"), &json!(1.5)));
        let first = of_type(&lines, "interval")[0];
        assert!((first["t_s"].as_f64().expect("seconds") - 0.7).abs() < 1e-6, "{first}");
    });
}

#[test]
fn a_window_that_cannot_open_in_time_and_a_caller_that_leaves_others_alone_are_no_measurement() {
    run(async {
        let Some(server) = Server::start("a_window_that_cannot_open").await else { return };
        let job = job(&json!({"handshake": true, "duration_s": 600.0, "budget_s": 600.0}));
        let measured = async |job, said: &[Said]| {
            let (say, heard) = unbounded_channel();
            for one in said {
                say.send(one.clone()).expect("heard");
            }
            run_hearing(server.target(), QUICK, job, std::future::pending(), heard).await
        };
        let (_, ended) = measured(&job, &[Said::Measure(Opening::At(Moment(0)))]).await;
        let message = ended.expect_err("too late").to_string();
        assert!(message.starts_with("window was to open at 0 s"), "{message}");
        let job = RunJob { share: Some(Share { index: 1, of: 2 }), ..job.clone() };
        let (lines, _) = measured(&job, &[Said::Measure(Opening::Soon), Said::EndOfFile]).await;
        assert_eq!(lines.last().expect("lines")["stopped_by"], "signal");
    });
}

#[test]
fn drivers_that_share_a_load_have_all_of_its_clients_and_arrivals() {
    run(async {
        let test = "drivers_that_share_a_load_have_all_of_its_clients_and_arrivals";
        let Some((server, mut conn)) = server_with_table(test).await else { return };
        let pacing = json!({"kind": "open", "rate_per_s": 400.0, "arrivals": "uniform", "backlog_limit": 50});
        let steps = json!([{"at_s": 0.0, "sessions": 2, "rate_per_s": null},
                           {"at_s": 0.5, "sessions": 5, "rate_per_s": null}]);
        let mut job =
            job(&json!({"handshake": true, "connections": 5, "duration_s": 1.0, "budget_s": 1.0,
                                  "interval_s": 0.5, "pacing": pacing, "steps": steps}));
        let (mut scheduled, mut sessions) = (0, [0, 0]);
        for index in 0..3 {
            job.share = Some(Share { index, of: 3 });
            let said = std::future::ready(Said::Measure(Opening::Soon));
            let never = std::future::pending();
            let lines = run_with(server.target(), INSERT, &job, never, said).await.expect("a run");
            assert_sums(&lines);
            scheduled += total(lines.last().expect("lines"), "insert", "scheduled");
            for (sum, line) in sessions.iter_mut().zip(of_type(&lines, "interval")) {
                *sum += line["sessions"].as_u64().expect("a count");
            }
        }
        assert_eq!(sessions, [2, 5]);
        // 400 in all, give or take one at each end of each driver's part, and what was due before the window.
        assert!((394..=406).contains(&scheduled), "{scheduled}");
        let used = one_number(&mut conn, "select count(distinct pid) from t").await;
        assert_eq!(used, 5);
    });
}

#[test]
fn a_stop_in_the_warm_up_counts_nothing() {
    run(async {
        let Some((server, mut conn)) = server_with_table("a_stop_in_the_warm_up").await else {
            return;
        };
        let stop = async {
            while one_number(&mut conn, "select count(*) from t").await < 10 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let job = job(&json!({"warm_up_s": 600.0}));
        let lines = run_until(server.target(), INSERT, &job, stop).await.expect("a run");
        let done = lines.last().expect("lines");
        assert_eq!((&done["stopped_by"], &done["elapsed_s"]), (&json!("signal"), &json!(0.0)));
        assert_eq!(total(done, "insert", "scheduled"), 0);
        assert!(done["warm_up_s"].as_f64() > Some(0.0));
    });
}

#[test]
fn a_mistake_in_the_job_ends_the_run_as_an_error() {
    run(async {
        let Some(server) = Server::start("a_mistake_in_the_job").await else { return };
        let script = Script { names: &["wrong"], transactions: &[&["select 1", MISTAKE]] };
        let job = job(&json!({"duration_s": 600.0, "budget_s": 600.0}));
        let result = run_until(server.target(), script, &job, std::future::pending()).await;
        assert_eq!(result.expect_err("a mistake").to_string(), "script is wrong");
    });
}

#[test]
fn a_run_whose_database_is_gone_ends_because_no_client_can_go_on() {
    run(async {
        let Some(server) = Server::start("a_run_whose_database_is_gone").await else { return };
        let mut conn = server.connect().await;
        conn.simple("create database doomed").await.expect("database is made");
        let target = Target::new(server.host(), server.port(), "postgres", "doomed", None, "test");
        let doom = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            conn.simple("drop database doomed with (force)").await.expect("dropped");
            std::future::pending::<()>().await;
        };
        let job = job(&json!({"duration_s": 600.0, "budget_s": 600.0}));
        let lines = run_until(target, QUICK, &job, doom).await.expect("a run");
        let done = lines.last().expect("lines");
        assert_eq!(done["stopped_by"], "clients");
        assert!((1..=4).contains(&total(done, "quick", "failed")), "{done}");
    });
}

#[test]
fn a_thousand_sessions_take_little_memory_and_all_of_them_work() {
    run(async {
        let test = "a_thousand_sessions_take_little_memory";
        let Some(server) = Server::start_for(test, 1010).await else { return };
        let mut conn = server.connect().await;
        conn.simple("create table t (pid int)").await.expect("table is made");
        let mut job = job(&json!({"connections": 1000, "duration_s": 600.0, "budget_s": 600.0}));
        job.grace_s = 20.0;
        let stop = async {
            let used = "select count(distinct pid) from t";
            while one_number(&mut conn, used).await < 1000 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let lines = run_until(server.target(), INSERT, &job, stop).await.expect("a run");
        let done = lines.last().expect("lines");
        assert!(total(done, "insert", "committed") > 0, "{done}");
        let max_rss_bytes = done["driver"]["max_rss_bytes"].as_u64().expect("bytes");
        assert!(max_rss_bytes < 64 << 20, "{max_rss_bytes}");
    });
}

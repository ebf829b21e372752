//! Does a run count what happened, and does it end, whatever the server does?

use std::time::Duration;

use crate::support::scripts::{
    PAUSE, QUICK, STUCK, Script, benchbase, job, lines, lines_and_end, of_type, phases, run_until,
    total,
};
use crate::support::{Server, kill, one_number, run};
use pgdrag_driver::job::RunJob;
use pgdrag_driver::session::{Connection, Target};
use serde_json::json;

#[test]
fn intervals_add_up_to_the_totals_and_to_the_window() {
    run(async {
        let test = "intervals_add_up_to_the_totals_and_to_the_window";
        let Some(server) = Server::start(test).await else { return };
        let lines = lines(server.target(), QUICK, &job(&json!({}))).await;
        assert_eq!(phases(&lines), ["connect", "run", "cancel"]);
        let done = lines.last().expect("lines");
        assert_eq!((&done["type"], &done["stopped_by"]), (&json!("done"), &json!("deadline")));
        assert_eq!(done["elapsed_s"], 0.5);
        assert!(total(done, "quick", "committed") > 0);

        let intervals = of_type(&lines, "interval");
        let lengths: Vec<_> =
            intervals.iter().map(|line| line["duration_s"].as_f64().unwrap()).collect();
        assert_eq!(lengths, [0.2, 0.2, 0.1]);
        for key in ["scheduled", "committed", "failed", "retried", "dropped"] {
            let sum: u64 = intervals.iter().map(|line| total(line, "quick", key)).sum();
            assert_eq!(sum, total(done, "quick", key), "{key}");
        }
        let latency = &done["transactions"]["quick"]["latency"];
        assert_eq!(latency["count"], done["transactions"]["quick"]["committed"]);
    });
}

#[test]
fn serialization_failures_are_retried_until_each_increment_has_counted_once() {
    run(async {
        let test = "serialization_failures_are_retried";
        let Some(server) = Server::start(test).await else { return };
        let mut conn = server.connect().await;
        conn.simple("create table counter as select 0 as n").await.expect("table is made");
        conn.simple("alter database postgres set default_transaction_isolation = 'serializable'")
            .await
            .expect("level is set");
        // The pause between the snapshot and the update makes conflicts certain.
        let script = Script {
            names: &["increment"],
            transactions: &[&[
                "select n from counter",
                "select pg_sleep(0.01)",
                "update counter set n = n + 1",
            ]],
        };
        let lines = lines(server.target(), script, &job(&json!({}))).await;
        let done = lines.last().expect("lines");
        let count = |key| total(done, "increment", key);
        assert!(count("retried") > 0);
        assert_eq!(count("failed"), 0);
        let increments = one_number(&mut conn, "select n from counter").await;
        let certain = count("committed");
        // What was in flight may have committed just after the end.
        assert!((certain..=certain + count("in_flight")).contains(&increments), "{done}");
    });
}

#[test]
fn failures_count_by_type_and_sqlstate_without_a_flood() {
    run(async {
        let test = "failures_count_by_type_and_sqlstate_without_a_flood";
        let Some(server) = Server::start(test).await else { return };
        let script = Script { names: &["broken"], transactions: &[&["select 1/0"]] };
        let lines = lines(server.target(), script, &job(&json!({}))).await;
        let done = lines.last().expect("lines");
        let failed = total(done, "broken", "failed");
        assert_eq!(done["transactions"]["broken"]["failed_by_sqlstate"], json!({"22012": failed}));
        assert_eq!(
            done["errors"],
            json!([{"transaction": "broken", "sqlstate": "22012", "message": "division by zero",
                    "count": failed}])
        );
        // Four clients that pause 10, 20, 40, 80, 160, 320 ms fail at most 6 times each.
        assert!((1..=24).contains(&failed), "{failed}");
    });
}

#[test]
fn a_slow_server_gets_more_time_until_it_has_committed_enough() {
    run(async {
        let test = "a_slow_server_gets_more_time";
        let Some(server) = Server::start(test).await else { return };
        let script = Script { names: &["slow"], transactions: &[&["select pg_sleep(0.15)"]] };
        let job = job(&json!({"duration_s": 0.2, "budget_s": 60.0, "min_commits": 9}));
        let lines = lines(server.target(), script, &job).await;
        assert_eq!(phases(&lines), ["connect", "run", "extend", "cancel"]);
        let done = lines.last().expect("lines");
        assert_eq!(done["stopped_by"], "commits");
        let elapsed_s = done["elapsed_s"].as_f64().expect("seconds");
        assert!((0.4..60.0).contains(&elapsed_s), "{elapsed_s}");
        assert!(total(done, "slow", "committed") >= 9);
    });
}

#[test]
fn a_server_that_commits_nothing_ends_with_the_budget_and_work_in_flight() {
    run(async {
        let test = "a_server_that_commits_nothing_ends_with_the_budget";
        let Some(server) = Server::start(test).await else { return };
        let script = Script { names: &["stuck"], transactions: &[&["select pg_sleep(600)"]] };
        let job = job(&json!({"duration_s": 0.2, "budget_s": 0.4, "min_commits": 1}));
        let lines = lines(server.target(), script, &job).await;
        let done = lines.last().expect("lines");
        assert_eq!((&done["stopped_by"], &done["elapsed_s"]), (&json!("budget"), &json!(0.4)));
        assert_eq!((total(done, "stuck", "scheduled"), total(done, "stuck", "in_flight")), (4, 4));
        // The work was cancelled on the server, not only abandoned.
        let mut conn = server.connect().await;
        let asleep = "select count(*) from pg_stat_activity where wait_event = 'PgSleep'";
        assert_eq!(one_number(&mut conn, asleep).await, 0);
    });
}

#[test]
fn a_commit_after_the_deadline_is_in_flight() {
    run(async {
        let test = "a_commit_after_the_deadline_is_in_flight";
        let Some(server) = Server::start(test).await else { return };
        let mut conn = server.connect().await;
        conn.simple("create table t (n int)").await.expect("table is made");
        let script =
            Script { names: &["late"], transactions: &[&["insert into t values (1)", PAUSE]] };
        let job = job(&json!({"duration_s": 0.2, "budget_s": 0.2, "grace_s": 60.0}));
        let lines = lines(server.target(), script, &job).await;
        let done = lines.last().expect("lines");
        assert_eq!((total(done, "late", "committed"), total(done, "late", "in_flight")), (0, 4));
        assert_eq!(one_number(&mut conn, "select count(*) from t").await, 4);
    });
}

#[test]
fn a_rate_beyond_the_servers_drops_what_finds_the_queue_full() {
    run(async {
        let test = "a_rate_beyond_the_servers_drops_what_finds_the_queue_full";
        let Some(server) = Server::start(test).await else { return };
        let script = Script {
            names: &["short", "long"],
            transactions: &[&["select pg_sleep(0.05)"], &["select pg_sleep(0.2)"]],
        };
        let lines = lines(server.target(), script, &job(&benchbase(400.0))).await;
        let done = lines.last().expect("lines");
        let arrivals = &done["arrivals"];
        // One at once, and then every 2.5 ms up to the end at 500 ms.
        let scheduled = arrivals["scheduled"].as_u64().expect("a count");
        assert_eq!(scheduled, 201);
        assert_eq!(arrivals["max_queue"], 10);
        let sum = |key| total(done, "short", key) + total(done, "long", key);
        assert_eq!(sum("scheduled"), scheduled);
        assert_eq!(sum("dropped"), arrivals["dropped"].as_u64().expect("a count"));
        assert!(sum("dropped") > 0 && sum("in_flight") >= 10 && sum("committed") > 0, "{done}");
        for key in ["scheduled", "dropped", "committed"] {
            let intervals = of_type(&lines, "interval");
            let parts = |name| intervals.iter().map(|line| total(line, name, key)).sum::<u64>();
            assert_eq!(parts("short") + parts("long"), sum(key), "{key}");
        }
    });
}

#[test]
fn a_stop_ends_the_window_at_once() {
    run(async {
        let Some(server) = Server::start("a_stop_ends_the_window_at_once").await else { return };
        let mut conn = server.connect().await;
        make_table(&mut conn).await;
        let stop = wait_for_rows(&mut conn, 10);
        let job = until_stopped(&json!({}));
        let lines = run_until(server.target(), INSERT, &job, stop).await.expect("a run");
        let done = lines.last().expect("lines");
        assert_eq!(done["stopped_by"], "signal");
        assert!(done["elapsed_s"].as_f64().expect("seconds") < 600.0);
        assert!(total(done, "insert", "committed") > 0);
    });
}

/// A transaction that leaves a row, so that a test can wait for commits.
const INSERT: Script =
    Script { names: &["insert"], transactions: &[&["insert into t values (1)"]] };

/// A window that only a stop ends.
fn until_stopped(changes: &serde_json::Value) -> RunJob {
    RunJob { duration_s: 600.0, budget_s: 600.0, ..job(changes) }
}

async fn make_table(conn: &mut Connection) {
    conn.simple("create table t (n int)").await.expect("table is made");
}

async fn wait_for_rows(conn: &mut Connection, rows: u64) {
    while one_number(conn, "select count(*) from t").await < rows {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn a_server_killed_in_mid_run_ends_with_counts_and_broken_connections() {
    run(async {
        let test = "a_server_killed_in_mid_run_ends_with_counts";
        let Some(server) = Server::start(test).await else { return };
        let mut conn = server.connect().await;
        make_table(&mut conn).await;
        let stop = async {
            wait_for_rows(&mut conn, 100).await;
            server.signal("KILL");
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        let job = until_stopped(&json!({}));
        let lines = run_until(server.target(), INSERT, &job, stop).await.expect("a run");
        let done = lines.last().expect("lines");
        assert!(total(done, "insert", "committed") >= 96, "{done}");
        // Each of the four connections broke once, and could not be made anew.
        assert_eq!(total(done, "insert", "failed"), 4, "{done}");
        // A session may still say that the postmaster is gone (57P01); the others just break.
        let by_sqlstate = &done["transactions"]["insert"]["failed_by_sqlstate"];
        let count = |sqlstate: &str| by_sqlstate[sqlstate].as_u64().unwrap_or(0);
        assert_eq!(count("08006") + count("57P01"), 4, "{done}");
    });
}

#[test]
fn clients_come_back_after_their_sessions_were_terminated() {
    run(async {
        let test = "clients_come_back_after_their_sessions_were_terminated";
        let Some(server) = Server::start(test).await else { return };
        let mut conn = server.connect().await;
        make_table(&mut conn).await;
        let stop = async {
            wait_for_rows(&mut conn, 100).await;
            conn.simple(
                "select pg_terminate_backend(pid, 60000) from pg_stat_activity
                 where backend_type = 'client backend' and pid <> pg_backend_pid()",
            )
            .await
            .expect("terminated");
            let rows = one_number(&mut conn, "select count(*) from t").await;
            wait_for_rows(&mut conn, rows + 100).await;
        };
        let job = until_stopped(&json!({}));
        let lines = run_until(server.target(), INSERT, &job, stop).await.expect("a run");
        let done = lines.last().expect("lines");
        assert!((1..=4).contains(&total(done, "insert", "failed")), "{done}");
        assert!(total(done, "insert", "committed") >= 190, "{done}");
    });
}

#[test]
fn a_frozen_server_cannot_keep_the_driver_from_ending() {
    run(async {
        let test = "a_frozen_server_cannot_keep_the_driver_from_ending";
        let Some(server) = Server::start(test).await else { return };
        let mut conn = server.connect().await;
        make_table(&mut conn).await;
        let mut frozen = Vec::new();
        let stop = async {
            wait_for_rows(&mut conn, 100).await;
            let rows = conn
                .simple_rows(
                    "select pid from pg_stat_activity where backend_type = 'client backend'",
                )
                .await
                .expect("processes are listed");
            server.signal("STOP");
            for row in rows {
                let pid = row[0].clone().expect("a process id");
                kill("STOP", &pid);
                frozen.push(pid);
            }
            // Until every client has had the time to ask for something that is not answered.
            tokio::time::sleep(Duration::from_secs(1)).await;
        };
        let job = until_stopped(&json!({"grace_s": 0.3}));
        let lines = run_until(server.target(), INSERT, &job, stop).await.expect("a run");
        for pid in &frozen {
            kill("CONT", pid);
        }
        let done = lines.last().expect("lines");
        assert_eq!(total(done, "insert", "in_flight"), 4, "{done}");
        assert_eq!(done["stopped_by"], "signal");
    });
}

#[test]
fn clients_that_cannot_connect_are_an_error_and_not_a_run() {
    run(async {
        let test = "clients_that_cannot_connect_are_an_error";
        let Some(server) = Server::start(test).await else { return };
        let job = job(&json!({"connections": 200}));
        let result = run_until(server.target(), QUICK, &job, std::future::pending());
        assert_eq!(result.await.expect_err("too many").sqlstate(), "53300");
    });
}

#[test]
fn a_listener_that_never_answers_is_an_error_in_bounded_time() {
    run(async {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("an address").port();
        let target = Target::new("127.0.0.1", port, "u", "d", None, "a");
        let result = run_until(target, QUICK, &job(&json!({})), std::future::pending()).await;
        assert_eq!(result.expect_err("mute").to_string(), "server did not answer within 2 s");
    });
}

#[test]
fn a_thread_that_does_not_end_is_an_error_and_no_interval_lacks_its_share() {
    run(async {
        let test = "a_thread_that_does_not_end_is_an_error";
        let Some(server) = Server::start(test).await else { return };
        let script = Script { names: &["mixed"], transactions: &[&["select 1", STUCK]] };
        let job = job(&json!({"connections": 2, "threads": 2, "grace_s": 0.1}));
        let (never, nobody) = (std::future::pending(), std::future::pending());
        let (lines, ended) = lines_and_end(server.target(), script, &job, never, nobody).await;
        let message = ended.expect_err("no result").to_string();
        assert!(message.contains("1 of 2 threads did not end within 10.1 s"), "{message}");
        assert_eq!(phases(&lines), ["connect", "run", "cancel"]);
        assert_eq!(of_type(&lines, "interval").len(), 0, "{lines:?}");
    });
}

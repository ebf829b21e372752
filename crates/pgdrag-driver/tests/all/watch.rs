//! Does a watch see what the server's processes wait for, as often as they do?

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::support::{Server, one_number, run};
use pgdrag_driver::job::WatchJob;
use pgdrag_driver::output::Output;
use pgdrag_driver::session::{Connection, Target};
use pgdrag_driver::watch::watch;
use serde_json::Value;

const OFTEN: WatchJob = WatchJob { every_s: 0.01, interval_s: 0.3 };
const TIMEOUT: Duration = Duration::from_secs(10);

/// Watches until `while_watching` has ended; the lines, and how that ended.
async fn watched(target: &Target, while_watching: impl Future<Output = ()>) -> (Vec<Value>, bool) {
    let mut text = Vec::new();
    let mut output = Output::new(&mut text);
    let is_resting = AtomicBool::new(false);
    let ended =
        watch((OFTEN, 1), (target, TIMEOUT), &mut output, &is_resting, while_watching).await;
    let text = String::from_utf8(text).expect("UTF-8");
    let lines = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    (lines, ended.is_ok())
}

fn of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

/// How many sessions were seen in a state, over all lines.
fn seen(lines: &[Value], wait: &str) -> u64 {
    let sessions =
        of_type(lines, "waits").into_iter().map(|line| &line["processes"]["client backend"]);
    sessions.filter_map(|waits| waits[wait].as_u64()).sum()
}

fn looks(lines: &[Value]) -> u64 {
    lines.last().expect("lines")["looks"].as_u64().expect("a count")
}

/// Waits until a query answers a number above 0.
async fn until(conn: &mut Connection, sql: &str) {
    while one_number(conn, sql).await == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[test]
fn each_session_is_seen_in_its_wait_at_every_look() {
    run(async {
        let Some(server) = Server::start("each_session_is_seen_in_its_wait").await else { return };
        let mut first = server.connect().await;
        first.simple("create table t as select 1 as a").await.expect("a table");
        first.simple("begin; lock table t").await.expect("a lock");
        let (mut sleeper, mut blocked) = (server.connect().await, server.connect().await);
        let _idle = server.connect().await;
        let mut observer = server.connect().await;
        let quiet = async {
            let both = "select (count(*) = 2)::int from pg_stat_activity \
                        where wait_event in ('PgSleep', 'relation')";
            until(&mut observer, both).await;
            let (lines, is_ok) =
                watched(&server.target(), tokio::time::sleep(Duration::from_secs(1))).await;
            first.simple("rollback").await.expect("an end");
            (lines, is_ok)
        };
        let (lines, is_ok) = tokio::select! {
            found = quiet => found,
            _ = async { tokio::join!(sleeper.simple("select pg_sleep(60)"), async {
                let _ = blocked.simple("select * from t").await;
                std::future::pending::<()>().await;
            }) } => unreachable!("they wait"),
        };
        assert!(is_ok);
        let done = lines.last().expect("lines");
        assert_eq!(done["type"], "done");
        // A hundred on average, by a Poisson process: fewer where the machine is busy.
        assert!((5..=160).contains(&looks(&lines)), "{done}");
        for wait in ["Timeout:PgSleep", "Lock:relation", "Client:ClientRead"] {
            assert_eq!(seen(&lines, wait), looks(&lines), "{wait}: {lines:?}");
        }
        let told: u64 = of_type(&lines, "waits").iter().filter_map(|x| x["looks"].as_u64()).sum();
        assert_eq!(told, looks(&lines));
        assert!(of_type(&lines, "waits").len() >= 2);
        assert!(done["cpu_s"].as_f64().expect("seconds") >= 0.0);
    });
}

#[test]
fn a_session_that_works_is_on_a_processor() {
    run(async {
        let Some(server) = Server::start("a_session_that_works").await else { return };
        let mut worker = server.connect().await;
        let (lines, _) = watched(&server.target(), async {
            let long = "select count(*) from generate_series(1, 3000000)";
            worker.simple(long).await.expect("an answer");
        })
        .await;
        assert!(seen(&lines, "") >= looks(&lines) / 2, "{lines:?}");
    });
}

#[test]
fn a_server_set_up_to_end_statements_at_once_is_watched() {
    run(async {
        let Some(server) = Server::start("a_server_set_up_to_end_statements").await else { return };
        let mut conn = server.connect().await;
        conn.simple("alter role postgres set statement_timeout = '1ms'").await.expect("a setting");
        conn.simple("alter role postgres set jit_above_cost = 0").await.expect("a setting");
        let (lines, is_ok) =
            watched(&server.target(), tokio::time::sleep(Duration::from_millis(500))).await;
        assert!(is_ok, "{lines:?}");
        assert!(looks(&lines) > 0);
    });
}

#[test]
fn a_server_that_dies_ends_the_watch_with_an_error() {
    run(async {
        let Some(server) = Server::start("a_server_that_dies_ends_the_watch").await else { return };
        let (lines, is_ok) = watched(&server.target(), async {
            tokio::time::sleep(Duration::from_millis(200)).await;
            server.signal("QUIT");
            std::future::pending::<()>().await;
        })
        .await;
        assert!(!is_ok);
        assert!(of_type(&lines, "done").is_empty());
    });
}

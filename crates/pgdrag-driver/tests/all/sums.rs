//! Does what a variable sums to agree with what the table says, whatever became of the scripts?

use crate::support::pgbench::{MODES, compiled, count, done, scripts, with};
use crate::support::{Server, one_text, run};
use pgdrag_driver::session::Connection;
use serde_json::{Value, json};

const DRAW: &str = "\\set d random(-1000, 1000)\n";

async fn make_counter(conn: &mut Connection) {
    conn.simple(
        "DROP TABLE IF EXISTS counter; CREATE TABLE counter AS SELECT 1 AS id, 0::bigint AS cnt",
    )
    .await
    .expect("a table");
}

async fn total(conn: &mut Connection) -> i64 {
    one_text(conn, "SELECT sum(cnt) FROM counter").await.parse().expect("a number")
}

fn of(done: &Value, key: &str) -> i64 {
    done["sums"]["d"][key].as_i64().unwrap_or_else(|| panic!("{key} in {done}"))
}

fn summed(mode: &str, texts: &[(&str, &str, u32)]) -> Value {
    with(scripts(mode, texts), "sums", json!(["d"]))
}

#[test]
fn every_way_to_commit_or_not_is_told_apart() {
    run(async {
        let claim = "every_way_to_commit_or_not_is_told_apart";
        let Some(server) = Server::start(claim).await else { return };
        let mut conn = server.connect().await;
        let add = "UPDATE counter SET cnt = cnt + :d WHERE id = 1;\n";
        let none = "UPDATE counter SET cnt = cnt + :d WHERE id = 2;\n";
        let texts = [
            ("alone", format!("{DRAW}SELECT 1;\n{add}SELECT 2;\n")),
            ("block", format!("{DRAW}BEGIN;\n{add}SELECT :d AS seen \\gset\n{none}END;\n")),
            ("rolled back", format!("{DRAW}BEGIN;\n{add}ROLLBACK;\n")),
            // What failed behind a statement that had committed by itself.
            ("fails later", format!("{DRAW}{add}SELECT 1 / 0;\n")),
            ("fails within", format!("{DRAW}BEGIN;\n{add}SELECT 1 / 0;\nEND;\n")),
            ("no row", format!("{DRAW}{none}")),
        ];
        let texts: Vec<_> = texts.iter().map(|(name, text)| (*name, text.as_str(), 1)).collect();
        for mode in MODES {
            make_counter(&mut conn).await;
            let done = done(&server, 8, summed(mode, &texts)).await.expect(mode);
            let none = i64::try_from(count(&done, "no row", "committed")).expect("a count");
            let alone = i64::try_from(count(&done, "alone", "committed")).expect("a count");
            assert!(alone > 0 && none > 0 && count(&done, "fails later", "failed") > 0, "{done}");
            // Those without a row have changed nothing; their values are in the sum all the same.
            assert_eq!(of(&done, "unknown"), 0, "{done}");
            assert!((none..=none + 8).contains(&of(&done, "untouched")), "{done}");
            assert!(of(&done, "committed") >= alone + none, "{done}");
        }
        make_counter(&mut conn).await;
        let touching = &texts[..5];
        let done = done(&server, 8, summed("prepared", touching)).await.expect("a run");
        assert_eq!((of(&done, "sum"), of(&done, "untouched")), (total(&mut conn).await, 0));
    });
}

#[test]
fn what_nobody_knows_when_a_connection_breaks_is_told_apart() {
    run(async {
        let claim = "what_nobody_knows_when_a_connection_breaks_is_told_apart";
        let Some(server) = Server::start(claim).await else { return };
        let mut conn = server.connect().await;
        make_counter(&mut conn).await;
        let text = format!(
            "{DRAW}UPDATE counter SET cnt = cnt + :d;\nBEGIN;\nUPDATE counter SET cnt = cnt + :d;\n\
             SELECT pg_terminate_backend(pg_backend_pid());\nEND;\n"
        );
        // Of one that commits the window needs no more than its 0.3 s.
        let texts = [("breaks", text.as_str(), 1), ("fine", "SELECT 1;", 1)];
        let done = done(&server, 4, summed("simple", &texts)).await;
        let done = done.expect("a run");
        assert!(of(&done, "unknown") > 0, "{done}");
        let missing = total(&mut conn).await - of(&done, "sum");
        let possible = of(&done, "unknown_low")..=of(&done, "unknown_high");
        assert!(possible.contains(&missing), "{missing}, {done}");
    });
}

#[test]
fn a_lock_that_a_failure_left_is_given_back() {
    run(async {
        let claim = "a_lock_that_a_failure_left_is_given_back";
        let Some(server) = Server::start(claim).await else { return };
        let text = "SELECT pg_advisory_lock(1);\nSELECT 1 / 0;\nSELECT pg_advisory_unlock(1);\n";
        let job = with(
            scripts("prepared", &[("locks", text, 1), ("fine", "SELECT 1;", 1)]),
            "after_failure",
            json!("SELECT pg_advisory_unlock_all()"),
        );
        let done = done(&server, 4, job).await.expect("a run");
        // Each client alone, if the first one to fail kept its lock, would fail once at most.
        assert!(count(&done, "locks", "failed") > 4, "{done}");
    });
}

#[test]
fn what_cannot_be_summed_is_refused() {
    let refused = |text: &str| compiled(summed("prepared", &[("mine", text, 1)])).expect_err(text);
    let missing = "key \"workload.sums\": no statement of a script has a variable \"d\"";
    assert_eq!(refused("\\set d 1\nSELECT 1;"), missing);
    assert_eq!(refused("SELECT :e;"), missing);
    assert_eq!(
        refused("\\startpipeline\nSELECT :d;\n\\endpipeline"),
        "key \"workload.sums\" must be empty where a script has a pipeline"
    );
    run(async {
        let Some(server) = Server::start("what_cannot_be_summed_is_refused").await else { return };
        for (text, expected) in [
            ("SELECT :d;", "cannot sum variable \"d\": undefined variable \"d\""),
            ("\\set d true\nSELECT :d;", "cannot sum variable \"d\": cannot coerce boolean to int"),
            (
                "\\set d 9223372036854775807\nSELECT :d;",
                "cannot sum variable \"d\": sum out of range",
            ),
        ] {
            let job = summed("prepared", &[("mine", text, 1)]);
            let error = done(&server, 1, job).await.expect_err(text).to_string();
            assert_eq!(error, expected);
        }
    });
}

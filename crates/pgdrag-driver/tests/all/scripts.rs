//! Do pgbench's scripts run against a server as they do in pgbench?

use std::process::Command;
use std::time::Duration;

use crate::support::pgbench::{MODES, SEED, compiled, count, done, scripts, with};
use crate::support::{Server, one_number, one_text, run};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use pgbench_script::BUILTINS;
use serde_json::json;

#[test]
fn every_command_works_in_every_mode_that_has_it() {
    run(async {
        let claim = "every_command_works_in_every_mode_that_has_it";
        let Some(server) = Server::start(claim).await else { return };
        let mut conn = server.connect().await;
        conn.simple("CREATE TABLE log (mode text, value bigint, note text)")
            .await
            .expect("a table");
        let text = r"
            \set x 40
            SELECT :x + 1 AS a, 'it''s' AS b, NULL AS c \gset p_
            SELECT 1 AS d, :mode AS m \gset
            \if :p_a = 41
            \set x :p_a + :d
            \elif 1 / 0
            \set x 0
            \else
            \set x 1
            \endif
            \sleep 1 ms
            BEGIN;
            SELECT 5 AS e WHERE false \aset
            INSERT INTO log VALUES (:mode, :x, :undefined);
            END;";
        for mode in MODES {
            // As a text in a statement the value needs its quotes, as a parameter it must have none.
            let quoted = if mode == "simple" { format!("'{mode}'") } else { mode.to_owned() };
            let text =
                if mode == "simple" { text.replace(":undefined", "NULL") } else { text.into() };
            let text = text.replace(":mode AS m", "1 AS m");
            let job =
                with(scripts(mode, &[("all", &text, 1)]), "variables", json!({"mode": quoted}));
            let done = done(&server, 2, job).await.expect(mode);
            assert_eq!(count(&done, "all", "failed"), 0, "{done}");
            let committed = count(&done, "all", "committed");
            let logged = one_number(
                &mut conn,
                &format!(
                    "SELECT count(*) FROM log WHERE mode = '{mode}' AND value = 42 AND note IS NULL"
                ),
            )
            .await;
            // A transaction that had committed when the window ended may not have been counted.
            assert!((committed..=committed + 2).contains(&logged), "{mode}: {committed}, {logged}");
        }
        assert_eq!(one_number(&mut conn, "SELECT count(*) FROM log WHERE value <> 42").await, 0);
    });
}

#[test]
fn a_sleep_is_never_shorter_than_it_says() {
    run(async {
        let claim = "a_sleep_is_never_shorter_than_it_says";
        let Some(server) = Server::start(claim).await else { return };
        let text = "\\set us 300\n\\sleep :us us\nSELECT 1;\n\\startpipeline\nSELECT 2;\n\\sleep 1 ms\n\\endpipeline\n";
        let done =
            done(&server, 3, scripts("prepared", &[("sleeps", text, 1)])).await.expect("a run");
        let encoded =
            done["transactions"]["sleeps"]["latency"]["encoded"].as_str().expect("commits");
        let bytes = STANDARD.decode(encoded).expect("base64");
        let latencies: Histogram<u32> =
            Deserializer::new().deserialize(&mut bytes.as_slice()).expect("a histogram");
        // Below 2,048 the histogram has every microsecond.
        assert!(latencies.min() >= 1300, "{} µs", latencies.min());
    });
}

#[test]
fn each_statement_is_timed_where_the_job_says_so() {
    run(async {
        let claim = "each_statement_is_timed_where_the_job_says_so";
        let Some(server) = Server::start(claim).await else { return };
        let text =
            "\\set x 0\nBEGIN;\nSELECT pg_sleep(0.01);\n\\if :x = 1\nSELECT :x;\n\\endif\nEND;\n";
        let job =
            scripts("prepared", &[("fine", text, 1), ("fails", "SELECT 1;\nSELECT\n1 / 0;", 1)]);
        let job = with(job, "time_statements", json!(true));
        let done = done(&server, 2, job).await.expect("a run");
        let found = done["statements"].as_array().expect("statements");
        let places: Vec<_> = found
            .iter()
            .map(|one| {
                (
                    one["transaction"].as_str().expect("a name"),
                    one["line"].as_u64().expect("a line"),
                )
            })
            .collect();
        assert_eq!(
            places,
            [("fine", 2), ("fine", 3), ("fine", 5), ("fine", 7), ("fails", 1), ("fails", 2)]
        );
        let of = |index: usize, key: &str| found[index][key].as_u64().expect("a count");
        let (fine, fails) = (count(&done, "fine", "committed"), count(&done, "fails", "failed"));
        let succeeded: Vec<_> = (0..6).map(|index| of(index, "succeeded")).collect();
        assert_eq!(succeeded, [fine, fine, 0, fine, fails, 0], "{done}");
        assert_eq!(of(5, "failed"), fails, "{done}");
        assert_eq!(found[4]["text"], "SELECT 1;");
        assert!(found[1]["mean_us"].as_f64().expect("a mean") >= 10_000.0, "{done}");
        assert!(found[2]["mean_us"].is_null(), "{done}");
    });
}

#[test]
fn a_client_runs_its_own_script_throughout_where_the_job_names_it() {
    run(async {
        let claim = "a_client_runs_its_own_script_throughout_where_the_job_names_it";
        let Some(server) = Server::start(claim).await else { return };
        let mut conn = server.connect().await;
        conn.simple("CREATE TABLE seen (client int, script text)").await.expect("a table");
        let [a, b] = ["a", "b"].map(|it| format!("INSERT INTO seen VALUES (:client_id, '{it}');"));
        let job = scripts("prepared", &[("a", &a, 1), ("b", &b, 0)]);
        let done = done(&server, 4, with(job, "clients", json!([0, 1, 1, 0]))).await;
        let done = done.expect("a run");
        assert!(count(&done, "a", "committed") > 1 && count(&done, "b", "committed") > 1);
        let seen = "SELECT string_agg(DISTINCT client || script, ' ') FROM seen";
        assert_eq!(one_text(&mut conn, seen).await, "0a 1b 2b 3a");
    });
}

/// Two tables' worth of values: x goes with y.
const PAIRS: &str =
    "SELECT i, CASE WHEN i <> 7 THEN 'it''s ' || i END FROM generate_series(0, 99) AS i";

fn pooled(mode: &str, query: &str) -> serde_json::Value {
    let insert = "INSERT INTO took VALUES (:client_id, :x, :y, :next_x, :any_x, :any_y);";
    let job = scripts(mode, &[("takes", insert, 1)]);
    let pool = |order: &str| json!({"query": query, "variables": ["x", "y"], "order": order});
    let job = with(job, "pools", json!({"turn": pool("in_turn"), "any": pool("random")}));
    let draw = |pool: &str, prefix: &str| json!({"pool": pool, "prefix": prefix});
    let mut job = job;
    job["scripts"][0]["draws"] =
        json!([{"pool": "turn"}, draw("turn", "next_"), draw("any", "any_")]);
    job
}

#[test]
fn executions_take_rows_of_pools_as_variables() {
    run(async {
        let claim = "executions_take_rows_of_pools_as_variables";
        let Some(server) = Server::start(claim).await else { return };
        let mut conn = server.connect().await;
        let quoted = PAIRS
            .replace("SELECT i, CASE", "SELECT i, quote_nullable(CASE")
            .replace(" END FROM", " END) FROM");
        let mut taken = Vec::new();
        for mode in MODES {
            conn.simple("DROP TABLE IF EXISTS took; CREATE TABLE took (client int, x int, y text, next_x int, any_x int, any_y text, at serial)")
                .await
                .expect("a table");
            let query = if mode == "simple" { quoted.as_str() } else { PAIRS };
            let done = done(&server, 4, pooled(mode, query)).await.expect(mode);
            assert_eq!(count(&done, "takes", "failed"), 0, "{done}");
            // Rows stay together, and NULL is NULL.
            let apart = "SELECT count(*) FROM took WHERE y IS DISTINCT FROM CASE WHEN x <> 7 THEN 'it''s ' || x END
                OR any_y IS DISTINCT FROM CASE WHEN any_x <> 7 THEN 'it''s ' || any_x END";
            assert_eq!(one_number(&mut conn, apart).await, 0);
            // Client k of 4 has k, k + 4, k + 8 …, two for each execution.
            let turn = "SELECT count(*) FROM (SELECT *, row_number() OVER (PARTITION BY client ORDER BY at) - 1 AS n FROM took) AS t
                WHERE x <> client + (8 * n) % 100 OR next_x <> client + (8 * n + 4) % 100";
            assert_eq!(one_number(&mut conn, turn).await, 0);
            let first = "SELECT string_agg(any_x::text, ' ' ORDER BY client) FROM
                (SELECT DISTINCT ON (client) client, any_x FROM took ORDER BY client, at) AS t";
            taken.push(one_text(&mut conn, first).await);
        }
        // The same seed takes the same rows, however quick the server is.
        assert!(taken.iter().all(|one| *one == taken[0]), "{taken:?}");
    });
}

#[test]
fn a_row_can_have_to_agree_with_one_that_was_taken_before_it() {
    run(async {
        let claim = "a_row_can_have_to_agree_with_one_that_was_taken_before_it";
        let Some(server) = Server::start(claim).await else { return };
        let mut conn = server.connect().await;
        for mode in MODES {
            conn.simple(
                "DROP TABLE IF EXISTS took; CREATE TABLE took (shop int, other int, place int)",
            )
            .await
            .expect("a table");
            let insert = "INSERT INTO took VALUES (:s_shop, :p_shop, :p_place);";
            // Shop 9 has no place: any will do.
            let shops = "SELECT i FROM unnest(ARRAY[1, 2, 3, 9]) AS i";
            let places =
                "SELECT i % 3 + 1, i FROM generate_series(0, 29) AS i UNION ALL SELECT NULL, 99";
            let pool = |query: &str, variables: &[&str]| json!({"query": query, "variables": variables, "order": "random"});
            let pools = json!({"shops": pool(shops, &["shop"]), "places": pool(places, &["shop", "place"])});
            let mut job = with(scripts(mode, &[("takes", insert, 1)]), "pools", pools);
            job["scripts"][0]["draws"] = json!([
                {"pool": "shops", "prefix": "s_"},
                {"pool": "places", "prefix": "p_", "like": {"shop": "s_shop"}},
            ]);
            let done = done(&server, 2, job).await.expect(mode);
            assert_eq!(count(&done, "takes", "failed"), 0, "{done}");
            let apart = "SELECT count(*) FROM took WHERE shop <> 9 AND shop IS DISTINCT FROM other";
            assert_eq!(one_number(&mut conn, apart).await, 0);
            let different = "SELECT least(count(DISTINCT place), 9) FROM took WHERE shop <> 9 AND place % 3 + 1 = shop";
            assert_eq!(one_number(&mut conn, different).await, 9);
        }
    });
}

#[test]
fn a_pool_that_cannot_be_taken_from_ends_the_run_and_says_why() {
    run(async {
        let claim = "a_pool_that_cannot_be_taken_from_ends_the_run_and_says_why";
        let Some(server) = Server::start(claim).await else { return };
        for (query, why) in [
            ("SELECT 1, 2 WHERE false", "pool \"any\" has no rows"),
            ("SELECT 1", "pool \"any\" has 1 columns for 2 variables"),
            (
                "SELECT 1, nothing",
                "pool \"any\" could not be read: column \"nothing\" does not exist",
            ),
        ] {
            let error = done(&server, 2, pooled("prepared", query)).await.expect_err(query);
            assert!(error.to_string().starts_with(why), "{error}");
        }
    });
}

#[test]
fn draws_that_make_no_sense_are_refused_before_anything_runs() {
    let job = pooled("prepared", PAIRS);
    for (draws, why) in [
        (json!([{"pool": "none"}]), r#"key "workload.scripts[0].draws": there is no pool "none""#),
        (
            json!([{"pool": "any", "prefix": "1-"}]),
            r#"key "workload.scripts[0].draws": invalid variable name: "1-x""#,
        ),
        (
            json!([{"pool": "turn"}, {"pool": "any", "prefix": "any_", "like": {"z": "x"}}]),
            r#"key "workload.scripts[0].draws": pool "any" has no variable "z""#,
        ),
        (
            json!([{"pool": "turn"}, {"pool": "any", "prefix": "any_", "like": {"x": "w"}}]),
            r#"key "workload.scripts[0].draws": no statement has the variable "w""#,
        ),
    ] {
        let mut job = job.clone();
        job["scripts"][0]["draws"] = draws;
        assert_eq!(compiled(job).expect_err("no such pool"), why);
    }
}

#[test]
fn combined_queries_assign_the_last_row_or_each_one_s() {
    run(async {
        let claim = "combined_queries_assign_the_last_row_or_each_one_s";
        let Some(server) = Server::start(claim).await else { return };
        let text = r"
            SELECT 1 AS a \; SELECT 2 AS a, 3 AS b \gset
            SELECT 10 AS c \; SELECT 20 AS d WHERE false \; SELECT generate_series(30, 31) AS e \aset
            \set sum :a + :b + :c + :e
            SELECT 1 / (CASE WHEN :sum = 46 THEN 1 ELSE 0 END);";
        let done = done(&server, 1, scripts("simple", &[("all", text, 1)])).await.expect("a run");
        assert_eq!(count(&done, "all", "failed"), 0, "{done}");
        assert!(count(&done, "all", "committed") > 0);
    });
}

#[test]
fn the_built_in_scripts_keep_balances_and_history_equal() {
    run(async {
        let claim = "the_built_in_scripts_keep_balances_and_history_equal";
        let Some(server) = Server::start(claim).await else { return };
        make_tables(&server);
        let mut conn = server.connect().await;
        let names: Vec<_> = BUILTINS.iter().map(|one| (one.name, one.text, 1)).collect();
        for mode in MODES {
            let done = done(&server, 4, scripts(mode, &names)).await.expect(mode);
            for (name, ..) in &names {
                assert!(count(&done, name, "committed") > 0, "{mode}: {done}");
                assert_eq!(count(&done, name, "failed"), 0, "{mode}: {done}");
            }
        }
        let sums = "SELECT sum(delta) = (SELECT sum(abalance) FROM pgbench_accounts) \
                    AND count(DISTINCT delta) > 20 FROM pgbench_history";
        assert_eq!(one_text(&mut conn, sums).await, "t");
    });
}

/// Makes pgbench's tables by pgbench.
fn make_tables(server: &Server) {
    let directory = std::env::var_os("PGDRAG_TEST_BIN").expect("the server needed it, too");
    let output = Command::new(std::path::Path::new(&directory).join("pgbench"))
        .args(["-i", "-q", "-h", server.host(), "-p", &server.port().to_string()])
        .args(["-U", "postgres", "postgres"])
        .output()
        .expect("pgbench runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_client_draws_the_numbers_and_scripts_that_pgbench_s_draws() {
    run(async {
        let claim = "a_client_draws_the_numbers_and_scripts_that_pgbench_s_draws";
        let Some(server) = Server::start(claim).await else { return };
        let mut conn = server.connect().await;
        let make =
            |table: &str| format!("CREATE TABLE {table} (id serial, what text, number bigint)");
        let script = |table: &str, what: &str| {
            format!(
                "\\set n random_zipfian(1, 1000000, 1.2) + permute(:client_id, 100)\n\
                 INSERT INTO {table} (what, number) VALUES ('{what}', :n);\n"
            )
        };
        conn.simple(&make("ours")).await.expect("a table");
        conn.simple(&make("theirs")).await.expect("a table");

        let texts = [script("ours", "a"), script("ours", "b")];
        let job = scripts("prepared", &[("a", &texts[0], 3), ("b", &texts[1], 2)]);
        done(&server, 1, job).await.expect("a run");
        let rows = one_number(&mut conn, "SELECT count(*) FROM ours").await;
        assert!(rows > 10, "{rows}");

        let directory = std::env::temp_dir();
        let file = |what: &str| directory.join(format!("pgdrag-{}-{what}.sql", server.port()));
        for what in ["a", "b"] {
            std::fs::write(file(what), script("theirs", what)).expect("a file");
        }
        let programs = std::env::var_os("PGDRAG_TEST_BIN").expect("the server needed it, too");
        let weighted = |what: &str, weight: u32| format!("{}@{weight}", file(what).display());
        let output = Command::new(std::path::Path::new(&programs).join("pgbench"))
            .args(["-n", "-h", server.host(), "-p", &server.port().to_string(), "-U", "postgres"])
            .args(["-t", &rows.to_string(), "--random-seed", &SEED.to_string()])
            .args(["-f", &weighted("a", 3), "-f", &weighted("b", 2), "postgres"])
            .output()
            .expect("pgbench runs");
        for what in ["a", "b"] {
            std::fs::remove_file(file(what)).expect("it is there");
        }
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let differing = "SELECT count(*) FROM ours FULL JOIN theirs USING (id) \
                         WHERE (ours.what, ours.number) IS DISTINCT FROM (theirs.what, theirs.number)";
        assert_eq!(one_number(&mut conn, differing).await, 0);
    });
}

#[test]
fn a_statement_that_fails_is_counted_and_the_client_goes_on() {
    run(async {
        let claim = "a_statement_that_fails_is_counted_and_the_client_goes_on";
        let Some(server) = Server::start(claim).await else { return };
        let texts = [("bad", "BEGIN; SELECT 1 / 0; END;", 1), ("good", "SELECT 1;", 1)];
        for mode in MODES {
            let done = done(&server, 1, scripts(mode, &texts)).await.expect(mode);
            let failed = count(&done, "bad", "failed");
            assert!(failed > 0, "{done}");
            assert_eq!(
                done["transactions"]["bad"]["failed_by_sqlstate"]["22012"].as_u64(),
                Some(failed),
                "{done}"
            );
            assert!(count(&done, "good", "committed") > 0, "{done}");
        }
    });
}

#[test]
fn a_transaction_that_could_not_be_serialized_is_tried_again() {
    run(async {
        let claim = "a_transaction_that_could_not_be_serialized_is_tried_again";
        let Some(server) = Server::start(claim).await else { return };
        let mut conn = server.connect().await;
        conn.simple("CREATE TABLE counter AS SELECT 0::bigint AS value").await.expect("a table");
        let text = "BEGIN ISOLATION LEVEL REPEATABLE READ;\nSELECT value AS before FROM counter \\gset\n\
                    \\sleep 1 ms\nUPDATE counter SET value = :before::bigint + 1;\nEND;";
        let job =
            |tries: u32| with(scripts("prepared", &[("add", text, 1)]), "max_tries", json!(tries));

        let once = done(&server, 8, job(1)).await.expect("a run");
        assert!(
            once["transactions"]["add"]["failed_by_sqlstate"]["40001"].as_u64() > Some(0),
            "{once}"
        );
        assert_eq!(count(&once, "add", "retried"), 0, "{once}");

        let before = one_number(&mut conn, "SELECT value FROM counter").await;
        let often = done(&server, 8, job(0)).await.expect("a run");
        assert!(count(&often, "add", "retried") > 0, "{often}");
        assert_eq!(count(&often, "add", "failed"), 0, "{often}");
        let added = one_number(&mut conn, "SELECT value FROM counter").await - before;
        let committed = count(&often, "add", "committed");
        assert!((committed..=committed + 8).contains(&added), "{committed}, {added}");
    });
}

#[test]
fn a_script_without_sql_ends_with_the_window() {
    run(async {
        let claim = "a_script_without_sql_ends_with_the_window";
        let Some(server) = Server::start(claim).await else { return };
        for text in ["\\set x 1", "\\sleep 0", "\\if 0\nSELECT 1;\n\\endif"] {
            let done =
                done(&server, 3, scripts("prepared", &[("idle", text, 1)])).await.expect(text);
            assert!(count(&done, "idle", "committed") > 0, "{done}");
        }
        let empty = "\\startpipeline\n\\syncpipeline\n\\endpipeline";
        let done = done(&server, 3, scripts("prepared", &[("idle", empty, 1)])).await.expect(empty);
        assert!(count(&done, "idle", "committed") > 0, "{done}");
    });
}

#[test]
fn a_pipeline_s_parts_fail_apart() {
    run(async {
        let claim = "a_pipeline_s_parts_fail_apart";
        let Some(server) = Server::start(claim).await else { return };
        let mut conn = server.connect().await;
        conn.simple("CREATE TABLE log (part int, mode text)").await.expect("a table");
        let text = "\\startpipeline\nINSERT INTO log VALUES (1, :mode);\n\\syncpipeline\n\
                    INSERT INTO log VALUES (2, :mode);\nSELECT 1 / 0;\n\\syncpipeline\n\
                    INSERT INTO log VALUES (3, :mode);\n\\endpipeline\n";
        for mode in ["extended", "prepared"] {
            let job = with(
                scripts(mode, &[("parts", text, 1), ("good", "SELECT 1;", 1)]),
                "variables",
                json!({"mode": mode}),
            );
            let done = done(&server, 1, job).await.expect(mode);
            assert!(count(&done, "parts", "failed") > 0, "{done}");
            let of_part = async |conn: &mut _, part: u32| {
                one_number(
                    conn,
                    &format!("SELECT count(*) FROM log WHERE (part, mode) = ({part}, '{mode}')"),
                )
                .await
            };
            let parts = [
                of_part(&mut conn, 1).await,
                of_part(&mut conn, 2).await,
                of_part(&mut conn, 3).await,
            ];
            assert!(parts[0] > 0, "{mode}: {parts:?}");
            assert_eq!(parts[1], 0, "{mode}: {parts:?}");
            assert!(parts[2].abs_diff(parts[0]) <= 1, "{mode}: {parts:?}");
        }
    });
}

#[test]
fn a_command_that_fails_ends_the_run_and_says_where() {
    run(async {
        let claim = "a_command_that_fails_ends_the_run_and_says_where";
        let Some(server) = Server::start(claim).await else { return };
        let cases = [
            ("\\set x 1\n\\set y :x / 0", "line 2, command 1 (\\set): division by zero"),
            (
                "SELECT 1;\nSELECT 1 AS a WHERE false \\gset",
                "line 2, command 1 (SQL): expected one row, got 0",
            ),
            (
                "SELECT 1 AS a UNION SELECT 2 \\gset",
                "line 1, command 0 (SQL): expected one row, got 2",
            ),
            ("BEGIN \\gset", "line 1, command 0 (SQL): expected one row, got 0"),
            ("SELECT 1 \\gset", "line 1, command 0 (SQL): invalid variable name: \"?column?\""),
            (
                "BEGIN;\nSELECT 1;",
                "line 2, command 1 (SQL): end of script reached without completing the last transaction",
            ),
            ("\\sleep :x", "line 1, command 0 (\\sleep): undefined variable \"x\""),
        ];
        for mode in MODES {
            for (text, expected) in cases {
                let error = done(&server, 2, scripts(mode, &[("wrong", text, 1)])).await;
                let error = error.expect_err(text).to_string();
                assert_eq!(error, format!("script \"wrong\", {expected}"), "{mode}");
            }
        }
        let open = scripts("prepared", &[("wrong", "\\startpipeline\nSELECT 1;", 1)]);
        let error = done(&server, 1, open).await.expect_err("an open pipeline").to_string();
        assert!(error.ends_with("end of script reached with pipeline open"), "{error}");
    });
}

#[test]
fn a_shell_s_command_gives_a_number_and_does_not_outlive_the_run() {
    run(async {
        let claim = "a_shell_s_command_gives_a_number_and_does_not_outlive_the_run";
        let Some(server) = Server::start(claim).await else { return };
        let allowed =
            |text: &str| with(scripts("simple", &[("shell", text, 1)]), "allow_shell", json!(true));
        let text = "\\set x 41\n\\setshell y expr :x + 1\n\\shell true\nSELECT 1 / (:y / 42);";
        let found = done(&server, 2, allowed(text)).await.expect("a run");
        assert_eq!(count(&found, "shell", "failed"), 0, "{found}");
        assert!(count(&found, "shell", "committed") > 0, "{found}");

        for (text, expected) in [
            ("\\shell false", "false: could not launch shell command"),
            ("\\setshell x true", "true: could not read result of shell command"),
            ("\\setshell x echo 1 2", "echo: shell command must return an integer (not \"1 2\")"),
        ] {
            let error = done(&server, 1, allowed(text)).await.expect_err(text).to_string();
            assert!(error.ends_with(expected), "{error}");
        }

        // Two processes, one of which is not the shell's own child.
        let unique = format!("3600.{}", std::process::id());
        let text =
            format!("SELECT 1;\n\\if random(1, 4) = 1\n\\shell (sleep {unique}) | cat\n\\endif");
        done(&server, 2, allowed(&text)).await.expect("a run");
        let mut attempts_left = 200;
        while is_running(&unique) {
            attempts_left -= 1;
            assert!(attempts_left > 0, "sleep {unique} is still running");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
}

/// Whether a process has this among its arguments.
fn is_running(argument: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("Linux");
    let lines =
        processes.flatten().filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let mut lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    lines.any(|line| line.split('\0').any(|word| word == argument))
}

#[test]
fn mistakes_are_found_before_a_connection_is_made() {
    let job = |text: &str| scripts("prepared", &[("mine", text, 1)]);
    let cases = [
        (
            job("SELECT 1;\n  \\set x 1 +"),
            "script \"mine\", line 2, column 13: syntax error in command \"set\"",
        ),
        (
            job("\\shell true"),
            "script \"mine\" runs programs of this machine, and key \"workload.allow_shell\" is false",
        ),
        (scripts("simple", &[]), "key \"workload.scripts\" must not be empty"),
        (
            with(job("SELECT 1;"), "variables", json!({"1x": "1"})),
            "key \"workload.variables\": invalid variable name: \"1x\"",
        ),
    ];
    for (job, expected) in cases {
        assert_eq!(compiled(job).expect_err(expected), expected);
    }
}

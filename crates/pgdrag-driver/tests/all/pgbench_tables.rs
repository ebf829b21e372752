//! Are pgbench's tables those that pgbench makes, and are broken ones noticed, on a real PostgreSQL?
//!
//! Without `PGDRAG_TEST_BIN`, or a pgbench in it, a test says so and passes.

use std::path::PathBuf;
use std::process::Command;

use crate::support::{Server, one_text as single, run};
use pgdrag_driver::script::{self, tables::Tables};
use pgdrag_driver::session::{Connection, Target};
use pgdrag_driver::workload::{LoadSummary, Progress};

/// Keys of the job, and values in place of pgbench's defaults.
type Changes<'a> = &'a [(&'a str, serde_json::Value)];

fn tables(changes: Changes<'_>) -> Tables {
    let mut keys = serde_json::json!({
        "steps": "dtgvp", "fillfactor": 100, "partitions": 0, "partition_method": "range",
        "tablespace": null, "index_tablespace": null, "unlogged": false, "foreign_keys": false,
    });
    for (key, value) in changes {
        keys[key] = value.clone();
    }
    serde_json::from_value(keys).expect("the keys of the contract")
}

async fn database(server: &Server, name: &str) -> Target {
    let mut conn = server.connect().await;
    conn.simple(&format!("DROP DATABASE IF EXISTS {name}")).await.expect("drops");
    conn.simple(&format!("CREATE DATABASE {name}")).await.expect("creates");
    Target::new(server.host(), server.port(), "postgres", name, None, "pgdrag test")
}

async fn load(tables: &Tables, target: &Target) -> LoadSummary {
    script::tables::load(tables, 1, target, &mut |_| {}).await.expect("tables are made")
}

/// What the catalog says of the tables, and a sum over the rows of each.
async fn facts(target: &Target) -> Vec<String> {
    let mut conn = Connection::connect(target).await.expect("connects");
    let catalog = [
        "SELECT string_agg(concat_ws(' ', relname, relkind, relpersistence, reloptions::text, spcname,
            pg_get_partkeydef(c.oid), pg_get_expr(relpartbound, c.oid)), E'\\n' ORDER BY relname)
            FROM pg_class c LEFT JOIN pg_tablespace t ON t.oid = reltablespace
            WHERE relnamespace = 'public'::regnamespace",
        "SELECT string_agg(concat_ws(' ', attrelid::regclass, attnum, attname,
            format_type(atttypid, atttypmod), attnotnull), E'\\n' ORDER BY attrelid::regclass::text, attnum)
            FROM pg_attribute WHERE attnum > 0
            AND attrelid IN (SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace)",
        "SELECT coalesce(string_agg(concat_ws(' ', conrelid::regclass, conname, pg_get_constraintdef(oid)), E'\\n'
            ORDER BY conrelid::regclass::text, conname), '')
            FROM pg_constraint WHERE connamespace = 'public'::regnamespace",
    ];
    let mut found = Vec::new();
    for sql in catalog {
        found.push(single(&mut conn, sql).await);
    }
    for table in ["branches", "tellers", "accounts", "history"] {
        let sql = format!(
            "SELECT concat(count(*), ' ', sum(hashtextextended(t::text, 0)::numeric)) FROM pgbench_{table} t"
        );
        found.push(single(&mut conn, &sql).await);
    }
    found
}

fn pgbench() -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os("PGDRAG_TEST_BIN")?).join("pgbench");
    path.exists().then_some(path)
}

#[test]
fn the_tables_are_those_of_pgbench_with_every_option() {
    run(async {
        let name = "the_tables_are_those_of_pgbench_…";
        let Some(server) = Server::start(name).await else { return };
        let Some(pgbench) = pgbench() else {
            eprintln!("skipped: {name} needs pgbench in PGDRAG_TEST_BIN");
            return;
        };
        let cases: [(&[&str], Changes<'_>); 5] = [
            (&[], &[]),
            (&["-I", "dtGp f"], &[("steps", "dtGp f".into())]),
            (
                &[
                    "--fillfactor=70",
                    "--foreign-keys",
                    "--tablespace=pg_default",
                    "--index-tablespace=pg_default",
                    "--unlogged-tables",
                ],
                &[
                    ("fillfactor", 70.into()),
                    ("foreign_keys", true.into()),
                    ("tablespace", "pg_default".into()),
                    ("index_tablespace", "pg_default".into()),
                    ("unlogged", true.into()),
                ],
            ),
            (
                &["--partitions=3", "--unlogged-tables"],
                &[("partitions", 3.into()), ("unlogged", true.into())],
            ),
            (
                &["--partitions=2", "--partition-method=hash", "-n", "-q"],
                &[
                    ("partitions", 2.into()),
                    ("partition_method", "hash".into()),
                    ("steps", "dtgp".into()),
                ],
            ),
        ];
        let version = Command::new(&pgbench).arg("--version").output().expect("pgbench runs");
        let is_18 = String::from_utf8_lossy(&version.stdout).contains(" 18.");
        for (options, changes) in cases {
            // Older ones make a partitioned table unlogged, which PostgreSQL 18 refuses.
            if !is_18 && options.contains(&"--unlogged-tables") && changes[0].0 == "partitions" {
                continue;
            }
            let (own, other) = (database(&server, "own").await, database(&server, "other").await);
            load(&tables(changes), &own).await;
            let made = Command::new(&pgbench)
                .args(["-i", "-s", "1", "-h", server.host(), "-p", &server.port().to_string()])
                .args(["-U", "postgres"])
                .args(options)
                .arg("other")
                .output()
                .expect("pgbench runs");
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            assert_eq!(facts(&own).await, facts(&other).await, "{options:?}");
        }
    });
}

#[test]
fn loading_counts_rows_bytes_and_progress_to_the_end() {
    run(async {
        let Some(server) = Server::start("loading_counts_rows_…").await else { return };
        let target = database(&server, "own").await;
        let mut last: Option<Progress> = None;
        let mut note = |progress: Progress| {
            if progress.phase == "populate" {
                last = Some(progress);
            }
        };
        let summary =
            script::tables::load(&tables(&[]), 1, &target, &mut note).await.expect("loads");
        assert_eq!(summary.rows, 100_011);
        assert!(summary.bytes > 2_000_000, "{summary:?}");
        let phases: Vec<_> = summary.phases.iter().map(|(name, _)| *name).collect();
        assert_eq!(phases, ["schema", "populate", "analyze", "index"]);
        assert!(last.is_some_and(|last| last.done == 100_011 && last.total == 100_011), "{last:?}");
    });
}

/// The conditions that do not hold.
async fn broken(target: &Target) -> Vec<String> {
    let mut conn = Connection::connect(target).await.expect("connects");
    let violations = script::tables::check(1, &mut conn).await.expect("check runs");
    violations.into_iter().map(|violation| violation.condition).collect()
}

#[test]
fn every_condition_notices_what_breaks_it_and_an_emptied_history_says_nothing() {
    run(async {
        let Some(server) = Server::start("every_condition_notices_…").await else { return };
        let target = database(&server, "own").await;
        load(&tables(&[]), &target).await;
        let mut conn = Connection::connect(&target).await.expect("connects");
        assert_eq!(broken(&target).await, Vec::<String>::new());
        let damage = [
            ("branches", "INSERT INTO pgbench_branches VALUES (2, 0)"),
            ("tellers", "UPDATE pgbench_tellers SET bid = 2 WHERE tid = 10"),
            ("accounts", "DELETE FROM pgbench_accounts WHERE aid = 77"),
            ("tellers_and_branches", "UPDATE pgbench_tellers SET tbalance = 1 WHERE tid = 3"),
            (
                "accounts_and_history",
                "INSERT INTO pgbench_history VALUES (1, 1, 5, 8, now()), (1, 1, 6, -8, now());
                 UPDATE pgbench_accounts SET abalance = 8 WHERE aid = 5",
            ),
        ];
        let names: Vec<_> = damage.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(script::tables::conditions(), names);
        for (number, (name, sql)) in damage.iter().enumerate() {
            conn.simple(sql).await.expect(sql);
            assert_eq!(broken(&target).await, names[..=number], "after {name}");
        }
        conn.simple("TRUNCATE pgbench_history").await.expect("empties");
        assert_eq!(broken(&target).await, names[..4]);
    });
}

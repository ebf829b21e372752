//! Does TPC-C load, run and check as it should, on a real PostgreSQL?
//!
//! The tests share a server and a dataset, which each copies; without `PGDRAG_TEST_BIN` they pass.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::support::{Server, one_number as number, one_text as single, run, timers};
use pgdrag_driver::error::Error;
use pgdrag_driver::job::TpccJob;
use pgdrag_driver::session::{Connection, Target};
use pgdrag_driver::tpcc::Tpcc;
use pgdrag_driver::workload::{Dataset, Ended, LoadSummary, Progress, Terminal, Workload};

const SEED: u64 = 20_260_101;

const MODES: [&str; 4] = ["simple", "extended", "prepared", "pipelined"];

fn tpcc(isolation: &str) -> Tpcc {
    tpcc_in_mode(isolation, "prepared", [45, 43, 4, 4, 4])
}

fn tpcc_in_mode(isolation: &str, statements: &str, mix: [u32; 5]) -> Tpcc {
    let [new_order, payment, order_status, delivery, stock_level] = mix;
    let job: TpccJob = serde_json::from_value(serde_json::json!({
        "warehouses": 1, "isolation": isolation, "max_tries": 3, "statements": statements,
        "terminals": "benchbase", "wait_scale": 0.0,
        "mix": {"new_order": new_order, "payment": payment, "order_status": order_status,
                "delivery": delivery, "stock_level": stock_level},
    }))
    .expect("a sound job");
    Tpcc::new(&job, SEED).expect("a sound job")
}

async fn load(tpcc: &Tpcc, target: &Target, parallelism: usize) -> LoadSummary {
    tpcc.load(target, parallelism, &mut |_| {}).await.expect("dataset loads")
}

/// The names of the conditions that do not hold.
async fn broken(tpcc: &Tpcc, conn: &mut Connection) -> Vec<String> {
    let violations = tpcc.check(conn).await.expect("check runs");
    violations.into_iter().map(|violation| violation.condition).collect()
}

/// A sum over each table that any changed, missing or additional row changes.
async fn checksums(conn: &mut Connection) -> BTreeMap<&'static str, String> {
    sums_over(conn, |_| "t::text").await
}

/// The same, whatever the time was when a transaction ran.
async fn timeless_checksums(conn: &mut Connection) -> BTreeMap<&'static str, String> {
    let timeless = |table: &str| match table {
        "history" => "replace(t::text, h_date::text, 'then')",
        "oorder" => "replace(t::text, o_entry_d::text, 'then')",
        "order_line" => "replace(t::text, coalesce(ol_delivery_d::text, ''), 'then')",
        _ => "t::text",
    };
    sums_over(conn, timeless).await
}

async fn sums_over(
    conn: &mut Connection,
    row: impl Fn(&str) -> &'static str,
) -> BTreeMap<&'static str, String> {
    let tables = [
        "warehouse",
        "district",
        "customer",
        "history",
        "item",
        "stock",
        "oorder",
        "new_order",
        "order_line",
    ];
    let mut sums = BTreeMap::new();
    for table in tables {
        let row = row(table);
        let sql = format!("SELECT sum(hashtextextended({row}, 0)::numeric) FROM {table} t");
        sums.insert(table, single(conn, &sql).await);
    }
    sums
}

/// A server with a dataset in a database that tests copy, since loading takes longer than most of them.
struct Loaded {
    server: Server,
    summary: LoadSummary,
    /// All that was told while it was loaded.
    told: Vec<Progress>,
}

impl Loaded {
    /// The same for all tests; none without `PGDRAG_TEST_BIN`.
    fn get() -> Option<&'static Self> {
        static LOADED: OnceLock<Option<Loaded>> = OnceLock::new();
        let load = || {
            let mut loaded = None;
            run(async { loaded = Self::load().await });
            loaded
        };
        // On a thread of its own, since the test that comes first has a runtime already.
        LOADED.get_or_init(|| std::thread::spawn(load).join().expect("dataset loads")).as_ref()
    }

    async fn load() -> Option<Self> {
        let server = Server::start("a dataset of TPC-C").await?;
        server.connect().await.simple("CREATE DATABASE loaded").await.expect("creates");
        let mut told = Vec::new();
        let target = Self::database(&server, "loaded");
        let mut note = |progress| told.push(progress);
        let summary = tpcc("read committed").load(&target, 2, &mut note).await.expect("loads");
        Some(Self { server, summary, told })
    }

    fn database(server: &Server, name: &str) -> Target {
        Target::new(server.host(), server.port(), "postgres", name, None, "pgdrag test")
    }

    /// Lets a test have a copy of the dataset for itself, in a database of this name.
    async fn copied(&self, name: &str, test: impl AsyncFnOnce(Target)) {
        let mut copier = self.server.connect().await;
        let version = number(&mut copier, "SHOW server_version_num").await;
        // Without writing all of it to the WAL, which is in memory like the rest.
        let how = if version >= 150_000 { " STRATEGY file_copy" } else { "" };
        let copy = format!("CREATE DATABASE {name} TEMPLATE loaded{how}");
        copier.simple(&copy).await.expect("nobody uses the template");
        test(Self::database(&self.server, name)).await;
        let drop = format!("DROP DATABASE {name} WITH (FORCE)");
        copier.simple(&drop).await.expect("drops");
    }
}

#[test]
fn the_dataset_is_the_same_whatever_the_parallelism_and_is_consistent() {
    let Some(loaded) = Loaded::get() else { return };
    run(loaded.copied("parallel", async |target| {
        let tpcc = tpcc("read committed");
        let mut conn = Connection::connect(&target).await.expect("connects");
        let first = checksums(&mut conn).await;
        assert_eq!(broken(&tpcc, &mut conn).await, Vec::<String>::new());
        let lines = number(&mut conn, "SELECT count(*) FROM order_line").await;
        // 1 + 10 + 30,000 · 3 + 9,000 + 100,000 · 2: everything but the order lines.
        assert_eq!(loaded.summary.rows, 299_011 + lines);

        for parallelism in [1, 3] {
            load(&tpcc, &target, parallelism).await;
            assert_eq!(checksums(&mut conn).await, first, "{parallelism} connections");
        }
    }));
}

#[test]
fn loading_reports_every_phase_up_to_its_end() {
    let Some(loaded) = Loaded::get() else { return };
    let mut last: BTreeMap<&str, Progress> = BTreeMap::new();
    for progress in loaded.told.iter().copied() {
        let before = last.insert(progress.phase, progress).map_or(0, |before| before.done);
        assert!(progress.done >= before, "{progress:?} after {before}");
    }
    let names: Vec<_> = loaded.summary.phases.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["schema", "populate", "index", "foreign_keys", "analyze"]);
    assert!(names.iter().all(|name| last[name].done == last[name].total), "{last:?}");
    assert_eq!(last["populate"].total, loaded.summary.rows);
}

#[test]
fn the_schema_has_the_keys_of_benchbase() {
    let Some(loaded) = Loaded::get() else { return };
    run(loaded.copied("keys", async |target| {
        let mut conn = Connection::connect(&target).await.expect("connects");
        for (kind, count) in [("p", 8), ("u", 1), ("f", 10)] {
            let sql = format!(
                "SELECT count(*) FROM pg_constraint WHERE contype = '{kind}' AND conrelid > 16383"
            );
            assert_eq!(number(&mut conn, &sql).await, count, "constraints of type {kind}");
        }
        let cascades = "SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND confdeltype = 'c' AND convalidated";
        assert_eq!(number(&mut conn, cascades).await, 10);
        let frozen = "SELECT count(*) FROM pg_class WHERE relkind = 'r' AND oid > 16383 AND relallvisible = relpages";
        assert_eq!(number(&mut conn, frozen).await, 9, "tables whose pages are all visible");
    }));
}

/// Runs `count` transactions over four terminals at once, which change their connections half way;
/// counts commits by type.
async fn drive(tpcc: &Tpcc, target: &Target, count: usize) -> BTreeMap<&'static str, u64> {
    let mut committed = BTreeMap::new();
    let clients = (0..4).map(|client| client_commits(tpcc, target, client, count / 4));
    let [a, b, c, d] = clients.collect::<Vec<_>>().try_into().ok().expect("four clients");
    let (a, b, c, d) = tokio::join!(a, b, c, d);
    for (name, commits) in [a, b, c, d].into_iter().flatten() {
        *committed.entry(name).or_insert(0) += commits;
    }
    committed
}

async fn client_commits(
    tpcc: &Tpcc,
    target: &Target,
    client: u32,
    count: usize,
) -> BTreeMap<&'static str, u64> {
    let mut conn = Connection::connect(target).await.expect("connects");
    let mut terminal = tpcc.terminal(client, 4, &mut conn).await.expect("terminal opens");
    let mut committed = BTreeMap::new();
    for number in 0..count {
        if number == count / 2 {
            conn = Connection::connect(target).await.expect("connects again");
            terminal.reconnect(&mut conn).await.expect("terminal goes on");
        }
        let name = Tpcc::TRANSACTIONS[terminal.draw()];
        loop {
            match terminal.attempt(&mut conn, &timers()).await {
                Ok(Ended::Committed) => *committed.entry(name).or_insert(0) += 1,
                Ok(Ended::RolledBack) => {}
                Err(error) if error.is_retriable() => {
                    conn.rollback().await.expect("rolls back");
                    continue;
                }
                Err(error) => panic!("{name} failed: {error}"),
            }
            break;
        }
    }
    committed
}

#[test]
fn a_thousand_transactions_leave_the_dataset_consistent_and_every_commit_in_it() {
    let Some(loaded) = Loaded::get() else { return };
    run(loaded.copied("driven", async |target| {
        let mut conn = Connection::connect(&target).await.expect("connects");
        let (mut orders, mut payments) = (30_000, 30_000);
        let cases = MODES.map(|mode| (mode, "read committed"));
        for (mode, isolation) in cases.into_iter().chain([("pipelined", "serializable")]) {
            let case = format!("{mode}, {isolation}");
            let tpcc = tpcc_in_mode(isolation, mode, [1; 5]);
            let committed = Box::pin(drive(&tpcc, &target, 600)).await;
            assert_eq!(broken(&tpcc, &mut conn).await, Vec::<String>::new(), "{case}");
            orders += committed["new_order"];
            let found = number(&mut conn, "SELECT count(*) FROM oorder").await;
            assert_eq!(found, orders, "{case}");
            payments += committed["payment"];
            let found = number(&mut conn, "SELECT count(*) FROM history").await;
            assert_eq!(found, payments, "{case}");
            // Of 120 some Deliveries find that another was faster, some New-Orders an unused item.
            let is_enough = |name: &&str| committed.get(name).is_some_and(|count| *count > 50);
            assert!(Tpcc::TRANSACTIONS.iter().all(is_enough), "{case}: {committed:?}");
        }
        let notes = "SELECT count(*) FROM customer WHERE c_data LIKE '% | %' AND c_credit = 'BC'";
        assert!(number(&mut conn, notes).await > 0, "a customer with bad credit has a note");
    }));
}

/// Runs transactions of one terminal, and says how each ended.
async fn ends(tpcc: &Tpcc, target: &Target, count: usize) -> Vec<(usize, Ended)> {
    let mut conn = Connection::connect(target).await.expect("connects");
    let mut terminal = tpcc.terminal(0, 1, &mut conn).await.expect("terminal opens");
    let mut ends = Vec::new();
    for _ in 0..count {
        let transaction = terminal.draw();
        ends.push((
            transaction,
            terminal.attempt(&mut conn, &timers()).await.expect("no other session is there"),
        ));
        assert!(!conn.is_in_transaction());
    }
    ends
}

#[test]
fn the_same_transactions_leave_the_same_rows_whatever_the_mode() {
    let Some(loaded) = Loaded::get() else { return };
    run(async {
        let mut first = None;
        for mode in MODES {
            let same = async |target: Target| {
                let tpcc = tpcc_in_mode("read committed", mode, [45, 43, 4, 4, 4]);
                let ends = Box::pin(ends(&tpcc, &target, 500)).await;
                let by_design = ends.iter().filter(|end| **end == (0, Ended::RolledBack)).count();
                assert!(by_design > 0, "{mode}: the unused item was not drawn or not noticed");
                let mut conn = Connection::connect(&target).await.expect("connects");
                assert_eq!(broken(&tpcc, &mut conn).await, Vec::<String>::new(), "{mode}");
                let rows = timeless_checksums(&mut conn).await;
                let (first_ends, first_rows) =
                    first.get_or_insert_with(|| (ends.clone(), rows.clone()));
                assert_eq!((&ends, &rows), (&*first_ends, &*first_rows), "{mode}");
            };
            loaded.copied(&format!("in_mode_{mode}"), same).await;
        }
    });
}

#[test]
fn the_isolation_level_holds_in_every_mode() {
    let Some(loaded) = Loaded::get() else { return };
    run(loaded.copied("isolated", async |target| {
        for (mode, isolation) in
            MODES.iter().zip(["serializable", "repeatable read", "read committed", "serializable"])
        {
            let mut conn = Connection::connect(&target).await.expect("connects");
            let tpcc = tpcc_in_mode(isolation, mode, [1; 5]);
            let _terminal = tpcc.terminal(0, 1, &mut conn).await.expect("terminal opens");
            conn.begin();
            assert_eq!(single(&mut conn, "SHOW transaction_isolation").await, isolation, "{mode}");
        }
    }));
}

/// A way to break each condition without its neighbour's rows, and the way back.
const DAMAGE: [(&str, &str, &str); 12] = [
    (
        "3.3.2.1",
        "UPDATE warehouse SET w_ytd = w_ytd + 0.01",
        "UPDATE warehouse SET w_ytd = w_ytd - 0.01",
    ),
    (
        "3.3.2.2",
        "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 3",
        "UPDATE district SET d_next_o_id = d_next_o_id - 1 WHERE d_id = 3",
    ),
    (
        "3.3.2.3",
        "DELETE FROM new_order WHERE no_d_id = 3 AND no_o_id = 2500",
        "INSERT INTO new_order VALUES (1, 3, 2500)",
    ),
    (
        "3.3.2.4",
        "UPDATE oorder SET o_ol_cnt = o_ol_cnt + 1 WHERE o_d_id = 3 AND o_id = 7",
        "UPDATE oorder SET o_ol_cnt = o_ol_cnt - 1 WHERE o_d_id = 3 AND o_id = 7",
    ),
    (
        "3.3.2.5",
        "UPDATE oorder SET o_carrier_id = 1 WHERE o_d_id = 3 AND o_id = 2500",
        "UPDATE oorder SET o_carrier_id = NULL WHERE o_d_id = 3 AND o_id = 2500",
    ),
    (
        "3.3.2.6",
        "UPDATE oorder SET o_ol_cnt = 25 - o_ol_cnt - o_id WHERE o_d_id = 3 AND o_id IN (8, 9)",
        "UPDATE oorder SET o_ol_cnt = 25 - o_ol_cnt - o_id WHERE o_d_id = 3 AND o_id IN (8, 9)",
    ),
    (
        "3.3.2.7",
        "UPDATE order_line SET ol_delivery_d = now() WHERE ol_d_id = 3 AND ol_o_id = 2500 AND ol_number = 1",
        "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_d_id = 3 AND ol_o_id = 2500",
    ),
    (
        "3.3.2.8",
        "UPDATE history SET h_amount = h_amount + 1 WHERE h_c_id = 5 AND h_c_d_id = 3",
        "UPDATE history SET h_amount = h_amount - 1 WHERE h_c_id = 5 AND h_c_d_id = 3",
    ),
    (
        "3.3.2.9",
        "UPDATE history SET h_d_id = 4 WHERE h_c_id = 5 AND h_c_d_id = 3",
        "UPDATE history SET h_d_id = 3 WHERE h_c_id = 5 AND h_c_d_id = 3",
    ),
    (
        "3.3.2.10",
        "UPDATE customer SET c_balance = c_balance + 1, c_ytd_payment = c_ytd_payment - 1 WHERE c_id = 5 AND c_d_id = 3",
        "UPDATE customer SET c_balance = c_balance - 1, c_ytd_payment = c_ytd_payment + 1 WHERE c_id = 5 AND c_d_id = 3",
    ),
    (
        "3.3.2.11",
        "UPDATE customer SET c_delivery_cnt = c_delivery_cnt + 1 WHERE c_id = 5 AND c_d_id = 3",
        "UPDATE customer SET c_delivery_cnt = c_delivery_cnt - 1 WHERE c_id = 5 AND c_d_id = 3",
    ),
    (
        "3.3.2.12",
        "UPDATE customer SET c_ytd_payment = c_ytd_payment + 0.01 WHERE c_id = 5 AND c_d_id = 3",
        "UPDATE customer SET c_ytd_payment = c_ytd_payment - 0.01 WHERE c_id = 5 AND c_d_id = 3",
    ),
];

#[test]
fn every_condition_notices_what_breaks_it() {
    let Some(loaded) = Loaded::get() else { return };
    run(loaded.copied("damaged", async |target| {
        let tpcc = tpcc("read committed");
        let mut conn = Connection::connect(&target).await.expect("connects");
        let names: Vec<_> = DAMAGE.iter().map(|(name, _, _)| (*name).to_owned()).collect();
        assert_eq!(tpcc.conditions(), names);
        for (name, damage, mend) in DAMAGE {
            conn.simple(damage).await.expect(damage);
            let broken = broken(&tpcc, &mut conn).await;
            assert!(broken.contains(&name.to_owned()), "{name} is broken, {broken:?} was noticed");
            conn.simple(mend).await.expect(mend);
        }
        assert_eq!(broken(&tpcc, &mut conn).await, Vec::<String>::new());
    }));
}

#[test]
fn a_dataset_of_another_scale_is_refused() {
    run(async {
        let Some(server) = Server::start("a_dataset_of_another_scale_is_refused").await else {
            return;
        };
        let target = server.target();
        let mut conn = Connection::connect(&target).await.expect("connects");
        conn.simple("CREATE TABLE warehouse (w_id int); INSERT INTO warehouse VALUES (1), (2)")
            .await
            .expect("table is made");
        let refused = tpcc("read committed").expect_dataset(&mut conn).await.err();
        let Some(Error::Workload(message)) = refused else { panic!("accepted, or {refused:?}") };
        assert_eq!(message, "dataset has 2 warehouses, and the job asks for 1");
    });
}

#[test]
fn a_customer_that_is_missing_is_an_error_that_names_it_and_nothing_is_committed() {
    let Some(loaded) = Loaded::get() else { return };
    run(loaded.copied("without_customers", async |target| {
        let mut conn = Connection::connect(&target).await.expect("connects");
        conn.simple("TRUNCATE customer CASCADE").await.expect("empties");
        for mode in MODES {
            let tpcc = tpcc_in_mode("read committed", mode, [0, 1, 0, 0, 0]);
            let mut terminal = tpcc.terminal(0, 1, &mut conn).await.expect("terminal opens");
            terminal.draw();
            let Err(Error::Workload(message)) = terminal.attempt(&mut conn, &timers()).await else {
                panic!("a payment of nobody")
            };
            let is_named = message.starts_with("customer ") && message.ends_with("does not exist");
            assert!(is_named, "{mode}: {message}");
            conn.rollback().await.expect("rolls back");
        }
        let paid = "SELECT count(*) FROM warehouse WHERE w_ytd <> 300000";
        assert_eq!(number(&mut conn, paid).await, 0, "nothing of a payment is left");
    }));
}

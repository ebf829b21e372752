//! With which statements are pgbench's tables made?

use super::{ACCOUNTS, PartitionMethod, Step, TELLERS, Tables, WIDE_SCALE};

pub const TRUNCATE: &str =
    "TRUNCATE TABLE pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers";

/// The statements of one step, each sent on its own.
pub fn of(tables: &Tables, scale: u32, step: Step) -> Vec<String> {
    match step {
        Step::Drop => vec![
            "DROP TABLE IF EXISTS pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers"
                .to_owned(),
        ],
        Step::Create => create(tables, scale),
        Step::Generate => Vec::new(),
        Step::GenerateOnServer => generate(scale),
        Step::Vacuum => ["branches", "tellers", "accounts", "history"]
            .map(|table| format!("VACUUM ANALYZE pgbench_{table}"))
            .to_vec(),
        Step::PrimaryKeys => primary_keys(tables),
        Step::ForeignKeys => foreign_keys(),
    }
}

fn create(tables: &Tables, scale: u32) -> Vec<String> {
    let account = if scale >= WIDE_SCALE { "bigint" } else { "int" };
    let fill = format!(" WITH (fillfactor={})", tables.fillfactor);
    let accounts = match (tables.partitions, tables.partition_method) {
        (0, _) => fill.clone(),
        (_, PartitionMethod::Range) => " PARTITION BY range (aid)".to_owned(),
        (_, PartitionMethod::Hash) => " PARTITION BY hash (aid)".to_owned(),
    };
    let history =
        format!("tid int, bid int, aid {account}, delta int, mtime timestamp, filler char(22)");
    let columns = format!("aid {account} NOT NULL, bid int, abalance int, filler char(84)");
    // As pgbench 18 does: a partitioned table cannot be unlogged, and then only its partitions are.
    let unlogged = if tables.partitions == 0 { unlogged(tables) } else { "" };
    let place = place(tables.tablespace.as_deref());
    let mut statements: Vec<_> = [
        ("history", history.as_str(), ""),
        ("tellers", "tid int NOT NULL, bid int, tbalance int, filler char(84)", fill.as_str()),
        ("accounts", columns.as_str(), accounts.as_str()),
        ("branches", "bid int NOT NULL, bbalance int, filler char(88)", fill.as_str()),
    ]
    .map(|(name, columns, options)| {
        format!("CREATE{unlogged} TABLE pgbench_{name} ({columns}){options}{place}")
    })
    .to_vec();
    statements.extend((1..=tables.partitions).map(|number| partition(tables, scale, number)));
    statements
}

fn partition(tables: &Tables, scale: u32, number: u32) -> String {
    let parts = u64::from(tables.partitions);
    let bounds = match tables.partition_method {
        PartitionMethod::Range => {
            let size = (u64::from(ACCOUNTS) * u64::from(scale)).div_ceil(parts);
            let low = match number {
                1 => "minvalue".to_owned(),
                _ => (u64::from(number - 1) * size + 1).to_string(),
            };
            let high = if number == tables.partitions {
                "maxvalue".to_owned()
            } else {
                (u64::from(number) * size + 1).to_string()
            };
            format!("FROM ({low}) TO ({high})")
        }
        PartitionMethod::Hash => format!("WITH (modulus {parts}, remainder {})", number - 1),
    };
    format!(
        "CREATE{} TABLE pgbench_accounts_{number} PARTITION OF pgbench_accounts \
         FOR VALUES {bounds} WITH (fillfactor={})",
        unlogged(tables),
        tables.fillfactor
    )
}

fn unlogged(tables: &Tables) -> &'static str {
    if tables.unlogged { " UNLOGGED" } else { "" }
}

fn place(tablespace: Option<&str>) -> String {
    tablespace.map_or_else(String::new, |name| format!(" TABLESPACE {}", quoted(name)))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn generate(scale: u32) -> Vec<String> {
    let (tellers, accounts) =
        (u64::from(scale) * u64::from(TELLERS), u64::from(scale) * u64::from(ACCOUNTS));
    [
        "BEGIN".to_owned(),
        TRUNCATE.to_owned(),
        format!(
            "INSERT INTO pgbench_branches (bid, bbalance) \
             SELECT bid, 0 FROM generate_series(1, {scale}) AS bid"
        ),
        format!(
            "INSERT INTO pgbench_tellers (tid, bid, tbalance) \
             SELECT tid, (tid - 1) / {TELLERS} + 1, 0 FROM generate_series(1, {tellers}) AS tid"
        ),
        format!(
            "INSERT INTO pgbench_accounts (aid, bid, abalance, filler) \
             SELECT aid, (aid - 1) / {ACCOUNTS} + 1, 0, '' FROM generate_series(1, {accounts}) AS aid"
        ),
        "COMMIT".to_owned(),
    ]
    .to_vec()
}

fn primary_keys(tables: &Tables) -> Vec<String> {
    let place = tables
        .index_tablespace
        .as_deref()
        .map_or_else(String::new, |name| format!(" USING INDEX TABLESPACE {}", quoted(name)));
    [("branches", "bid"), ("tellers", "tid"), ("accounts", "aid")]
        .map(|(table, key)| format!("ALTER TABLE pgbench_{table} ADD PRIMARY KEY ({key}){place}"))
        .to_vec()
}

fn foreign_keys() -> Vec<String> {
    [
        ("tellers", "bid", "branches"),
        ("accounts", "bid", "branches"),
        ("history", "bid", "branches"),
        ("history", "tid", "tellers"),
        ("history", "aid", "accounts"),
    ]
    .map(|(table, key, other)| {
        format!(
            "ALTER TABLE pgbench_{table} ADD CONSTRAINT pgbench_{table}_{key}_fkey \
             FOREIGN KEY ({key}) REFERENCES pgbench_{other}"
        )
    })
    .to_vec()
}

//! Are pgbench's tables still consistent, whichever of its built-in scripts ran?
//!
//! Every script that changes an account's balance by a delta writes that delta to the history in the same
//! transaction, and every script that changes a teller's balance changes a branch's by the same delta. Scripts
//! of one's own may do what they like: these conditions are for the built-in ones and what keeps their rules.

use super::{ACCOUNTS, TELLERS};
use crate::error::Error;
use crate::session::Connection;
use crate::session::looking;
use crate::workload::Violation;

const NAMES: [&str; 5] =
    ["branches", "tellers", "accounts", "tellers_and_branches", "accounts_and_history"];

/// The names of the conditions that [`check`] looks at.
#[must_use]
pub fn conditions() -> Vec<String> {
    NAMES.map(str::to_owned).to_vec()
}

/// Returns the conditions that do not hold at this scale, in one read-only snapshot.
pub async fn check(scale: u32, conn: &mut Connection) -> Result<Vec<Violation>, Error> {
    looking::begin(conn).await?;
    let mut violations = Vec::new();
    for (condition, (message, sql)) in NAMES.iter().zip(statements(scale)) {
        let count = looking::count(conn, condition, &sql).await?;
        if count > 0 {
            let condition = (*condition).to_owned();
            violations.push(Violation { condition, message: message.to_owned(), count });
        }
    }
    conn.simple("COMMIT").await?;
    Ok(violations)
}

fn statements(scale: u32) -> [(&'static str, String); 5] {
    let scale = u64::from(scale);
    [
        (
            "the rows of pgbench_branches are not those of the scale",
            numbered("pgbench_branches", "bid", scale, "false"),
        ),
        (
            "the rows of pgbench_tellers are not those of the scale",
            numbered(
                "pgbench_tellers",
                "tid",
                scale * u64::from(TELLERS),
                &format!("bid IS DISTINCT FROM (tid - 1) / {TELLERS} + 1"),
            ),
        ),
        (
            "the rows of pgbench_accounts are not those of the scale",
            numbered(
                "pgbench_accounts",
                "aid",
                scale * u64::from(ACCOUNTS),
                &format!("bid IS DISTINCT FROM (aid - 1) / {ACCOUNTS} + 1"),
            ),
        ),
        (
            "the sum of the tellers' balances is not that of the branches'",
            "SELECT count(*) FROM (SELECT sum(tbalance) AS balance FROM pgbench_tellers) AS t,
                (SELECT sum(bbalance) AS balance FROM pgbench_branches) AS b
                WHERE t.balance IS DISTINCT FROM b.balance"
                .to_owned(),
        ),
        (
            "the balance of an account is not the sum of its deltas in the history",
            // pgbench itself empties the history when it starts, after which nothing can be said. The tables
            // were emptied together, in the order accounts, branches, history, tellers, when they were filled, and
            // got their files in this order: a history that was emptied since has a later one than the tellers.
            "SELECT count(*) FROM pgbench_accounts
                LEFT JOIN (SELECT aid, sum(delta) AS paid FROM pgbench_history GROUP BY aid) AS h USING (aid)
                WHERE abalance <> coalesce(h.paid, 0)
                    AND pg_relation_filenode('pgbench_history') < pg_relation_filenode('pgbench_tellers')"
                .to_owned(),
        ),
    ]
}

/// Counts what is wrong with a table that must have the keys 1 to `rows`, without sorting it.
fn numbered(table: &str, key: &str, rows: u64, is_wrong: &str) -> String {
    format!(
        "SELECT abs(count(*) - {rows}) + count(*) FILTER (WHERE {key} NOT BETWEEN 1 AND {rows} OR {is_wrong})
            + CASE WHEN coalesce(sum({key}::numeric), 0) = {rows}::numeric * ({rows} + 1) / 2 THEN 0 ELSE 1 END
            FROM {table}"
    )
}

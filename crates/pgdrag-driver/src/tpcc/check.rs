//! Is the dataset still consistent, as TPC-C 3.3.2 demands?
//!
//! Each condition is one statement that counts the places where it does not hold. All twelve
//! hold for the freshly loaded dataset and after any number of whole transactions, so any count above zero
//! is a defect: of the driver, or of a server that lost or tore a transaction.

use super::mark;
use crate::connection::Connection;
use crate::error::Error;
use crate::workload::Violation;

/// One consistency condition of the specification.
#[derive(Debug)]
pub struct Condition {
    /// Its clause.
    pub name: &'static str,
    /// What is wrong where it does not hold.
    pub broken: &'static str,
    /// Counts those places.
    pub sql: &'static str,
}

/// Sent first, on its own: a time limit of the server's would hold for what comes with it.
const NO_TIME_LIMIT: &str = "SET statement_timeout = 0";

/// Sent before the conditions.
///
/// The server may have been set up to be slow. What the trial did to the planner and to memory is
/// undone for this session, else the check of a slow trial could take hours: whatever any session may set,
/// and the server's own files, command line or catalog have set. What a client must agree with the
/// server about, and what names objects, stays. Every condition looks at whole tables, so the plan wanted is
/// always the same: read them in order and hash, without indexes, which may be bloated, and which would
/// hide a row that they have lost.
const PREPARE: &str = "\
    SELECT set_config(name, boot_val, false) FROM pg_settings
        WHERE context = 'user' AND boot_val IS NOT NULL AND setting <> boot_val
            AND source IN ('environment variable', 'configuration file', 'command line', 'global',
                'database', 'user', 'database user')
            AND name NOT IN ('search_path', 'role', 'client_encoding', 'DateStyle', 'IntervalStyle', 'TimeZone',
                'timezone_abbreviations', 'default_text_search_config', 'temp_tablespaces',
                'default_tablespace')
            AND name NOT LIKE 'lc\\_%' AND name NOT LIKE '%.%';
    SET enable_nestloop = off; SET enable_indexscan = off; SET enable_indexonlyscan = off;
    SET enable_bitmapscan = off; SET jit = off; SET work_mem = '128MB';
    SET lock_timeout = 0; SET idle_in_transaction_session_timeout = 0";

/// Returns the conditions that do not hold, in one read-only snapshot.
pub async fn check(conn: &mut Connection) -> Result<Vec<Violation>, Error> {
    conn.simple(NO_TIME_LIMIT).await?;
    mark::expect_whole(conn).await?;
    conn.simple(PREPARE).await?;
    conn.simple("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let mut violations = Vec::new();
    for condition in &CONDITIONS {
        let count = condition.violations(conn).await?;
        if count > 0 {
            violations.push(Violation {
                condition: condition.name.to_owned(),
                message: condition.broken.to_owned(),
                count,
            });
        }
    }
    conn.simple("COMMIT").await?;
    Ok(violations)
}

impl Condition {
    async fn violations(&self, conn: &mut Connection) -> Result<u64, Error> {
        let rows = conn.simple_rows(self.sql).await?;
        let count = rows.first().and_then(|row| row.first()?.as_deref()?.parse().ok());
        count.ok_or_else(|| {
            Error::Protocol(format!("condition {} answered {rows:?}, not a count", self.name))
        })
    }
}

/// TPC-C 3.3.2.1 to 3.3.2.12.
pub const CONDITIONS: [Condition; 12] = [
    Condition {
        name: "3.3.2.1",
        broken: "w_ytd of a warehouse is not the sum of d_ytd of its districts",
        sql: "SELECT count(*) FROM warehouse
            LEFT JOIN (SELECT d_w_id, sum(d_ytd) AS ytd FROM district GROUP BY d_w_id) AS d ON d_w_id = w_id
            WHERE w_ytd IS DISTINCT FROM d.ytd",
    },
    Condition {
        name: "3.3.2.2",
        broken: "d_next_o_id - 1 of a district is not its highest o_id or not its highest no_o_id",
        // A district without open orders has no highest no_o_id, and the specification exempts it.
        sql: "SELECT count(*) FROM district
            LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS newest FROM oorder GROUP BY 1, 2) AS o
                ON o_w_id = d_w_id AND o_d_id = d_id
            LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS newest FROM new_order GROUP BY 1, 2) AS n
                ON no_w_id = d_w_id AND no_d_id = d_id
            WHERE d_next_o_id - 1 IS DISTINCT FROM o.newest OR d_next_o_id - 1 <> n.newest",
    },
    Condition {
        name: "3.3.2.3",
        broken: "the no_o_id of a district have gaps",
        sql: "SELECT count(*) FROM (SELECT FROM new_order GROUP BY no_w_id, no_d_id
            HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)) AS gap",
    },
    Condition {
        name: "3.3.2.4",
        broken: "the sum of o_ol_cnt of a district is not the number of its order lines",
        sql: "SELECT count(*)
            FROM (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS lines FROM oorder GROUP BY 1, 2) AS o
            FULL JOIN (SELECT ol_w_id, ol_d_id, count(*) AS lines FROM order_line GROUP BY 1, 2) AS l
                ON ol_w_id = o_w_id AND ol_d_id = o_d_id
            WHERE o.lines IS DISTINCT FROM l.lines",
    },
    Condition {
        name: "3.3.2.5",
        broken: "an order has a carrier and is in new_order, or has none and is not",
        sql: "SELECT count(*) FROM oorder
            FULL JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
            WHERE o_id IS NULL OR (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
    },
    Condition {
        name: "3.3.2.6",
        broken: "o_ol_cnt of an order is not the number of its lines",
        sql: "SELECT count(*) FROM oorder
            FULL JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS lines FROM order_line GROUP BY 1, 2, 3) AS l
                ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
            WHERE o_ol_cnt IS DISTINCT FROM l.lines",
    },
    Condition {
        name: "3.3.2.7",
        broken: "an order line has a delivery date and its order no carrier, or the reverse",
        sql: "SELECT count(*) FROM order_line
            JOIN oorder ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
            WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    },
    Condition {
        name: "3.3.2.8",
        broken: "w_ytd of a warehouse is not the sum of its h_amount",
        sql: "SELECT count(*) FROM warehouse
            LEFT JOIN (SELECT h_w_id, sum(h_amount) AS paid FROM history GROUP BY 1) AS h ON h_w_id = w_id
            WHERE w_ytd IS DISTINCT FROM h.paid",
    },
    Condition {
        name: "3.3.2.9",
        broken: "d_ytd of a district is not the sum of its h_amount",
        sql: "SELECT count(*) FROM district
            LEFT JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history GROUP BY 1, 2) AS h
                ON h_w_id = d_w_id AND h_d_id = d_id
            WHERE d_ytd IS DISTINCT FROM h.paid",
    },
    Condition {
        name: "3.3.2.10",
        broken: "c_balance of a customer is not the delivered ol_amount less the paid h_amount",
        sql: "SELECT count(*) FROM customer
            LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(l.amount) AS delivered FROM oorder
                JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, sum(ol_amount) AS amount FROM order_line
                    WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3) AS l
                    ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
                GROUP BY 1, 2, 3) AS o ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
            LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM history GROUP BY 1, 2, 3) AS h
                ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
            WHERE c_balance <> coalesce(o.delivered, 0) - coalesce(h.paid, 0)",
    },
    Condition {
        name: "3.3.2.11",
        broken: "orders less open orders of a district are not 2,100 and what was delivered since",
        // The clause as printed (orders less open orders = 2,100) describes the initial dataset only:
        // each delivery closes one order, and counts it in c_delivery_cnt.
        sql: "SELECT count(*) FROM (SELECT c_w_id, c_d_id, sum(c_delivery_cnt) AS delivered FROM customer GROUP BY 1, 2) AS c
            LEFT JOIN (SELECT o_w_id, o_d_id, count(*) AS orders FROM oorder GROUP BY 1, 2) AS o
                ON o_w_id = c_w_id AND o_d_id = c_d_id
            LEFT JOIN (SELECT no_w_id, no_d_id, count(*) AS orders FROM new_order GROUP BY 1, 2) AS n
                ON no_w_id = c_w_id AND no_d_id = c_d_id
            WHERE coalesce(o.orders, 0) - coalesce(n.orders, 0) <> 2100 + c.delivered",
    },
    Condition {
        name: "3.3.2.12",
        broken: "c_balance + c_ytd_payment of a customer is not the delivered ol_amount",
        // c_ytd_payment is a float in this schema: rounded to cents, which it holds exactly enough.
        sql: "SELECT count(*) FROM customer
            LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(l.amount) AS delivered FROM oorder
                JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, sum(ol_amount) AS amount FROM order_line
                    WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3) AS l
                    ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
                GROUP BY 1, 2, 3) AS o ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
            WHERE c_balance + round(c_ytd_payment::numeric, 2) <> coalesce(o.delivered, 0)",
    },
];

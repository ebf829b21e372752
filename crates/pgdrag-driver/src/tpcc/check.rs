//! Is the dataset still consistent, as TPC-C 3.3.2 demands?
//!
//! Each condition counts the places where it does not hold. Those that need the order lines, by far the
//! largest table, are counted in one pass over it; each of the others is a statement of its own. All twelve
//! hold for the freshly loaded dataset and after any number of whole transactions, so any count above zero
//! is a defect: of the driver, or of a server that lost or tore a transaction.

use super::mark;
use crate::error::Error;
use crate::session::Connection;
use crate::session::looking;
use crate::workload::Violation;

/// One consistency condition of the specification.
#[derive(Debug)]
pub struct Condition {
    /// Its clause.
    pub name: &'static str,
    /// What is wrong where it does not hold.
    pub broken: &'static str,
    /// Counts those places; none where [`of_order_lines`] does.
    pub sql: Option<&'static str>,
}

/// Returns the conditions that do not hold, in one read-only snapshot.
pub async fn check(conn: &mut Connection) -> Result<Vec<Violation>, Error> {
    mark::expect_whole(conn).await?;
    looking::begin(conn).await?;
    let mut of_order_lines =
        looking::counts(conn, "order_line", &of_order_lines()).await?.into_iter();
    let mut violations = Vec::new();
    for condition in &CONDITIONS {
        let count = match condition.sql {
            Some(sql) => looking::count(conn, condition.name, sql).await?,
            None => of_order_lines.next().expect("a count for each condition without a statement"),
        };
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

/// TPC-C 3.3.2.1 to 3.3.2.12.
pub const CONDITIONS: [Condition; 12] = [
    Condition {
        name: "3.3.2.1",
        broken: "w_ytd of a warehouse is not the sum of d_ytd of its districts",
        sql: Some("SELECT count(*) FROM warehouse
            LEFT JOIN (SELECT d_w_id, sum(d_ytd) AS ytd FROM district GROUP BY d_w_id) AS d ON d_w_id = w_id
            WHERE w_ytd IS DISTINCT FROM d.ytd"),
    },
    Condition {
        name: "3.3.2.2",
        broken: "d_next_o_id - 1 of a district is not its highest o_id or not its highest no_o_id",
        // A district without open orders has no highest no_o_id, and the specification exempts it.
        sql: Some("SELECT count(*) FROM district
            LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS newest FROM oorder GROUP BY 1, 2) AS o
                ON o_w_id = d_w_id AND o_d_id = d_id
            LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS newest FROM new_order GROUP BY 1, 2) AS n
                ON no_w_id = d_w_id AND no_d_id = d_id
            WHERE d_next_o_id - 1 IS DISTINCT FROM o.newest OR d_next_o_id - 1 <> n.newest"),
    },
    Condition {
        name: "3.3.2.3",
        broken: "the no_o_id of a district have gaps",
        sql: Some("SELECT count(*) FROM (SELECT FROM new_order GROUP BY no_w_id, no_d_id
            HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)) AS gap"),
    },
    Condition {
        name: "3.3.2.4",
        broken: "the sum of o_ol_cnt of a district is not the number of its order lines",
        sql: None,
    },
    Condition {
        name: "3.3.2.5",
        broken: "an order has a carrier and is in new_order, or has none and is not",
        sql: Some("SELECT count(*) FROM oorder
            FULL JOIN new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
            WHERE o_id IS NULL OR (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)"),
    },
    Condition {
        name: "3.3.2.6",
        broken: "o_ol_cnt of an order is not the number of its lines",
        sql: None,
    },
    Condition {
        name: "3.3.2.7",
        broken: "an order line has a delivery date and its order no carrier, or the reverse",
        sql: None,
    },
    Condition {
        name: "3.3.2.8",
        broken: "w_ytd of a warehouse is not the sum of its h_amount",
        sql: Some("SELECT count(*) FROM warehouse
            LEFT JOIN (SELECT h_w_id, sum(h_amount) AS paid FROM history GROUP BY 1) AS h ON h_w_id = w_id
            WHERE w_ytd IS DISTINCT FROM h.paid"),
    },
    Condition {
        name: "3.3.2.9",
        broken: "d_ytd of a district is not the sum of its h_amount",
        sql: Some("SELECT count(*) FROM district
            LEFT JOIN (SELECT h_w_id, h_d_id, sum(h_amount) AS paid FROM history GROUP BY 1, 2) AS h
                ON h_w_id = d_w_id AND h_d_id = d_id
            WHERE d_ytd IS DISTINCT FROM h.paid"),
    },
    Condition {
        name: "3.3.2.10",
        broken: "c_balance of a customer is not the delivered ol_amount less the paid h_amount",
        sql: None,
    },
    Condition {
        name: "3.3.2.11",
        broken: "orders less open orders of a district are not 2,100 and what was delivered since",
        // The clause as printed (orders less open orders = 2,100) describes the initial dataset only:
        // each delivery closes one order, and counts it in c_delivery_cnt.
        sql: Some("SELECT count(*) FROM (SELECT c_w_id, c_d_id, sum(c_delivery_cnt) AS delivered FROM customer GROUP BY 1, 2) AS c
            LEFT JOIN (SELECT o_w_id, o_d_id, count(*) AS orders FROM oorder GROUP BY 1, 2) AS o
                ON o_w_id = c_w_id AND o_d_id = c_d_id
            LEFT JOIN (SELECT no_w_id, no_d_id, count(*) AS orders FROM new_order GROUP BY 1, 2) AS n
                ON no_w_id = c_w_id AND no_d_id = c_d_id
            WHERE coalesce(o.orders, 0) - coalesce(n.orders, 0) <> 2100 + c.delivered"),
    },
    Condition {
        name: "3.3.2.12",
        broken: "c_balance + c_ytd_payment of a customer is not the delivered ol_amount",
        sql: None,
    },
];

/// The order lines are looked at in this many shares of the warehouses side by side, where the server has workers.
const SHARES: usize = 2;

/// Returns a statement that counts, in one pass, what violates the conditions without a statement, in their order.
///
/// Lines are summed up by order, orders by customer, customers by district: each row is read once. A line without
/// its order has no customer, and spoils its district.
fn of_order_lines() -> String {
    let shares: Vec<String> = (0..SHARES)
        .map(|share| SHARE.replace("{share}", &format!("% {SHARES} = {share}")))
        .collect();
    format!(
        "SELECT count(*) FILTER (WHERE ol_cnt IS DISTINCT FROM lines), coalesce(sum(miscounted), 0),
            coalesce(sum(misdated), 0), coalesce(sum(balance), 0), coalesce(sum(ytd_payment), 0)
            FROM ({}) AS district",
        shares.join(" UNION ALL ")
    )
}

/// One share of the warehouses, by district. `c_ytd_payment` is a float in this schema: rounded to cents, which it
/// holds exactly enough.
const SHARE: &str = "\
    (SELECT w, d, sum(ol_cnt) AS ol_cnt, sum(lines) AS lines,
        sum(miscounted) AS miscounted, sum(misdated) AS misdated,
        count(*) FILTER (WHERE c_balance <> coalesce(delivered, 0) - coalesce(paid, 0)) AS balance,
        count(*) FILTER (WHERE c_balance + round(c_ytd_payment::numeric, 2) <> coalesce(delivered, 0)) AS ytd_payment
    FROM (SELECT * FROM customer WHERE c_w_id {share}) AS c
    FULL JOIN (SELECT w, d, o_c_id, sum(o_ol_cnt) AS ol_cnt, sum(lines) AS lines,
            count(*) FILTER (WHERE o_ol_cnt IS DISTINCT FROM lines) AS miscounted,
            sum(CASE WHEN o_carrier_id IS NULL THEN dated ELSE lines - dated END)
                FILTER (WHERE o_id IS NOT NULL) AS misdated,
            sum(delivered) FILTER (WHERE o_id IS NOT NULL) AS delivered
        FROM (SELECT coalesce(o_w_id, ol_w_id) AS w, coalesce(o_d_id, ol_d_id) AS d, o.*, l.*
            FROM (SELECT * FROM oorder WHERE o_w_id {share}) AS o
            FULL JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS lines, count(ol_delivery_d) AS dated,
                    sum(ol_amount) FILTER (WHERE ol_delivery_d IS NOT NULL) AS delivered
                FROM order_line WHERE ol_w_id {share} GROUP BY 1, 2, 3) AS l
                ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id) AS order_with_lines
        GROUP BY 1, 2, 3) AS orders ON w = c_w_id AND d = c_d_id AND o_c_id = c_id
    LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM history
            WHERE h_c_w_id {share} GROUP BY 1, 2, 3) AS h
        ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
    GROUP BY 1, 2)";

//! Is the dataset still consistent, as TPC-C 3.3.2 demands?
//!
//! Each condition is one statement that counts the places where it does not hold. All twelve
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
    /// Counts those places.
    pub sql: &'static str,
}

/// Returns the conditions that do not hold, in one read-only snapshot.
pub async fn check(conn: &mut Connection) -> Result<Vec<Violation>, Error> {
    mark::expect_whole(conn).await?;
    looking::begin(conn).await?;
    let mut violations = Vec::new();
    for condition in &CONDITIONS {
        let count = looking::count(conn, condition.name, condition.sql).await?;
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

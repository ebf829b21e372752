//! How are the oldest open orders delivered (TPC-C 2.7)?

use super::inputs::Delivery;
use super::{Scratch, expect_one, expect_row, now};
use crate::connection::{Connection, Params, Statement};
use crate::error::Error;
use crate::workload::Ended;

#[derive(Debug)]
pub struct Statements {
    oldest: Statement,
    close: Statement,
    customer: Statement,
    set_carrier: Statement,
    set_date: Statement,
    amount: Statement,
    bill: Statement,
}

/// What became of one district's oldest order.
enum Outcome {
    Delivered,
    NoneOpen,
    TakenByAnother,
}

impl Statements {
    pub async fn prepare(conn: &mut Connection) -> Result<Self, Error> {
        Ok(Self {
            oldest: conn
                .prepare(
                    "SELECT no_o_id FROM new_order WHERE no_d_id = $1 AND no_w_id = $2 \
                    ORDER BY no_o_id ASC LIMIT 1",
                )
                .await?,
            close: conn
                .prepare(
                    "DELETE FROM new_order WHERE no_o_id = $1 AND no_d_id = $2 AND no_w_id = $3",
                )
                .await?,
            customer: conn
                .prepare("SELECT o_c_id FROM oorder WHERE o_id = $1 AND o_d_id = $2 AND o_w_id = $3")
                .await?,
            set_carrier: conn
                .prepare(
                    "UPDATE oorder SET o_carrier_id = $1 WHERE o_id = $2 AND o_d_id = $3 AND o_w_id = $4",
                )
                .await?,
            set_date: conn
                .prepare(
                    "UPDATE order_line SET ol_delivery_d = $1 \
                    WHERE ol_o_id = $2 AND ol_d_id = $3 AND ol_w_id = $4",
                )
                .await?,
            amount: conn
                .prepare(
                    "SELECT sum(ol_amount) AS ol_total FROM order_line \
                    WHERE ol_o_id = $1 AND ol_d_id = $2 AND ol_w_id = $3",
                )
                .await?,
            bill: conn
                .prepare(
                    "UPDATE customer SET c_balance = c_balance + $1, c_delivery_cnt = c_delivery_cnt + 1 \
                    WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4",
                )
                .await?,
        })
    }

    pub async fn run(
        &self,
        input: &Delivery,
        conn: &mut Connection,
        scratch: &mut Scratch,
    ) -> Result<Ended, Error> {
        conn.begin();
        for district in 1..=input.last_district {
            match self.deliver(input, district, conn, &mut scratch.params).await? {
                // TPC-C 2.7.4.2: a district without open orders is skipped.
                Outcome::Delivered | Outcome::NoneOpen => {}
                // Possible under READ COMMITTED where terminals share a warehouse. BenchBase gives
                // the transaction up, and so its orders stay with whoever was first.
                Outcome::TakenByAnother => {
                    conn.rollback().await?;
                    return Ok(Ended::RolledBack);
                }
            }
        }
        conn.commit().await?;
        Ok(Ended::Committed)
    }

    /// TPC-C 2.7.4.2: delivers the oldest open order of one district.
    async fn deliver(
        &self,
        input: &Delivery,
        district: i32,
        conn: &mut Connection,
        params: &mut Params,
    ) -> Result<Outcome, Error> {
        let warehouse = input.warehouse;
        params.clear().int4(district).int4(warehouse);
        let Some(row) = conn.query(&self.oldest, params).await?.first()? else {
            return Ok(Outcome::NoneOpen);
        };
        let order = row.int4(0)?;
        params.clear().int4(order).int4(district).int4(warehouse);
        if conn.execute(&self.close, params).await? == 0 {
            return Ok(Outcome::TakenByAnother);
        }
        params.clear().int4(order).int4(district).int4(warehouse);
        let customer = expect_row("order", conn.query(&self.customer, params).await?)?.int4(0)?;
        params.clear().int4(input.carrier).int4(order).int4(district).int4(warehouse);
        expect_one("order", conn.execute(&self.set_carrier, params).await?)?;
        params.clear().timestamp(now()).int4(order).int4(district).int4(warehouse);
        if conn.execute(&self.set_date, params).await? == 0 {
            return Err(Error::Workload(format!("order {order} has no lines")));
        }
        params.clear().int4(order).int4(district).int4(warehouse);
        let rows = conn.query(&self.amount, params).await?;
        let amount_cents = expect_row("order line", rows)?.numeric(0, 2)?;
        params.clear().numeric(amount_cents, 2).int4(warehouse).int4(district).int4(customer);
        expect_one("customer", conn.execute(&self.bill, params).await?)?;
        Ok(Outcome::Delivered)
    }
}

//! What did a customer order last (TPC-C 2.6)?

use super::customer::Lookup;
use super::inputs::OrderStatus;
use super::{Scratch, expect_row};
use crate::connection::{Connection, Statement};
use crate::error::Error;
use crate::workload::Ended;

#[derive(Debug)]
pub struct Statements {
    customer: Lookup,
    newest_order: Statement,
    lines: Statement,
}

impl Statements {
    pub async fn prepare(conn: &mut Connection) -> Result<Self, Error> {
        Ok(Self {
            customer: Lookup::prepare(conn).await?,
            newest_order: conn
                .prepare(
                    "SELECT o_id, o_carrier_id, o_entry_d FROM oorder \
                    WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1",
                )
                .await?,
            lines: conn
                .prepare(
                    "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d \
                    FROM order_line WHERE ol_o_id = $1 AND ol_d_id = $2 AND ol_w_id = $3",
                )
                .await?,
        })
    }

    pub async fn run(
        &self,
        input: &OrderStatus,
        conn: &mut Connection,
        scratch: &mut Scratch,
    ) -> Result<Ended, Error> {
        let (params, place) = (&mut scratch.params, (input.warehouse, input.district));
        conn.begin();
        let found = self.customer.find(conn, params, place, &input.customer).await?;
        params.clear().int4(input.warehouse).int4(input.district).int4(found.customer);
        // Every customer has an order from the initial dataset (TPC-C 4.3.3.1).
        let order = expect_row("order", conn.query(&self.newest_order, params).await?)?.int4(0)?;
        params.clear().int4(order).int4(input.district).int4(input.warehouse);
        expect_row("order line", conn.query(&self.lines, params).await?)?;
        conn.commit().await?;
        Ok(Ended::Committed)
    }
}

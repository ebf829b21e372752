//! What did a customer order last (TPC-C 2.6)?

use super::customer::{self, Lookup, Place};
use super::inputs::{Customer, OrderStatus};
use super::{Scratch, expect_row};
use crate::error::Error;
use crate::session::{Connection, Params, Rows, Statement};
use crate::workload::Ended;

/// The statements.
pub mod sql {
    pub const NEWEST_ORDER: &str = "\
        SELECT o_id, o_carrier_id, o_entry_d FROM oorder \
        WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT 1";
    pub const LINES: &str = "\
        SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d \
        FROM order_line WHERE ol_o_id = $1 AND ol_d_id = $2 AND ol_w_id = $3";
}

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
            newest_order: conn.prepare(sql::NEWEST_ORDER).await?,
            lines: conn.prepare(sql::LINES).await?,
        })
    }

    pub async fn run(
        &self,
        input: &OrderStatus,
        conn: &mut Connection,
        scratch: &mut Scratch,
    ) -> Result<Ended, Error> {
        let params = &mut scratch.params;
        conn.begin();
        let found = self.customer.find(conn, params, sought(input)).await?;
        put_customer(params, input, found.customer);
        let order = read_order(conn.query(&self.newest_order, params).await?)?;
        put_order(params, input, order);
        expect_row("order line", conn.query(&self.lines, params).await?)?;
        conn.commit().await?;
        Ok(Ended::Committed)
    }

    /// The same in three flights, or two where the customer's number is known.
    pub async fn fly(
        &self,
        input: &OrderStatus,
        conn: &mut Connection,
        scratch: &mut Scratch,
    ) -> Result<Ended, Error> {
        let params = &mut scratch.params;
        conn.begin();
        let mut flight = conn.flight()?;
        self.customer.ask(&mut flight, params, sought(input))?;
        if let Customer::Numbered(number) = input.customer {
            put_customer(params, input, number);
            flight.execute(&self.newest_order, params)?;
        }
        let mut answers = flight.send().await?;
        let found = customer::read(answers.take()?, sought(input))?;
        let order = if let Customer::Numbered(_) = input.customer {
            read_order(answers.take()?.rows())?
        } else {
            put_customer(params, input, found.customer);
            read_order(conn.query(&self.newest_order, params).await?)?
        };
        put_order(params, input, order);
        let mut flight = conn.flight()?;
        flight.execute(&self.lines, params)?;
        expect_row("order line", flight.commit().await?.take()?.rows())?;
        Ok(Ended::Committed)
    }
}

fn sought(input: &OrderStatus) -> (Place, &Customer) {
    (Place { warehouse: input.warehouse, district: input.district }, &input.customer)
}

fn put_customer(params: &mut Params, input: &OrderStatus, customer: i32) {
    params.clear().int4(input.warehouse).int4(input.district).int4(customer);
}

/// Every customer has an order from the initial dataset (TPC-C 4.3.3.1).
fn read_order(rows: Rows<'_>) -> Result<i32, Error> {
    expect_row("order", rows)?.int4(0)
}

fn put_order(params: &mut Params, input: &OrderStatus, order: i32) {
    params.clear().int4(order).int4(input.district).int4(input.warehouse);
}

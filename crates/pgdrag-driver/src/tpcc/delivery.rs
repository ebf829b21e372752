//! How are the oldest open orders delivered (TPC-C 2.7)?

use super::inputs::{DISTRICTS, Delivery};
use super::{Scratch, expect_each, expect_one, expect_row, now};
use crate::error::Error;
use crate::session::{Connection, Flight, Params, Rows, Statement};
use crate::workload::Ended;

const DISTRICT_COUNT: usize = DISTRICTS.unsigned_abs() as usize;

/// The statements.
pub mod sql {
    pub const OLDEST: &str = "\
        SELECT no_o_id FROM new_order WHERE no_d_id = $1 AND no_w_id = $2 \
        ORDER BY no_o_id ASC LIMIT 1";
    pub const CLOSE: &str = "\
        DELETE FROM new_order WHERE no_o_id = $1 AND no_d_id = $2 AND no_w_id = $3";
    pub const CUSTOMER: &str = "\
        SELECT o_c_id FROM oorder WHERE o_id = $1 AND o_d_id = $2 AND o_w_id = $3";
    pub const SET_CARRIER: &str = "\
        UPDATE oorder SET o_carrier_id = $1 WHERE o_id = $2 AND o_d_id = $3 AND o_w_id = $4";
    pub const SET_DATE: &str = "\
        UPDATE order_line SET ol_delivery_d = $1 \
        WHERE ol_o_id = $2 AND ol_d_id = $3 AND ol_w_id = $4";
    pub const AMOUNT: &str = "\
        SELECT sum(ol_amount) AS ol_total FROM order_line \
        WHERE ol_o_id = $1 AND ol_d_id = $2 AND ol_w_id = $3";
    pub const BILL: &str = "\
        UPDATE customer SET c_balance = c_balance + $1, c_delivery_cnt = c_delivery_cnt + 1 \
        WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4";
}

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

/// The oldest open order of a district.
#[derive(Clone, Copy, Debug)]
struct Order {
    warehouse: i32,
    district: i32,
    number: i32,
}

impl Order {
    fn put(self, params: &mut Params) -> &mut Params {
        params.int4(self.number).int4(self.district).int4(self.warehouse)
    }
}

impl Statements {
    pub async fn prepare(conn: &mut Connection) -> Result<Self, Error> {
        Ok(Self {
            oldest: conn.prepare(sql::OLDEST).await?,
            close: conn.prepare(sql::CLOSE).await?,
            customer: conn.prepare(sql::CUSTOMER).await?,
            set_carrier: conn.prepare(sql::SET_CARRIER).await?,
            set_date: conn.prepare(sql::SET_DATE).await?,
            amount: conn.prepare(sql::AMOUNT).await?,
            bill: conn.prepare(sql::BILL).await?,
        })
    }

    pub async fn run(
        &self,
        input: &Delivery,
        conn: &mut Connection,
        scratch: &mut Scratch,
    ) -> Result<Ended, Error> {
        let params = &mut scratch.params;
        conn.begin();
        for district in 1..=input.last_district {
            put_district(params, input, district);
            let rows = conn.query(&self.oldest, params).await?;
            let Some(order) = read_oldest(rows, input, district)? else { continue };
            if conn.execute(&self.close, order.put(params.clear())).await? == 0 {
                return taken_by_another(conn).await;
            }
            self.deliver(input, order, conn, params).await?;
        }
        conn.commit().await?;
        Ok(Ended::Committed)
    }

    /// TPC-C 2.7.4.2: delivers an order that is no longer among the open ones.
    async fn deliver(
        &self,
        input: &Delivery,
        order: Order,
        conn: &mut Connection,
        params: &mut Params,
    ) -> Result<(), Error> {
        let rows = conn.query(&self.customer, order.put(params.clear())).await?;
        let customer = expect_row("order", rows)?.int4(0)?;
        order.put(params.clear().int4(input.carrier));
        expect_one("order", conn.execute(&self.set_carrier, params).await?)?;
        order.put(params.clear().timestamp(now()));
        expect_lines(order, conn.execute(&self.set_date, params).await?)?;
        let rows = conn.query(&self.amount, order.put(params.clear())).await?;
        let amount_cents = expect_row("order line", rows)?.numeric(0, 2)?;
        put_bill(params.clear(), order, customer, amount_cents);
        expect_one("customer", conn.execute(&self.bill, params).await?)
    }

    /// The same in three flights, each for all districts: what is open, its delivery, the bills.
    pub async fn fly(
        &self,
        input: &Delivery,
        conn: &mut Connection,
        scratch: &mut Scratch,
    ) -> Result<Ended, Error> {
        let Scratch { params, bills, .. } = scratch;
        let mut open = [None; DISTRICT_COUNT];
        conn.begin();
        let mut flight = conn.flight()?;
        for district in 1..=input.last_district {
            put_district(params, input, district);
            flight.execute(&self.oldest, params)?;
        }
        let mut answers = flight.send().await?;
        for (order, district) in open.iter_mut().zip(1..=input.last_district) {
            *order = read_oldest(answers.take()?.rows(), input, district)?;
        }

        let mut flight = conn.flight()?;
        for order in open.iter().flatten() {
            self.ask_to_deliver(input, *order, &mut flight, params)?;
        }
        let mut answers = flight.send().await?;
        bills.clear();
        for order in open.iter().flatten() {
            if answers.take()?.rows_affected()? == 0 {
                return taken_by_another(conn).await;
            }
            let customer = expect_row("order", answers.take()?.rows())?.int4(0)?;
            expect_one("order", answers.take()?.rows_affected()?)?;
            expect_lines(*order, answers.take()?.rows_affected()?)?;
            let amount_cents = expect_row("order line", answers.take()?.rows())?.numeric(0, 2)?;
            put_bill(bills, *order, customer, amount_cents);
        }

        let mut flight = conn.flight()?;
        let billed = flight.batch(&self.bill, bills)?;
        // An order's customer exists, says its foreign key: this never comes too late.
        expect_each("customer", billed, &mut flight.commit().await?)?;
        Ok(Ended::Committed)
    }

    /// Queues what delivers an order, up to the amount that its customer owes.
    fn ask_to_deliver(
        &self,
        input: &Delivery,
        order: Order,
        flight: &mut Flight<'_>,
        params: &mut Params,
    ) -> Result<(), Error> {
        flight.execute(&self.close, order.put(params.clear()))?;
        flight.execute(&self.customer, order.put(params.clear()))?;
        flight.execute(&self.set_carrier, order.put(params.clear().int4(input.carrier)))?;
        flight.execute(&self.set_date, order.put(params.clear().timestamp(now())))?;
        flight.execute(&self.amount, order.put(params.clear()))?;
        Ok(())
    }
}

fn put_district(params: &mut Params, input: &Delivery, district: i32) {
    params.clear().int4(district).int4(input.warehouse);
}

/// TPC-C 2.7.4.2: a district without open orders is skipped.
fn read_oldest(rows: Rows<'_>, input: &Delivery, district: i32) -> Result<Option<Order>, Error> {
    let Some(row) = rows.first()? else { return Ok(None) };
    Ok(Some(Order { warehouse: input.warehouse, district, number: row.int4(0)? }))
}

/// Possible under READ COMMITTED where terminals share a warehouse. BenchBase gives the
/// transaction up, and so its orders stay with whoever was first.
async fn taken_by_another(conn: &mut Connection) -> Result<Ended, Error> {
    conn.rollback().await?;
    Ok(Ended::RolledBack)
}

fn expect_lines(order: Order, rows_affected: u64) -> Result<(), Error> {
    match rows_affected {
        0 => Err(Error::Workload(format!("order {} has no lines", order.number))),
        _ => Ok(()),
    }
}

fn put_bill(params: &mut Params, order: Order, customer: i32, amount_cents: i64) {
    params.numeric(amount_cents, 2).int4(order.warehouse).int4(order.district).int4(customer);
}

//! How is an order placed (TPC-C 2.4)?

use super::inputs::{Line, NewOrder, UNUSED_ITEM};
use super::{Scratch, expect, expect_each, expect_one, expect_row, now};
use crate::error::Error;
use crate::session::{Answers, Connection, Params, Row, Rows, Statement};
use crate::workload::Ended;

const S_QUANTITY: usize = 0;
/// The column of stock's query that holds the text of district 1.
const S_DIST_01: usize = 2;

/// The statements.
pub mod sql {
    pub const CUSTOMER: &str = "\
        SELECT c_discount, c_last, c_credit FROM customer \
        WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
    pub const WAREHOUSE: &str = "SELECT w_tax FROM warehouse WHERE w_id = $1";
    pub const DISTRICT: &str = "\
        SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = $1 AND d_id = $2 FOR UPDATE";
    pub const TAKE_NUMBER: &str = "\
        UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2";
    pub const INSERT_ORDER: &str = "\
        INSERT INTO oorder (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) \
        VALUES ($1, $2, $3, $4, $5, $6, $7)";
    pub const INSERT_NEW_ORDER: &str = "\
        INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3)";
    pub const ITEM: &str = "SELECT i_price, i_name, i_data FROM item WHERE i_id = $1";
    pub const STOCK: &str = "\
        SELECT s_quantity, s_data, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, \
        s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10 \
        FROM stock WHERE s_i_id = $1 AND s_w_id = $2 FOR UPDATE";
    pub const INSERT_LINE: &str = "\
        INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, \
        ol_quantity, ol_amount, ol_dist_info) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)";
    pub const UPDATE_STOCK: &str = "\
        UPDATE stock SET s_quantity = $1, s_ytd = s_ytd + $2, s_order_cnt = s_order_cnt + 1, \
        s_remote_cnt = s_remote_cnt + $3 WHERE s_i_id = $4 AND s_w_id = $5";
}

#[derive(Debug)]
pub struct Statements {
    customer: Statement,
    warehouse: Statement,
    district: Statement,
    take_number: Statement,
    insert_order: Statement,
    insert_new_order: Statement,
    item: Statement,
    stock: Statement,
    insert_line: Statement,
    update_stock: Statement,
}

impl Statements {
    pub async fn prepare(conn: &mut Connection) -> Result<Self, Error> {
        Ok(Self {
            customer: conn.prepare(sql::CUSTOMER).await?,
            warehouse: conn.prepare(sql::WAREHOUSE).await?,
            district: conn.prepare(sql::DISTRICT).await?,
            take_number: conn.prepare(sql::TAKE_NUMBER).await?,
            insert_order: conn.prepare(sql::INSERT_ORDER).await?,
            insert_new_order: conn.prepare(sql::INSERT_NEW_ORDER).await?,
            item: conn.prepare(sql::ITEM).await?,
            stock: conn.prepare(sql::STOCK).await?,
            insert_line: conn.prepare(sql::INSERT_LINE).await?,
            update_stock: conn.prepare(sql::UPDATE_STOCK).await?,
        })
    }

    pub async fn run(
        &self,
        input: &NewOrder,
        conn: &mut Connection,
        scratch: &mut Scratch,
    ) -> Result<Ended, Error> {
        scratch.lines.clear();
        scratch.stock.clear();
        conn.begin();
        let order = self.open(input, conn, &mut scratch.params).await?;
        for (number, line) in (1..).zip(input.lines()) {
            let rows = conn.query(&self.item, scratch.params.clear().int4(line.item)).await?;
            let Some(price_cents) = read_price(line, rows)? else {
                conn.rollback().await?;
                return Ok(Ended::RolledBack);
            };
            put_stock_key(scratch.params.clear(), line);
            let row = expect_row("stock", conn.query(&self.stock, &mut scratch.params).await?)?;
            scratch.add(input, (order, number), line, (price_cents, row))?;
        }
        let lines = input.lines().len() as u64;
        expect("order line", lines, conn.batch(&self.insert_line, &mut scratch.lines).await?)?;
        expect("stock", lines, conn.batch(&self.update_stock, &mut scratch.stock).await?)?;
        conn.commit().await?;
        Ok(Ended::Committed)
    }

    /// Takes the district's next order number and enters the order without its lines.
    async fn open(
        &self,
        input: &NewOrder,
        conn: &mut Connection,
        params: &mut Params,
    ) -> Result<i32, Error> {
        put_customer(params, input);
        expect_row("customer", conn.query(&self.customer, params).await?)?;
        params.clear().int4(input.warehouse);
        expect_row("warehouse", conn.query(&self.warehouse, params).await?)?;
        put_district(params, input);
        let order = expect_row("district", conn.query(&self.district, params).await?)?.int4(0)?;
        put_district(params, input);
        expect_one("district", conn.execute(&self.take_number, params).await?)?;
        put_order(params, input, order);
        conn.execute(&self.insert_order, params).await?;
        put_new_order(params, input, order);
        conn.execute(&self.insert_new_order, params).await?;
        Ok(order)
    }

    /// The same in two flights: what does not depend on the order's number, and what does. So the
    /// order itself is entered behind the look at its items, even where one of them does not exist.
    pub async fn fly(
        &self,
        input: &NewOrder,
        conn: &mut Connection,
        scratch: &mut Scratch,
    ) -> Result<Ended, Error> {
        scratch.lines.clear();
        scratch.stock.clear();
        conn.begin();
        let mut answers = self.look(input, conn, &mut scratch.params).await?;
        expect_row("customer", answers.take()?.rows())?;
        expect_row("warehouse", answers.take()?.rows())?;
        let order = expect_row("district", answers.take()?.rows())?.int4(0)?;
        expect_one("district", answers.take()?.rows_affected()?)?;
        let mut has_unused_item = false;
        for (number, line) in (1..).zip(input.lines()) {
            let price_cents = read_price(line, answers.take()?.rows())?;
            let stock = answers.take()?.rows();
            match price_cents {
                Some(price) => {
                    let row = expect_row("stock", stock)?;
                    scratch.add(input, (order, number), line, (price, row))?;
                }
                None => has_unused_item = true,
            }
        }

        let Scratch { params, lines, stock, .. } = scratch;
        let mut flight = conn.flight()?;
        put_order(params, input, order);
        flight.execute(&self.insert_order, params)?;
        put_new_order(params, input, order);
        flight.execute(&self.insert_new_order, params)?;
        if has_unused_item {
            flight.rollback().await?;
            return Ok(Ended::RolledBack);
        }
        let entered = 2 + flight.batch(&self.insert_line, lines)?;
        let updated = flight.batch(&self.update_stock, stock)?;
        let mut answers = flight.commit().await?;
        // The rows of the stock are locked since they were read: this never comes too late.
        expect_each("order line", entered, &mut answers)?;
        expect_each("stock", updated, &mut answers)?;
        Ok(Ended::Committed)
    }

    /// Asks for everything that an order needs to know, takes its number and locks its stock.
    async fn look<'a>(
        &self,
        input: &NewOrder,
        conn: &'a mut Connection,
        params: &mut Params,
    ) -> Result<Answers<'a>, Error> {
        let mut flight = conn.flight()?;
        put_customer(params, input);
        flight.execute(&self.customer, params)?;
        flight.execute(&self.warehouse, params.clear().int4(input.warehouse))?;
        put_district(params, input);
        flight.execute(&self.district, params)?;
        put_district(params, input);
        flight.execute(&self.take_number, params)?;
        for line in input.lines() {
            flight.execute(&self.item, params.clear().int4(line.item))?;
            put_stock_key(params.clear(), line);
            flight.execute(&self.stock, params)?;
        }
        flight.send().await
    }
}

impl Scratch {
    /// Notes a line and its new stock for the batches at the end.
    fn add(
        &mut self,
        input: &NewOrder,
        (order, number): (i32, i32),
        line: &Line,
        (price_cents, stock): (i64, Row<'_>),
    ) -> Result<(), Error> {
        let text = stock.text(district_text(input.district))?;
        let quantity = i64::from(line.quantity);
        let lines = &mut self.lines;
        lines.int4(order).int4(input.district).int4(input.warehouse).int4(number);
        lines.int4(line.item).int4(line.supply_warehouse).numeric(quantity, 0);
        lines.numeric(quantity.saturating_mul(price_cents), 2).text(text);

        let is_remote = line.supply_warehouse != input.warehouse;
        let left = restocked(stock.int4(S_QUANTITY)?, line.quantity);
        self.stock.int4(left).numeric(quantity, 0).int4(i32::from(is_remote));
        put_stock_key(&mut self.stock, line);
        Ok(())
    }
}

fn put_customer(params: &mut Params, input: &NewOrder) {
    params.clear().int4(input.warehouse).int4(input.district).int4(input.customer);
}

fn put_district(params: &mut Params, input: &NewOrder) {
    params.clear().int4(input.warehouse).int4(input.district);
}

fn put_order(params: &mut Params, input: &NewOrder, order: i32) {
    let lines = i32::try_from(input.lines().len()).expect("at most 15 lines");
    params.clear().int4(order).int4(input.district).int4(input.warehouse).int4(input.customer);
    params.timestamp(now()).int4(lines).int4(i32::from(input.is_all_local()));
}

fn put_new_order(params: &mut Params, input: &NewOrder, order: i32) {
    params.clear().int4(order).int4(input.district).int4(input.warehouse);
}

fn put_stock_key(params: &mut Params, line: &Line) {
    params.int4(line.item).int4(line.supply_warehouse);
}

/// Reads an item's price; there is none for the unused item of TPC-C 2.4.1.5.1.
fn read_price(line: &Line, rows: Rows<'_>) -> Result<Option<i64>, Error> {
    if line.item == UNUSED_ITEM && rows.first()?.is_none() {
        return Ok(None);
    }
    expect_row("item", rows)?.numeric(0, 2).map(Some)
}

fn district_text(district: i32) -> usize {
    S_DIST_01 + usize::try_from(district - 1).expect("districts count from 1")
}

/// TPC-C 2.4.2.2: stock never falls below ten; 91 pieces arrive instead.
fn restocked(in_stock: i32, ordered: i32) -> i32 {
    let left = in_stock.saturating_sub(ordered);
    if left >= 10 { left } else { left.saturating_add(91) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stock_is_refilled_before_it_falls_below_ten() {
        assert_eq!(restocked(20, 10), 10);
        assert_eq!(restocked(19, 10), 100);
        assert_eq!(restocked(10, 1), 100);
    }

    #[test]
    fn the_text_of_the_last_district_is_the_last_column() {
        assert_eq!(district_text(1), 2);
        assert_eq!(district_text(10), 11);
    }
}

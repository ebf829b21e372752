//! How is an order placed (TPC-C 2.4)?

use super::inputs::{Line, NewOrder, UNUSED_ITEM};
use super::{Scratch, expect_row, now};
use crate::connection::{Connection, Params, Statement};
use crate::error::Error;
use crate::workload::Ended;

const S_QUANTITY: usize = 0;
/// The column of stock's query that holds the text of district 1.
const S_DIST_01: usize = 2;

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
            customer: conn
                .prepare(
                    "SELECT c_discount, c_last, c_credit FROM customer \
                    WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3",
                )
                .await?,
            warehouse: conn.prepare("SELECT w_tax FROM warehouse WHERE w_id = $1").await?,
            district: conn
                .prepare(
                    "SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = $1 AND d_id = $2 FOR UPDATE",
                )
                .await?,
            take_number: conn
                .prepare(
                    "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = $1 AND d_id = $2",
                )
                .await?,
            insert_order: conn
                .prepare(
                    "INSERT INTO oorder (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) \
                    VALUES ($1, $2, $3, $4, $5, $6, $7)",
                )
                .await?,
            insert_new_order: conn
                .prepare("INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3)")
                .await?,
            item: conn.prepare("SELECT i_price, i_name, i_data FROM item WHERE i_id = $1").await?,
            stock: conn
                .prepare(
                    "SELECT s_quantity, s_data, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, \
                    s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10 \
                    FROM stock WHERE s_i_id = $1 AND s_w_id = $2 FOR UPDATE",
                )
                .await?,
            insert_line: conn
                .prepare(
                    "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, \
                    ol_quantity, ol_amount, ol_dist_info) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
                )
                .await?,
            update_stock: conn
                .prepare(
                    "UPDATE stock SET s_quantity = $1, s_ytd = s_ytd + $2, s_order_cnt = s_order_cnt + 1, \
                    s_remote_cnt = s_remote_cnt + $3 WHERE s_i_id = $4 AND s_w_id = $5",
                )
                .await?,
        })
    }

    pub async fn run(
        &self,
        input: &NewOrder,
        conn: &mut Connection,
        scratch: &mut Scratch,
    ) -> Result<Ended, Error> {
        conn.begin();
        let order = self.open(input, conn, &mut scratch.params).await?;
        scratch.lines.clear();
        scratch.stock.clear();
        for (number, line) in (1..).zip(input.lines()) {
            let Some(price_cents) = self.price(line, conn, &mut scratch.params).await? else {
                conn.rollback().await?;
                return Ok(Ended::RolledBack);
            };
            self.add(input, (order, number), line, price_cents, conn, scratch).await?;
        }
        conn.batch(&self.insert_line, &mut scratch.lines).await?;
        conn.batch(&self.update_stock, &mut scratch.stock).await?;
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
        let (warehouse, district) = (input.warehouse, input.district);
        params.clear().int4(warehouse).int4(district).int4(input.customer);
        expect_row("customer", conn.query(&self.customer, params).await?)?;
        params.clear().int4(warehouse);
        expect_row("warehouse", conn.query(&self.warehouse, params).await?)?;
        params.clear().int4(warehouse).int4(district);
        let order = expect_row("district", conn.query(&self.district, params).await?)?.int4(0)?;
        params.clear().int4(warehouse).int4(district);
        conn.execute(&self.take_number, params).await?;
        let lines = i32::try_from(input.lines().len()).expect("at most 15 lines");
        params.clear().int4(order).int4(district).int4(warehouse).int4(input.customer);
        params.timestamp(now()).int4(lines).int4(i32::from(input.is_all_local()));
        conn.execute(&self.insert_order, params).await?;
        params.clear().int4(order).int4(district).int4(warehouse);
        conn.execute(&self.insert_new_order, params).await?;
        Ok(order)
    }

    /// Reads an item's price; there is none for the unused item of TPC-C 2.4.1.5.1.
    async fn price(
        &self,
        line: &Line,
        conn: &mut Connection,
        params: &mut Params,
    ) -> Result<Option<i64>, Error> {
        let rows = conn.query(&self.item, params.clear().int4(line.item)).await?;
        if line.item == UNUSED_ITEM && rows.count() == 0 {
            return Ok(None);
        }
        expect_row("item", rows)?.numeric(0, 2).map(Some)
    }

    /// Reads the stock of a line, and notes the line and the new stock for the batches at the end.
    async fn add(
        &self,
        input: &NewOrder,
        (order, number): (i32, i32),
        line: &Line,
        price_cents: i64,
        conn: &mut Connection,
        scratch: &mut Scratch,
    ) -> Result<(), Error> {
        let Scratch { params, lines, stock, .. } = scratch;
        params.clear().int4(line.item).int4(line.supply_warehouse);
        let row = expect_row("stock", conn.query(&self.stock, params).await?)?;
        let text = row.text(district_text(input.district))?;
        let quantity = i64::from(line.quantity);

        lines.int4(order).int4(input.district).int4(input.warehouse).int4(number);
        lines.int4(line.item).int4(line.supply_warehouse).numeric(quantity, 0);
        lines.numeric(quantity.saturating_mul(price_cents), 2).text(text);

        let is_remote = line.supply_warehouse != input.warehouse;
        stock.int4(restocked(row.int4(S_QUANTITY)?, line.quantity)).numeric(quantity, 0);
        stock.int4(i32::from(is_remote)).int4(line.item).int4(line.supply_warehouse);
        Ok(())
    }
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

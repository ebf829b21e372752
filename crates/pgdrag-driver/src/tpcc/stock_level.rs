//! Of how many recently sold items is little left (TPC-C 2.8)?

use super::inputs::StockLevel;
use super::{Scratch, expect_row};
use crate::error::Error;
use crate::session::{Connection, Params, Statement};
use crate::workload::Ended;

/// TPC-C 2.8.2.2: the orders that are looked at.
pub const RECENT_ORDERS: i32 = 20;

/// The statements.
pub mod sql {
    pub const DISTRICT: &str = "SELECT d_next_o_id FROM district WHERE d_w_id = $1 AND d_id = $2";
    pub const COUNT: &str = "\
        SELECT count(DISTINCT s_i_id) AS stock_count FROM order_line, stock \
        WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id < $3 AND ol_o_id >= $4 \
        AND s_w_id = $5 AND s_i_id = ol_i_id AND s_quantity < $6";
}

#[derive(Debug)]
pub struct Statements {
    district: Statement,
    count: Statement,
}

impl Statements {
    pub async fn prepare(conn: &mut Connection) -> Result<Self, Error> {
        Ok(Self {
            district: conn.prepare(sql::DISTRICT).await?,
            count: conn.prepare(sql::COUNT).await?,
        })
    }

    pub async fn run(
        &self,
        input: &StockLevel,
        conn: &mut Connection,
        scratch: &mut Scratch,
    ) -> Result<Ended, Error> {
        let params = &mut scratch.params;
        self.put_count(input, conn, params).await?;
        expect_row("count", conn.query(&self.count, params).await?)?.int8(0)?;
        conn.commit().await?;
        Ok(Ended::Committed)
    }

    /// The same in two flights.
    pub async fn fly(
        &self,
        input: &StockLevel,
        conn: &mut Connection,
        scratch: &mut Scratch,
    ) -> Result<Ended, Error> {
        let params = &mut scratch.params;
        self.put_count(input, conn, params).await?;
        let mut flight = conn.flight()?;
        flight.execute(&self.count, params)?;
        expect_row("count", flight.commit().await?.take()?.rows())?.int8(0)?;
        Ok(Ended::Committed)
    }

    /// Begins, and reads which orders are to be looked at.
    async fn put_count(
        &self,
        input: &StockLevel,
        conn: &mut Connection,
        params: &mut Params,
    ) -> Result<(), Error> {
        conn.begin();
        params.clear().int4(input.warehouse).int4(input.district);
        let next = expect_row("district", conn.query(&self.district, params).await?)?.int4(0)?;
        params.clear().int4(input.warehouse).int4(input.district).int4(next);
        params.int4(next.saturating_sub(RECENT_ORDERS)).int4(input.warehouse).int4(input.threshold);
        Ok(())
    }
}

//! How is a payment booked (TPC-C 2.5)?

use std::fmt::Write as _;

use super::customer::{self, Found, Lookup, Place};
use super::inputs::{Customer, Payment};
use super::{Scratch, expect_one, expect_row, now};
use crate::error::Error;
use crate::session::{Connection, Params, Rows, Statement};
use crate::workload::Ended;

/// Width of `c_data`.
const NOTES_MAX: usize = 500;
/// The column of the name in both the warehouse's and the district's query.
const NAME: usize = 5;
/// TPC-C 2.5.2.2: h_data is the two names, four spaces apart.
const NAMES_GAP: &str = "    ";

/// The statements.
pub mod sql {
    pub const PAY_WAREHOUSE: &str = "UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2";
    pub const WAREHOUSE: &str = "\
        SELECT w_street_1, w_street_2, w_city, w_state, w_zip, w_name \
        FROM warehouse WHERE w_id = $1";
    pub const PAY_DISTRICT: &str = "\
        UPDATE district SET d_ytd = d_ytd + $1 WHERE d_w_id = $2 AND d_id = $3";
    pub const DISTRICT: &str = "\
        SELECT d_street_1, d_street_2, d_city, d_state, d_zip, d_name \
        FROM district WHERE d_w_id = $1 AND d_id = $2";
    pub const NOTES: &str = "\
        SELECT c_data FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
    pub const PAY_WITH_NOTES: &str = "\
        UPDATE customer SET c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $2, \
        c_payment_cnt = c_payment_cnt + 1, c_data = $3 \
        WHERE c_w_id = $4 AND c_d_id = $5 AND c_id = $6";
    pub const PAY: &str = "\
        UPDATE customer SET c_balance = c_balance - $1, c_ytd_payment = c_ytd_payment + $2, \
        c_payment_cnt = c_payment_cnt + 1 WHERE c_w_id = $3 AND c_d_id = $4 AND c_id = $5";
    pub const INSERT_HISTORY: &str = "\
        INSERT INTO history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data) \
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
}

#[derive(Debug)]
pub struct Statements {
    pay_warehouse: Statement,
    warehouse: Statement,
    pay_district: Statement,
    district: Statement,
    customer: Lookup,
    notes: Statement,
    pay_with_notes: Statement,
    pay: Statement,
    insert_history: Statement,
}

impl Statements {
    /// BenchBase writes the customer's new balance as a value that it read before. Under READ
    /// COMMITTED that loses what a Delivery or a remote Payment books in between, and conditions
    /// 3.3.2.10 and 3.3.2.12 fail. Here the same statements add to the balance instead.
    pub async fn prepare(conn: &mut Connection) -> Result<Self, Error> {
        Ok(Self {
            pay_warehouse: conn.prepare(sql::PAY_WAREHOUSE).await?,
            warehouse: conn.prepare(sql::WAREHOUSE).await?,
            pay_district: conn.prepare(sql::PAY_DISTRICT).await?,
            district: conn.prepare(sql::DISTRICT).await?,
            customer: Lookup::prepare(conn).await?,
            notes: conn.prepare(sql::NOTES).await?,
            pay_with_notes: conn.prepare(sql::PAY_WITH_NOTES).await?,
            pay: conn.prepare(sql::PAY).await?,
            insert_history: conn.prepare(sql::INSERT_HISTORY).await?,
        })
    }

    pub async fn run(
        &self,
        input: &Payment,
        conn: &mut Connection,
        scratch: &mut Scratch,
    ) -> Result<Ended, Error> {
        let Scratch { params, names, .. } = scratch;
        conn.begin();
        put_warehouse(params.clear().numeric(input.amount_cents, 2), input);
        expect_one("warehouse", conn.execute(&self.pay_warehouse, params).await?)?;
        put_warehouse(params.clear(), input);
        names.clear();
        names.push_str(read_name("warehouse", conn.query(&self.warehouse, params).await?)?);
        put_district(params.clear().numeric(input.amount_cents, 2), input);
        expect_one("district", conn.execute(&self.pay_district, params).await?)?;
        put_district(params.clear(), input);
        names.push_str(NAMES_GAP);
        names.push_str(read_name("district", conn.query(&self.district, params).await?)?);

        let found = self.customer.find(conn, params, sought(input)).await?;
        let statement = self.prepare_credit(input, found, conn, scratch).await?;
        let params = &mut scratch.params;
        expect_one("customer", conn.execute(statement, params).await?)?;
        put_history(params, input, found, &scratch.names);
        conn.execute(&self.insert_history, params).await?;
        conn.commit().await?;
        Ok(Ended::Committed)
    }

    /// The same in two flights, or three where a customer with bad credit has notes to be read.
    pub async fn fly(
        &self,
        input: &Payment,
        conn: &mut Connection,
        scratch: &mut Scratch,
    ) -> Result<Ended, Error> {
        let Scratch { params, names, .. } = scratch;
        conn.begin();
        let mut flight = conn.flight()?;
        put_warehouse(params.clear().numeric(input.amount_cents, 2), input);
        flight.execute(&self.pay_warehouse, params)?;
        put_warehouse(params.clear(), input);
        flight.execute(&self.warehouse, params)?;
        put_district(params.clear().numeric(input.amount_cents, 2), input);
        flight.execute(&self.pay_district, params)?;
        put_district(params.clear(), input);
        flight.execute(&self.district, params)?;
        self.customer.ask(&mut flight, params, sought(input))?;

        let mut answers = flight.send().await?;
        expect_one("warehouse", answers.take()?.rows_affected()?)?;
        names.clear();
        names.push_str(read_name("warehouse", answers.take()?.rows())?);
        expect_one("district", answers.take()?.rows_affected()?)?;
        names.push_str(NAMES_GAP);
        names.push_str(read_name("district", answers.take()?.rows())?);
        let found = customer::read(answers.take()?, sought(input))?;

        let statement = self.prepare_credit(input, found, conn, scratch).await?;
        let params = &mut scratch.params;
        let mut flight = conn.flight()?;
        flight.execute(statement, params)?;
        put_history(params, input, found, &scratch.names);
        flight.execute(&self.insert_history, params)?;
        // Were the customer gone by now, the history's foreign key would not let COMMIT happen.
        expect_one("customer", flight.commit().await?.take()?.rows_affected()?)?;
        Ok(Ended::Committed)
    }

    /// Chooses the statement that books the amount at the customer, and puts its values; one with
    /// bad credit gets a note (TPC-C 2.5.2.2), for which the older ones are read.
    async fn prepare_credit(
        &self,
        input: &Payment,
        found: Found,
        conn: &mut Connection,
        scratch: &mut Scratch,
    ) -> Result<&Statement, Error> {
        let Scratch { params, notes, .. } = scratch;
        let put_key = |params: &mut Params| {
            params
                .int4(input.customer_warehouse)
                .int4(input.customer_district)
                .int4(found.customer);
        };
        if found.has_bad_credit {
            put_key(params.clear());
            let row = expect_row("customer", conn.query(&self.notes, params).await?)?;
            write_notes(notes, input, found.customer, row.text(0)?);
        }
        params.clear().numeric(input.amount_cents, 2).float8(dollars(input.amount_cents));
        if found.has_bad_credit {
            params.text(notes);
        }
        put_key(params);
        Ok(if found.has_bad_credit { &self.pay_with_notes } else { &self.pay })
    }
}

fn sought(input: &Payment) -> (Place, &Customer) {
    let (warehouse, district) = (input.customer_warehouse, input.customer_district);
    (Place { warehouse, district }, &input.customer)
}

fn put_warehouse(params: &mut Params, input: &Payment) {
    params.int4(input.warehouse);
}

fn put_district(params: &mut Params, input: &Payment) {
    params.int4(input.warehouse).int4(input.district);
}

fn read_name<'a>(what: &str, rows: Rows<'a>) -> Result<&'a str, Error> {
    expect_row(what, rows)?.text(NAME)
}

fn put_history(params: &mut Params, input: &Payment, found: Found, names: &str) {
    params.clear();
    params.int4(input.customer_district).int4(input.customer_warehouse).int4(found.customer);
    params.int4(input.district).int4(input.warehouse).timestamp(now());
    params.numeric(input.amount_cents, 2).text(names);
}

/// The float nearest to an amount: `c_ytd_payment` is a float in this schema.
fn dollars(cents: i64) -> f64 {
    f64::from(i32::try_from(cents).expect("a payment is at most 5000.00")) / 100.0
}

/// TPC-C 2.5.2.2: what was paid goes in front of the old notes, which lose their end.
fn write_notes(notes: &mut String, input: &Payment, customer: i32, old: &str) {
    notes.clear();
    let Payment { customer_district, customer_warehouse, district, warehouse, .. } = input;
    let (whole, cents) = (input.amount_cents / 100, input.amount_cents % 100);
    write!(
        notes,
        "{customer} {customer_district} {customer_warehouse} {district} {warehouse} {whole}.{cents:02} | {old}"
    )
    .expect("a string takes everything");
    if let Some((end, _)) = notes.char_indices().nth(NOTES_MAX) {
        notes.truncate(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INPUT: Payment = Payment {
        warehouse: 1,
        district: 2,
        customer_warehouse: 3,
        customer_district: 4,
        customer: Customer::Numbered(5),
        amount_cents: 123_405,
    };

    #[test]
    fn notes_begin_with_the_payment_and_keep_the_older_ones() {
        let mut notes = String::new();
        write_notes(&mut notes, &INPUT, 5, "before");
        assert_eq!(notes, "5 4 3 2 1 1234.05 | before");
    }

    #[test]
    fn notes_end_where_the_column_does() {
        let mut notes = String::new();
        write_notes(&mut notes, &INPUT, 5, &"é".repeat(NOTES_MAX));
        assert_eq!(notes.chars().count(), NOTES_MAX);
    }
}

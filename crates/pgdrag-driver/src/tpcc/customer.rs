//! How does a transaction find its customer?

use super::inputs::Customer;
use crate::error::Error;
use crate::session::{Answer, Connection, Flight, Params, Row, Statement};

/// What Payment and Order-Status read of a customer, by number or by name.
pub const BY_NUMBER: &str = "\
    SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_credit, \
    c_credit_lim, c_discount, c_balance, c_ytd_payment, c_payment_cnt, c_since \
    FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_id = $3";
pub const BY_NAME: &str = "\
    SELECT c_first, c_middle, c_id, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_credit, \
    c_credit_lim, c_discount, c_balance, c_ytd_payment, c_payment_cnt, c_since \
    FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first";
const C_ID: usize = 2;
const C_CREDIT: usize = 9;

/// The two prepared ways to a customer.
#[derive(Debug)]
pub struct Lookup {
    by_number: Statement,
    by_name: Statement,
}

/// Where customers are.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub warehouse: i32,
    pub district: i32,
}

/// The customer that was meant.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    pub customer: i32,
    pub has_bad_credit: bool,
}

impl Lookup {
    pub async fn prepare(conn: &mut Connection) -> Result<Self, Error> {
        Ok(Self {
            by_number: conn.prepare(BY_NUMBER).await?,
            by_name: conn.prepare(BY_NAME).await?,
        })
    }

    /// Looks the customer up in a round trip of its own.
    pub async fn find(
        &self,
        conn: &mut Connection,
        params: &mut Params,
        (place, customer): (Place, &Customer),
    ) -> Result<Found, Error> {
        let mut flight = conn.flight()?;
        self.ask(&mut flight, params, (place, customer))?;
        read(flight.send().await?.take()?, (place, customer))
    }

    /// Looks the customer up in a flight; [`read`] reads the answer.
    pub fn ask(
        &self,
        flight: &mut Flight<'_>,
        params: &mut Params,
        (place, customer): (Place, &Customer),
    ) -> Result<(), Error> {
        params.clear().int4(place.warehouse).int4(place.district);
        match customer {
            Customer::Numbered(number) => flight.execute(&self.by_number, params.int4(*number))?,
            Customer::Named(name) => flight.execute(&self.by_name, params.text(name.as_str()))?,
        };
        Ok(())
    }
}

/// Reads which customer was meant.
pub fn read(answer: Answer<'_>, (place, customer): (Place, &Customer)) -> Result<Found, Error> {
    let rows = answer.rows();
    let found = match customer {
        Customer::Numbered(number) => rows.first()?.map(|row| found(&row, *number)).transpose()?,
        Customer::Named(_) => {
            // TPC-C 2.5.2.2: the one at position n/2, rounded up.
            let middle = rows.count().div_ceil(2).saturating_sub(1);
            let row = rows.into_iter().nth(middle).transpose()?;
            row.map(|row| found(&row, row.int4(C_ID)?)).transpose()?
        }
    };
    found.ok_or_else(|| {
        let Place { warehouse, district } = place;
        Error::Workload(format!(
            "customer {customer:?} of district {district} of warehouse {warehouse} does not exist"
        ))
    })
}

fn found(row: &Row<'_>, customer: i32) -> Result<Found, Error> {
    Ok(Found { customer, has_bad_credit: row.text(C_CREDIT)? == "BC" })
}

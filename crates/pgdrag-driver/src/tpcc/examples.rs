//! What does TPC-C send? Each of its statements once, with values as a terminal may send them.
//!
//! What a transaction would have read before is taken from the dataset as it was loaded: a number of
//! an order is one that exists, or the next.

use std::fmt::Display;

use super::customer::{BY_NAME, BY_NUMBER};
use super::inputs::{Home, Line, NewOrder, Payment, StockLevel};
use super::random::{Purpose, Stream};
use super::sizes::{CUSTOMERS, FIRST_OPEN_ORDER};
use super::{delivery, new_order, order_status, payment, stock_level};
use crate::workload::Example;

const NEXT_ORDER: i32 = CUSTOMERS + 1;
/// A day on which nothing else happens.
const DAY: &str = "2026-01-01 00:00:00";
const MONEY: &str = "100.00";
const TEXT: &str = "text";

/// All statements, by transaction, in the order in which they are sent first.
pub fn examples(warehouses: u32, seed: u64) -> Vec<Example> {
    let home = Home::as_specified(0, warehouses);
    let mut stream = Stream::new(seed, Purpose::Example, 0);
    let mut listed = Listed::default();
    new_orders(&NewOrder::draw(&home, &mut stream), &mut listed.of(0));
    let customer = (stream.customer_id(), stream.last_name_to_find());
    let payment = Payment::draw(&home, &mut stream);
    payments(&payment, customer.0, &mut listed.of(1));
    // Both ways to a customer, whichever was drawn.
    for transaction in [1, 2] {
        let Payment { customer_warehouse: warehouse, customer_district: district, .. } = payment;
        let mut sends = listed.of(transaction);
        sends.add(BY_NUMBER, &[&warehouse, &district, &customer.0]);
        sends.add(BY_NAME, &[&warehouse, &district, &customer.1.as_str()]);
    }
    let order = (home.warehouse, payment.district, customer.0);
    order_statuses(order, &mut listed.of(2));
    deliveries(order, &mut listed.of(3));
    stock_levels(&StockLevel::draw(&home, &mut stream), &mut listed.of(4));
    listed.examples
}

#[derive(Default)]
struct Listed {
    examples: Vec<Example>,
}

impl Listed {
    fn of(&mut self, transaction: usize) -> Sends<'_> {
        Sends { examples: &mut self.examples, transaction }
    }
}

/// The statements of one transaction.
struct Sends<'a> {
    examples: &'a mut Vec<Example>,
    transaction: usize,
}

impl Sends<'_> {
    fn add(&mut self, text: &str, values: &[&dyn Display]) {
        self.examples.push(Example {
            transaction: self.transaction,
            text: text.to_owned(),
            values: values.iter().map(|value| Some(value.to_string())).collect(),
        });
    }
}

fn new_orders(input: &NewOrder, sends: &mut Sends<'_>) {
    use new_order::sql;
    let NewOrder { warehouse, district, customer, .. } = *input;
    let Line { item, supply_warehouse, quantity } = input.lines()[0];
    sends.add(sql::CUSTOMER, &[&warehouse, &district, &customer]);
    sends.add(sql::WAREHOUSE, &[&warehouse]);
    sends.add(sql::DISTRICT, &[&warehouse, &district]);
    sends.add(sql::TAKE_NUMBER, &[&warehouse, &district]);
    let lines = input.lines().len();
    let order: &[&dyn Display] = &[&NEXT_ORDER, &district, &warehouse, &customer, &DAY, &lines, &1];
    sends.add(sql::INSERT_ORDER, order);
    sends.add(sql::INSERT_NEW_ORDER, &[&NEXT_ORDER, &district, &warehouse]);
    sends.add(sql::ITEM, &[&item]);
    sends.add(sql::STOCK, &[&item, &supply_warehouse]);
    let line: &[&dyn Display] = &[
        &NEXT_ORDER,
        &district,
        &warehouse,
        &1,
        &item,
        &supply_warehouse,
        &quantity,
        &MONEY,
        &TEXT,
    ];
    sends.add(sql::INSERT_LINE, line);
    sends.add(sql::UPDATE_STOCK, &[&50, &quantity, &0, &item, &supply_warehouse]);
}

fn payments(input: &Payment, customer: i32, sends: &mut Sends<'_>) {
    use payment::sql;
    let Payment { warehouse, district, .. } = *input;
    let (of_warehouse, of_district) = (input.customer_warehouse, input.customer_district);
    sends.add(sql::PAY_WAREHOUSE, &[&MONEY, &warehouse]);
    sends.add(sql::WAREHOUSE, &[&warehouse]);
    sends.add(sql::PAY_DISTRICT, &[&MONEY, &warehouse, &district]);
    sends.add(sql::DISTRICT, &[&warehouse, &district]);
    sends.add(sql::NOTES, &[&of_warehouse, &of_district, &customer]);
    let noted: &[&dyn Display] = &[&MONEY, &MONEY, &TEXT, &of_warehouse, &of_district, &customer];
    sends.add(sql::PAY_WITH_NOTES, noted);
    sends.add(sql::PAY, &[&MONEY, &MONEY, &of_warehouse, &of_district, &customer]);
    let history: &[&dyn Display] =
        &[&of_district, &of_warehouse, &customer, &district, &warehouse, &DAY, &MONEY, &TEXT];
    sends.add(sql::INSERT_HISTORY, history);
}

fn order_statuses((warehouse, district, customer): (i32, i32, i32), sends: &mut Sends<'_>) {
    use order_status::sql;
    sends.add(sql::NEWEST_ORDER, &[&warehouse, &district, &customer]);
    sends.add(sql::LINES, &[&CUSTOMERS, &district, &warehouse]);
}

fn deliveries((warehouse, district, customer): (i32, i32, i32), sends: &mut Sends<'_>) {
    use delivery::sql;
    let order: [&dyn Display; 3] = [&FIRST_OPEN_ORDER, &district, &warehouse];
    let with = |first: &'static dyn Display| [&[first], &order[..]].concat();
    sends.add(sql::OLDEST, &[&district, &warehouse]);
    sends.add(sql::CLOSE, &order);
    sends.add(sql::CUSTOMER, &order);
    sends.add(sql::SET_CARRIER, &with(&1));
    sends.add(sql::SET_DATE, &with(&DAY));
    sends.add(sql::AMOUNT, &order);
    sends.add(sql::BILL, &[&MONEY, &warehouse, &district, &customer]);
}

fn stock_levels(input: &StockLevel, sends: &mut Sends<'_>) {
    use stock_level::{RECENT_ORDERS, sql};
    let StockLevel { warehouse, district, threshold } = *input;
    sends.add(sql::DISTRICT, &[&warehouse, &district]);
    let recent = NEXT_ORDER - RECENT_ORDERS;
    let count: &[&dyn Display] =
        &[&warehouse, &district, &NEXT_ORDER, &recent, &warehouse, &threshold];
    sends.add(sql::COUNT, count);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The highest number of a parameter in a text.
    fn parameters(text: &str) -> usize {
        let numbers = text.split('$').skip(1).map(|rest| {
            let end = rest.find(|next: char| !next.is_ascii_digit()).unwrap_or(rest.len());
            rest[..end].parse().expect("a number")
        });
        numbers.max().unwrap_or(0)
    }

    #[test]
    fn every_parameter_has_a_value() {
        for example in examples(3, 1) {
            assert_eq!(example.values.len(), parameters(&example.text), "{}", example.text);
        }
    }

    #[test]
    fn a_seed_gives_the_same_examples_and_another_others() {
        assert_eq!(examples(3, 1), examples(3, 1));
        assert_ne!(examples(3, 1), examples(3, 2));
    }
}

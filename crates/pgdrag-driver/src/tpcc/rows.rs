//! What stands in each row of the initial dataset?

use std::ops::RangeInclusive;

use super::inputs::DISTRICTS;
use super::random::{LastName, Stream, line_count};
use super::sizes::{CUSTOMERS, FIRST_OPEN_ORDER, ITEMS, ITEMS_A_BLOCK, share};
use crate::session::copy_rows::CopyRows;

/// 2026-01-01 00:00:00 as PostgreSQL counts, in µs since 2000. BenchBase writes the time of loading;
/// one instant for ever keeps "same seed, same dataset" true, and no transaction reads it.
const LOADED_AT_US: i64 = 9497 * 86_400 * 1_000_000;

/// Amounts are in cents, and so is the one quantity that is a decimal.
const DOLLAR: i64 = 100;
const ONE: i64 = 100;

/// Where a block's rows stand, and the chance they are made of.
pub struct Block {
    pub seed: u64,
    pub warehouse: i32,
    pub index: i32,
    pub stream: Stream,
}

impl Block {
    /// A string of letters, one shorter than a length drawn from `low..=high`.
    fn text(&mut self, rows: &mut CopyRows, low: usize, high: usize) {
        let length = self.length(low, high) - 1;
        self.letters(rows, length);
    }

    fn length(&mut self, low: usize, high: usize) -> usize {
        let length = self.stream.between(low as u64, high as u64);
        usize::try_from(length).expect("a short string")
    }

    fn letters(&mut self, rows: &mut CopyRows, length: usize) {
        rows.text_with(length, |text| self.stream.letters(text));
    }

    fn digits(&mut self, rows: &mut CopyRows, length: usize, suffix: &[u8]) {
        rows.text_with(length + suffix.len(), |text| {
            let (drawn, end) = text.split_at_mut(length);
            self.stream.digits(drawn);
            end.copy_from_slice(suffix);
        });
    }

    /// TPC-C 4.3.2.7: two streets, city, state; the postal code differs between tables.
    fn address(&mut self, rows: &mut CopyRows) {
        for _ in 0..3 {
            self.text(rows, 10, 20);
        }
        rows.text_with(2, |text| self.stream.capitals(text));
    }

    /// TPC-C 4.3.3.1: the data of items and stock; one in ten has ORIGINAL somewhere within.
    fn item_text(&mut self, rows: &mut CopyRows) {
        const MARK: &[u8] = b"ORIGINAL";
        let is_original = self.stream.percent(10);
        let length = self.length(26, 50);
        if !is_original {
            return self.letters(rows, length - 1);
        }
        // BenchBase's arithmetic: each of the two random strings is one character short.
        let start = self.length(2, length - 8);
        let (before, after) = (start - 2, (length - start).saturating_sub(10));
        rows.text_with(before + MARK.len() + after, |text| {
            self.stream.letters(text);
            text[before..before + MARK.len()].copy_from_slice(MARK);
        });
    }

    fn items(&self) -> RangeInclusive<i32> {
        let before = self.index * ITEMS_A_BLOCK;
        before + 1..=before + ITEMS_A_BLOCK
    }
}

pub fn write_warehouse(block: &mut Block, rows: &mut CopyRows) {
    rows.begin(9);
    rows.int4(block.warehouse);
    rows.decimal::<2>(300_000 * DOLLAR);
    // TPC-C 4.3.3.1: a tax of 0 to 20 %.
    rows.decimal::<4>(block.stream.cents(0, 2000));
    block.text(rows, 6, 10);
    block.address(rows);
    rows.text(b"123456789");
}

pub fn write_districts(block: &mut Block, rows: &mut CopyRows) {
    for district in 1..=DISTRICTS {
        rows.begin(11);
        rows.int4(block.warehouse);
        rows.int4(district);
        rows.decimal::<2>(30_000 * DOLLAR);
        rows.decimal::<4>(block.stream.cents(0, 2000));
        rows.int4(CUSTOMERS + 1);
        block.text(rows, 6, 10);
        block.address(rows);
        rows.text(b"123456789");
    }
}

pub fn write_items(block: &mut Block, rows: &mut CopyRows) {
    for item in block.items() {
        rows.begin(5);
        rows.int4(item);
        block.text(rows, 14, 24);
        rows.decimal::<2>(block.stream.cents(DOLLAR, 100 * DOLLAR));
        block.item_text(rows);
        rows.int4(block.stream.int(1, 10_000));
    }
}

pub fn write_stock(block: &mut Block, rows: &mut CopyRows) {
    for item in block.items() {
        rows.begin(17);
        rows.int4(block.warehouse);
        rows.int4(item);
        rows.int4(block.stream.int(10, 100));
        rows.decimal::<2>(0);
        rows.int4(0);
        rows.int4(0);
        block.item_text(rows);
        for _ in 0..DISTRICTS {
            block.letters(rows, 23);
        }
    }
}

pub fn write_customers(block: &mut Block, rows: &mut CopyRows) {
    let (district, customers) = share(block.index);
    for customer in customers {
        // TPC-C 4.3.3.1: the first thousand have every last name once, the others a NURand one.
        let last_name = match u64::try_from(customer).expect("a positive number") {
            customer @ 1..=1000 => LastName::of(customer - 1),
            _ => block.stream.last_name_to_load(),
        };
        rows.begin(21);
        rows.int4(block.warehouse);
        rows.int4(district);
        rows.int4(customer);
        rows.decimal::<4>(block.stream.cents(1, 5000));
        // TPC-C 4.3.3.1: one in ten has bad credit.
        rows.text(if block.stream.percent(10) { b"BC" } else { b"GC" });
        rows.text(last_name.as_str().as_bytes());
        block.text(rows, 8, 16);
        rows.decimal::<2>(50_000 * DOLLAR);
        rows.decimal::<2>(-10 * DOLLAR);
        rows.float8(10.0);
        rows.int4(1);
        rows.int4(0);
        block.address(rows);
        block.digits(rows, 4, b"11111");
        block.digits(rows, 16, b"");
        rows.timestamp(LOADED_AT_US);
        rows.text(b"OE");
        block.text(rows, 300, 500);
    }
}

pub fn write_history(block: &mut Block, rows: &mut CopyRows) {
    let (district, customers) = share(block.index);
    for customer in customers {
        rows.begin(8);
        rows.int4(customer);
        rows.int4(district);
        rows.int4(block.warehouse);
        rows.int4(district);
        rows.int4(block.warehouse);
        rows.timestamp(LOADED_AT_US);
        rows.decimal::<2>(10 * DOLLAR);
        block.text(rows, 10, 24);
    }
}

/// TPC-C 4.3.3.1: the customers of a district in random order.
fn shuffled_customers(stream: &mut Stream) -> Vec<i32> {
    let mut customers: Vec<i32> = (1..=CUSTOMERS).collect();
    for last in (1..customers.len()).rev() {
        let pick = stream.between(0, last as u64);
        customers.swap(last, usize::try_from(pick).expect("an index"));
    }
    customers
}

pub fn write_orders(block: &mut Block, rows: &mut CopyRows) {
    let district = block.index + 1;
    let customers = shuffled_customers(&mut block.stream);
    for (order, customer) in (1..).zip(customers) {
        rows.begin(8);
        rows.int4(block.warehouse);
        rows.int4(district);
        rows.int4(order);
        rows.int4(customer);
        if order < FIRST_OPEN_ORDER {
            rows.int4(block.stream.int(1, 10));
        } else {
            rows.null();
        }
        rows.int4(line_count(block.seed, block.warehouse, district, order));
        rows.int4(1);
        rows.timestamp(LOADED_AT_US);
    }
}

pub fn write_new_orders(block: &mut Block, rows: &mut CopyRows) {
    for order in FIRST_OPEN_ORDER..=CUSTOMERS {
        rows.begin(3);
        rows.int4(block.warehouse);
        rows.int4(block.index + 1);
        rows.int4(order);
    }
}

pub fn write_order_lines(block: &mut Block, rows: &mut CopyRows) {
    let (district, orders) = share(block.index);
    for order in orders {
        for line in 1..=line_count(block.seed, block.warehouse, district, order) {
            rows.begin(10);
            rows.int4(block.warehouse);
            rows.int4(district);
            rows.int4(order);
            rows.int4(line);
            rows.int4(block.stream.int(1, ITEMS));
            if order < FIRST_OPEN_ORDER {
                rows.timestamp(LOADED_AT_US);
                rows.decimal::<2>(0);
            } else {
                rows.null();
                rows.decimal::<2>(block.stream.cents(1, 10_000 * DOLLAR - 1));
            }
            rows.int4(block.warehouse);
            rows.decimal::<2>(5 * ONE);
            block.letters(rows, 23);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Purpose;
    use super::*;

    #[test]
    fn every_customer_of_a_district_has_placed_one_order() {
        let mut stream = Stream::new(1, Purpose::Order, 0);
        let mut customers = shuffled_customers(&mut stream);
        assert!(!customers.is_sorted());
        customers.sort_unstable();
        assert_eq!(customers, (1..=CUSTOMERS).collect::<Vec<_>>());
    }
}

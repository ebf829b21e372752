//! Which rows does each table start with (TPC-C 4.3.3, in BenchBase's form)?
//!
//! A table's rows come in blocks, and a block is a function of (seed, table, warehouse, block): whoever
//! writes it, in whichever order, writes the same bytes. Sizes are BenchBase's; its random strings are
//! one character shorter than the length drawn, so that its `char(24)` holds 23 letters and a space.

use super::copy_rows::CopyRows;
use super::inputs::DISTRICTS;
use super::random::{LastName, Purpose, Stream, line_count};

/// TPC-C 4.3.3.1: items, and stock rows of a warehouse.
const ITEMS: i32 = 100_000;
/// Customers of a district, and orders that they have placed.
const CUSTOMERS: i32 = 3000;
/// TPC-C 4.3.3.1: this order and the later ones are not delivered yet.
const FIRST_OPEN_ORDER: i32 = 2101;

/// Amounts are in cents, and so is the one quantity that is a decimal.
const DOLLAR: i64 = 100;
const ONE: i64 = 100;

/// Items and stock rows of one block.
const ITEMS_A_BLOCK: i32 = 1000;
/// Customers, and orders with their lines, of one block.
const CUSTOMERS_A_BLOCK: i32 = 500;
const BLOCKS_A_DISTRICT: i32 = CUSTOMERS / CUSTOMERS_A_BLOCK;

/// 2026-01-01 00:00:00 as PostgreSQL counts, in µs since 2000. BenchBase writes the time of loading;
/// one instant for ever keeps "same seed, same dataset" true, and no transaction reads it.
const LOADED_AT_US: i64 = 9497 * 86_400 * 1_000_000;

/// How one table is filled.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    purpose: Purpose,
    /// One set of rows for the whole dataset (item), or one for each warehouse.
    is_shared: bool,
    blocks: i32,
    rows_a_block: i32,
    write: fn(&mut Block, &mut CopyRows),
}

/// Where a block's rows stand, and the chance they are made of.
struct Block {
    seed: u64,
    warehouse: i32,
    index: i32,
    stream: Stream,
}

const fn per_district(
    purpose: Purpose,
    rows_a_block: i32,
    write: fn(&mut Block, &mut CopyRows),
) -> Source {
    Source { purpose, is_shared: false, blocks: DISTRICTS * BLOCKS_A_DISTRICT, rows_a_block, write }
}

pub const WAREHOUSE: Source = Source {
    purpose: Purpose::Warehouse,
    is_shared: false,
    blocks: 1,
    rows_a_block: 1,
    write: write_warehouse,
};
pub const DISTRICT: Source = Source {
    purpose: Purpose::District,
    is_shared: false,
    blocks: 1,
    rows_a_block: DISTRICTS,
    write: write_districts,
};
pub const ITEM: Source = Source {
    purpose: Purpose::Item,
    is_shared: true,
    blocks: ITEMS / ITEMS_A_BLOCK,
    rows_a_block: ITEMS_A_BLOCK,
    write: write_items,
};
pub const STOCK: Source = Source {
    purpose: Purpose::Stock,
    is_shared: false,
    blocks: ITEMS / ITEMS_A_BLOCK,
    rows_a_block: ITEMS_A_BLOCK,
    write: write_stock,
};
pub const CUSTOMER: Source = per_district(Purpose::Customer, CUSTOMERS_A_BLOCK, write_customers);
pub const HISTORY: Source = per_district(Purpose::History, CUSTOMERS_A_BLOCK, write_history);
/// One block a district: its customers are shuffled as a whole.
pub const ORDER: Source = Source {
    purpose: Purpose::Order,
    is_shared: false,
    blocks: DISTRICTS,
    rows_a_block: CUSTOMERS,
    write: write_orders,
};
pub const NEW_ORDER: Source = Source {
    purpose: Purpose::Order,
    is_shared: false,
    blocks: DISTRICTS,
    rows_a_block: CUSTOMERS - FIRST_OPEN_ORDER + 1,
    write: write_new_orders,
};
/// Ten rows an order is the mean; [`Source::block_rows`] counts the lines one by one.
pub const ORDER_LINE: Source =
    per_district(Purpose::OrderLine, CUSTOMERS_A_BLOCK * 10, write_order_lines);

impl Source {
    /// The blocks of a dataset of `warehouses`, in the order of the primary key.
    pub fn blocks(&self, warehouses: u32) -> impl Iterator<Item = (i32, i32)> + use<> {
        let warehouses = i32::try_from(warehouses).expect("the job's limit");
        let (sets, blocks) = (if self.is_shared { 1 } else { warehouses }, self.blocks);
        (1..=sets).flat_map(move |warehouse| (0..blocks).map(move |block| (warehouse, block)))
    }

    /// Appends the rows of one block.
    pub fn write(&self, seed: u64, (warehouse, index): (i32, i32), rows: &mut CopyRows) {
        let part = u64::from(warehouse.unsigned_abs()) << 32 | u64::from(index.unsigned_abs());
        let stream = Stream::new(seed, self.purpose, part);
        let mut block = Block { seed, warehouse, index, stream };
        (self.write)(&mut block, rows);
    }

    /// Counts the rows of one block.
    pub fn block_rows(&self, seed: u64, (warehouse, index): (i32, i32)) -> u64 {
        let rows = if self.purpose == Purpose::OrderLine {
            let (district, orders) = share(index);
            orders.map(|order| line_count(seed, warehouse, district, order)).sum()
        } else {
            self.rows_a_block
        };
        u64::from(rows.unsigned_abs())
    }

    /// Counts the rows of this table in a dataset of `warehouses`.
    pub fn rows(&self, seed: u64, warehouses: u32) -> u64 {
        self.blocks(warehouses).map(|block| self.block_rows(seed, block)).sum()
    }
}

/// The district, and the customers or orders of it, that a block of `per_district` holds.
fn share(index: i32) -> (i32, std::ops::RangeInclusive<i32>) {
    let district = index / BLOCKS_A_DISTRICT + 1;
    let before = index % BLOCKS_A_DISTRICT * CUSTOMERS_A_BLOCK;
    (district, before + 1..=before + CUSTOMERS_A_BLOCK)
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

    fn items(&self) -> std::ops::RangeInclusive<i32> {
        let before = self.index * ITEMS_A_BLOCK;
        before + 1..=before + ITEMS_A_BLOCK
    }
}

fn write_warehouse(block: &mut Block, rows: &mut CopyRows) {
    rows.begin(9);
    rows.int4(block.warehouse);
    rows.decimal::<2>(300_000 * DOLLAR);
    // TPC-C 4.3.3.1: a tax of 0 to 20 %.
    rows.decimal::<4>(block.stream.cents(0, 2000));
    block.text(rows, 6, 10);
    block.address(rows);
    rows.text(b"123456789");
}

fn write_districts(block: &mut Block, rows: &mut CopyRows) {
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

fn write_items(block: &mut Block, rows: &mut CopyRows) {
    for item in block.items() {
        rows.begin(5);
        rows.int4(item);
        block.text(rows, 14, 24);
        rows.decimal::<2>(block.stream.cents(DOLLAR, 100 * DOLLAR));
        block.item_text(rows);
        rows.int4(block.stream.int(1, 10_000));
    }
}

fn write_stock(block: &mut Block, rows: &mut CopyRows) {
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

fn write_customers(block: &mut Block, rows: &mut CopyRows) {
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

fn write_history(block: &mut Block, rows: &mut CopyRows) {
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

fn write_orders(block: &mut Block, rows: &mut CopyRows) {
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

fn write_new_orders(block: &mut Block, rows: &mut CopyRows) {
    for order in FIRST_OPEN_ORDER..=CUSTOMERS {
        rows.begin(3);
        rows.int4(block.warehouse);
        rows.int4(block.index + 1);
        rows.int4(order);
    }
}

fn write_order_lines(block: &mut Block, rows: &mut CopyRows) {
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
    use super::*;

    const SEED: u64 = 1;

    fn bytes(source: &Source, seed: u64, block: (i32, i32)) -> Vec<u8> {
        let mut rows = CopyRows::default();
        source.write(seed, block, &mut rows);
        rows.as_bytes().to_vec()
    }

    #[test]
    fn every_table_has_the_rows_of_the_specification() {
        let cases = [
            (&WAREHOUSE, 2),
            (&DISTRICT, 20),
            (&ITEM, 100_000),
            (&STOCK, 200_000),
            (&CUSTOMER, 60_000),
            (&HISTORY, 60_000),
            (&ORDER, 60_000),
            (&NEW_ORDER, 18_000),
        ];
        for (source, rows) in cases {
            assert_eq!(source.rows(SEED, 2), rows, "{:?}", source.purpose);
        }
        // Ten lines an order on average: 600,000, standard deviation 775.
        let lines = ORDER_LINE.rows(SEED, 2);
        assert!((595_000..=605_000).contains(&lines), "{lines}");
    }

    #[test]
    fn a_block_repeats_and_depends_on_seed_warehouse_and_number() {
        let first = bytes(&STOCK, SEED, (1, 0));
        assert_eq!(first, bytes(&STOCK, SEED, (1, 0)));
        assert_ne!(first, bytes(&STOCK, SEED + 1, (1, 0)));
        assert_ne!(first, bytes(&STOCK, SEED, (2, 0)));
        assert_ne!(first, bytes(&STOCK, SEED, (1, 1)));
    }

    #[test]
    fn every_customer_of_a_district_has_placed_one_order() {
        let mut stream = Stream::new(SEED, Purpose::Order, 0);
        let mut customers = shuffled_customers(&mut stream);
        assert!(!customers.is_sorted());
        customers.sort_unstable();
        assert_eq!(customers, (1..=CUSTOMERS).collect::<Vec<_>>());
    }

    #[test]
    fn the_blocks_of_a_district_hold_its_customers_once() {
        let held: Vec<_> = (0..BLOCKS_A_DISTRICT).flat_map(|index| share(index).1).collect();
        assert_eq!(held, (1..=CUSTOMERS).collect::<Vec<_>>());
        assert_eq!(share(BLOCKS_A_DISTRICT).0, 2);
    }
}

//! How many rows has each table at the start, and how are they divided into blocks?

/// TPC-C 4.3.3.1: items, and stock rows of a warehouse.
pub const ITEMS: i32 = 100_000;
/// Customers of a district, and orders that they have placed.
pub const CUSTOMERS: i32 = 3000;
/// TPC-C 4.3.3.1: this order and the later ones are not delivered yet.
pub const FIRST_OPEN_ORDER: i32 = 2101;

/// Items and stock rows of one block.
pub const ITEMS_A_BLOCK: i32 = 1000;
/// Customers, and orders with their lines, of one block.
pub const CUSTOMERS_A_BLOCK: i32 = 500;
pub const BLOCKS_A_DISTRICT: i32 = CUSTOMERS / CUSTOMERS_A_BLOCK;

/// The district, and the customers or orders of it, that a block of `per_district` holds.
pub fn share(index: i32) -> (i32, std::ops::RangeInclusive<i32>) {
    let district = index / BLOCKS_A_DISTRICT + 1;
    let before = index % BLOCKS_A_DISTRICT * CUSTOMERS_A_BLOCK;
    (district, before + 1..=before + CUSTOMERS_A_BLOCK)
}

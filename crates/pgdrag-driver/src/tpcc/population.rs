//! Which rows does each table start with (TPC-C 4.3.3, in BenchBase's form)?
//!
//! A table's rows come in blocks, and a block is a function of (seed, table, warehouse, block): whoever
//! writes it, in whichever order, writes the same bytes. Sizes are BenchBase's; its random strings are
//! one character shorter than the length drawn, so that its `char(24)` holds 23 letters and a space.

use super::inputs::DISTRICTS;
use super::random::{Purpose, Stream, line_count};
use super::rows::{self, Block};
use super::sizes::{
    BLOCKS_A_DISTRICT, CUSTOMERS, CUSTOMERS_A_BLOCK, FIRST_OPEN_ORDER, ITEMS, ITEMS_A_BLOCK, share,
};
use crate::session::copy_rows::CopyRows;

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
    write: rows::write_warehouse,
};
pub const DISTRICT: Source = Source {
    purpose: Purpose::District,
    is_shared: false,
    blocks: 1,
    rows_a_block: DISTRICTS,
    write: rows::write_districts,
};
pub const ITEM: Source = Source {
    purpose: Purpose::Item,
    is_shared: true,
    blocks: ITEMS / ITEMS_A_BLOCK,
    rows_a_block: ITEMS_A_BLOCK,
    write: rows::write_items,
};
pub const STOCK: Source = Source {
    purpose: Purpose::Stock,
    is_shared: false,
    blocks: ITEMS / ITEMS_A_BLOCK,
    rows_a_block: ITEMS_A_BLOCK,
    write: rows::write_stock,
};
pub const CUSTOMER: Source =
    per_district(Purpose::Customer, CUSTOMERS_A_BLOCK, rows::write_customers);
pub const HISTORY: Source = per_district(Purpose::History, CUSTOMERS_A_BLOCK, rows::write_history);
/// One block a district: its customers are shuffled as a whole.
pub const ORDER: Source = Source {
    purpose: Purpose::Order,
    is_shared: false,
    blocks: DISTRICTS,
    rows_a_block: CUSTOMERS,
    write: rows::write_orders,
};
pub const NEW_ORDER: Source = Source {
    purpose: Purpose::Order,
    is_shared: false,
    blocks: DISTRICTS,
    rows_a_block: CUSTOMERS - FIRST_OPEN_ORDER + 1,
    write: rows::write_new_orders,
};
/// Ten rows an order is the mean; [`Source::block_rows`] counts the lines one by one.
pub const ORDER_LINE: Source =
    per_district(Purpose::OrderLine, CUSTOMERS_A_BLOCK * 10, rows::write_order_lines);

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

    /// FNV-1a, 64 bits.
    fn digest(bytes: &[u8]) -> u64 {
        let fold =
            |digest: u64, byte: &u8| (digest ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        bytes.iter().fold(0xcbf2_9ce4_8422_2325, fold)
    }

    /// Datasets are kept between releases under the name of their seed: who changes what a seed gives must
    /// change the dataset's version as well.
    #[test]
    fn the_rows_of_a_seed_are_those_of_earlier_releases() {
        let sources =
            [WAREHOUSE, DISTRICT, ITEM, STOCK, CUSTOMER, HISTORY, ORDER, NEW_ORDER, ORDER_LINE];
        let first_blocks: Vec<u8> =
            sources.iter().flat_map(|source| bytes(source, SEED, (1, 0))).collect();
        assert_eq!(digest(&first_blocks), 1_434_798_802_017_372_138);
    }

    #[test]
    fn the_blocks_of_a_district_hold_its_customers_once() {
        let held: Vec<_> = (0..BLOCKS_A_DISTRICT).flat_map(|index| share(index).1).collect();
        assert_eq!(held, (1..=CUSTOMERS).collect::<Vec<_>>());
        assert_eq!(share(BLOCKS_A_DISTRICT).0, 2);
    }
}

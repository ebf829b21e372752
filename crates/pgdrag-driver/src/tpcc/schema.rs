//! Which tables, keys and constraints does the workload need, and in which order are they made?
//!
//! The tables are BenchBase's (its PostgreSQL form): same columns in the same order, same types, keys and
//! foreign keys, so that a row, a page and an index look as they do there. Keys and constraints
//! are added after the rows, which is several times faster than checking each row as it comes. They are
//! not named, there as here, so that the server gives both the same names.

use super::population::{self, Source};

/// One table: how to make it, and what is added once it holds its rows.
#[derive(Debug)]
pub struct Table {
    pub name: &'static str,
    pub create: &'static str,
    /// The rows it starts with.
    pub source: Source,
    /// Primary key, unique constraint and index.
    pub keys: &'static [&'static str],
    pub foreign_keys: &'static [ForeignKey],
}

/// A reference to another table. Adding it locks both, and reads both.
#[derive(Debug)]
pub struct ForeignKey {
    pub columns: &'static str,
    pub references: &'static str,
    pub referenced_columns: &'static str,
}

impl Table {
    /// The statement that adds one of its foreign keys.
    pub fn add_foreign_key(&self, key: &ForeignKey) -> String {
        let ForeignKey { columns, references, referenced_columns } = key;
        format!(
            "ALTER TABLE {} ADD FOREIGN KEY ({columns}) REFERENCES {references} ({referenced_columns}) \
             ON DELETE CASCADE",
            self.name
        )
    }
}

/// Largest first: whoever works through this list with several connections ends evenly.
pub const TABLES: [Table; 9] = [
    Table {
        name: "order_line",
        create: "CREATE TABLE order_line (
            ol_w_id int NOT NULL,
            ol_d_id int NOT NULL,
            ol_o_id int NOT NULL,
            ol_number int NOT NULL,
            ol_i_id int NOT NULL,
            ol_delivery_d timestamp NULL DEFAULT NULL,
            ol_amount decimal(6, 2) NOT NULL,
            ol_supply_w_id int NOT NULL,
            ol_quantity decimal(6, 2) NOT NULL,
            ol_dist_info char(24) NOT NULL)",
        source: population::ORDER_LINE,
        keys: &["ALTER TABLE order_line ADD PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number)"],
        foreign_keys: &[
            ForeignKey {
                columns: "ol_w_id, ol_d_id, ol_o_id",
                references: "oorder",
                referenced_columns: "o_w_id, o_d_id, o_id",
            },
            ForeignKey {
                columns: "ol_supply_w_id, ol_i_id",
                references: "stock",
                referenced_columns: "s_w_id, s_i_id",
            },
        ],
    },
    Table {
        name: "stock",
        create: "CREATE TABLE stock (
            s_w_id int NOT NULL,
            s_i_id int NOT NULL,
            s_quantity int NOT NULL,
            s_ytd decimal(8, 2) NOT NULL,
            s_order_cnt int NOT NULL,
            s_remote_cnt int NOT NULL,
            s_data varchar(50) NOT NULL,
            s_dist_01 char(24) NOT NULL,
            s_dist_02 char(24) NOT NULL,
            s_dist_03 char(24) NOT NULL,
            s_dist_04 char(24) NOT NULL,
            s_dist_05 char(24) NOT NULL,
            s_dist_06 char(24) NOT NULL,
            s_dist_07 char(24) NOT NULL,
            s_dist_08 char(24) NOT NULL,
            s_dist_09 char(24) NOT NULL,
            s_dist_10 char(24) NOT NULL)",
        source: population::STOCK,
        keys: &["ALTER TABLE stock ADD PRIMARY KEY (s_w_id, s_i_id)"],
        foreign_keys: &[
            ForeignKey { columns: "s_w_id", references: "warehouse", referenced_columns: "w_id" },
            ForeignKey { columns: "s_i_id", references: "item", referenced_columns: "i_id" },
        ],
    },
    Table {
        name: "customer",
        create: "CREATE TABLE customer (
            c_w_id int NOT NULL,
            c_d_id int NOT NULL,
            c_id int NOT NULL,
            c_discount decimal(4, 4) NOT NULL,
            c_credit char(2) NOT NULL,
            c_last varchar(16) NOT NULL,
            c_first varchar(16) NOT NULL,
            c_credit_lim decimal(12, 2) NOT NULL,
            c_balance decimal(12, 2) NOT NULL,
            c_ytd_payment float NOT NULL,
            c_payment_cnt int NOT NULL,
            c_delivery_cnt int NOT NULL,
            c_street_1 varchar(20) NOT NULL,
            c_street_2 varchar(20) NOT NULL,
            c_city varchar(20) NOT NULL,
            c_state char(2) NOT NULL,
            c_zip char(9) NOT NULL,
            c_phone char(16) NOT NULL,
            c_since timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
            c_middle char(2) NOT NULL,
            c_data varchar(500) NOT NULL)",
        source: population::CUSTOMER,
        keys: &[
            "ALTER TABLE customer ADD PRIMARY KEY (c_w_id, c_d_id, c_id)",
            "CREATE INDEX idx_customer_name ON customer (c_w_id, c_d_id, c_last, c_first)",
        ],
        foreign_keys: &[ForeignKey {
            columns: "c_w_id, c_d_id",
            references: "district",
            referenced_columns: "d_w_id, d_id",
        }],
    },
    Table {
        name: "history",
        create: "CREATE TABLE history (
            h_c_id int NOT NULL,
            h_c_d_id int NOT NULL,
            h_c_w_id int NOT NULL,
            h_d_id int NOT NULL,
            h_w_id int NOT NULL,
            h_date timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP,
            h_amount decimal(6, 2) NOT NULL,
            h_data varchar(24) NOT NULL)",
        source: population::HISTORY,
        keys: &[],
        foreign_keys: &[
            ForeignKey {
                columns: "h_c_w_id, h_c_d_id, h_c_id",
                references: "customer",
                referenced_columns: "c_w_id, c_d_id, c_id",
            },
            ForeignKey {
                columns: "h_w_id, h_d_id",
                references: "district",
                referenced_columns: "d_w_id, d_id",
            },
        ],
    },
    Table {
        name: "oorder",
        create: "CREATE TABLE oorder (
            o_w_id int NOT NULL,
            o_d_id int NOT NULL,
            o_id int NOT NULL,
            o_c_id int NOT NULL,
            o_carrier_id int DEFAULT NULL,
            o_ol_cnt int NOT NULL,
            o_all_local int NOT NULL,
            o_entry_d timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP)",
        source: population::ORDER,
        keys: &[
            "ALTER TABLE oorder ADD PRIMARY KEY (o_w_id, o_d_id, o_id)",
            "ALTER TABLE oorder ADD UNIQUE (o_w_id, o_d_id, o_c_id, o_id)",
        ],
        foreign_keys: &[ForeignKey {
            columns: "o_w_id, o_d_id, o_c_id",
            references: "customer",
            referenced_columns: "c_w_id, c_d_id, c_id",
        }],
    },
    Table {
        name: "item",
        create: "CREATE TABLE item (
            i_id int NOT NULL,
            i_name varchar(24) NOT NULL,
            i_price decimal(5, 2) NOT NULL,
            i_data varchar(50) NOT NULL,
            i_im_id int NOT NULL)",
        source: population::ITEM,
        keys: &["ALTER TABLE item ADD PRIMARY KEY (i_id)"],
        foreign_keys: &[],
    },
    Table {
        name: "new_order",
        create: "CREATE TABLE new_order (
            no_w_id int NOT NULL,
            no_d_id int NOT NULL,
            no_o_id int NOT NULL)",
        source: population::NEW_ORDER,
        keys: &["ALTER TABLE new_order ADD PRIMARY KEY (no_w_id, no_d_id, no_o_id)"],
        foreign_keys: &[ForeignKey {
            columns: "no_w_id, no_d_id, no_o_id",
            references: "oorder",
            referenced_columns: "o_w_id, o_d_id, o_id",
        }],
    },
    Table {
        name: "district",
        create: "CREATE TABLE district (
            d_w_id int NOT NULL,
            d_id int NOT NULL,
            d_ytd decimal(12, 2) NOT NULL,
            d_tax decimal(4, 4) NOT NULL,
            d_next_o_id int NOT NULL,
            d_name varchar(10) NOT NULL,
            d_street_1 varchar(20) NOT NULL,
            d_street_2 varchar(20) NOT NULL,
            d_city varchar(20) NOT NULL,
            d_state char(2) NOT NULL,
            d_zip char(9) NOT NULL)",
        source: population::DISTRICT,
        keys: &["ALTER TABLE district ADD PRIMARY KEY (d_w_id, d_id)"],
        foreign_keys: &[ForeignKey {
            columns: "d_w_id",
            references: "warehouse",
            referenced_columns: "w_id",
        }],
    },
    Table {
        name: "warehouse",
        create: "CREATE TABLE warehouse (
            w_id int NOT NULL,
            w_ytd decimal(12, 2) NOT NULL,
            w_tax decimal(4, 4) NOT NULL,
            w_name varchar(10) NOT NULL,
            w_street_1 varchar(20) NOT NULL,
            w_street_2 varchar(20) NOT NULL,
            w_city varchar(20) NOT NULL,
            w_state char(2) NOT NULL,
            w_zip char(9) NOT NULL)",
        source: population::WAREHOUSE,
        keys: &["ALTER TABLE warehouse ADD PRIMARY KEY (w_id)"],
        foreign_keys: &[],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_keys_refer_to_tables_of_the_schema_by_as_many_columns() {
        for key in TABLES.iter().flat_map(|table| table.foreign_keys) {
            assert!(TABLES.iter().any(|table| table.name == key.references), "{key:?}");
            let count = |columns: &str| columns.split(", ").count();
            assert_eq!(count(key.columns), count(key.referenced_columns), "{key:?}");
        }
    }
}

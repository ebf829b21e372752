//! What does a terminal ask for next?
//!
//! Inputs are drawn before a transaction begins and do not depend on what the server answers, so a
//! retry repeats them and the same seed asks for the same things.

use std::ops::RangeInclusive;

use super::random::{LastName, Stream};

/// TPC-C 1.2.1: districts of a warehouse.
pub const DISTRICTS: i32 = 10;
/// TPC-C 2.4.1.3: an order has at most this many lines.
pub const MAX_LINES: usize = 15;
/// TPC-C 2.4.1.5.1: an item number that no item has.
pub const UNUSED_ITEM: i32 = -1;

/// Where a terminal stands, and what it is responsible for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Home {
    pub warehouses: i32,
    pub warehouse: i32,
    /// Where it enters orders and payments, and asks for the state of orders.
    pub districts: RangeInclusive<i32>,
    /// Where it looks at the stock.
    pub watched: RangeInclusive<i32>,
    /// Its deliveries serve the districts 1 to this one.
    pub last_served: i32,
}

impl Home {
    /// Spreads `clients` terminals over `warehouses` as BenchBase does.
    ///
    /// Warehouse w (from 0) has the terminals from ⌊w·clients/warehouses⌋ on; the terminals of a
    /// warehouse share its districts. With fewer clients than warehouses some have no terminal.
    pub fn as_in_benchbase(client: u32, clients: u32, warehouses: u32) -> Self {
        assert!(client < clients, "client {client} of {clients}");
        let [client, clients, warehouses] = [client, clients, warehouses].map(u64::from);
        let first_terminal = |warehouse: u64| warehouse * clients / warehouses;
        // The first warehouse whose successor begins behind this client.
        let warehouse = ((client + 1) * warehouses - 1) / clients;
        let first = first_terminal(warehouse);
        let (terminal, terminals) = (client - first, first_terminal(warehouse + 1) - first);
        let districts = u64::from(DISTRICTS.unsigned_abs());
        let low = int(terminal * districts / terminals + 1);
        let last_served = int((terminal + 1) * districts / terminals);
        // With more terminals than districts some of BenchBase's ranges are empty. Its draw from such
        // a range is the lower end; its deliveries still stop at the upper one, which may be 0.
        let districts = low..=last_served.max(low);
        Self {
            warehouses: int(warehouses),
            warehouse: int(warehouse) + 1,
            watched: districts.clone(),
            districts,
            last_served,
        }
    }

    /// TPC-C 2.8.1.1, 4.2.2: a warehouse has ten terminals, each with a district of its own, of
    /// which it watches the stock; everything else it does in any district of the warehouse.
    pub fn as_specified(client: u32, warehouses: u32) -> Self {
        let own = int(client % DISTRICTS.unsigned_abs()) + 1;
        Self {
            warehouses: int(warehouses),
            warehouse: int(client / DISTRICTS.unsigned_abs() % warehouses) + 1,
            districts: 1..=DISTRICTS,
            watched: own..=own,
            last_served: DISTRICTS,
        }
    }

    fn district(&self, stream: &mut Stream) -> i32 {
        stream.int(*self.districts.start(), *self.districts.end())
    }

    /// Any warehouse but this one; this one if there is no other.
    fn other_warehouse(&self, stream: &mut Stream) -> i32 {
        if self.warehouses == 1 {
            return self.warehouse;
        }
        let other = stream.int(1, self.warehouses - 1);
        other + i32::from(other >= self.warehouse)
    }
}

fn int(number: impl TryInto<i32, Error: std::fmt::Debug>) -> i32 {
    number.try_into().expect("warehouses and districts fit into an int")
}

/// How a customer is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Customer {
    Named(LastName),
    Numbered(i32),
}

impl Customer {
    // TPC-C 2.5.1.2 and 2.6.1.2: 60 % by last name, 40 % by number.
    fn draw(stream: &mut Stream) -> Self {
        if stream.percent(60) {
            Self::Named(stream.last_name_to_find())
        } else {
            Self::Numbered(stream.customer_id())
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Line {
    pub item: i32,
    pub supply_warehouse: i32,
    pub quantity: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewOrder {
    pub warehouse: i32,
    pub district: i32,
    pub customer: i32,
    lines: [Line; MAX_LINES],
    line_count: usize,
}

impl NewOrder {
    pub fn draw(home: &Home, stream: &mut Stream) -> Self {
        let district = home.district(stream);
        let customer = stream.customer_id();
        // TPC-C 2.4.1.3: 5 to 15 lines.
        let line_count = usize::try_from(stream.between(5, 15)).expect("at most 15");
        let mut lines = [Line::default(); MAX_LINES];
        for line in &mut lines[..line_count] {
            line.item = stream.item_id();
            // TPC-C 2.4.1.5.2: one line in a hundred comes from another warehouse.
            line.supply_warehouse =
                if stream.percent(1) { home.other_warehouse(stream) } else { home.warehouse };
            line.quantity = stream.int(1, 10);
        }
        // TPC-C 2.4.1.4: one New-Order in a hundred is rolled back; its last item does not exist.
        if stream.percent(1) {
            lines[line_count - 1].item = UNUSED_ITEM;
        }
        Self { warehouse: home.warehouse, district, customer, lines, line_count }
    }

    pub fn lines(&self) -> &[Line] {
        &self.lines[..self.line_count]
    }

    /// TPC-C 2.4.2.2: no line comes from another warehouse.
    pub fn is_all_local(&self) -> bool {
        let is_local = |line: &Line| line.supply_warehouse == self.warehouse;
        self.lines().iter().all(is_local)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payment {
    pub warehouse: i32,
    pub district: i32,
    pub customer_warehouse: i32,
    pub customer_district: i32,
    pub customer: Customer,
    pub amount_cents: i64,
}

impl Payment {
    pub fn draw(home: &Home, stream: &mut Stream) -> Self {
        let district = home.district(stream);
        // TPC-C 2.5.1.3: 1.00 to 5000.00.
        let amount_cents = stream.cents(100, 500_000);
        // TPC-C 2.5.1.2: 85 % of the customers pay at home, the others in another warehouse.
        let (customer_district, customer_warehouse) = if stream.percent(85) {
            (district, home.warehouse)
        } else {
            (stream.int(1, DISTRICTS), home.other_warehouse(stream))
        };
        Self {
            warehouse: home.warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer: Customer::draw(stream),
            amount_cents,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderStatus {
    pub warehouse: i32,
    pub district: i32,
    pub customer: Customer,
}

impl OrderStatus {
    pub fn draw(home: &Home, stream: &mut Stream) -> Self {
        Self {
            warehouse: home.warehouse,
            district: home.district(stream),
            customer: Customer::draw(stream),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub warehouse: i32,
    /// Districts 1 to this one are served.
    pub last_district: i32,
    pub carrier: i32,
}

impl Delivery {
    /// TPC-C 2.7.1 delivers in all ten districts; BenchBase stops at the end of the terminal's own
    /// share, which is ten only for the last terminal of a warehouse. Followed where terminals stand
    /// as in BenchBase, for its locks and its work are what is compared.
    pub fn draw(home: &Home, stream: &mut Stream) -> Self {
        Self {
            warehouse: home.warehouse,
            last_district: home.last_served,
            // TPC-C 2.7.1.2.
            carrier: stream.int(1, 10),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StockLevel {
    pub warehouse: i32,
    pub district: i32,
    pub threshold: i32,
}

impl StockLevel {
    pub fn draw(home: &Home, stream: &mut Stream) -> Self {
        Self {
            warehouse: home.warehouse,
            // TPC-C 2.8.1.2.
            threshold: stream.int(10, 20),
            district: stream.int(*home.watched.start(), *home.watched.end()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Purpose;
    use super::*;
    use proptest::prelude::*;

    fn stream() -> Stream {
        Stream::new(42, Purpose::Terminal, 0)
    }

    #[test]
    fn ten_terminals_over_seven_warehouses_stand_as_in_benchbase() {
        let mut at = [0; 7];
        for client in 0..10 {
            at[usize::try_from(Home::as_in_benchbase(client, 10, 7).warehouse - 1).unwrap()] += 1;
        }
        assert_eq!(at, [1, 1, 2, 1, 2, 1, 2]);
    }

    #[test]
    fn one_terminal_has_all_districts_and_three_share_them() {
        assert_eq!(Home::as_in_benchbase(0, 1, 1).districts, 1..=10);
        let shares: Vec<_> =
            (0..3).map(|client| Home::as_in_benchbase(client, 3, 1).districts).collect();
        assert_eq!(shares, [1..=3, 4..=6, 7..=10]);
    }

    #[test]
    fn terminals_beyond_the_tenth_of_a_warehouse_stand_as_in_benchbase() {
        let homes: Vec<_> = (0..4).map(|client| Home::as_in_benchbase(client, 20, 1)).collect();
        let served: Vec<_> = homes.iter().map(|home| home.last_served).collect();
        assert_eq!(served, [0, 1, 1, 2]);
        let districts: Vec<_> = homes.into_iter().map(|home| home.districts).collect();
        assert_eq!(districts, [1..=1, 1..=1, 2..=2, 2..=2]);
    }

    #[test]
    fn a_warehouse_of_the_specification_has_ten_terminals() {
        // (client, warehouse, own district) of two warehouses
        for (client, warehouse, own) in [(0, 1, 1), (9, 1, 10), (10, 2, 1), (20, 1, 1), (37, 2, 8)]
        {
            let home = Home::as_specified(client, 2);
            assert_eq!(
                (home.warehouse, home.watched, home.last_served),
                (warehouse, own..=own, 10)
            );
            assert_eq!(home.districts, 1..=10);
        }
    }

    #[test]
    fn with_one_warehouse_everything_is_local() {
        let home = Home::as_in_benchbase(0, 1, 1);
        let mut stream = stream();
        for _ in 0..1000 {
            assert!(NewOrder::draw(&home, &mut stream).is_all_local());
            assert_eq!(Payment::draw(&home, &mut stream).customer_warehouse, 1);
        }
    }

    #[test]
    fn shares_of_remote_and_rolled_back_work_are_those_of_the_specification() {
        let home = Home::as_in_benchbase(3, 8, 10);
        let mut stream = stream();
        let (mut rollbacks, mut lines, mut remote_lines) = (0, 0, 0);
        let (mut remote_payments, mut by_name) = (0, 0);
        for _ in 0..20_000 {
            let order = NewOrder::draw(&home, &mut stream);
            lines += order.lines().len();
            let remote = |line: &&Line| line.supply_warehouse != home.warehouse;
            remote_lines += order.lines().iter().filter(remote).count();
            rollbacks += u32::from(order.lines().last().unwrap().item == UNUSED_ITEM);
            let payment = Payment::draw(&home, &mut stream);
            remote_payments += u32::from(payment.customer_warehouse != home.warehouse);
            by_name += u32::from(matches!(payment.customer, Customer::Named(_)));
        }
        // Bounds are about six standard deviations wide.
        assert!((196_500..=203_500).contains(&lines), "{lines} lines of 200,000");
        assert!((1730..=2270).contains(&remote_lines), "{remote_lines} remote lines of 2,000");
        assert!((115..=285).contains(&rollbacks), "{rollbacks} roll-backs of 200");
        assert!((2700..=3300).contains(&remote_payments), "{remote_payments} remote of 3,000");
        assert!((11_580..=12_420).contains(&by_name), "{by_name} by name of 12,000");
    }

    #[test]
    fn the_same_stream_asks_for_the_same_things() {
        let home = Home::as_in_benchbase(0, 4, 4);
        let draw = || NewOrder::draw(&home, &mut stream());
        assert_eq!(draw(), draw());
    }

    proptest! {
        #[test]
        fn every_terminal_has_a_warehouse_and_a_district(
            warehouses in 1..500u32, clients in 1..500u32, pick: prop::sample::Index,
        ) {
            let client = u32::try_from(pick.index(usize::try_from(clients).unwrap())).unwrap();
            let home = Home::as_in_benchbase(client, clients, warehouses);
            prop_assert!((1..=home.warehouses).contains(&home.warehouse));
            prop_assert!(!home.districts.is_empty());
            prop_assert!(*home.districts.start() >= 1 && *home.districts.end() <= DISTRICTS);
        }

        #[test]
        fn at_most_ten_terminals_of_a_warehouse_share_every_district_once(clients in 1..=10u32) {
            let mut seen: Vec<i32> = (0..clients).flat_map(|c| Home::as_in_benchbase(c, clients, 1).districts).collect();
            seen.sort_unstable();
            prop_assert_eq!(seen, (1..=DISTRICTS).collect::<Vec<_>>());
        }

        #[test]
        fn a_remote_warehouse_exists_and_is_another(warehouses in 2..50u32, seed: u64) {
            let home = Home::as_in_benchbase(0, 1, warehouses);
            let other = home.other_warehouse(&mut Stream::new(seed, Purpose::Terminal, 0));
            prop_assert!(other != home.warehouse && (1..=home.warehouses).contains(&other));
        }
    }
}

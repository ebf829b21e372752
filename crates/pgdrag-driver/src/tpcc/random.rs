//! Where does chance come from, so that one seed gives the same dataset and the same transactions?
//!
//! Every use of chance has its own [`Stream`], named by (seed, purpose, part). What one of them draws
//! does not depend on how many connections load or on the order in which clients are served.

/// TPC-C 2.1.6: the constants C of NURand. They are BenchBase's, so that both hit the same rows.
const ITEM_C: u64 = 7911;
const CUSTOMER_C: u64 = 259;
/// TPC-C 2.1.6.1: the distance between these two lies in 65..=119 and is neither 96 nor 112.
const LAST_NAME_LOAD_C: u64 = 157;
const LAST_NAME_RUN_C: u64 = 223;

/// TPC-C 4.3.2.3: the syllables of a customer's last name.
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
/// The longest name repeats the longest syllable (5 letters) three times.
const LAST_NAME_MAX: usize = 15;

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// What a stream is for; streams of different purposes are independent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Warehouse = 1,
    Item,
    Stock,
    District,
    Customer,
    History,
    Order,
    OrderLine,
    LineCount,
    Terminal,
    Wait,
    Example,
}

/// One sequence of random draws (xoshiro256++), repeatable from its name.
#[derive(Clone, Debug)]
pub struct Stream {
    state: [u64; 4],
}

/// Scrambles 64 bits one to one (the finaliser of splitmix64).
fn scramble(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

fn name(seed: u64, purpose: Purpose, part: u64) -> u64 {
    let named = scramble(seed.wrapping_add(GOLDEN.wrapping_mul(purpose as u64)));
    scramble(named ^ part.wrapping_mul(GOLDEN))
}

impl Stream {
    /// Starts the stream of `purpose` for one `part` (a warehouse, a client).
    pub fn new(seed: u64, purpose: Purpose, part: u64) -> Self {
        let named = name(seed, purpose, part);
        let state = [1u64, 2, 3, 4].map(|i| scramble(named.wrapping_add(GOLDEN.wrapping_mul(i))));
        Self { state }
    }

    fn next(&mut self) -> u64 {
        let [a, b, c, d] = self.state;
        let drawn = a.wrapping_add(d).rotate_left(23).wrapping_add(a);
        let (c, d) = (c ^ a, d ^ b);
        self.state = [a ^ d, b ^ c, c ^ (b << 17), d.rotate_left(45)];
        drawn
    }

    /// Draws a whole number from `low..=high`, each equally likely.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        debug_assert!(low <= high);
        low + scale(self.next(), high - low + 1)
    }

    /// The same for the identifiers and counts of the schema, which are PostgreSQL's `int`.
    pub fn int(&mut self, low: i32, high: i32) -> i32 {
        debug_assert!(low <= high);
        let span = u64::from(high.abs_diff(low)) + 1;
        let offset = i32::try_from(scale(self.next(), span)).expect("span of an i32 range");
        low + offset
    }

    /// Draws an amount of money in cents.
    pub fn cents(&mut self, low: i64, high: i64) -> i64 {
        debug_assert!(low <= high);
        let offset = scale(self.next(), high.abs_diff(low) + 1);
        low + i64::try_from(offset).expect("amounts fit into i64")
    }

    /// Draws from [0, 1).
    pub fn fraction(&mut self) -> f64 {
        let bits = u32::try_from(self.next() >> 32).expect("32 bits");
        f64::from(bits) / 4_294_967_296.0
    }

    /// True in `percent` of a hundred draws.
    pub fn percent(&mut self, percent: u64) -> bool {
        self.between(1, 100) <= percent
    }

    /// TPC-C 2.1.6: NURand(a, low, high) with constant `c`.
    fn non_uniform(&mut self, a: u64, c: u64, low: u64, high: u64) -> u64 {
        let mixed = self.between(0, a) | self.between(low, high);
        (mixed + c) % (high - low + 1) + low
    }

    /// TPC-C 2.4.1.5: an item as an order asks for it, 1..=100000.
    pub fn item_id(&mut self) -> i32 {
        small(self.non_uniform(8191, ITEM_C, 1, 100_000))
    }

    /// TPC-C 2.4.1.3: a customer of a district, 1..=3000.
    pub fn customer_id(&mut self) -> i32 {
        small(self.non_uniform(1023, CUSTOMER_C, 1, 3000))
    }

    /// TPC-C 4.3.2.3: a last name as it is loaded.
    pub fn last_name_to_load(&mut self) -> LastName {
        LastName::of(self.non_uniform(255, LAST_NAME_LOAD_C, 0, 999))
    }

    /// TPC-C 2.5.1.2: a last name as a transaction asks for it.
    pub fn last_name_to_find(&mut self) -> LastName {
        LastName::of(self.non_uniform(255, LAST_NAME_RUN_C, 0, 999))
    }

    /// Fills `text` with characters from `first` on, `kinds` of them.
    ///
    /// Each character takes 8 bits, which makes some a tenth more frequent than others: nothing
    /// compares this text, and the loader makes half a gigabyte of it for ten warehouses.
    fn fill(&mut self, text: &mut [u8], first: u8, kinds: u8) {
        for chunk in text.chunks_mut(8) {
            let bits = self.next().to_le_bytes();
            for (character, bits) in chunk.iter_mut().zip(bits) {
                let [_, offset] = (u16::from(bits) * u16::from(kinds)).to_le_bytes();
                *character = first + offset;
            }
        }
    }

    /// Fills `text` with lower-case letters.
    pub fn letters(&mut self, text: &mut [u8]) {
        self.fill(text, b'a', 26);
    }

    /// Fills `text` with upper-case letters.
    pub fn capitals(&mut self, text: &mut [u8]) {
        self.fill(text, b'A', 26);
    }

    /// Fills `text` with digits.
    pub fn digits(&mut self, text: &mut [u8]) {
        self.fill(text, b'0', 10);
    }
}

/// Maps 64 random bits to `0..span` by multiplication, which needs no division and no second draw.
fn scale(bits: u64, span: u64) -> u64 {
    u64::try_from((u128::from(bits) * u128::from(span)) >> 64).expect("below the span")
}

fn small(value: u64) -> i32 {
    i32::try_from(value).expect("identifiers fit into an int")
}

/// TPC-C 4.3.3.1: how many lines an order of the initial population has, 5..=15.
///
/// A function of the order's key, not a draw, because two tables need it (oorder and order_line),
/// and each of them is made on its own.
pub fn line_count(seed: u64, warehouse: i32, district: i32, order: i32) -> i32 {
    let district_key = u64::from(warehouse.unsigned_abs()) << 32
        | u64::from(district.unsigned_abs()) << 24
        | u64::from(order.unsigned_abs());
    5 + small(scale(name(seed, Purpose::LineCount, district_key), 11))
}

/// A customer's last name, without a heap allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastName {
    text: [u8; LAST_NAME_MAX],
    length: u8,
}

impl LastName {
    /// TPC-C 4.3.2.3: the three syllables that the digits of `number` (0..=999) name.
    pub fn of(number: u64) -> Self {
        let mut text = [0; LAST_NAME_MAX];
        let mut length = 0;
        for digit in [number / 100 % 10, number / 10 % 10, number % 10] {
            let syllable = SYLLABLES[usize::try_from(digit).expect("a digit")].as_bytes();
            text[length..length + syllable.len()].copy_from_slice(syllable);
            length += syllable.len();
        }
        let length = u8::try_from(length).expect("at most 15 letters");
        Self { text, length }
    }

    pub fn as_str(&self) -> &str {
        let text = &self.text[..usize::from(self.length)];
        std::str::from_utf8(text).expect("syllables are ASCII")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn last_names_follow_the_table_of_the_specification() {
        // TPC-C 4.3.2.3 gives 371 = PRI·CALLY·OUGHT and 040 = BAR·PRES·BAR.
        assert_eq!(LastName::of(371).as_str(), "PRICALLYOUGHT");
        assert_eq!(LastName::of(40).as_str(), "BARPRESBAR");
        assert_eq!(LastName::of(0).as_str(), "BARBARBAR");
        assert_eq!(LastName::of(999).as_str(), "EINGEINGEING");
    }

    #[test]
    fn the_longest_last_name_fits() {
        let longest = (0..1000).map(|n| LastName::of(n).as_str().len()).max();
        assert_eq!(longest, Some(LAST_NAME_MAX));
    }

    #[test]
    fn a_stream_repeats_and_its_neighbours_differ() {
        let draw = |seed, purpose, part| Stream::new(seed, purpose, part).next();
        let first = draw(1, Purpose::Item, 0);
        assert_eq!(first, draw(1, Purpose::Item, 0));
        assert_ne!(first, draw(2, Purpose::Item, 0));
        assert_ne!(first, draw(1, Purpose::Stock, 0));
        assert_ne!(first, draw(1, Purpose::Item, 1));
    }

    #[test]
    fn every_number_of_a_range_is_drawn_about_equally_often() {
        let mut stream = Stream::new(7, Purpose::Terminal, 0);
        let mut seen = [0; 10];
        for _ in 0..10_000 {
            seen[usize::try_from(stream.between(0, 9)).unwrap()] += 1;
        }
        // 1000 expected, standard deviation 30: six of them on each side.
        assert!(seen.iter().all(|n| (820..=1180).contains(n)), "{seen:?}");
    }

    #[test]
    fn nurand_prefers_some_items_over_others() {
        // TPC-C 2.1.6: the OR with 0..=8191 makes values with many one bits frequent.
        let mut stream = Stream::new(7, Purpose::Terminal, 0);
        let mut seen = std::collections::HashMap::new();
        for _ in 0..100_000 {
            *seen.entry(stream.item_id()).or_insert(0) += 1;
        }
        assert!(
            *seen.values().max().unwrap() > 10,
            "uniform draws would hit one item about 7 times at most"
        );
    }

    proptest! {
        #[test]
        fn draws_stay_in_their_range(seed: u64, low in -1000..1000i32, span in 0..5000i32) {
            let mut stream = Stream::new(seed, Purpose::Terminal, 0);
            for _ in 0..50 {
                prop_assert!((low..=low + span).contains(&stream.int(low, low + span)));
                prop_assert!((1..=100_000).contains(&stream.item_id()));
                prop_assert!((1..=3000).contains(&stream.customer_id()));
            }
        }

        #[test]
        fn orders_have_five_to_fifteen_lines(seed: u64, w in 1..1000i32, d in 1..=10i32, o in 1..=3000i32) {
            prop_assert!((5..=15).contains(&line_count(seed, w, d, o)));
        }

        #[test]
        fn text_keeps_to_its_alphabet(seed: u64, length in 0..100usize) {
            let mut stream = Stream::new(seed, Purpose::Terminal, 0);
            let mut text = vec![0; length];
            stream.letters(&mut text);
            prop_assert!(text.iter().all(u8::is_ascii_lowercase));
            stream.capitals(&mut text);
            prop_assert!(text.iter().all(u8::is_ascii_uppercase));
            stream.digits(&mut text);
            prop_assert!(text.iter().all(u8::is_ascii_digit));
        }
    }
}

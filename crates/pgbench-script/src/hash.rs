//! Which number does a hash or a permutation give?
//!
//! Scripts use them to scatter hot rows, so the numbers are those of pgbench for the same seed.

use crate::random::Generator;

/// Hashes with FNV-1a over the eight bytes, the lowest first; the seed is mixed into the basis.
pub(crate) fn fnv1a(value: i64, seed: i64) -> i64 {
    const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let start = BASIS ^ seed.cast_unsigned();
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(PRIME);
    value.to_le_bytes().into_iter().fold(start, fold).cast_signed()
}

/// Hashes with MurmurHash2 for one 64-bit word.
pub(crate) fn murmur2(value: i64, seed: i64) -> i64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const BYTES: u64 = 8;
    let mix = |word: u64| word ^ (word >> 47);
    let word = mix(value.cast_unsigned().wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    let start = seed.cast_unsigned() ^ BYTES.wrapping_mul(FACTOR);
    let folded = (start ^ word).wrapping_mul(FACTOR);
    mix(mix(folded).wrapping_mul(FACTOR)).cast_signed()
}

/// Moves a value to its place in a pseudorandom permutation of `0..size`; the size is positive.
pub(crate) fn permute(value: i64, size: i64, seed: i64) -> i64 {
    const ROUNDS: usize = 6;
    if size < 2 {
        return 0;
    }
    let mut random = Generator::new(seed.cast_unsigned());
    let size = size.cast_unsigned();
    let bits = size.ilog2();
    // pgbench takes a negative value as unsigned here.
    let mut place = value.cast_unsigned() % size;
    for _ in 0..ROUNDS {
        // The two halves overlap where the size is not a power of two, so that all places mix.
        place = scatter(place, bits, &mut random);
        let from_end = scatter(size - 1 - place, bits, &mut random);
        place = size - 1 - from_end;
        let offset = random.up_to(size - 1);
        place = (place + offset) % size;
    }
    place.cast_signed()
}

/// Moves a place among the first `2^bits` ones; leaves a later place where it is.
fn scatter(place: u64, bits: u32, random: &mut Generator) -> u64 {
    let mask = (1_u64 << bits) - 1;
    // An odd factor keeps the product a bijection.  Both numbers are drawn in any case, so that
    // all places see the same sequence.
    let factor = (random.next_u64() & mask) | 1;
    let flip = random.next_u64() & mask;
    if place > mask {
        return place;
    }
    let product = (place.wrapping_mul(factor) ^ flip) & mask;
    // A product is least random in its low bits: the top bit rotates into the lowest.
    ((product << 1) & mask) | (product >> (bits - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permutation_moves_every_place_to_another_one() {
        for size in [1, 2, 3, 4, 7, 8, 100, 1_000] {
            let mut places: Vec<i64> = (0..size).map(|value| permute(value, size, 42)).collect();
            places.sort_unstable();
            assert_eq!(places, (0..size).collect::<Vec<_>>(), "{size}");
        }
    }

    #[test]
    fn a_permutation_of_the_largest_size_does_not_overflow() {
        let place = permute(-1, i64::MAX, -1);
        assert!((0..i64::MAX).contains(&place));
    }

    #[test]
    fn another_seed_gives_another_hash() {
        assert_ne!(fnv1a(10, 1), fnv1a(10, 2));
        assert_ne!(murmur2(10, 1), murmur2(10, 2));
    }
}

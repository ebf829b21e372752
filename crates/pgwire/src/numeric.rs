//! How is an exact decimal sent and read without a float and without a heap?
//!
//! PostgreSQL's binary NUMERIC is a row of digits to the base 10,000, with the weight of the first
//! one. Here it is an `i64` times a power of ten that the caller names: dollars and cents are
//! cents with a scale of 2.

use crate::backend::{Malformed, Reader};

const BASE: u128 = 10_000;
const BASE_DIGITS: u8 = 4;
const NEGATIVE: u16 = 0x4000;

/// 19 decimal digits at any scale up to 38, and a header of eight bytes.
const FORM_BYTES_MAX: usize = 8 + 2 * 15;

/// The largest scale that [`encode`] takes.
pub const SCALE_MAX: u8 = 16;

/// The binary form of one number, on the stack.
#[derive(Debug, Clone, Copy)]
pub struct Form {
    bytes: [u8; FORM_BYTES_MAX],
    length: usize,
}

impl Form {
    /// The bytes of the value, without a length before them.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn push(&mut self, word: u16) {
        self.bytes[self.length..self.length + 2].copy_from_slice(&word.to_be_bytes());
        self.length += 2;
    }
}

/// Writes `unscaled` / 10^`scale`; the server will show `scale` digits after the point.
///
/// # Panics
/// When `scale` is above [`SCALE_MAX`].
#[must_use]
pub fn encode(unscaled: i64, scale: u8) -> Form {
    assert!(scale <= SCALE_MAX, "a scale of {scale} is above {SCALE_MAX}");
    // Groups of four digits are counted from the decimal point, so the fraction is filled up.
    let fraction_groups = scale.div_ceil(BASE_DIGITS);
    let padding = u32::from(fraction_groups * BASE_DIGITS - scale);
    let mut rest = u128::from(unscaled.unsigned_abs()) * 10_u128.pow(padding);

    let mut least_first = [0_u16; 12];
    let mut groups = 0_usize;
    while rest > 0 {
        least_first[groups] = u16::try_from(rest % BASE).expect("below 10,000");
        rest /= BASE;
        groups += 1;
    }
    let trailing_zeros = least_first[..groups].iter().take_while(|group| **group == 0).count();
    let digits = &least_first[trailing_zeros..groups];

    let weight = if digits.is_empty() {
        0
    } else {
        i16::try_from(groups).expect("at most 12") - 1 - i16::from(fraction_groups)
    };
    let mut form = Form { bytes: [0; FORM_BYTES_MAX], length: 0 };
    form.push(u16::try_from(digits.len()).expect("at most 12"));
    form.push(weight.cast_unsigned());
    form.push(if unscaled < 0 { NEGATIVE } else { 0 });
    form.push(u16::from(scale));
    for digit in digits.iter().rev() {
        form.push(*digit);
    }
    form
}

/// A number as people write it; it is read in place while it is shown.
#[derive(Debug, Clone, Copy)]
pub struct Plain {
    unscaled: i64,
    scale: u8,
}

impl Plain {
    /// Takes a number with the digits after the point that it is to be shown with.
    ///
    /// NaN, an infinity and what [`decode`] cannot hold at that scale are errors.
    pub fn parse(value: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(value);
        reader.bytes(6)?; // number of digits, weight, sign
        let scale = u8::try_from(reader.int2()?)
            .map_err(|_| Malformed("a numeric has more than 255 digits after the point".into()))?;
        Ok(Self { unscaled: decode(value, scale)?, scale })
    }

    /// Whether it is below 0.
    #[must_use]
    pub fn is_negative(&self) -> bool {
        self.unscaled < 0
    }
}

impl std::fmt::Display for Plain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.is_negative() { "-" } else { "" };
        let (digits, scale) = (self.unscaled.unsigned_abs(), usize::from(self.scale));
        if scale == 0 {
            return write!(f, "{sign}{digits}");
        }
        // A number has less than 20 digits; at a larger scale the rest are zeros after the point.
        let power = 10_u64.checked_pow(u32::from(self.scale));
        let (whole, fraction) = power.map_or((0, digits), |power| (digits / power, digits % power));
        write!(f, "{sign}{whole}.{fraction:0scale$}")
    }
}

/// Reads a number as the integer that is it times 10^`scale`.
///
/// NaN, an infinity, digits beyond the scale and numbers beyond 64 bits are errors.
pub fn decode(value: &[u8], scale: u8) -> Result<i64, Malformed> {
    let mut reader = Reader::new(value);
    let digits = reader.int2()?;
    let weight = i32::from(reader.int2()?);
    let sign = reader.int2()?.cast_unsigned();
    reader.int2()?; // the display scale adds no information
    if sign != 0 && sign != NEGATIVE {
        return Err(Malformed("a numeric is not a finite number".into()));
    }
    let mut magnitude = 0_i128;
    for index in 0..i32::from(digits) {
        let digit = reader.int2()?;
        if !(0..10_000).contains(&digit) {
            return Err(Malformed(format!("a numeric has the digit {digit}")));
        }
        // The digit stands for digit · 10,000^(weight - index), here times 10^scale.
        let exponent = (weight - index) * i32::from(BASE_DIGITS) + i32::from(scale);
        magnitude = scaled(i128::from(digit), exponent)
            .and_then(|part| magnitude.checked_add(part))
            .ok_or_else(|| inexact(scale))?;
    }
    if !reader.rest().is_empty() {
        return Err(Malformed("a numeric has bytes after its digits".into()));
    }
    let signed = if sign == NEGATIVE { -magnitude } else { magnitude };
    i64::try_from(signed).map_err(|_| inexact(scale))
}

/// `digit` · 10^`exponent`, where that is an integer that fits.
fn scaled(digit: i128, exponent: i32) -> Option<i128> {
    if digit == 0 {
        return Some(0);
    }
    let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
    if exponent >= 0 {
        digit.checked_mul(power)
    } else {
        (digit % power == 0).then(|| digit / power)
    }
}

fn inexact(scale: u8) -> Malformed {
    Malformed(format!("a numeric does not fit 64 bits with {scale} digits after the point"))
}

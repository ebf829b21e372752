//! What is a value's binary form?
//!
//! A parameter of Bind and a field of binary COPY look alike: a length, then that many bytes; NULL
//! is the length -1. Each `put_` function appends one such value. Each `as_` function reads the
//! bytes of one value of a row.

use crate::backend::Malformed;
use crate::numeric;

/// Which form a statement's parameters or its rows have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// As people write it: [`crate::text`].
    Text,
    /// This module's.
    #[default]
    Binary,
}

impl Format {
    /// The format's number in the protocol.
    #[must_use]
    pub fn code(self) -> i16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }
}

/// Appends NULL.
pub fn put_null(out: &mut Vec<u8>) {
    out.extend_from_slice(&(-1_i32).to_be_bytes());
}

/// Appends a value that is in its binary form already.
///
/// # Panics
/// When the value is 2 GiB or longer.
pub fn put_bytes(out: &mut Vec<u8>, value: &[u8]) {
    let length = i32::try_from(value.len()).expect("a value stays below 2 GiB");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value);
}

/// Appends a `smallint`.
pub fn put_int2(out: &mut Vec<u8>, value: i16) {
    put_bytes(out, &value.to_be_bytes());
}

/// Appends an `integer`.
pub fn put_int4(out: &mut Vec<u8>, value: i32) {
    put_bytes(out, &value.to_be_bytes());
}

/// Appends a `bigint`.
pub fn put_int8(out: &mut Vec<u8>, value: i64) {
    put_bytes(out, &value.to_be_bytes());
}

/// Appends a `double precision`.
pub fn put_float8(out: &mut Vec<u8>, value: f64) {
    put_bytes(out, &value.to_be_bytes());
}

/// Appends a `text`, `varchar` or `char`.
pub fn put_text(out: &mut Vec<u8>, value: &str) {
    put_bytes(out, value.as_bytes());
}

/// Appends a `timestamp` or `timestamptz`: microseconds since 2000-01-01 00:00.
pub fn put_timestamp(out: &mut Vec<u8>, us_since_2000: i64) {
    put_int8(out, us_since_2000);
}

/// Appends a `numeric` of `unscaled` / 10^`scale`.
pub fn put_numeric(out: &mut Vec<u8>, unscaled: i64, scale: u8) {
    let form = numeric::encode(unscaled, scale);
    put_bytes(out, form.as_bytes());
}

/// How many bytes the first `count` of these values take.
///
/// # Panics
/// When there are fewer values, or they were not written by this module.
#[must_use]
pub fn bytes_of(values: &[u8], count: usize) -> usize {
    let mut end = 0;
    for _ in 0..count {
        let length = values[end..end + 4].try_into().expect("four bytes");
        // NULL has the length -1, and no bytes.
        end += 4 + usize::try_from(i32::from_be_bytes(length)).unwrap_or(0);
    }
    end
}

/// The value number `index` of those, counted from 0; `None` is NULL.
///
/// # Panics
/// As [`bytes_of`].
#[must_use]
pub fn nth(values: &[u8], index: usize) -> Option<&[u8]> {
    let rest = &values[bytes_of(values, index)..];
    let length = i32::from_be_bytes(rest[..4].try_into().expect("four bytes"));
    usize::try_from(length).ok().map(|length| &rest[4..4 + length])
}

/// Reads a `smallint`, an `integer` or a `bigint`.
pub fn as_integer(value: &[u8]) -> Result<i64, Malformed> {
    let int2 = |bytes| i64::from(i16::from_be_bytes(bytes));
    let int4 = |bytes| i64::from(i32::from_be_bytes(bytes));
    match value.len() {
        2 => Ok(int2(value.try_into().expect("two bytes"))),
        4 => Ok(int4(value.try_into().expect("four bytes"))),
        8 => Ok(i64::from_be_bytes(value.try_into().expect("eight bytes"))),
        length => Err(Malformed(format!("an integer has {length} bytes"))),
    }
}

/// Reads a `double precision`.
pub fn as_float8(value: &[u8]) -> Result<f64, Malformed> {
    let bytes = value
        .try_into()
        .map_err(|_| Malformed(format!("a double precision has {} bytes", value.len())))?;
    Ok(f64::from_be_bytes(bytes))
}

/// Reads a `text`, `varchar` or `char`.
pub fn as_text(value: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(value).map_err(|_| Malformed("a text is not UTF-8".into()))
}

/// Reads a `timestamp` or `timestamptz`: microseconds since 2000-01-01 00:00.
pub fn as_timestamp(value: &[u8]) -> Result<i64, Malformed> {
    let bytes = value
        .try_into()
        .map_err(|_| Malformed(format!("a timestamp has {} bytes", value.len())))?;
    Ok(i64::from_be_bytes(bytes))
}

/// Reads a `numeric` as the integer that is it times 10^`scale`.
///
/// A value that this integer cannot hold exactly is an error.
pub fn as_numeric(value: &[u8], scale: u8) -> Result<i64, Malformed> {
    numeric::decode(value, scale)
}

//! What is a value's text form?
//!
//! [`literal`] writes a value, given in its binary form, as SQL text. Each `as_` function reads the
//! text of one value of a row, as [`crate::value`] reads its binary form.

use std::fmt::{Display, Write};

use bytes::BytesMut;

use crate::backend::Malformed;
use crate::numeric;
use crate::value;

const INT8: u32 = 20;
const INT2: u32 = 21;
const INT4: u32 = 23;
const TEXT: u32 = 25;
const FLOAT8: u32 = 701;
const BPCHAR: u32 = 1042;
const VARCHAR: u32 = 1043;
const TIMESTAMP: u32 = 1114;
const NUMERIC: u32 = 1700;

const DAY_US: i64 = 86_400_000_000;
/// Days from 0000-03-01, where the calendar below begins, to 2000-01-01, where PostgreSQL's does.
const MARCH_0_TO_2000_DAYS: i64 = 730_425;

/// Writes a value of the type with this OID as an SQL literal; `None` is NULL.
///
/// A type that is not among those of [`crate::value`] is an error.
pub fn literal(out: &mut BytesMut, oid: u32, value: Option<&[u8]>) -> Result<(), Malformed> {
    let Some(value) = value else {
        out.extend_from_slice(b"NULL");
        return Ok(());
    };
    match oid {
        INT2 | INT4 | INT8 => {
            let integer = value::as_integer(value)?;
            number(out, integer < 0, integer);
        }
        NUMERIC => {
            let plain = numeric::Plain::parse(value)?;
            number(out, plain.is_negative(), plain);
        }
        FLOAT8 => write(out, format_args!("'{}'", value::as_float8(value)?)),
        TEXT | VARCHAR | BPCHAR => quoted(out, value),
        TIMESTAMP => timestamp(out, value::as_timestamp(value)?)?,
        _ => return Err(Malformed(format!("cannot write type {oid} as a literal"))),
    }
    Ok(())
}

/// A number below 0 has parentheses: after another minus sign it would start a comment.
fn number(out: &mut BytesMut, is_negative: bool, number: impl Display) {
    if is_negative {
        write(out, format_args!("({number})"));
    } else {
        write(out, format_args!("{number}"));
    }
}

fn write(out: &mut BytesMut, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a buffer takes everything");
}

/// A string that means the same whatever `standard_conforming_strings` says.
fn quoted(out: &mut BytesMut, text: &[u8]) {
    if text.contains(&b'\\') {
        out.extend_from_slice(b" E");
    }
    out.extend_from_slice(b"'");
    for part in text.split_inclusive(|byte| matches!(byte, b'\'' | b'\\')) {
        out.extend_from_slice(part);
        if let Some(last @ (b'\'' | b'\\')) = part.last() {
            out.extend_from_slice(&[*last]);
        }
    }
    out.extend_from_slice(b"'");
}

fn timestamp(out: &mut BytesMut, us_since_2000: i64) -> Result<(), Malformed> {
    let (days, us) = (us_since_2000.div_euclid(DAY_US), us_since_2000.rem_euclid(DAY_US));
    let (year, month, day) = civil(days);
    if !(1..=9999).contains(&year) {
        return Err(Malformed(format!("cannot write year {year} as a literal")));
    }
    let (seconds, us) = (us / 1_000_000, us % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    write(
        out,
        format_args!("'{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{us:06}'"),
    );
    Ok(())
}

/// The date that is so many days after 2000-01-01.
///
/// Years begin in March here, so that a leap day is a year's last; 400 of them have 146,097 days.
fn civil(days_since_2000: i64) -> (i64, i64, i64) {
    let days = days_since_2000 + MARCH_0_TO_2000_DAYS;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

fn days_since_2000(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - MARCH_0_TO_2000_DAYS
}

/// Reads a `smallint`, an `integer` or a `bigint`.
pub fn as_integer(value: &[u8]) -> Result<i64, Malformed> {
    parsed(value, "integer")
}

/// Reads a `double precision`.
pub fn as_float8(value: &[u8]) -> Result<f64, Malformed> {
    parsed(value, "double precision")
}

fn parsed<T: std::str::FromStr>(value: &[u8], what: &str) -> Result<T, Malformed> {
    let text = value::as_text(value)?;
    text.parse().map_err(|_| unreadable(text, what))
}

fn unreadable(text: &str, what: &str) -> Malformed {
    let beginning: String = text.chars().take(40).collect();
    Malformed(format!("\"{beginning}\" is no {what}"))
}

/// Reads a `numeric` as the integer that is it times 10^`scale`.
///
/// A value that this integer cannot hold exactly is an error.
pub fn as_numeric(value: &[u8], scale: u8) -> Result<i64, Malformed> {
    let text = value::as_text(value)?;
    unscaled(text, scale).ok_or_else(|| {
        unreadable(text, &format!("numeric of 64 bits with {scale} digits after the point"))
    })
}

fn unscaled(text: &str, scale: u8) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let (kept, beyond) = fraction.split_at_checked(usize::from(scale)).unwrap_or((fraction, ""));
    let missing = usize::from(scale) - kept.len();
    let mut number = 0_i64;
    for digit in whole.bytes().chain(kept.bytes()).chain(std::iter::repeat_n(b'0', missing)) {
        if !digit.is_ascii_digit() {
            return None;
        }
        // Counted with its sign, so that the least number of 64 bits can be read, too.
        number = number.checked_mul(10)?.checked_add(sign * i64::from(digit - b'0'))?;
    }
    beyond.bytes().all(|digit| digit == b'0').then_some(number)
}

/// Reads a `timestamp` that is in the ISO style: microseconds since 2000-01-01 00:00.
pub fn as_timestamp(value: &[u8]) -> Result<i64, Malformed> {
    let text = value::as_text(value)?;
    us_since_2000(text).ok_or_else(|| unreadable(text, "timestamp"))
}

fn us_since_2000(text: &str) -> Option<i64> {
    let (date, time) = text.split_once(' ')?;
    let mut date = date.splitn(3, '-').map(number_in(1, 9999));
    let days = days_since_2000(date.next()??, date.next()??, date.next()??);
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut time = time.splitn(3, ':').map(number_in(0, 60));
    let seconds = (time.next()?? * 60 + time.next()??) * 60 + time.next()??;
    Some(days * DAY_US + seconds * 1_000_000 + unscaled(&format!("0.{fraction}"), 6)?)
}

fn number_in(low: i64, high: i64) -> impl Fn(&str) -> Option<i64> {
    move |text| text.parse().ok().filter(|number| (low..=high).contains(number))
}

//! What can a variable hold, and how does one type become another?

use std::fmt;

use crate::error::EvalError;

/// A value of an expression.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// SQL's unknown.
    Null,
    /// A truth value.
    Boolean(bool),
    /// A 64-bit integer.
    Int(i64),
    /// A double.
    Double(f64),
}

impl Value {
    fn type_name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean(_) => "boolean",
            Self::Int(_) => "int",
            Self::Double(_) => "double",
        }
    }

    fn coercion(self, to: &'static str) -> EvalError {
        EvalError::Coercion { from: self.type_name(), to }
    }

    /// Takes a truth value; a number is none, unlike in [`is_true`](Self::is_true).
    #[inline]
    pub fn to_bool(self) -> Result<bool, EvalError> {
        match self {
            Self::Boolean(value) => Ok(value),
            other => Err(other.coercion("boolean")),
        }
    }

    /// Takes an integer; a double is rounded, halves to the even neighbour.
    #[inline]
    pub fn to_int(self) -> Result<i64, EvalError> {
        // 2^63, the first double above every integer.
        const LIMIT: f64 = 9_223_372_036_854_775_808.0;
        match self {
            Self::Int(value) => Ok(value),
            Self::Double(value) => {
                let rounded = value.round_ties_even();
                if (-LIMIT..LIMIT).contains(&rounded) {
                    #[allow(clippy::cast_possible_truncation)] // it is in range and whole
                    Ok(rounded as i64)
                } else {
                    Err(EvalError::IntOverflow(rounded))
                }
            }
            other => Err(other.coercion("int")),
        }
    }

    /// Takes a double.
    #[inline]
    pub fn to_double(self) -> Result<f64, EvalError> {
        match self {
            Self::Double(value) => Ok(value),
            #[allow(clippy::cast_precision_loss)] // pgbench loses the same bits
            Self::Int(value) => Ok(value as f64),
            other => Err(other.coercion("double")),
        }
    }

    /// Says whether a condition holds: true, or a number other than zero.
    #[must_use]
    pub fn is_true(self) -> bool {
        match self {
            Self::Null => false,
            Self::Boolean(value) => value,
            Self::Int(value) => value != 0,
            Self::Double(value) => value != 0.0,
        }
    }

    /// Reads the value that a variable's text stands for, if it stands for one.
    ///
    /// `name` is for the error's text.
    pub fn from_text(name: &str, text: &str) -> Result<Self, EvalError> {
        let malformed = || EvalError::Malformed { name: name.to_owned(), text: text.to_owned() };
        if text.is_empty() {
            return Err(malformed());
        }
        if text.eq_ignore_ascii_case("null") {
            return Ok(Self::Null);
        }
        if is_prefix(text, "true") || is_prefix(text, "yes") || text.eq_ignore_ascii_case("on") {
            return Ok(Self::Boolean(true));
        }
        // "o" alone could be either of on and off.
        let is_off = text.len() > 1 && is_prefix(text, "off");
        if is_prefix(text, "false") || is_prefix(text, "no") || is_off {
            return Ok(Self::Boolean(false));
        }
        let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
        if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            let out_of_range = |_| EvalError::TextOutOfRange(text.to_owned());
            return text.parse().map(Self::Int).map_err(out_of_range);
        }
        parse_double(text).map(Self::Double).ok_or_else(malformed)
    }

    /// Writes the value with its type, as `debug()` shows it.
    #[must_use]
    pub fn described(self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Boolean(value) => format!("boolean {value}"),
            Self::Int(value) => format!("int {value}"),
            Self::Double(_) => format!("double {self}"),
        }
    }
}

impl fmt::Display for Value {
    /// Writes the value as it goes into a statement's text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Double(value) => write_double(f, *value),
        }
    }
}

fn is_prefix(text: &str, word: &str) -> bool {
    word.get(..text.len()).is_some_and(|start| start.eq_ignore_ascii_case(text))
}

/// Reads a double; none if the text is not one or its size is beyond doubles.
pub(crate) fn parse_double(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    let named =
        text.bytes().any(|byte| byte.is_ascii_alphabetic() && !byte.eq_ignore_ascii_case(&b'e'));
    let mantissa = text.split(['e', 'E']).next().unwrap_or(text);
    let has_digit = mantissa.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    // C reports both ends of the range: too large, and too small for a normal number.
    let overflows = value.is_infinite() && !named;
    let underflows = has_digit && !value.is_normal() && value.is_finite();
    (!overflows && !underflows).then_some(value)
}

/// Writes a double with 15 significant digits at most, as C's `%.15g` does.
fn write_double(f: &mut fmt::Formatter<'_>, value: f64) -> fmt::Result {
    const DIGITS: i32 = 15;
    if value.is_nan() {
        return f.write_str("NaN");
    }
    if value.is_infinite() {
        return f.write_str(if value < 0.0 { "-Infinity" } else { "Infinity" });
    }
    let scientific = format!("{value:.14e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..DIGITS).contains(&exponent) {
        let sign = if exponent < 0 { '-' } else { '+' };
        return write!(f, "{}e{sign}{:02}", without_zeros(mantissa), exponent.abs());
    }
    let decimals = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
    f.write_str(without_zeros(&format!("{value:.decimals$}")))
}

fn without_zeros(number: &str) -> &str {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_have_fifteen_significant_digits() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (0.1 + 0.2, "0.3"),
            (1e20, "1e+20"),
            (1e15, "1e+15"),
            (1e14, "100000000000000"),
            (1e-5, "1e-05"),
            (1e-4, "0.0001"),
            (-2.5, "-2.5"),
            (1.0 / 3.0, "0.333333333333333"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        for (value, text) in cases {
            assert_eq!(Value::Double(value).to_string(), text);
        }
    }

    #[test]
    fn a_text_is_read_as_the_type_it_looks_like() {
        let cases = [
            ("NULL", Value::Null),
            ("y", Value::Boolean(true)),
            ("TRUE", Value::Boolean(true)),
            ("n", Value::Boolean(false)),
            ("of", Value::Boolean(false)),
            ("+5", Value::Int(5)),
            ("-9223372036854775808", Value::Int(i64::MIN)),
            ("1e5", Value::Double(1e5)),
            (".5", Value::Double(0.5)),
        ];
        for (text, value) in cases {
            assert_eq!(Value::from_text("v", text), Ok(value), "{text}");
        }
        for text in ["", "o", "abc", "1 2", "1e999", "5x"] {
            assert!(
                matches!(Value::from_text("v", text), Err(EvalError::Malformed { .. })),
                "{text}"
            );
        }
        let too_large = "9223372036854775808";
        let error = EvalError::TextOutOfRange(too_large.to_owned());
        assert_eq!(Value::from_text("v", too_large), Err(error));
    }

    #[test]
    fn halves_round_to_the_even_integer() {
        let rounded = [0.5, 1.5, 2.5, -0.5, -1.5].map(|half| Value::Double(half).to_int());
        assert_eq!(rounded, [Ok(0), Ok(2), Ok(2), Ok(0), Ok(-2)]);
    }
}

//! What is wrong with a script, and where?
//!
//! [`ScriptError`] is found before anything runs and carries a place in the text. [`EvalError`]
//! and [`RunError`] happen while a script runs. Their texts have the content of pgbench's own.

use std::fmt;

/// A mistake in a script's text, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScriptError {
    /// The line of the mistake, from 1.
    pub line: usize,
    /// The column of the mistake in characters, from 1.
    pub column: usize,
    /// What is wrong, in one line.
    pub message: String,
}

impl fmt::Display for ScriptError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for ScriptError {}

/// Finds the line and the column, each from 1, of a byte offset in a text.
pub(crate) fn place(source: &str, offset: usize) -> (usize, usize) {
    let before = source.get(..offset).unwrap_or(source);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    (line, before[line_start..].chars().count() + 1)
}

/// Makes the error of a text at a byte offset.
pub(crate) fn error_at(source: &str, offset: usize, message: String) -> ScriptError {
    let (line, column) = place(source, offset);
    ScriptError { line, column, message }
}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq)]
pub enum EvalError {
    /// An integer was divided by zero.
    DivisionByZero,
    /// The result of the named integer operation does not fit.
    OutOfRange(&'static str),
    /// A value's type cannot become the type that is needed here.
    Coercion {
        /// The type of the value.
        from: &'static str,
        /// The type that was needed.
        to: &'static str,
    },
    /// A double is too large, or not a number, where an integer is needed.
    IntOverflow(f64),
    /// No value was assigned to the variable.
    Undefined(String),
    /// The text in the variable is not a value.
    Malformed {
        /// The variable.
        name: String,
        /// The text that it holds.
        text: String,
    },
    /// The text is a whole number, and too large.
    TextOutOfRange(String),
    /// The lower limit of a random range is above the upper one.
    EmptyRange,
    /// A random range has more numbers than an integer can count.
    RangeTooLarge,
    /// The parameter of a gaussian distribution is too small.
    Gaussian(f64),
    /// The parameter of an exponential distribution is not positive.
    Exponential(f64),
    /// The parameter of a zipfian distribution is out of its range.
    Zipfian(f64),
    /// A permutation needs at least one element.
    PermuteSize,
    /// A function was given more than it takes.
    TooManyArguments,
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DivisionByZero => f.write_str("division by zero"),
            Self::OutOfRange(operation) => write!(f, "bigint {operation} out of range"),
            Self::Coercion { from, to } => write!(f, "cannot coerce {from} to {to}"),
            Self::IntOverflow(value) => write!(f, "double to int overflow for {value:.6}"),
            Self::Undefined(name) => write!(f, "undefined variable \"{name}\""),
            Self::Malformed { name, text } => {
                write!(f, "malformed variable \"{name}\" value: \"{text}\"")
            }
            Self::TextOutOfRange(text) => {
                write!(f, "value \"{text}\" is out of range for type bigint")
            }
            Self::EmptyRange => f.write_str("empty range given to random"),
            Self::RangeTooLarge => f.write_str("random range is too large"),
            Self::Gaussian(value) => {
                write!(f, "gaussian parameter must be at least 2.000000 (not {value:.6})")
            }
            Self::Exponential(value) => {
                write!(f, "exponential parameter must be greater than zero (not {value:.6})")
            }
            Self::Zipfian(value) => {
                write!(f, "zipfian parameter must be in range [1.001, 1000] (not {value:.6})")
            }
            Self::PermuteSize => f.write_str("permute size parameter must be greater than zero"),
            Self::TooManyArguments => f.write_str("too many function arguments, maximum is 16"),
        }
    }
}

impl std::error::Error for EvalError {}

/// Why a client cannot go on with its script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunError {
    /// The script's name.
    pub script: String,
    /// The line on which the command starts, from 1.
    pub line: usize,
    /// The command's number in its script, from 0; `\gset` and `\aset` belong to their statement.
    pub command: usize,
    /// The command's name: that of a meta command without its backslash, or SQL.
    pub name: &'static str,
    /// What failed.
    pub message: String,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { script, line, command, name, message } = self;
        let backslash = if *name == "SQL" { "" } else { "\\" };
        write!(
            f,
            "script \"{script}\", line {line}, command {command} ({backslash}{name}): {message}"
        )
    }
}

impl std::error::Error for RunError {}

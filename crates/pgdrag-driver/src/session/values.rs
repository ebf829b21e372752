//! How do values get into a statement, and out of its rows, without a heap allocation each?
//!
//! [`Params`] is a buffer that already has the form that the wire wants. [`Rows`] and [`Row`] read
//! in place what the connection received.

use pgwire::backend::{self, RawRow, Tag};
use pgwire::text;
use pgwire::value::{self, Format};

use crate::error::Error;

/// Values for a statement's parameters, in order. Sending them empties it, and keeps its memory.
#[derive(Debug, Default)]
pub struct Params {
    pub(crate) bytes: Vec<u8>,
    pub(crate) count: usize,
}

macro_rules! puts {
    ($($(#[$doc:meta])* $name:ident($($argument:ident: $type:ty),*) = $put:ident;)*) => {
        $($(#[$doc])*
        pub fn $name(&mut self, $($argument: $type),*) -> &mut Self {
            value::$put(&mut self.bytes, $($argument),*);
            self.count += 1;
            self
        })*
    };
}

impl Params {
    /// Empties it, and says that its values do not fill rows of this width.
    pub(crate) fn misfit(&mut self, width: usize) -> Error {
        let count = self.count;
        self.clear();
        Error::Protocol(format!("{count} values for a statement of {width} parameters"))
    }

    /// No values yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets the values, and keeps the memory.
    pub fn clear(&mut self) -> &mut Self {
        self.bytes.clear();
        self.count = 0;
        self
    }

    puts! {
        /// Adds NULL.
        null() = put_null;
        /// Adds a `smallint`.
        int2(value: i16) = put_int2;
        /// Adds an `integer`.
        int4(value: i32) = put_int4;
        /// Adds a `bigint`.
        int8(value: i64) = put_int8;
        /// Adds a `double precision`.
        float8(value: f64) = put_float8;
        /// Adds a `text`, `varchar` or `char`.
        text(value: &str) = put_text;
        /// Adds a `timestamp`: microseconds since 2000-01-01 00:00.
        timestamp(us_since_2000: i64) = put_timestamp;
        /// Adds a `numeric` of `unscaled` / 10^`scale`.
        numeric(unscaled: i64, scale: u8) = put_numeric;
    }
}

/// The rows of an answer, in place.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'a> {
    rest: &'a [u8],
    format: Format,
}

impl<'a> Rows<'a> {
    pub(crate) fn new(messages: &'a [u8], format: Format) -> Self {
        Self { rest: messages, format }
    }

    /// The next row, read forward; `None` after the last one.
    #[allow(clippy::should_implement_trait)] // the trait's method cannot be used with `?`
    pub fn next(&mut self) -> Result<Option<Row<'a>>, Error> {
        while let Some(message) = backend::decode(self.rest)? {
            self.rest = &self.rest[message.wire_bytes()..];
            if message.tag == Tag::DataRow {
                let (values, format) = (RawRow::parse(message.body)?, self.format);
                return Ok(Some(Row { values, format }));
            }
        }
        Ok(None)
    }

    /// The first row, where there is one; the others are not looked at.
    pub fn first(mut self) -> Result<Option<Row<'a>>, Error> {
        self.next()
    }

    /// Number of rows that [`Rows::next`] still has to return. Walks over them.
    #[must_use]
    pub fn count(mut self) -> usize {
        let mut count = 0;
        while let Ok(Some(_)) = self.next() {
            count += 1;
        }
        count
    }
}

impl<'a> IntoIterator for Rows<'a> {
    type Item = Result<Row<'a>, Error>;
    type IntoIter = IntoRows<'a>;

    fn into_iter(self) -> IntoRows<'a> {
        IntoRows(self)
    }
}

/// The rows of an answer, one after the other.
#[derive(Debug)]
pub struct IntoRows<'a>(Rows<'a>);

impl<'a> Iterator for IntoRows<'a> {
    type Item = Result<Row<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().transpose()
    }
}

/// One row; columns are counted from 0. Reading NULL as a value is an error: ask
/// [`Row::is_null`] first.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    values: RawRow<'a>,
    format: Format,
}

/// Reads a value in the row's form.
macro_rules! read {
    ($row:ident, $column:ident, $as:ident $(, $argument:ident)?) => {
        match $row.format {
            Format::Binary => Ok(value::$as($row.bytes($column)? $(, $argument)?)?),
            Format::Text => Ok(text::$as($row.bytes($column)? $(, $argument)?)?),
        }
    };
}

impl<'a> Row<'a> {
    /// Number of columns.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // a row without columns is of no use
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// The bytes of all values, from left to right; `None` is NULL.
    pub fn values(&self) -> impl Iterator<Item = Option<&'a [u8]>> + use<'a> {
        self.values.iter()
    }

    /// Whether the value is NULL.
    #[must_use]
    pub fn is_null(&self, column: usize) -> bool {
        column < self.values.len() && self.values.get(column).is_none()
    }

    /// The value's bytes, whatever its type.
    pub fn bytes(&self, column: usize) -> Result<&'a [u8], Error> {
        self.values.get(column).ok_or_else(|| {
            let columns = self.values.len();
            Error::Protocol(format!("column {column} of {columns} is NULL or does not exist"))
        })
    }

    /// A `smallint` or `integer`, or a `bigint` that fits.
    pub fn int4(&self, column: usize) -> Result<i32, Error> {
        let integer = self.int8(column)?;
        i32::try_from(integer)
            .map_err(|_| Error::Protocol(format!("{integer} in column {column} is no integer")))
    }

    /// A `smallint`, `integer` or `bigint`.
    pub fn int8(&self, column: usize) -> Result<i64, Error> {
        read!(self, column, as_integer)
    }

    /// A `double precision`.
    pub fn float8(&self, column: usize) -> Result<f64, Error> {
        read!(self, column, as_float8)
    }

    /// A `text`, `varchar` or `char`; a `char(n)` keeps its trailing spaces.
    pub fn text(&self, column: usize) -> Result<&'a str, Error> {
        Ok(value::as_text(self.bytes(column)?)?)
    }

    /// A `timestamp`: microseconds since 2000-01-01 00:00.
    pub fn timestamp(&self, column: usize) -> Result<i64, Error> {
        read!(self, column, as_timestamp)
    }

    /// A `numeric`, times 10^`scale`; one that is not exact in that form is an error.
    pub fn numeric(&self, column: usize, scale: u8) -> Result<i64, Error> {
        read!(self, column, as_numeric, scale)
    }
}

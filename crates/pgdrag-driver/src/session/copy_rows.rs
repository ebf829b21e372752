//! How does a row become bytes of a binary COPY?

use pgwire::{copy, value};

/// Rows waiting to be sent; the buffer is reused.
#[derive(Debug, Default)]
pub struct CopyRows {
    bytes: Vec<u8>,
}

impl CopyRows {
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Appends what comes before the first row.
    pub fn header(&mut self) {
        copy::header(&mut self.bytes);
    }

    /// Appends what comes after the last row.
    pub fn trailer(&mut self) {
        copy::trailer(&mut self.bytes);
    }

    /// Begins a row; that many values must follow.
    pub fn begin(&mut self, fields: u16) {
        copy::row(&mut self.bytes, fields);
    }

    pub fn int4(&mut self, value: i32) {
        value::put_int4(&mut self.bytes, value);
    }

    pub fn int8(&mut self, value: i64) {
        value::put_int8(&mut self.bytes, value);
    }

    pub fn float8(&mut self, value: f64) {
        value::put_float8(&mut self.bytes, value);
    }

    pub fn timestamp(&mut self, us_since_2000: i64) {
        value::put_timestamp(&mut self.bytes, us_since_2000);
    }

    /// Appends `unscaled` / 10^`SCALE`.
    pub fn decimal<const SCALE: u8>(&mut self, unscaled: i64) {
        value::put_numeric(&mut self.bytes, unscaled, SCALE);
    }

    pub fn null(&mut self) {
        value::put_null(&mut self.bytes);
    }

    pub fn text(&mut self, text: &[u8]) {
        value::put_bytes(&mut self.bytes, text);
    }

    /// Appends a text of `length` bytes that `fill` writes in place.
    pub fn text_with(&mut self, length: usize, fill: impl FnOnce(&mut [u8])) {
        let prefix = i32::try_from(length).expect("columns are short");
        self.bytes.extend_from_slice(&prefix.to_be_bytes());
        let start = self.bytes.len();
        self.bytes.resize(start + length, 0);
        fill(&mut self.bytes[start..]);
    }
}

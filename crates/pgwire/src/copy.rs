//! What does a binary COPY consist of?
//!
//! A header, rows, and a trailer. A row is the number of its fields, then each field as
//! [`crate::value`] writes it.

/// The signature, no flags, no extension.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";

/// Starts a binary COPY.
pub fn header(out: &mut Vec<u8>) {
    out.extend_from_slice(HEADER);
}

/// Starts a row; that many values must follow.
pub fn row(out: &mut Vec<u8>, fields: u16) {
    out.extend_from_slice(&fields.to_be_bytes());
}

/// Ends a binary COPY.
pub fn trailer(out: &mut Vec<u8>) {
    out.extend_from_slice(&(-1_i16).to_be_bytes());
}

//! What has the server said so far?
//!
//! A message is found in place: an incomplete one is `Ok(None)`, one that cannot be right is an
//! error, and bytes that have not arrived are never reserved on the word of a length field.

use std::fmt;

/// No message may be longer: PostgreSQL itself keeps its own below 1 GiB.
pub const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// Of a message for people, no more is kept.
const TEXT_BYTES_MAX: usize = 1000;

/// The bytes before a message's body: its tag and its length.
pub const HEADER_BYTES: usize = 5;

/// The server sent something that the protocol does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

/// What kind of message this is, where the driver tells it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// A request for a password, or the end of such requests.
    Authentication,
    /// The key with which this session's work can be cancelled.
    BackendKeyData,
    /// Parameters are bound.
    BindComplete,
    /// A statement or portal is closed.
    CloseComplete,
    /// A statement is done.
    CommandComplete,
    /// A row of COPY TO.
    CopyData,
    /// The end of COPY TO.
    CopyDone,
    /// The server wants rows.
    CopyInResponse,
    /// The server is going to send rows.
    CopyOutResponse,
    /// A row.
    DataRow,
    /// There was no statement in the text.
    EmptyQueryResponse,
    /// The statement failed.
    ErrorResponse,
    /// The server does not speak the minor version asked for.
    NegotiateProtocolVersion,
    /// The statement returns no rows.
    NoData,
    /// A warning or a lesser message.
    NoticeResponse,
    /// A message from another session.
    NotificationResponse,
    /// The types of a statement's parameters.
    ParameterDescription,
    /// A reported setting changed.
    ParameterStatus,
    /// A statement is parsed.
    ParseComplete,
    /// Execute stopped at its limit of rows.
    PortalSuspended,
    /// The server waits for the next command.
    ReadyForQuery,
    /// The names and types of the columns.
    RowDescription,
}

impl Tag {
    #[inline]
    fn of(byte: u8) -> Option<Self> {
        Some(match byte {
            b'R' => Self::Authentication,
            b'K' => Self::BackendKeyData,
            b'2' => Self::BindComplete,
            b'3' => Self::CloseComplete,
            b'C' => Self::CommandComplete,
            b'd' => Self::CopyData,
            b'c' => Self::CopyDone,
            b'G' => Self::CopyInResponse,
            b'H' => Self::CopyOutResponse,
            b'D' => Self::DataRow,
            b'I' => Self::EmptyQueryResponse,
            b'E' => Self::ErrorResponse,
            b'v' => Self::NegotiateProtocolVersion,
            b'n' => Self::NoData,
            b'N' => Self::NoticeResponse,
            b'A' => Self::NotificationResponse,
            b't' => Self::ParameterDescription,
            b'S' => Self::ParameterStatus,
            b'1' => Self::ParseComplete,
            b's' => Self::PortalSuspended,
            b'Z' => Self::ReadyForQuery,
            b'T' => Self::RowDescription,
            _ => return None,
        })
    }
}

/// One whole message, in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// What it is.
    pub tag: Tag,
    /// What follows the length.
    pub body: &'a [u8],
}

impl Message<'_> {
    /// How many bytes of the buffer this message takes.
    #[must_use]
    pub fn wire_bytes(&self) -> usize {
        HEADER_BYTES + self.body.len()
    }
}

/// Finds the message at the start of `buffer`; `None` while it is incomplete.
///
/// An unknown tag, or a length below 4 or beyond [`MESSAGE_BYTES_MAX`], is an error as soon as it
/// can be seen.
#[inline]
pub fn decode(buffer: &[u8]) -> Result<Option<Message<'_>>, Malformed> {
    let Some(&first) = buffer.first() else { return Ok(None) };
    let Some(tag) = Tag::of(first) else { return Err(unknown_tag(first)) };
    let Some(length) = buffer.get(1..HEADER_BYTES) else { return Ok(None) };
    let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
    if !(4..MESSAGE_BYTES_MAX).contains(&length) {
        return Err(wrong_length(tag, length));
    }
    Ok(buffer.get(HEADER_BYTES..=length).map(|body| Message { tag, body }))
}

#[cold]
fn unknown_tag(byte: u8) -> Malformed {
    Malformed(format!("unknown message tag 0x{byte:02x} from the server"))
}

#[cold]
fn wrong_length(tag: Tag, length: usize) -> Malformed {
    Malformed(format!("message {tag:?} claims a length of {length} bytes"))
}

/// Reads a message's body from its start to its end.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the start of `body`.
    #[must_use]
    pub fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| {
            Malformed(format!("message ends {} bytes early", count - self.rest.len()))
        })?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, Malformed> {
        Ok(self.bytes(1)?[0])
    }

    /// The next 16-bit integer.
    pub fn int2(&mut self) -> Result<i16, Malformed> {
        Ok(i16::from_be_bytes(self.bytes(2)?.try_into().expect("two bytes")))
    }

    /// The next 32-bit integer.
    pub fn int4(&mut self) -> Result<i32, Malformed> {
        Ok(i32::from_be_bytes(self.bytes(4)?.try_into().expect("four bytes")))
    }

    /// The next zero-terminated string, without its zero.
    pub fn string(&mut self) -> Result<&'a [u8], Malformed> {
        let end = self
            .rest
            .iter()
            .position(|byte| *byte == 0)
            .ok_or_else(|| Malformed("message ends within a string".into()))?;
        let text = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Ok(text)
    }

    /// What has not been read yet.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

/// The fields of an error or a notice that the driver tells of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// `ERROR`, `FATAL` or `PANIC`, untranslated where the server says so.
    pub severity: String,
    /// The five characters of the SQLSTATE.
    pub sqlstate: String,
    /// The primary message.
    pub message: String,
    /// The detail, often empty.
    pub detail: String,
}

/// Reads the body of an `ErrorResponse` or a `NoticeResponse`.
pub fn report(body: &[u8]) -> Result<Report, Malformed> {
    let mut reader = Reader::new(body);
    let mut report = Report::default();
    loop {
        let field = reader.byte()?;
        if field == 0 {
            // It becomes a key that counts are kept under: nothing but a SQLSTATE may be one.
            return if is_sqlstate(&report.sqlstate) {
                Ok(report)
            } else {
                Err(Malformed("report has no SQLSTATE of five characters".into()))
            };
        }
        let text = String::from_utf8_lossy(cut(reader.string()?));
        match field {
            b'V' => report.severity = text.into_owned(),
            b'S' if report.severity.is_empty() => report.severity = text.into_owned(),
            b'C' => report.sqlstate = text.into_owned(),
            b'M' => report.message = text.into_owned(),
            b'D' => report.detail = text.into_owned(),
            _ => {}
        }
    }
}

fn is_sqlstate(text: &str) -> bool {
    text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase())
}

/// The beginning of a text that people read; a server may send as much as it likes.
fn cut(text: &[u8]) -> &[u8] {
    &text[..text.len().min(TEXT_BYTES_MAX)]
}

/// The tag of a `CommandComplete`, for example `UPDATE 3`.
pub fn command_tag(body: &[u8]) -> Result<&str, Malformed> {
    let tag = Reader::new(body).string()?;
    std::str::from_utf8(tag).map_err(|_| Malformed("command tag is not UTF-8".into()))
}

/// How many rows a command tag counts: its last word, or 0 where that is no number.
#[must_use]
pub fn rows_affected(command_tag: &str) -> u64 {
    command_tag.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// The type OIDs in a `ParameterDescription`.
pub fn parameter_types(body: &[u8]) -> Result<Vec<u32>, Malformed> {
    let mut reader = Reader::new(body);
    let count = reader.int2()?.cast_unsigned();
    (0..count).map(|_| Ok(reader.int4()?.cast_unsigned())).collect()
}

/// The name and type OID of each column in a `RowDescription`.
pub fn columns(body: &[u8]) -> Result<Vec<(String, u32)>, Malformed> {
    let mut reader = Reader::new(body);
    let count = reader.int2()?.cast_unsigned();
    (0..count)
        .map(|_| {
            let name = String::from_utf8_lossy(reader.string()?).into_owned();
            reader.bytes(4 + 2)?; // the table and the column's number in it
            let oid = reader.int4()?.cast_unsigned();
            reader.bytes(2 + 4 + 2)?; // size, modifier, format
            Ok((name, oid))
        })
        .collect()
}

/// A row's values, in place.
#[derive(Debug, Clone, Copy)]
pub struct RawRow<'a> {
    columns: u16,
    values: &'a [u8],
}

impl<'a> RawRow<'a> {
    /// Reads the body of a `DataRow`, and makes sure that all its values lie within it.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        let columns = reader.int2()?.cast_unsigned();
        let values = reader.rest();
        for _ in 0..columns {
            next_value(&mut reader)?;
        }
        if reader.rest().is_empty() {
            Ok(Self { columns, values })
        } else {
            Err(Malformed(format!("row has {} bytes too many", reader.rest().len())))
        }
    }

    /// Number of columns.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.columns)
    }

    /// Whether the row has no columns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.columns == 0
    }

    /// The bytes of the value in `column`, counted from 0; `None` for NULL or no such column.
    #[must_use]
    pub fn get(&self, column: usize) -> Option<&'a [u8]> {
        self.iter().nth(column).flatten()
    }

    /// All values, from left to right; `None` is NULL.
    pub fn iter(&self) -> impl Iterator<Item = Option<&'a [u8]>> + use<'a> {
        let mut reader = Reader::new(self.values);
        (0..self.columns).map(move |_| next_value(&mut reader).ok().flatten())
    }
}

fn next_value<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>, Malformed> {
    match reader.int4()? {
        -1 => Ok(None),
        length => {
            let length = usize::try_from(length)
                .map_err(|_| Malformed(format!("value claims a length of {length} bytes")))?;
            reader.bytes(length).map(Some)
        }
    }
}

//! What does the client say, byte by byte?
//!
//! Each function appends one message to `out`. A hot statement's Bind is made once, as a
//! [`BindTemplate`], and then only copied, so that nothing is built or looked up per execution.

use bytes::BytesMut;
use postgres_protocol::IsNull;
use postgres_protocol::message::frontend;

use crate::value::Format;

/// The text handed over cannot be sent: it holds a zero byte or is too long for the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsendable(pub String);

impl std::fmt::Display for Unsendable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unsendable {}

#[allow(clippy::needless_pass_by_value)] // the signature that map_err wants
fn unsendable(error: std::io::Error) -> Unsendable {
    Unsendable(format!("cannot send a message: {error}"))
}

/// Asks for a session with these settings; `user` and `database` are among them.
pub fn startup(out: &mut BytesMut, settings: &[(&str, &str)]) -> Result<(), Unsendable> {
    frontend::startup_message(settings.iter().copied(), out).map_err(unsendable)
}

/// Asks whether the server speaks TLS; it answers with one byte, `S` or `N`.
pub fn ssl_request(out: &mut BytesMut) {
    frontend::ssl_request(out);
}

/// Answers a request for a password, in clear text or as an MD5 hash.
pub fn password(out: &mut BytesMut, answer: &[u8]) -> Result<(), Unsendable> {
    frontend::password_message(answer, out).map_err(unsendable)
}

/// Starts a SASL exchange.
pub fn sasl_first(out: &mut BytesMut, mechanism: &str, answer: &[u8]) -> Result<(), Unsendable> {
    frontend::sasl_initial_response(mechanism, answer, out).map_err(unsendable)
}

/// Goes on with a SASL exchange.
pub fn sasl_next(out: &mut BytesMut, answer: &[u8]) -> Result<(), Unsendable> {
    frontend::sasl_response(answer, out).map_err(unsendable)
}

/// Runs one or more statements given as text.
pub fn query(out: &mut BytesMut, sql: &str) -> Result<(), Unsendable> {
    frontend::query(sql, out).map_err(unsendable)
}

/// Runs what `write` writes as text: one or more statements.
///
/// # Panics
/// When the text is a gigabyte or longer.
pub fn query_written<E: From<Unsendable>>(
    out: &mut BytesMut,
    write: impl FnOnce(&mut BytesMut) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    out.extend_from_slice(b"Q\0\0\0\0");
    let written = write(out);
    let is_sound = written.is_ok() && !out[start + 5..].contains(&0);
    if !is_sound {
        out.truncate(start);
        return written.and(Err(Unsendable("cannot send a text with a zero byte".into()).into()));
    }
    out.extend_from_slice(b"\0");
    let length = i32::try_from(out.len() - start - 1).expect("a Query message stays below 1 GiB");
    out[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// Prepares a statement; the server infers the parameter types that are not given.
pub fn parse(out: &mut BytesMut, name: &str, sql: &str, types: &[u32]) -> Result<(), Unsendable> {
    frontend::parse(name, sql, types.iter().copied(), out).map_err(unsendable)
}

/// Asks for a prepared statement's parameters and columns.
pub fn describe_statement(out: &mut BytesMut, name: &str) -> Result<(), Unsendable> {
    frontend::describe(b'S', name, out).map_err(unsendable)
}

/// Asks for the columns of the unnamed portal.
pub fn describe_portal(out: &mut BytesMut) {
    out.extend_from_slice(b"D\0\0\0\x06P\0");
}

/// Runs the unnamed portal to its end.
pub fn execute(out: &mut BytesMut) {
    out.extend_from_slice(b"E\0\0\0\x09\0\0\0\0\0");
}

/// Ends a batch of messages: the server answers `ReadyForQuery`, whatever happened before.
pub fn sync(out: &mut BytesMut) {
    out.extend_from_slice(b"S\0\0\0\x04");
}

/// Sends bytes of a COPY.
///
/// # Panics
/// When `rows` is a gigabyte or longer.
pub fn copy_data(out: &mut BytesMut, rows: &[u8]) {
    let length = i32::try_from(rows.len() + 4).expect("a COPY message stays below 1 GiB");
    out.reserve(rows.len() + 5);
    out.extend_from_slice(b"d");
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(rows);
}

/// Ends a COPY.
pub fn copy_done(out: &mut BytesMut) {
    frontend::copy_done(out);
}

/// Gives up a COPY.
pub fn copy_fail(out: &mut BytesMut, reason: &str) -> Result<(), Unsendable> {
    frontend::copy_fail(reason, out).map_err(unsendable)
}

/// Asks, on a connection of its own, to cancel what another session is doing.
pub fn cancel_request(out: &mut BytesMut, process_id: i32, secret_key: i32) {
    frontend::cancel_request(process_id, secret_key, out);
}

/// Says goodbye.
pub fn terminate(out: &mut BytesMut) {
    frontend::terminate(out);
}

/// A Bind message without its values, for the unnamed portal.
#[derive(Debug, Clone)]
pub struct BindTemplate {
    /// Up to the count of the values; its length is written for each execution.
    head: Vec<u8>,
    tail: [u8; TAIL_BYTES],
    parameters: u16,
}

/// What follows the values: one format for all columns.
const TAIL_BYTES: usize = 4;

impl BindTemplate {
    /// Prepares to bind `parameters` values to the statement `name`; they and the rows have `format`.
    pub fn new(name: &str, parameters: u16, format: Format) -> Result<Self, Unsendable> {
        let mut message = BytesMut::new();
        frontend::bind(
            "",
            name,
            [format.code()],
            0..0,
            |_: u8, _: &mut BytesMut| Ok(IsNull::Yes),
            [format.code()],
            &mut message,
        )
        .map_err(|_| Unsendable(format!("cannot bind to statement \"{name}\"")))?;
        let (head, tail) = message.split_at(message.len() - TAIL_BYTES);
        let mut head = head.to_vec();
        // It says that there are no values.
        let count = head.len() - 2;
        head[count..].copy_from_slice(&parameters.to_be_bytes());
        Ok(Self { head, tail: tail.try_into().expect("as long as that"), parameters })
    }

    /// Number of values that each execution takes.
    #[must_use]
    pub fn parameters(&self) -> usize {
        usize::from(self.parameters)
    }

    /// Binds values that are already in wire form: see [`crate::value`].
    ///
    /// # Panics
    /// When `values` is a gigabyte or longer.
    pub fn bind(&self, out: &mut BytesMut, values: &[u8]) {
        // The length counts itself, but not the tag.
        let length = self.head.len() - 1 + values.len() + TAIL_BYTES;
        let length = i32::try_from(length).expect("a Bind message stays below 1 GiB");
        let start = out.len();
        out.reserve(values.len() + self.head.len() + TAIL_BYTES);
        out.extend_from_slice(&self.head);
        out[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
        out.extend_from_slice(values);
        out.extend_from_slice(&self.tail);
    }
}

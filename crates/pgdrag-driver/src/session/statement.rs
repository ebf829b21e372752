//! In which form does a statement travel?
//!
//! A [`Statement`] knows its own way of being sent, so that a transaction's code is the same for all
//! of them. What can be encoded once is encoded once: an execution only copies it.

use bytes::BytesMut;
use pgwire::frontend::{self, BindTemplate};
use pgwire::text;
use pgwire::value::{self, Format};

use crate::error::Error;
use crate::session::values::Params;

/// How statements are sent: the three ways that pgbench knows, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// As text with the values in it; the rows come as text.
    Simple,
    /// Parsed and bound anew for each execution.
    Extended,
    /// Parsed once in a session, and only bound for each execution.
    Prepared,
}

/// A statement of one connection.
#[derive(Debug, Clone)]
pub struct Statement {
    form: Form,
    parameters: usize,
    parameter_types: Vec<u32>,
    columns: Vec<(String, u32)>,
}

#[derive(Debug, Clone)]
enum Form {
    /// The pieces of the text, and the parameter that stands behind each.
    Text { pieces: Vec<(String, usize)>, end: String },
    /// A Parse message, empty where the statement is prepared, and the Bind message.
    Bound { parse: BytesMut, bind: BindTemplate, format: Format },
}

impl Statement {
    /// A statement that is parsed anew for each execution: the server infers the types of its
    /// `parameters`, which are given as text, and so are its rows. Costs no round trip.
    pub fn unnamed(sql: &str, parameters: u16) -> Result<Self, Error> {
        let mut parse = BytesMut::new();
        frontend::parse(&mut parse, "", sql, &[])?;
        Self::bound(parse, "", parameters, Format::Text)
    }

    /// A statement without parameters and rows: BEGIN, COMMIT and the like.
    pub(crate) fn control(sql: &str, protocol: Protocol) -> Result<Self, Error> {
        let mut parse = BytesMut::new();
        match protocol {
            Protocol::Simple => Ok(Self::text(sql, Vec::new())),
            Protocol::Extended => {
                frontend::parse(&mut parse, "", sql, &[])?;
                Self::bound(parse, "", 0, Format::Binary)
            }
            Protocol::Prepared => Self::bound(parse, sql, 0, Format::Binary),
        }
    }

    /// The statement that the server was asked about under the name `name`.
    pub(crate) fn described(
        (name, sql): (&str, &str),
        (protocol, format): (Protocol, Format),
        parameter_types: Vec<u32>,
        columns: Vec<(String, u32)>,
    ) -> Result<Self, Error> {
        let parameters = u16::try_from(parameter_types.len()).expect("counted by 16 bits");
        let mut parse = BytesMut::new();
        let statement = match protocol {
            Protocol::Simple => Self::text(sql, parameter_types),
            Protocol::Extended => {
                frontend::parse(&mut parse, "", sql, &parameter_types)?;
                Self { parameter_types, ..Self::bound(parse, "", parameters, format)? }
            }
            Protocol::Prepared => {
                Self { parameter_types, ..Self::bound(parse, name, parameters, format)? }
            }
        };
        Ok(Self { columns, ..statement })
    }

    fn bound(parse: BytesMut, name: &str, parameters: u16, format: Format) -> Result<Self, Error> {
        let bind = BindTemplate::new(name, parameters, format)?;
        Ok(Self {
            form: Form::Bound { parse, bind, format },
            parameters: usize::from(parameters),
            parameter_types: Vec::new(),
            columns: Vec::new(),
        })
    }

    fn text(sql: &str, parameter_types: Vec<u32>) -> Self {
        let (pieces, end) = cut_at_parameters(sql);
        Self {
            form: Form::Text { pieces, end },
            parameters: parameter_types.len(),
            parameter_types,
            columns: Vec::new(),
        }
    }

    /// The type OIDs of the parameters, where the server was asked for them.
    #[must_use]
    pub fn parameter_types(&self) -> &[u32] {
        &self.parameter_types
    }

    /// The name and type OID of each column, where the server was asked for them.
    #[must_use]
    pub fn columns(&self) -> &[(String, u32)] {
        &self.columns
    }

    /// Number of values that an execution takes.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.parameters
    }

    pub(crate) fn is_text(&self) -> bool {
        matches!(self.form, Form::Text { .. })
    }

    /// The form of the rows.
    pub(crate) fn format(&self) -> Format {
        match &self.form {
            Form::Text { .. } => Format::Text,
            Form::Bound { format, .. } => *format,
        }
    }

    /// Queues the Parse message, and says whether there is one.
    pub(crate) fn put_parse(&self, out: &mut BytesMut) -> bool {
        match &self.form {
            Form::Bound { parse, .. } => {
                out.extend_from_slice(parse);
                !parse.is_empty()
            }
            Form::Text { .. } => false,
        }
    }

    /// Queues the Bind message.
    pub(crate) fn put_bind(&self, out: &mut BytesMut, values: &[u8]) {
        match &self.form {
            Form::Bound { bind, .. } => bind.bind(out, values),
            Form::Text { .. } => unreachable!("a text is not bound"),
        }
    }

    /// Writes the statement's text with its values.
    pub(crate) fn put_text(&self, out: &mut BytesMut, values: &[u8]) -> Result<(), Error> {
        let Form::Text { pieces, end } = &self.form else {
            unreachable!("a bound statement has no text");
        };
        for (piece, parameter) in pieces {
            out.extend_from_slice(piece.as_bytes());
            let oid = *self.parameter_types.get(*parameter).ok_or_else(|| {
                Error::Protocol(format!("statement has no parameter {parameter}, counted from 0"))
            })?;
            text::literal(out, oid, value::nth(values, *parameter))?;
        }
        out.extend_from_slice(end.as_bytes());
        Ok(())
    }

    /// How often the values fill the statement's parameters; an error where they do not.
    pub(crate) fn executions(&self, params: &mut Params) -> Result<usize, Error> {
        let width = self.parameters;
        if width > 0 && params.count.is_multiple_of(width) {
            Ok(params.count / width)
        } else {
            Err(params.misfit(width))
        }
    }
}

/// Cuts a statement at its `$1`, `$2` …, and leaves those in quotes alone.
fn cut_at_parameters(sql: &str) -> (Vec<(String, usize)>, String) {
    let (mut pieces, mut piece, mut rest) = (Vec::new(), String::new(), sql);
    let mut quote = None;
    while let Some(next) = rest.chars().next() {
        let digits = match (next, quote) {
            ('$', None) => rest[1..].bytes().take_while(u8::is_ascii_digit).count(),
            _ => 0,
        };
        if digits > 0 {
            let number: usize = rest[1..=digits].parse().unwrap_or(usize::MAX);
            pieces.push((std::mem::take(&mut piece), number.saturating_sub(1)));
            rest = &rest[1 + digits..];
            continue;
        }
        quote = match (quote, next) {
            (None, '\'' | '"') => Some(next),
            (Some(open), close) if open == close => None,
            (unchanged, _) => unchanged,
        };
        piece.push(next);
        rest = &rest[next.len_utf8()..];
    }
    (pieces, piece)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_its_parameters_but_not_within_quotes() {
        let (pieces, end) = cut_at_parameters("select $2, '$1 é''$1', \"$1\" + $10;");
        let pieces: Vec<_> = pieces.iter().map(|(text, number)| (text.as_str(), *number)).collect();
        assert_eq!(pieces, [("select ", 1), (", '$1 é''$1', \"$1\" + ", 9)]);
        assert_eq!(end, ";");
    }
}

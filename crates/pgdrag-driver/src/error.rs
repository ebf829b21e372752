//! What went wrong between the driver and the server?

use std::{fmt, io};

use pgwire::backend::{Malformed, Report};
use pgwire::frontend::Unsendable;

/// A failed exchange with the server.
#[derive(Debug)]
pub enum Error {
    /// The server reported an error.
    ///
    /// In a box, because results are handed on often, and errors are rare.
    Server(Box<Report>),
    /// The connection broke, or could not be made.
    Io(io::Error),
    /// The server said what the protocol does not allow, or the driver cannot understand.
    Protocol(String),
    /// The server is not known to be the one meant, or does not offer the safety that the job asks for.
    Refused(String),
    /// The server answered, but not with what the workload's own rules promise.
    Workload(String),
    /// The job itself asks for what cannot be done: no other attempt and no other client would fare
    /// better, so it ends the run.
    Fatal(String),
    /// A signal ended the work before it was done.
    Stopped,
}

impl Error {
    /// The SQLSTATE that this error counts under.
    ///
    /// Errors that no server reported have the standard's closest state: 08006 (connection
    /// failure), 08P01 (protocol violation), 28000 (invalid authorization specification), 02000 (no data), 42601 (syntax error) and 57014 (query
    /// canceled).
    #[must_use]
    pub fn sqlstate(&self) -> &str {
        match self {
            Self::Server(report) => &report.sqlstate,
            Self::Io(_) => "08006",
            Self::Protocol(_) => "08P01",
            Self::Refused(_) => "28000",
            Self::Workload(_) => "02000",
            Self::Fatal(_) => "42601",
            Self::Stopped => "57014",
        }
    }

    /// Whether the same transaction may succeed when it is tried again: a serialization failure or
    /// a deadlock.
    #[must_use]
    pub fn is_retriable(&self) -> bool {
        matches!(self.sqlstate(), "40001" | "40P01")
    }

    /// Whether it is retriable by a client that retries deadlocks, or by one that does not.
    #[must_use]
    pub fn is_tried_again(&self, retries_deadlocks: bool) -> bool {
        self.is_retriable() && (retries_deadlocks || self.sqlstate() != "40P01")
    }

    /// Whether it ends the run for every client.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(self, Self::Fatal(_))
    }

    /// Whether this client and the server will not come together, however often it asks: its role, its
    /// password or its database are refused, or what its statements need is gone, or it does not trust the server.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        let class = self.sqlstate().get(..2);
        matches!(self, Self::Refused(_))
            || matches!(self, Self::Server(_)) && matches!(class, Some("28" | "3D" | "42"))
    }

    /// Whether the other side has ended the connection.
    pub(crate) fn is_disconnect(&self) -> bool {
        use io::ErrorKind::{ConnectionReset, UnexpectedEof};
        matches!(self, Self::Io(error) if matches!(error.kind(), ConnectionReset | UnexpectedEof))
    }

    pub(crate) fn closed_by_server() -> Self {
        Self::Io(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "server closed the connection unexpectedly",
        ))
    }

    pub(crate) fn from_report(report: Report) -> Self {
        Self::Server(Box::new(report))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(report) if report.detail.is_empty() => f.write_str(&report.message),
            Self::Server(report) => write!(f, "{} ({})", report.message, report.detail),
            Self::Io(error) => write!(f, "{error}"),
            Self::Protocol(message)
            | Self::Refused(message)
            | Self::Workload(message)
            | Self::Fatal(message) => f.write_str(message),
            Self::Stopped => f.write_str("stopped by a signal"),
        }
    }
}

impl std::error::Error for Error {}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Malformed> for Error {
    fn from(error: Malformed) -> Self {
        Self::Protocol(error.0)
    }
}

impl From<Unsendable> for Error {
    fn from(error: Unsendable) -> Self {
        Self::Protocol(error.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(sqlstate: &str) -> Error {
        Error::Server(Box::new(Report { sqlstate: sqlstate.to_owned(), ..Report::default() }))
    }

    #[test]
    fn deadlocks_are_tried_again_only_by_those_who_retry_them() {
        for (sqlstate, with, without) in
            [("40001", true, true), ("40P01", true, false), ("23505", false, false)]
        {
            let error = reported(sqlstate);
            assert_eq!((error.is_tried_again(true), error.is_tried_again(false)), (with, without));
        }
    }
}

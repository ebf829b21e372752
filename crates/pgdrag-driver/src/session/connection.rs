//! How does a workload talk to the server?
//!
//! A [`Connection`] is one session: statements are prepared once and then run with binary
//! parameters and results, one round trip each. BEGIN costs no round trip of its own: it travels
//! with the transaction's first statement. Dropping a future that this module returned leaves the
//! connection in the middle of an answer; it then refuses further work and must be dropped, too.

use std::rc::Rc;
use std::time::{Duration, Instant};

use pgwire::backend::{self, Tag};
use pgwire::frontend;
use pgwire::value::Format;

use crate::error::Error;
use crate::io::reactor::Reactor;
use crate::session::answers::{Owed, is_in_passing};
use crate::session::exchange::{Arrived, Exchange};
use crate::session::startup;
use crate::session::statement::{Protocol, Statement};
use crate::session::target::{CancelToken, Registration, Target};

/// One session with the server.
pub struct Connection {
    pub(crate) exchange: Exchange,
    cancel: CancelToken,
    protocol: Protocol,
    pub(crate) controls: Controls,
    are_controls_prepared: bool,
    transaction: Status,
    pub(crate) is_begin_queued: bool,
    /// True while an answer is outstanding, and for good once the connection is unusable.
    pub(crate) is_unusable: bool,
    statements_prepared: u64,
    _registration: Registration,
}

/// What the server said about the transaction with its last `ReadyForQuery`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Idle,
    Open,
    Failed,
}

const ROUND_TRIPS_TRIED: usize = 21;

const CONTROLS: [&str; 3] = ["begin", "commit", "rollback"];

/// The statements that every connection has.
pub(crate) struct Controls {
    pub(crate) begin: Statement,
    pub(crate) commit: Statement,
    pub(crate) rollback: Statement,
}

impl Controls {
    fn new(protocol: Protocol) -> Result<Self, Error> {
        let [begin, commit, rollback] = CONTROLS.map(|sql| Statement::control(sql, protocol));
        Ok(Self { begin: begin?, commit: commit?, rollback: rollback? })
    }
}

impl Connection {
    /// Opens a session. Waits for as long as the server does, so give it a time limit.
    ///
    /// Nothing is prepared in it: behind a pooler a server session is another client's the next moment.
    pub async fn connect(target: &Target) -> Result<Self, Error> {
        let (exchange, cancel) = startup::open(target).await?;
        Ok(Self {
            exchange,
            protocol: Protocol::Prepared,
            controls: Controls::new(Protocol::Extended)?,
            are_controls_prepared: false,
            transaction: Status::Idle,
            is_begin_queued: false,
            is_unusable: false,
            statements_prepared: 0,
            _registration: target.register(&cancel),
            cancel,
        })
    }

    /// Lets the thread's `reactor` tell of the server's answers from now on.
    pub(crate) fn watch(&mut self, reactor: &Rc<Reactor>) -> Result<(), Error> {
        self.exchange.watch(reactor)
    }

    /// What it takes to cancel this session's work from outside.
    #[must_use]
    pub fn cancel_token(&self) -> CancelToken {
        self.cancel.clone()
    }

    /// Ends the session; the connection cannot be used any more.
    pub fn close(&mut self) {
        self.exchange.terminate();
        self.is_unusable = true;
    }

    /// Whether the connection cannot be used any more.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.is_unusable
    }

    /// Whether a transaction block is open, be it failed or not.
    #[must_use]
    pub fn is_in_transaction(&self) -> bool {
        self.transaction != Status::Idle || self.is_begin_queued
    }

    /// Whether a transaction block is open that can only be rolled back.
    #[must_use]
    pub fn is_transaction_failed(&self) -> bool {
        self.transaction == Status::Failed
    }

    /// Sends BEGIN, COMMIT, ROLLBACK and what [`Connection::prepare`] returns in this way from now on. A new
    /// connection prepares what it is asked to, and sends the other three in [`Protocol::Extended`].
    ///
    /// One round trip for [`Protocol::Prepared`], the first time; none for the others.
    pub async fn set_protocol(&mut self, protocol: Protocol) -> Result<(), Error> {
        let controls = Controls::new(protocol)?;
        if protocol == Protocol::Prepared && !self.are_controls_prepared {
            self.start()?;
            for sql in CONTROLS {
                frontend::parse(&mut self.exchange.out, sql, sql, &[])?;
            }
            self.finish(CONTROLS.len()).await?;
            self.are_controls_prepared = true;
        }
        (self.protocol, self.controls) = (protocol, controls);
        Ok(())
    }

    /// What it takes to ask for nothing, if nobody waits for a processor: the least of a few times. In most of them, other
    /// clients may be connecting.
    pub async fn round_trip(&mut self) -> Result<Duration, Error> {
        let mut least = Duration::MAX;
        for _ in 0..ROUND_TRIPS_TRIED {
            let began = Instant::now();
            self.simple("").await?;
            least = least.min(began.elapsed());
        }
        Ok(least)
    }

    /// Prepares a statement with binary values, in the connection's protocol. One round trip.
    pub async fn prepare(&mut self, sql: &str) -> Result<Statement, Error> {
        self.statement(sql, self.protocol, Format::Binary).await
    }

    /// Asks the server about a statement that is to be sent in this way. One round trip.
    ///
    /// `format` is that of its parameters and rows. In [`Protocol::Simple`] the rows are text, and
    /// parameters are given in binary form nevertheless: their literals are made of it.
    pub async fn statement(
        &mut self,
        sql: &str,
        protocol: Protocol,
        format: Format,
    ) -> Result<Statement, Error> {
        self.start()?;
        let name = if protocol == Protocol::Prepared {
            self.statements_prepared += 1;
            format!("s{}", self.statements_prepared)
        } else {
            String::new()
        };
        frontend::parse(&mut self.exchange.out, &name, sql, &[])?;
        frontend::describe_statement(&mut self.exchange.out, &name)?;
        self.finish(1).await?;

        let (mut parameter_types, mut columns) = (Vec::new(), Vec::new());
        let mut rest = self.exchange.kept();
        while let Some(message) = backend::decode(rest)? {
            match message.tag {
                Tag::ParameterDescription => {
                    parameter_types = backend::parameter_types(message.body)?;
                }
                Tag::RowDescription => columns = backend::columns(message.body)?,
                _ => {}
            }
            rest = &rest[message.wire_bytes()..];
        }
        Statement::described((&name, sql), (protocol, format), parameter_types, columns)
    }

    /// Queues BEGIN, to be sent together with the transaction's first statement.
    pub fn begin(&mut self) {
        self.is_begin_queued = true;
    }

    /// Makes sure that nothing is outstanding, and forgets the answer before.
    pub(crate) fn start(&mut self) -> Result<(), Error> {
        if self.is_unusable {
            return Err(Error::Io(std::io::Error::new(
                std::io::ErrorKind::NotConnected,
                "connection is broken",
            )));
        }
        self.exchange.out.clear();
        self.exchange.forget();
        while let Some(message) = self.exchange.next_buffered()? {
            if !is_in_passing(message.tag) {
                self.is_unusable = true;
                return Err(match message.tag {
                    Tag::ErrorResponse => self.server_error(&message)?,
                    tag => Error::Protocol(format!("{tag:?} without a question")),
                });
            }
            self.exchange.discard(&message);
        }
        Ok(())
    }

    /// Ends `parts` of the extended protocol with Sync, and gathers the answer.
    async fn finish(&mut self, parts: usize) -> Result<(), Error> {
        frontend::sync(&mut self.exchange.out);
        self.is_unusable = true;
        self.gather(Owed::one(parts)).await
    }

    pub(crate) fn note_ready(&mut self, message: &Arrived) -> Result<(), Error> {
        self.transaction = match self.exchange.body(message) {
            b"I" => Status::Idle,
            b"T" => Status::Open,
            b"E" => Status::Failed,
            other => {
                return Err(Error::Protocol(format!("unknown transaction status {other:?}")));
            }
        };
        Ok(())
    }

    pub(crate) fn server_error(&self, message: &Arrived) -> Result<Error, Error> {
        Ok(Error::from_report(backend::report(self.exchange.body(message))?))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.exchange.terminate();
    }
}

/// Opens a session within a time limit; running out of it is an I/O error.
pub async fn connect_within(target: &Target, limit: Duration) -> Result<Connection, Error> {
    match tokio::time::timeout(limit, Connection::connect(target)).await {
        Ok(result) => result,
        Err(_) => Err(Error::Io(std::io::Error::new(
            std::io::ErrorKind::TimedOut,
            format!("server did not answer within {:.1} s", limit.as_secs_f64()),
        ))),
    }
}

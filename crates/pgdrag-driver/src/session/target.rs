//! Where is the server, and how is what it is doing there cancelled?

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use pgwire::frontend;

use crate::error::Error;
use crate::io::stream::{Address, KeepAlive, Stream};
use crate::session::exchange::Exchange;
use crate::session::link::Link;
use crate::session::trust::Trust;
use crate::tls::{Encryption, TlsTerms};

/// A server, and the role to connect as. Clones share the list of live sessions.
#[derive(Clone)]
pub struct Target {
    pub(crate) place: Place,
    pub(crate) trust: Trust,
    pub(crate) user: String,
    pub(crate) database: String,
    pub(crate) password: Option<String>,
    pub(crate) application_name: String,
    pub(crate) options: Option<String>,
    sessions: Arc<Sessions>,
}

impl Target {
    /// Names a server; a `host` that starts with `/` is the directory of its Unix socket.
    #[must_use]
    pub fn new(
        host: &str,
        port: u16,
        user: &str,
        database: &str,
        password: Option<&str>,
        application_name: &str,
    ) -> Self {
        let address = if host.starts_with('/') {
            Address::Unix(PathBuf::from(host).join(format!(".s.PGSQL.{port}")))
        } else {
            Address::Tcp(host.to_owned(), port)
        };
        Self {
            place: Place { address, keep_alive: None, encryption: None },
            trust: Trust::default(),
            user: user.to_owned(),
            database: database.to_owned(),
            password: password.map(str::to_owned),
            application_name: application_name.to_owned(),
            options: None,
            sessions: Arc::default(),
        }
    }

    /// The same server, of which more is asked before it is believed. Over a Unix socket there is no TLS.
    ///
    /// `address` is where the host is, without asking for its name. The error is one line that names a
    /// certificate or key that cannot be used.
    pub fn secured(
        mut self,
        trust: Trust,
        tls: Option<&TlsTerms>,
        address: Option<&str>,
    ) -> Result<Self, String> {
        self.trust = trust;
        if let Address::Tcp(host, _) = &mut self.place.address {
            self.place.encryption = tls.map(|tls| Encryption::new(host, tls)).transpose()?;
            if let Some(address) = address {
                address.clone_into(host);
            }
        }
        Ok(self)
    }

    /// The same server, whose sessions begin with settings of their own, as in `-c work_mem=1MB`.
    #[must_use]
    pub fn with_options(mut self, options: Option<&str>) -> Self {
        self.options = options.map(str::to_owned);
        self
    }

    /// The same server, whose TCP connections notice in this way that it is gone.
    #[must_use]
    pub fn kept_alive(mut self, how: Option<KeepAlive>) -> Self {
        self.place.keep_alive = how;
        self
    }

    /// Asks the server to cancel what every session made from this target is doing.
    ///
    /// Sessions that cannot be reached are left out: nothing more can be done about them from here.
    pub async fn cancel_all(&self) {
        for token in self.sessions.tokens() {
            let _ = token.cancel().await;
        }
    }

    pub(crate) fn register(&self, token: &CancelToken) -> Registration {
        Registration { id: self.sessions.add(token.clone()), sessions: Arc::clone(&self.sessions) }
    }
}

/// Where a server is, and how what is said to it is encrypted.
#[derive(Clone)]
pub(crate) struct Place {
    address: Address,
    keep_alive: Option<KeepAlive>,
    encryption: Option<Encryption>,
}

impl Place {
    /// Connects, and encrypts the connection where that is asked for.
    pub(crate) async fn connect(&self) -> Result<Link, Error> {
        let stream = Stream::connect(&self.address, self.keep_alive).await?;
        Ok(match &self.encryption {
            Some(encryption) => Link::Tls(Box::new(encryption.begin(stream).await?)),
            None => Link::Plain(stream),
        })
    }
}

/// The sessions that are open now, so that a signal can cancel them all.
#[derive(Default)]
struct Sessions(Mutex<(u64, BTreeMap<u64, CancelToken>)>);

impl Sessions {
    fn add(&self, token: CancelToken) -> u64 {
        let mut sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.0 += 1;
        let id = sessions.0;
        sessions.1.insert(id, token);
        id
    }

    fn remove(&self, id: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.remove(&id);
    }

    fn tokens(&self) -> Vec<CancelToken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).1.values().cloned().collect()
    }
}

/// Keeps a session on its target's list for as long as the connection lives.
pub(crate) struct Registration {
    id: u64,
    sessions: Arc<Sessions>,
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.sessions.remove(self.id);
    }
}

/// What it takes to cancel one session's work from outside.
#[derive(Clone)]
pub struct CancelToken {
    pub(crate) place: Place,
    pub(crate) process_id: i32,
    pub(crate) secret_key: i32,
}

impl CancelToken {
    /// Asks the server to cancel what the session is doing at this moment, if anything.
    ///
    /// Returns when the server has taken the request in; it does not say whether there was anything
    /// to cancel. Waits for as long as the server does, so give it a time limit.
    pub async fn cancel(&self) -> Result<(), Error> {
        let mut exchange = Exchange::new(self.place.connect().await?);
        frontend::cancel_request(&mut exchange.out, self.process_id, self.secret_key);
        exchange.send().await?;
        // The server closes the connection when it has passed the request on.
        match exchange.next().await {
            Err(error) if !error.is_disconnect() => Err(error),
            _ => Ok(()),
        }
    }
}

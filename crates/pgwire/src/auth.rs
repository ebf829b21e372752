//! How does the client answer a request for a password?
//!
//! SCRAM-SHA-256, bound to the TLS connection below it where there is one, MD5 and clear text.

use postgres_protocol::authentication::{md5_hash, sasl};

use crate::backend::{Malformed, Reader};

/// What the server asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request<'a> {
    /// Nothing more: the session is authenticated.
    Done,
    /// The password as it is.
    ClearText,
    /// The password hashed with this salt.
    Md5([u8; 4]),
    /// A SASL exchange by one of these mechanisms.
    Sasl(Mechanisms),
    /// The server's first SASL answer.
    SaslContinue(&'a [u8]),
    /// The server's last SASL answer.
    SaslFinal(&'a [u8]),
}

/// Which of the SASL mechanisms that are spoken here a server offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mechanisms {
    /// SCRAM-SHA-256.
    pub scram: bool,
    /// SCRAM-SHA-256-PLUS, which is bound to the TLS connection.
    pub scram_plus: bool,
}

impl<'a> Request<'a> {
    /// Reads the body of an authentication message.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        match reader.int4()? {
            0 => Ok(Self::Done),
            3 => Ok(Self::ClearText),
            5 => Ok(Self::Md5(reader.bytes(4)?.try_into().expect("four bytes"))),
            10 => {
                let mut offered = Mechanisms::default();
                loop {
                    match reader.string()? {
                        b"" => return Ok(Self::Sasl(offered)),
                        mechanism => {
                            offered.scram |= mechanism == sasl::SCRAM_SHA_256.as_bytes();
                            offered.scram_plus |= mechanism == sasl::SCRAM_SHA_256_PLUS.as_bytes();
                        }
                    }
                }
            }
            11 => Ok(Self::SaslContinue(reader.rest())),
            12 => Ok(Self::SaslFinal(reader.rest())),
            method => Err(Malformed(format!("cannot answer authentication method {method}"))),
        }
    }
}

/// The answer to [`Request::Md5`].
#[must_use]
pub fn md5(user: &str, password: &str, salt: [u8; 4]) -> String {
    md5_hash(user.as_bytes(), password.as_bytes(), salt)
}

/// The most hashing that a server may ask for: about a second of it, against PostgreSQL's default
/// of 4,096. No time limit ends a computation.
pub const ITERATIONS_MAX: u64 = 2_000_000;

/// What a SCRAM exchange says of the TLS connection below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Binding {
    /// There is none, or the client cannot bind to it.
    Unsupported,
    /// The client could bind to it, but the server does not offer that: a server that does offer it finds
    /// out that its offer was removed on the way.
    NotOffered,
    /// It ends at the server whose certificate has this hash (tls-server-end-point, RFC 5929).
    EndPoint(Vec<u8>),
}

/// One SCRAM-SHA-256 exchange.
pub struct Scram {
    exchange: sasl::ScramSha256,
    is_bound: bool,
    is_proven: bool,
}

impl Scram {
    /// Starts an exchange.
    #[must_use]
    pub fn new(password: &str, binding: Binding) -> Self {
        let is_bound = matches!(binding, Binding::EndPoint(_));
        let binding = match binding {
            Binding::Unsupported => sasl::ChannelBinding::unsupported(),
            Binding::NotOffered => sasl::ChannelBinding::unrequested(),
            Binding::EndPoint(hash) => sasl::ChannelBinding::tls_server_end_point(hash),
        };
        let exchange = sasl::ScramSha256::new(password.as_bytes(), binding);
        Self { exchange, is_bound, is_proven: false }
    }

    /// The SASL mechanism to answer with.
    #[must_use]
    pub fn mechanism(&self) -> &'static str {
        if self.is_bound { sasl::SCRAM_SHA_256_PLUS } else { sasl::SCRAM_SHA_256 }
    }

    /// Whether the exchange is bound to the TLS connection.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.is_bound
    }

    /// Whether the server has proved that it knows the password.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.is_proven
    }

    /// What to send next.
    #[must_use]
    pub fn answer(&self) -> &[u8] {
        self.exchange.message()
    }

    /// Takes the server's first answer.
    ///
    /// A server that asks for more work than [`ITERATIONS_MAX`] is refused.
    pub fn go_on(&mut self, answer: &[u8]) -> Result<(), Malformed> {
        let iterations =
            answer.split(|byte| *byte == b',').find_map(|part| part.strip_prefix(b"i="));
        let iterations =
            iterations.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        if iterations.is_some_and(|iterations: u64| iterations > ITERATIONS_MAX) {
            let message = format!("SCRAM with more than {ITERATIONS_MAX} iterations");
            return Err(Malformed(message));
        }
        self.exchange.update(answer).map_err(|error| Malformed(format!("SCRAM failed: {error}")))
    }

    /// Takes the server's last answer, with which it proves that it knows the password, too.
    pub fn finish(&mut self, answer: &[u8]) -> Result<(), Malformed> {
        self.exchange
            .finish(answer)
            .map_err(|error| Malformed(format!("SCRAM failed: {error}")))?;
        self.is_proven = true;
        Ok(())
    }
}

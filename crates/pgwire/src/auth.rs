//! How does the client answer a request for a password?
//!
//! SCRAM-SHA-256 (without channel binding, since there is no TLS), MD5 and clear text.

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
    /// A SASL exchange; whether SCRAM-SHA-256 is among the mechanisms offered.
    Sasl(bool),
    /// The server's first SASL answer.
    SaslContinue(&'a [u8]),
    /// The server's last SASL answer.
    SaslFinal(&'a [u8]),
}

/// The only SASL mechanism that is spoken here.
pub const SCRAM: &str = sasl::SCRAM_SHA_256;

impl<'a> Request<'a> {
    /// Reads the body of an authentication message.
    pub fn parse(body: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(body);
        match reader.int4()? {
            0 => Ok(Self::Done),
            3 => Ok(Self::ClearText),
            5 => Ok(Self::Md5(reader.bytes(4)?.try_into().expect("four bytes"))),
            10 => {
                let mut is_scram = false;
                loop {
                    match reader.string()? {
                        b"" => return Ok(Self::Sasl(is_scram)),
                        mechanism => is_scram |= mechanism == SCRAM.as_bytes(),
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

/// One SCRAM-SHA-256 exchange.
pub struct Scram(sasl::ScramSha256);

impl Scram {
    /// Starts an exchange.
    #[must_use]
    pub fn new(password: &str) -> Self {
        Self(sasl::ScramSha256::new(password.as_bytes(), sasl::ChannelBinding::unsupported()))
    }

    /// What to send next.
    #[must_use]
    pub fn answer(&self) -> &[u8] {
        self.0.message()
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
        self.0.update(answer).map_err(|error| Malformed(format!("SCRAM failed: {error}")))
    }

    /// Takes the server's last answer, with which it proves that it knows the password, too.
    pub fn finish(&mut self, answer: &[u8]) -> Result<(), Malformed> {
        self.0.finish(answer).map_err(|error| Malformed(format!("SCRAM failed: {error}")))
    }
}

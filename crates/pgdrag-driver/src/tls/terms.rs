//! What is asked of a server's encryption?

use serde::Deserialize;

/// How sessions over TCP are encrypted.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsTerms {
    /// What of the server's certificate is verified.
    pub verify: Verify,
    /// Who may have signed it; where nothing is verified, nobody is needed.
    pub roots: Option<Roots>,
    /// The client's own certificate and those of its signers, as PEM.
    pub certificate: Option<String>,
    /// The client's key, as PEM and not encrypted.
    pub key: Option<String>,
    /// Whether TLS begins at once, without a request of PostgreSQL's.
    pub is_direct: bool,
    /// Whether TLS names the host (SNI).
    pub names_host: bool,
}

impl std::fmt::Debug for TlsTerms {
    // The key is never written anywhere, so it is not here either.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsTerms").field("verify", &self.verify).finish_non_exhaustive()
    }
}

/// What of the server's certificate is verified; each includes the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verify {
    /// Nothing: nobody can listen, but somebody may sit in between.
    None,
    /// That a root certificate has signed it, now and for servers.
    Ca,
    /// That it is this host's.
    Full,
}

/// Root certificates.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Roots {
    /// Those of this machine.
    System,
    /// These, as PEM.
    Pem(String),
}

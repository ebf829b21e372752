//! What must a server do before it is sent a password and believed?

use serde::Deserialize;

/// What a server must do before a session with it is used.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// Whether authentication is bound to the TLS connection.
    pub channel_binding: ChannelBinding,
    /// How the server may authenticate the role; `None`: in any way, but a password and its MD5 hash go only
    /// where nobody listens.
    pub methods: Option<Vec<AuthMethod>>,
}

/// Whether SCRAM authentication is bound to the TLS connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelBinding {
    /// No.
    Disable,
    /// If the server offers it.
    #[default]
    Prefer,
    /// Yes, and by no other means of authentication.
    Require,
}

/// A way in which the server authenticates the role, by its name in libpq's `require_auth`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum AuthMethod {
    /// The server asks for nothing.
    #[serde(rename = "none")]
    None,
    /// The password as it is.
    #[serde(rename = "password")]
    Password,
    /// The password's MD5 hash.
    #[serde(rename = "md5")]
    Md5,
    /// SCRAM-SHA-256, with which the server proves that it knows the password, too.
    #[serde(rename = "scram-sha-256")]
    Scram,
}

impl AuthMethod {
    /// Its name in libpq's `require_auth`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Password => "password",
            Self::Md5 => "md5",
            Self::Scram => "scram-sha-256",
        }
    }
}

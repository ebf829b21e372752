//! How is a session encrypted, and how does it know that it speaks to the right server?
//!
//! The meanings are libpq's: TLS alone keeps listeners out, and only a certificate that is verified keeps
//! out somebody who sits in between.
//!
//! - `terms`: what is asked of it
//! - `stream`: a socket whose bytes are encrypted
//! - `verifier`: which certificates are believed
//! - `certificate`: what a certificate says

pub(crate) mod certificate;
pub(crate) mod stream;
mod terms;
mod verifier;

use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection};

use self::stream::TlsStream;
pub use self::terms::{Roots, TlsTerms, Verify};
use self::verifier::Verifier;
use crate::error::Error;
use crate::io::stream::Stream;

/// The protocol's name in TLS's negotiation of protocols.
const PROTOCOL: &[u8] = b"postgresql";

/// How every session with a server is encrypted. Clones share the certificates.
#[derive(Clone)]
pub(crate) struct Encryption {
    config: Arc<ClientConfig>,
    host: ServerName<'static>,
    is_direct: bool,
}

impl Encryption {
    /// Reads the certificates and the key; the error is one line without any of the key.
    pub(crate) fn new(host: &str, terms: &TlsTerms) -> Result<Self, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("cannot speak TLS to \"{host}\": it is no name of a host"))?;
        let provider = Arc::new(ring::default_provider());
        let roots = roots(terms.roots.as_ref())?;
        let verifier =
            Verifier::new(terms.verify, roots, provider.signature_verification_algorithms);
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has ciphers for TLS 1.2 and 1.3")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match (&terms.certificate, &terms.key) {
            (None, None) => config.with_no_client_auth(),
            (Some(chain), Some(key)) => {
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
                    .map_err(|error| format!("cannot read the client's key: {error}"))?;
                config
                    .with_client_auth_cert(certificates("client's certificate", chain)?, key)
                    .map_err(|error| format!("cannot use the client's certificate: {error}"))?
            }
            _ => {
                return Err(
                    "a client's certificate needs its key, and a key its certificate".into()
                );
            }
        };
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        config.enable_sni = terms.names_host;
        // No PostgreSQL resumes a TLS session.
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config), host: name, is_direct: terms.is_direct })
    }

    /// Begins to encrypt a connection on which nothing has been said.
    pub(crate) async fn begin(&self, mut socket: Stream) -> Result<TlsStream, Error> {
        if !self.is_direct {
            ask_for_tls(&mut socket).await?;
        }
        let session = ClientConnection::new(Arc::clone(&self.config), self.host.clone())
            .map_err(|error| Error::Refused(format!("cannot begin TLS: {error}")))?;
        let stream = TlsStream::handshake(socket, session).await.map_err(explained)?;
        if self.is_direct && stream.protocol() != Some(PROTOCOL) {
            let message = "what answers with TLS at once is no PostgreSQL (it names no protocol)";
            return Err(Error::Refused(message.into()));
        }
        Ok(stream)
    }
}

async fn ask_for_tls(socket: &mut Stream) -> Result<(), Error> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let mut request = bytes::BytesMut::new();
    pgwire::frontend::ssl_request(&mut request);
    socket.write_all(&request).await?;
    let mut answer = [0];
    // One byte and no more: what somebody in between adds to it in clear text must not pass for the server's
    // encrypted words.
    if socket.read(&mut answer).await? == 0 {
        return Err(Error::closed_by_server());
    }
    match answer {
        [b'S'] => Ok(()),
        [b'N'] => Err(Error::Refused("server does not speak TLS, and the job asks for it".into())),
        [other] => {
            Err(Error::Protocol(format!("server answered 0x{other:02x} to the request for TLS")))
        }
    }
}

/// A certificate that is not believed is no broken connection: the next one would be no better.
fn explained(error: std::io::Error) -> Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(reason)) => {
            Error::Refused(format!("cannot trust the server's certificate: {}", why(reason)))
        }
        Some(rustls::Error::AlertReceived(alert)) => {
            Error::Refused(format!("server refused TLS: {alert:?}"))
        }
        Some(other) => Error::Protocol(format!("TLS failed: {other}")),
        None => Error::Io(error),
    }
}

fn why(reason: &rustls::CertificateError) -> String {
    use rustls::CertificateError as E;
    match reason {
        E::Expired | E::ExpiredContext { .. } => "it has expired".into(),
        E::NotValidYet | E::NotValidYetContext { .. } => "it is not valid yet".into(),
        E::UnknownIssuer => "no root certificate given has signed it".into(),
        E::NotValidForName | E::NotValidForNameContext { .. } => "it is another host's".into(),
        // webpki's own words, as there are none of rustls's.
        other if format!("{other:?}").contains("UnsupportedCertVersion") => {
            "it is of X.509 version 1, which cannot be verified".into()
        }
        other => format!("{other}"),
    }
}

fn roots(wanted: Option<&Roots>) -> Result<Vec<CertificateDer<'static>>, String> {
    match wanted {
        None => Ok(Vec::new()),
        Some(Roots::Pem(text)) => certificates("root certificates", text),
        Some(Roots::System) => {
            let found = rustls_native_certs::load_native_certs();
            if found.certs.is_empty() {
                return Err("this machine has no root certificates of its own".into());
            }
            Ok(found.certs)
        }
    }
}

fn certificates(what: &str, pem: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    match found {
        Ok(found) if found.is_empty() => {
            Err(format!("there are no {what}: the text has none in PEM form"))
        }
        Ok(found) => Ok(found),
        Err(error) => Err(format!("cannot read the {what}: {error}")),
    }
}

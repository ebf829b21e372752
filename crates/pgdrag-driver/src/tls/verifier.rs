//! Which servers' certificates are believed?
//!
//! As in libpq. Beyond what rustls allows by itself: any certificate where none is to be verified, one that
//! signs itself and is among the trusted ones, and a Common Name where there are no other names.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use crate::tls::certificate::Leaf;
use crate::tls::terms::Verify;

#[derive(Debug)]
pub(crate) struct Verifier {
    verify: Verify,
    trusted: Vec<CertificateDer<'static>>,
    roots: RootCertStore,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub(crate) fn new(
        verify: Verify,
        trusted: Vec<CertificateDer<'static>>,
        algorithms: WebPkiSupportedAlgorithms,
    ) -> Self {
        let mut roots = RootCertStore::empty();
        // What cannot be read signs nothing.
        roots.add_parsable_certificates(trusted.iter().cloned());
        Self { verify, trusted, roots, algorithms }
    }

    fn verify_chain(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let leaf = Leaf::read(certificate)?;
        if leaf.is_self_issued() {
            // webpki takes none of these for a server's.
            let is_trusted = self.trusted.iter().any(|one| one == certificate);
            return if is_trusted {
                Ok(leaf.verify_dates(now)?)
            } else {
                Err(CertificateError::UnknownIssuer.into())
            };
        }
        verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(certificate)?,
            &self.roots,
            intermediates,
            now,
            self.algorithms.all,
        )
    }
}

fn verify_host(certificate: &CertificateDer<'_>, host: &ServerName<'_>) -> Result<(), Error> {
    let leaf = Leaf::read(certificate)?;
    if leaf.is_named_by_subject(host) {
        return Ok(());
    }
    verify_server_name(&ParsedCertificate::try_from(certificate)?, host)
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.verify >= Verify::Ca {
            self.verify_chain(certificate, intermediates, now)?;
        }
        if self.verify >= Verify::Full {
            verify_host(certificate, host)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // By the key alone: a certificate of X.509 version 1 is none for webpki, but encrypts as well.
        let key = SubjectPublicKeyInfoDer::from(Leaf::read(certificate)?.public_key()?);
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

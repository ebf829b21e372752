//! What does a server's certificate say?

use std::net::IpAddr;
use std::time::Duration;

use rustls::pki_types::{ServerName, UnixTime};
use rustls::{CertificateError, Error};
use sha2::{Digest, Sha256, Sha384, Sha512};
use x509_cert::Certificate;
use x509_cert::der::oid::db::rfc5912;
use x509_cert::der::{Decode, Encode};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// The certificate of a server.
pub(crate) struct Leaf(Certificate);

impl Leaf {
    /// Reads it; it may be of any version of X.509.
    pub(crate) fn read(der: &[u8]) -> Result<Self, Error> {
        Certificate::from_der(der).map(Self).map_err(unreadable)
    }

    /// Whether it names itself as the one that has signed it.
    pub(crate) fn is_self_issued(&self) -> bool {
        self.0.tbs_certificate().issuer() == self.0.tbs_certificate().subject()
    }

    /// The server's public key (SubjectPublicKeyInfo).
    pub(crate) fn public_key(&self) -> Result<Vec<u8>, Error> {
        self.0.tbs_certificate().subject_public_key_info().to_der().map_err(unreadable)
    }

    /// Whether it is valid at this moment.
    pub(crate) fn verify_dates(&self, now: UnixTime) -> Result<(), CertificateError> {
        let now = Duration::from_secs(now.as_secs());
        let validity = self.0.tbs_certificate().validity();
        if now < validity.not_before.to_unix_duration() {
            Err(CertificateError::NotValidYet)
        } else if now > validity.not_after.to_unix_duration() {
            Err(CertificateError::Expired)
        } else {
            Ok(())
        }
    }

    /// Whether its Common Name is the host's, and counts: it does where it has no alternative name of the
    /// host's kind.
    pub(crate) fn is_named_by_subject(&self, host: &ServerName<'_>) -> bool {
        let certificate = self.0.tbs_certificate();
        let names = match certificate.get_extension::<SubjectAltName>() {
            Ok(found) => found.map(|(_, names)| names.0).unwrap_or_default(),
            Err(_) => return false,
        };
        let is_of_kind = |name: &GeneralName| match host {
            ServerName::IpAddress(_) => matches!(name, GeneralName::IpAddress(_)),
            _ => matches!(name, GeneralName::DnsName(_)),
        };
        let Ok(Some(name)) = certificate.subject().common_name() else { return false };
        !names.iter().any(is_of_kind) && is_name_of(&name.value(), &host.to_str())
    }

    /// What a SCRAM exchange over TLS is bound to: the certificate's hash, by the function with which it was
    /// signed, and SHA-256 in place of older ones (RFC 5929); `None` where there is no such function.
    fn end_point(&self, der: &[u8]) -> Option<Vec<u8>> {
        let signed_with = self.0.signature_algorithm().oid;
        Some(match signed_with {
            rfc5912::MD_5_WITH_RSA_ENCRYPTION
            | rfc5912::SHA_1_WITH_RSA_ENCRYPTION
            | rfc5912::SHA_256_WITH_RSA_ENCRYPTION
            | rfc5912::ECDSA_WITH_SHA_256 => Sha256::digest(der).to_vec(),
            rfc5912::SHA_384_WITH_RSA_ENCRYPTION | rfc5912::ECDSA_WITH_SHA_384 => {
                Sha384::digest(der).to_vec()
            }
            rfc5912::SHA_512_WITH_RSA_ENCRYPTION | rfc5912::ECDSA_WITH_SHA_512 => {
                Sha512::digest(der).to_vec()
            }
            _ => return None,
        })
    }
}

/// What a SCRAM exchange is bound to over TLS with a server of this certificate, if it can be.
pub(crate) fn end_point(der: &[u8]) -> Option<Vec<u8>> {
    Leaf::read(der).ok()?.end_point(der)
}

/// Whether a Common Name is a host's: letter by letter, whatever their case, or with `*` in place of the first
/// label of a name that is no address.
fn is_name_of(name: &str, host: &str) -> bool {
    let same = |one: &str, other: &str| !one.is_empty() && one.eq_ignore_ascii_case(other);
    if same(name, host) {
        return true;
    }
    match (name.strip_prefix("*."), host.split_once('.')) {
        (Some(domain), Some((label, rest))) => {
            !label.is_empty() && same(domain, rest) && host.parse::<IpAddr>().is_err()
        }
        _ => false,
    }
}

fn unreadable(_: x509_cert::der::Error) -> Error {
    Error::InvalidCertificate(CertificateError::BadEncoding)
}

#[cfg(test)]
mod tests {
    use super::is_name_of;

    #[test]
    fn a_common_name_is_compared_as_libpq_does() {
        let cases = [
            ("db.example.com", "db.example.com", true),
            ("DB.example.com", "db.Example.com", true),
            ("db.example.com", "db.example.org", false),
            ("*.example.com", "db.example.com", true),
            ("*.example.com", "a.db.example.com", false),
            ("*.example.com", "example.com", false),
            ("*.example.com", ".example.com", false),
            ("*", "db", false),
            ("10.0.0.5", "10.0.0.5", true),
            ("*.0.0.5", "10.0.0.5", false),
            ("", "", false),
        ];
        for (name, host, expected) in cases {
            assert_eq!(is_name_of(name, host), expected, "{name} for {host}");
        }
    }
}

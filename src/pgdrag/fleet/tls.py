"""Who may speak to whom in a fleet? A certificate authority for each run, whose key never leaves this process.

The coordinator has one certificate, each host another one with its name. No host can pose as the coordinator: each
certificate says which side it is of. Nobody revokes them, and no clock has to be right for them: what the authority
signed ends with the run, as its certificate is what both sides trust, and is made anew for the next one.
"""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self

from pgdrag.errors import UsageError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate

COORDINATOR = "pgdrag-coordinator"  # what its certificate says, whatever address it has
# A host whose clock is wrong by years still takes part. RFC 5280, 4.1.2.5: the end of time.
_BEGIN, _END = datetime(2000, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@dataclass(frozen=True)
class Identity:
    """What one side needs: its certificate with its key, and the authority's certificate, as PEM."""

    certificate: str
    key: str
    authority: str

    def context(self, *, is_coordinator: bool) -> ssl.SSLContext:
        """Return a TLS context that only accepts the other side of the same run."""
        purpose = ssl.PROTOCOL_TLS_SERVER if is_coordinator else ssl.PROTOCOL_TLS_CLIENT
        context = ssl.SSLContext(purpose)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=self.authority)
        # OpenSSL reads keys from files: this one is on no disk.
        secret = os.memfd_create("pgdrag-key", os.MFD_CLOEXEC)
        try:
            os.write(secret, f"{self.certificate}\n{self.key}".encode())
            context.load_cert_chain(f"/proc/self/fd/{secret}")
        finally:
            os.close(secret)
        return context


class Authority:
    """Signs the certificates of one run; once it is gone, no other can be signed."""

    def __init__(self, key: EllipticCurvePrivateKey, certificate: Certificate) -> None:
        self._key, self._certificate = key, certificate

    @classmethod
    def new(cls) -> Self:
        """Return a new one.

        Raises:
            UsageError: the extra is not installed.
        """
        try:
            from cryptography.hazmat.primitives.asymmetric import ec
        except ImportError:
            raise UsageError(
                "a fleet needs the package cryptography, which is not installed",
                hint="Run: pip install 'pgdrag[fleet]'",
            ) from None
        key = ec.generate_private_key(ec.SECP256R1())
        return cls(key, _signed(key, key, "pgdrag fleet", None, is_authority=True))

    def identity(self, name: str, *, is_coordinator: bool = False) -> Identity:
        """Return the identity of a host, or of the coordinator."""
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.hazmat.primitives.serialization import (
            Encoding,
            NoEncryption,
            PrivateFormat,
        )

        key = ec.generate_private_key(ec.SECP256R1())
        signed = _signed(self._key, key, name, self._certificate, is_coordinator=is_coordinator)
        pem = Encoding.PEM
        return Identity(
            signed.public_bytes(pem).decode(),
            key.private_bytes(pem, PrivateFormat.PKCS8, NoEncryption()).decode(),
            self._certificate.public_bytes(pem).decode(),
        )


def name_of(connection: ssl.SSLObject) -> str:
    """Return the name in the certificate of the other side, which the authority has signed."""
    subject: Any = (connection.getpeercert() or {})["subject"]
    return next(str(value) for part in subject for key, value in part if key == "commonName")


def _signed(
    signer: EllipticCurvePrivateKey,
    key: EllipticCurvePrivateKey,
    name: str,
    issuer: Certificate | None,
    *,
    is_authority: bool = False,
    is_coordinator: bool = False,
) -> Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_BEGIN)
        .not_valid_after(_END)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .add_extension(
            x509.KeyUsage(
                digital_signature=not is_authority,
                key_cert_sign=is_authority,
                crl_sign=is_authority,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
    )
    if not is_authority:
        side = (
            ExtendedKeyUsageOID.SERVER_AUTH if is_coordinator else ExtendedKeyUsageOID.CLIENT_AUTH
        )
        made = made.add_extension(x509.ExtendedKeyUsage([side]), critical=True)
    if is_coordinator:
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        made = made.add_extension(names, critical=False)
    return made.sign(signer, SHA256())

"""Why is a server's certificate not trusted? libpq only says that it is not."""

from __future__ import annotations

import socket
import ssl
import struct
from pathlib import Path

_TLS_REQUEST = struct.pack("!II", 8, 80877103)
# OpenSSL's codes for them, X509_V_ERR_*.
_WORDS = {
    9: "it is not valid yet",
    10: "it has expired",
    18: "it is signed by itself, and not among the root certificates",
    19: "it is signed by a certificate authority that is not trusted",
    20: "it is signed by a certificate authority that is not trusted",
    21: "it is signed by a certificate authority that is not trusted",
}


def why_untrusted(address: str, port: int, roots: str, *, is_direct: bool, timeout_s: float) -> str:
    """Ask a server for TLS once more, and return why its certificate is not trusted, or "".

    Args:
        address: a host's address.
        roots: a file of root certificates, or "system" for those of this machine.
    """
    try:
        context = _context(roots)
    except OSError:
        return f'"{roots}" holds no certificates'
    try:
        with socket.create_connection((address, port), timeout=timeout_s) as line:
            if not is_direct:
                line.sendall(_TLS_REQUEST)
                if line.recv(1) != b"S":
                    return ""
            with context.wrap_socket(line, server_hostname=address):
                return ""
    except ssl.SSLCertVerificationError as error:
        return _WORDS.get(error.verify_code, error.verify_message)
    except (OSError, ValueError):
        return ""


def _context(roots: str) -> ssl.SSLContext:
    if roots == "system":
        context = ssl.create_default_context()
    else:
        context = ssl.create_default_context(cafile=str(Path(roots)))
    context.check_hostname = False
    context.set_alpn_protocols(["postgresql"])
    return context

"""Servers between a client and PostgreSQL: one that speaks TLS for it, and one that takes TLS away."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest

_SSL_REQUEST = bytes([0, 0, 0, 8, 4, 210, 22, 47])
_CANCEL_REQUEST = bytes([0, 0, 0, 16, 4, 210, 22, 46])


@dataclass(frozen=True)
class Certificate:
    """A certificate that signs itself, and its key."""

    file: Path
    key: Path

    @classmethod
    def of(cls, host: str, directory: Path) -> Self:
        """Make one that is valid for a day."""
        return cls._signed(host, directory / host, days=1)

    @classmethod
    def expired(cls, host: str, directory: Path) -> Self:
        """Make one that was valid until yesterday."""
        return cls._signed(host, directory / f"{host}-expired", days=-1)

    @classmethod
    def _signed(cls, host: str, name: Path, *, days: int) -> Self:
        made = cls(name.with_suffix(".crt"), name.with_suffix(".key"))
        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", made.key)
        request = ("-new", "-nodes", "-subj", f"/CN={host}", "-out", name.with_suffix(".csr"))
        _openssl("req", *request, *key, "-addext", f"subjectAltName=DNS:{host}")
        signed = ("-copy_extensions", "copy", "-days", days, "-out", made.file)
        _openssl("x509", "-req", "-in", name.with_suffix(".csr"), "-signkey", made.key, *signed)
        return made

    def key_with_passphrase(self, passphrase: str) -> Path:
        """Return a copy of the key that is encrypted."""
        file = self.key.with_suffix(".encrypted")
        _openssl("pkey", "-in", self.key, "-aes256", "-passout", f"pass:{passphrase}", "-out", file)
        file.chmod(0o600)
        return file

    def context(self) -> ssl.SSLContext:
        """Return what a server needs to show it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file, self.key)
        context.set_alpn_protocols(["postgresql"])
        return context


def _openssl(*arguments: str | int | Path) -> None:
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("needs the program openssl")
    subprocess.run([program, *map(str, arguments)], check=True, capture_output=True, timeout=60)


@dataclass
class Front:
    """Listens for TCP and passes on to a Unix socket, which has no TLS.

    Attributes:
        socket: of PostgreSQL.
        context: with which it speaks TLS; None: it refuses TLS, as somebody would who strips it.
        encrypted, plain: the sessions that have begun so; a request to cancel is none.
        delays_s: how long what is said in a session takes, one after the other and again from the first.
    """

    socket: Path
    context: ssl.SSLContext | None
    is_direct: bool = False
    address: str = "127.0.0.1"
    port: int = 0
    encrypted: int = 0
    plain: int = 0
    delays_s: Sequence[float] = ()

    @contextlib.contextmanager
    def open(self) -> Iterator[Self]:
        """Listen until the end of the block."""
        ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        thread = threading.Thread(target=lambda: asyncio.run(self._listen(ready)), daemon=True)
        thread.start()
        loop, stop = ready.result(10)
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join(10)

    async def _listen(self, ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> None:
        direct = self.context if self.is_direct else None
        server = await asyncio.start_server(self._serve, self.address, 0, ssl=direct)
        self.port = server.sockets[0].getsockname()[1]
        stop = asyncio.Event()
        ready.set_result((asyncio.get_running_loop(), stop))
        await stop.wait()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A client that leaves in the middle of it is no mistake of this server's.
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            first = await (reader.readexactly(8) if self.is_direct else self._begin(reader, writer))
            if first != _CANCEL_REQUEST:
                is_encrypted = writer.get_extra_info("ssl_object") is not None
                self.encrypted += is_encrypted
                self.plain += not is_encrypted
            there, back = await asyncio.open_unix_connection(self.socket)
            back.write(first)
            delays_s = itertools.cycle(self.delays_s or (0.0,))
            await asyncio.gather(_pump(reader, back, delays_s), _pump(there, writer, delays_s))

    async def _begin(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        first = await reader.readexactly(8)
        if first != _SSL_REQUEST:
            return first
        writer.write(b"N" if self.context is None else b"S")
        await writer.drain()
        if self.context is not None:
            await writer.start_tls(self.context)
        return await reader.readexactly(8)


async def _pump(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, delays_s: Iterator[float]
) -> None:
    with contextlib.suppress(OSError):
        while part := await source.read(1 << 16):
            await asyncio.sleep(next(delays_s))
            sink.write(part)
            await sink.drain()
    sink.close()

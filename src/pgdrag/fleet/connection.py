"""How do messages travel? In frames on one TLS connection, large ones in pieces, so that none keeps others waiting.

A renewal of a lease must not stand behind the recordings of a trial on a slow link: between two pieces of a large
message, small ones go through.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import zlib
from contextlib import suppress

from pgdrag.errors import PgdragError
from pgdrag.fleet.messages import FromCoordinator, FromHost, written

# A profile of hours has some MB; anything larger is not a message.
LARGEST_BYTES = 256 * 2**20
_PIECE_BYTES = 16 * 2**10
_LONG_BYTES = 256 * 2**10  # compressed: to unpack more would keep others waiting
_HEADER = struct.Struct("!BI")
_MORE, _LAST = 0, 1
_TCP_NOTSENT_LOWAT = 25  # linux/tcp.h

# It warns of each write to a connection that has just been lost; who reads there finds out.
logging.getLogger("asyncio").setLevel(logging.ERROR)


class ConnectionBroken(PgdragError):
    """The other side has gone, or sent something that is not a message."""


class Connection:
    """One side of a connection.

    Args:
        reader, writer: of asyncio, encrypted.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._pieces: dict[int, list[bytes]] = {}
        self._large = asyncio.Lock()
        self._sending: set[asyncio.Task[None]] = set()
        # What waits in the kernel cannot be overtaken.
        writer.transport.set_write_buffer_limits(high=2 * _PIECE_BYTES)
        raw = writer.get_extra_info("socket")
        with suppress(OSError):
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            raw.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, 2 * _PIECE_BYTES)

    async def send(self, message: FromHost | FromCoordinator) -> None:
        """Send a message; a lost connection shows when the next one is received.

        Raises:
            ConnectionBroken: it is lost already.
        """
        await self._send(written(message))

    def send_soon(self, message: FromHost | FromCoordinator) -> None:
        """Send a message without waiting for a slow peer; the receiver notices if the connection is lost."""
        text = written(message)
        if len(text) <= _PIECE_BYTES:  # most are: a task for each would cost as much as the message
            with suppress(ConnectionBroken, OSError):
                self._write(_LAST, 0, text)
            return

        async def send() -> None:
            with suppress(ConnectionBroken):
                await self._send(text)

        task = asyncio.get_running_loop().create_task(send())
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def receive(self) -> bytes:
        """Return the next message.

        Raises:
            ConnectionBroken: the connection has ended, or what came is no message.
        """
        try:
            while True:
                flags, size = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
                if size > _PIECE_BYTES:
                    raise ConnectionBroken(f"a piece of {size:,} bytes is no message's")
                piece = await self._reader.readexactly(size)
                channel, is_last = flags >> 1, flags & 1
                pieces = self._pieces.setdefault(channel, [])
                pieces.append(piece)
                if len(pieces) * _PIECE_BYTES > LARGEST_BYTES:
                    raise ConnectionBroken("a message is too large")
                if is_last:
                    body = b"".join(self._pieces.pop(channel))
                    if not channel:
                        return body
                    is_long = len(body) > _LONG_BYTES
                    return await asyncio.to_thread(_unpacked, body) if is_long else _unpacked(body)
        except (OSError, asyncio.IncompleteReadError) as error:
            raise ConnectionBroken(f"the connection was lost: {error}") from None

    def close(self) -> None:
        """Close it at once."""
        with suppress(RuntimeError):  # the loop is closed
            self._writer.transport.abort()

    async def finish(self) -> None:
        """Close it when all that was said has been sent; the other side may have gone."""
        with suppress(OSError):
            self._writer.close()
            async with asyncio.timeout(5):
                await self._writer.wait_closed()

    async def _send(self, text: bytes) -> None:
        try:
            if len(text) <= _PIECE_BYTES:
                self._write(_LAST, 0, text)
                await self._writer.drain()
                return
            body = await asyncio.to_thread(zlib.compress, text)
            async with self._large:
                for at in range(0, len(body), _PIECE_BYTES):
                    is_last = at + _PIECE_BYTES >= len(body)
                    self._write(_LAST if is_last else _MORE, 1, body[at : at + _PIECE_BYTES])
                    await self._writer.drain()
        except OSError as error:
            raise ConnectionBroken(f"the connection was lost: {error}") from None

    def _write(self, is_last: int, channel: int, body: bytes) -> None:
        if self._writer.is_closing():
            raise ConnectionBroken("the connection was lost")
        self._writer.write(_HEADER.pack(channel << 1 | is_last, len(body)) + body)


def _unpacked(body: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        text = unpacking.decompress(body, LARGEST_BYTES)
    except zlib.error as error:
        raise ConnectionBroken(f"a message is damaged: {error}") from None
    if not unpacking.eof:
        raise ConnectionBroken("a message is not whole, or too large")
    return text

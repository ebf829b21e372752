"""How many latencies of which size does an HdrHistogram of the load driver hold?

The driver's histograms (docs/reference/driver-contract.md) all have one layout: whole microseconds from 1 µs, three
significant figures, so that counts of the same place add up. Written here, for it is not much: the library for Python
brings compiled code that not every version of Python has, and the driver alone makes histograms.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib

import numpy as np
import numpy.typing as npt

# Cookie and length; then of what is compressed: cookie, length, offset, figures, lowest, highest, ratio.
_COMPRESSED, _HEADER = struct.Struct(">ii"), struct.Struct(">iiiiqqd")
_COMPRESSED_COOKIE, _COOKIE = 0x1C849314, 0x1C849313
_LAYOUT = (0, 3, 1, 3_600_000_000, 1.0)
# Up to 2,047 µs each microsecond has a place; from there on 1,024 places make a doubling.
_HALF_BITS, _HALF = 10, 1024
_MOST_PLACES = 64 * _HALF
_MOST_BYTES = 9 * _MOST_PLACES

Places = npt.NDArray[np.int64]


def bounds_us(places: int) -> tuple[Places, Places]:
    """Return the lowest latency of each of the first places, and how many microseconds wide each is."""
    at = np.arange(places)
    doublings = np.maximum((at >> _HALF_BITS) - 1, 0)
    return (at - doublings * _HALF) << doublings, np.int64(1) << doublings


def decoded(text: str) -> Places:
    """Return how many latencies are in each place of a histogram (V2, compressed, base64).

    Raises:
        ValueError: it is not a histogram of the driver's.
    """
    try:
        raw = base64.b64decode(text, validate=True)
        cookie, length = _COMPRESSED.unpack_from(raw)
        plain = zlib.decompressobj().decompress(raw[_COMPRESSED.size :][:length], _MOST_BYTES)
        inner, size, *layout = _HEADER.unpack_from(plain)
    except (binascii.Error, struct.error, zlib.error) as error:
        raise ValueError(str(error)) from None
    if (cookie, inner) != (_COMPRESSED_COOKIE, _COOKIE) or tuple(layout) != _LAYOUT:
        raise ValueError("its layout is another one")
    return _unpacked(np.frombuffer(plain, np.uint8, size, _HEADER.size))


def encoded(counts: Places) -> str:
    """Return a histogram with these counts, as the driver encodes it."""
    packed, end = bytearray(), 0
    for place in np.flatnonzero(counts).tolist():
        if place > end:
            _pack(packed, 2 * (place - end) - 1)
        _pack(packed, 2 * int(counts[place]))
        end = place + 1
    plain = _HEADER.pack(_COOKIE, len(packed), *_LAYOUT) + packed
    compressed = zlib.compress(plain)
    raw = _COMPRESSED.pack(_COMPRESSED_COOKIE, len(compressed)) + compressed
    return base64.b64encode(raw).decode()


def _unpacked(raw: npt.NDArray[np.uint8]) -> Places:
    """Return counts of seven bits a byte, in which a negative number means that many zeros."""
    ends = np.flatnonzero(raw < 0x80)
    if not len(ends) or ends[-1] != len(raw) - 1:
        raise ValueError("it is cut off")
    starts = np.append(0, ends[:-1] + 1)
    lengths = ends - starts + 1
    if lengths.max() > 8:
        raise ValueError("a count is too large")
    numbers = np.zeros(len(starts), np.int64)
    for byte in range(lengths.max()):
        there = lengths > byte
        numbers[there] |= (raw[starts[there] + byte] & 0x7F).astype(np.int64) << 7 * byte
    numbers = (numbers >> 1) ^ -(numbers & 1)
    widths = np.where(numbers < 0, -numbers, 1)
    if widths.max() > _MOST_PLACES or widths.sum() > _MOST_PLACES:
        raise ValueError("it has too many places")
    counts = np.zeros(int(widths.sum()), np.int64)
    counts[(np.cumsum(widths) - widths)[numbers > 0]] = numbers[numbers > 0]
    return counts


def _pack(packed: bytearray, number: int) -> None:
    while number >= 0x80:
        packed.append(number & 0x7F | 0x80)
        number >>= 7
    packed.append(number)

"""How long did what several drivers did take, together? Their HdrHistograms added up, as one driver would tell it.

The driver's histograms (docs/reference/driver-contract.md) all have one layout: whole microseconds from 1 µs, three
significant figures, so that counts of the same place add up. Written here, for it is not much: the library for Python
brings compiled code that not every version of Python has, and the driver alone makes histograms.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pgdrag.driver.contract import breach
from pgdrag.model.measurement import Latency

# Cookie and length; then of what is compressed: cookie, length, offset, figures, lowest, highest, ratio.
_COMPRESSED, _HEADER = struct.Struct(">ii"), struct.Struct(">iiiiqqd")
_COMPRESSED_COOKIE, _COOKIE = 0x1C849314, 0x1C849313
_LAYOUT = (0, 3, 1, 3_600_000_000, 1.0)
# Up to 2,047 µs each microsecond has a place; from there on 1,024 places make a doubling.
_HALF_BITS, _HALF = 10, 1024
_MOST_PLACES = 64 * _HALF
_MOST_BYTES = 9 * _MOST_PLACES

Places = npt.NDArray[np.int64]


def merged(latencies: Sequence[Latency], *, is_encoded: bool = True) -> Latency | None:
    """Return what several drivers' latencies are together; None where there are none.

    Args:
        is_encoded: with the histogram, and not only its mean and percentiles.

    Raises:
        DriverError: one is no histogram of the driver's.
    """
    if len(latencies) < 2:
        return latencies[0] if latencies else None
    parts = [_counts(one) for one in latencies]
    counts = np.zeros(max(map(len, parts)), np.int64)
    for part in parts:
        counts[: len(part)] += part
    return _latency(counts, is_encoded=is_encoded)


def _latency(counts: Places, *, is_encoded: bool) -> Latency:
    places = np.arange(len(counts))
    doublings = np.maximum((places >> _HALF_BITS) - 1, 0)
    lowest = (places - doublings * _HALF) << doublings
    width = np.int64(1) << doublings
    total = int(counts.sum())
    reached = np.cumsum(counts)

    def percentile(share: float) -> float:
        place = np.searchsorted(reached, max(np.ceil(share * total), 1))
        return float(lowest[place] + width[place] - 1)

    return Latency(
        count=total,
        mean_us=float(np.sum((lowest + width // 2) * counts) / total),
        p50_us=percentile(0.5),
        p95_us=percentile(0.95),
        p99_us=percentile(0.99),
        max_us=percentile(1.0),
        encoded=_encoded(counts) if is_encoded else "",
    )


def _counts(latency: Latency) -> Places:
    """Return how many of a histogram's latencies are in each place."""
    try:
        raw = base64.b64decode(latency.encoded, validate=True)
        cookie, length = _COMPRESSED.unpack_from(raw)
        plain = zlib.decompressobj().decompress(raw[_COMPRESSED.size :][:length], _MOST_BYTES)
        inner, size, *layout = _HEADER.unpack_from(plain)
        if (cookie, inner) != (_COMPRESSED_COOKIE, _COOKIE) or tuple(layout) != _LAYOUT:
            raise ValueError("its layout is another one")
        counts = _unpacked(np.frombuffer(plain, np.uint8, size, _HEADER.size))
        if counts.sum() != latency.count:
            raise ValueError(f"it has {counts.sum()} values, not {latency.count}")
    except (binascii.Error, struct.error, zlib.error, ValueError) as error:
        raise breach(f"a histogram cannot be read: {error}") from None
    return counts


def _unpacked(raw: npt.NDArray[np.uint8]) -> Places:
    """Return counts of seven bits a byte, in which a negative number stands for as many zeros."""
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


def _encoded(counts: Places) -> str:
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


def _pack(packed: bytearray, number: int) -> None:
    while number >= 0x80:
        packed.append(number & 0x7F | 0x80)
        number >>= 7
    packed.append(number)

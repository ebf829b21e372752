"""How long did what several drivers did take, together? Their histograms added up, as one driver would tell it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pgdrag.driver.contract import breach
from pgdrag.model.measurement import Latency
from pgdrag.stats.hdr_histogram import Places, bounds_us, decoded, encoded


def merged(latencies: Sequence[Latency], *, is_encoded: bool = True) -> Latency | None:
    """Return what several drivers' latencies are together; None where there are none.

    Args:
        is_encoded: with the histogram, and not only its mean and percentiles.

    Raises:
        DriverError: one is not a histogram of the driver's.
    """
    if len(latencies) < 2:
        return latencies[0] if latencies else None
    parts = [_counts(one) for one in latencies]
    counts = np.zeros(max(map(len, parts)), np.int64)
    for part in parts:
        counts[: len(part)] += part
    return _latency(counts, is_encoded=is_encoded)


def _latency(counts: Places, *, is_encoded: bool) -> Latency:
    lowest, width = bounds_us(len(counts))
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
        encoded=encoded(counts) if is_encoded else "",
    )


def _counts(latency: Latency) -> Places:
    """Return how many of a histogram's latencies are in each place."""
    try:
        counts = decoded(latency.encoded)
        if counts.sum() != latency.count:
            raise ValueError(f"it has {counts.sum()} values, not {latency.count}")
    except ValueError as error:
        raise breach(f"a histogram cannot be read: {error}") from None
    return counts

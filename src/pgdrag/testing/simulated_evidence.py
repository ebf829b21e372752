"""What would collectors observe in a simulated trial whose slowness is all planted in reads of blocks?

Every other counter of the mechanisms is there, too, and is only noise.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from pgdrag.findings.expecto.findings import WAIT_SERIES
from pgdrag.findings.mechanisms.catalogue import CATALOGUE
from pgdrag.findings.mechanisms.ledger import NEEDED, READ
from pgdrag.model import Observation, Unit
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import Recordings, Series, WaitTime

NOISE = 0.03  # standard deviation of the logarithm of each counter between trials
_NEEDED = 100_000.0  # blocks per transaction
_READ_S = 1e-6  # to wait for a block
_CPU_SHARE = 0.5  # of the untouched server's time on a transaction
_LOOK_S = 0.05
_LWLOCK_SHARE = 0.05  # of sessions, all the time
_PARTS, _LOOKS = 4, 5  # a series has four points a second, of five looks each


def simulated_evidence(
    time_s: float,
    base_s: float,
    committed: int,
    rng: random.Random,
    samples: Sequence[Sample] = (),
) -> tuple[tuple[Observation, ...], Recordings]:
    """Return observations and waits of a trial.

    Args:
        time_s: of all sessions on one transaction, in seconds.
        base_s: the same of the untouched server.
        committed: transactions in the window; at least one.
        samples: of the window, over which waits are seen as series.
    """
    cpu_s = min(base_s * _CPU_SHARE, time_s * 0.9)
    read_s = time_s - cpu_s
    read = min(read_s / _READ_S, 0.95 * _NEEDED)
    step_s = _LOOK_S / committed

    def seen(name: str, value: float, unit: Unit, resolution: float) -> Observation:
        noisy = value * rng.lognormvariate(0.0, NOISE)
        return Observation(name, name.replace("_", " "), noisy, unit, resolution)

    planted = {
        NEEDED: seen(NEEDED, _NEEDED, "1/transaction", 1 / committed),
        READ: seen(READ, read, "1/transaction", 1 / committed),
        "buffer_hit_ratio": Observation(
            "buffer_hit_ratio",
            "buffer hit ratio",
            1 - (read / _NEEDED) * rng.uniform(0.97, 1.03),
            "ratio",
            1e-9,
        ),
        "on_cpu_s_per_transaction": seen(
            "on_cpu_s_per_transaction", cpu_s, "s/transaction", step_s
        ),
    }
    signs = {sign.observation for one in CATALOGUE for sign in one.signs}
    others = tuple(
        seen(name, 0.2, "ratio" if name.endswith(("ratio", "share")) else "count", 1e-6)
        # In order: each seed has the same noise each time. What a ledger makes is not observed.
        for name in sorted(signs - planted.keys())
        if not name.startswith(("mean_", "other_", "parallel_"))
    )
    waits = (
        WaitTime("client backend", "IO:DataFileRead", read_s * committed),
        WaitTime("client backend", "", cpu_s * committed),
    )
    shares = {"IO": read_s / time_s * 0.95, "LWLock": _LWLOCK_SHARE}
    series = tuple(_series(kind, share, samples, rng) for kind, share in shares.items())
    return (*planted.values(), *others), Recordings((*waits, *(series if samples else ())))


def _series(wait_type: str, share: float, samples: Sequence[Sample], rng: random.Random) -> Series:
    """Return how many sessions were in a wait, four times a second, whatever throughput did."""
    times_s, values = [], []
    for sample in samples:
        for part in range(1, _PARTS + 1):
            times_s.append(sample.t_s - sample.duration_s * (1 - part / _PARTS))
            seats = (sample.sessions or 1) * _LOOKS
            values.append(sum(rng.random() < share for _ in range(seats)) / _LOOKS)
    name = WAIT_SERIES[wait_type]
    return Series(name, f"waits of type {wait_type}", "count", tuple(times_s), tuple(values))

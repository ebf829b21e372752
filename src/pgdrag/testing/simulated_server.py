"""What would collectors see of a simulated server: evidence, recordings, and a held horizon?

The slowness is all planted in reads of blocks, or in commits; every other counter of the mechanisms is there,
too, and is only noise. Each second for which the horizon is held adds the same to the cost of a transaction, so that the
rate falls as 1 / (1 + t/tau). What is added goes when the horizon is free: soon where a vacuum cleans up, and
slowly where only the transactions themselves do. The dead versions go with it; the file that they have
bloated stays as large as it is, unless indexes are made anew, and costs nothing.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pgdrag.findings.expecto.findings import WAIT_SERIES
from pgdrag.findings.holds.levels import AFTER, HOLD, HOLDER, NOBODY, NOTHING, WINDOW, hold_levels
from pgdrag.findings.mechanisms.catalogue import CATALOGUE, OF_LEDGER, WAL_SYNCS
from pgdrag.findings.mechanisms.ledger import NEEDED, READ, WAL_WRITES
from pgdrag.findings.plan_nodes import node_words
from pgdrag.model import Observation, Treatment, Unit
from pgdrag.model.measurement import Measurement, Sample
from pgdrag.model.recordings import (
    HOLD_EVENT,
    ChainLink,
    Event,
    HotChain,
    PageStrip,
    Plan,
    ProcessIoUse,
    Recordings,
    Series,
    StatementPlan,
    StatementUse,
    UpdateSample,
    WaitTime,
)

QUERY = "SELECT n FROM simulated WHERE id < $1"
SlowBy = Literal["reads", "commits"]
UPDATE = "UPDATE simulated SET n = n + $1 WHERE id < $2"
NOISE = 0.03  # standard deviation of the logarithm of each counter between trials
_NEEDED = 100_000.0  # blocks per transaction
_READ_S = 1e-6  # to wait for a block
_CPU_SHARE = 0.5  # of the untouched server's time on a transaction
_READ_SHARE = 0.2  # the same, where commits take the rest
_SYNC_S = 2e-3
_LOOK_S = 0.05
_LWLOCK_SHARE = 0.05  # of sessions, all the time
_PARTS, _LOOKS = 4, 5  # a series has four points a second, of five looks each
_CLEANED_S = {NOTHING: 8.0, "vacuum": 2.0, "vacuum and reindex": 1.0}  # until 1/e is left


def simulated_evidence(
    time_s: float,
    base_s: float,
    committed: int,
    rng: random.Random,
    samples: Sequence[Sample] = (),
    *,
    slow_by: SlowBy = "reads",
) -> tuple[tuple[Observation, ...], Recordings]:
    """Return observations and waits of a trial.

    Args:
        time_s: of all sessions on one transaction, in seconds.
        base_s: the same of the untouched server.
        committed: transactions in the window; at least one.
        samples: of the window, over which waits are seen as series.
        slow_by: where the time goes that the untouched server does not take.
    """
    cpu_s = min(base_s * _CPU_SHARE, time_s * 0.9)
    wait_s = time_s - cpu_s
    commit_s = max(wait_s - base_s * _READ_SHARE, 0.0) if slow_by == "commits" else 0.0
    read_s = wait_s - commit_s
    syncs = max(commit_s, base_s * _READ_SHARE) / _SYNC_S
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
        WAL_SYNCS: seen(WAL_SYNCS, syncs, "1/transaction", 1 / committed),
        WAL_WRITES: seen(WAL_WRITES, syncs, "1/transaction", 1 / committed),
    }
    signs = {
        sign.observation
        for one in CATALOGUE
        for sign in (*one.signs, *(claim.given for claim in one.claims))
        if sign is not None
    }
    others = tuple(
        seen(name, 0.2, "ratio" if name.endswith(("ratio", "share")) else "count", 1e-6)
        # In order: each seed has the same noise each time. What a ledger makes is not observed.
        for name in sorted(signs - planted.keys() - OF_LEDGER)
    )
    waits = (
        WaitTime("client backend", "IO:DataFileRead", read_s * committed),
        WaitTime("client backend", "IO:WalSync", commit_s * committed),
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


def simulated_recordings(measurement: Measurement, *, is_slowed: bool) -> Recordings:
    """Return recordings of a server that reads its table by an index, or whole where it was slowed."""
    committed = measurement.total.committed
    busy_s = measurement.elapsed_s * 0.5
    use = StatementUse(QUERY, committed, committed, busy_s, None, committed, 0, 0, 0, 0)
    of = {"Relation Name": "simulated", "Alias": "simulated", "Plan Rows": 1}
    by = {"Index Name": "simulated_pkey", "Total Cost": 8.44, "Index Cond": "(id < 17)"}
    plan: Plan = (
        {"Node Type": "Seq Scan", **of, "Total Cost": 2500.0, "Filter": "(id < 17)"}
        if is_slowed
        else {"Node Type": "Index Scan", **of, **by}
    )
    plans = StatementPlan(QUERY, plan, plan, _run(plan), transaction="simulated")
    io = ProcessIoUse("sessions", 2 * committed, committed, 2 * 8192 * committed, 8192 * committed)
    return Recordings(
        (
            *((use,) if committed else ()),
            plans,
            *((io,) if committed else ()),
            Series(
                "dead_versions_per_row",
                "old row versions and dead line pointers per row",
                "count",
                (0.0, measurement.elapsed_s),
                (0.0, 1200.0 if is_slowed else 160.0),
            ),
            _pages(0.0, pages=1, old=0),
            _pages(measurement.elapsed_s, pages=8, old=150 if is_slowed else 20),
            _chain(0.0, versions=1),
            _chain(measurement.elapsed_s, versions=150 if is_slowed else 20),
            _update(0.0, 5, plan),
            _update(measurement.elapsed_s, 900 if is_slowed else 90, plan),
        )
    )


def _run(plan: Plan) -> Plan:
    return {**plan, "Actual Rows": 1000, "Actual Loops": 1}


def _pages(at_s: float, *, pages: int, old: int) -> PageStrip:
    """Return a table whose newest versions are all on its last page."""
    live = (*[0.0] * (pages - 1), 10.0)
    nothing, olds = (0.0,) * pages, (float(old),) * pages
    free = (8_100 - 40 * old,) * pages
    return PageStrip(
        "public.simulated", at_s, pages, pages, 8192, live, olds, nothing, nothing, nothing, free
    )


def _chain(at_s: float, *, versions: int) -> HotChain:
    """Return the chain of one row that was updated in place, its first versions gone."""
    links = [
        ChainLink(
            line_pointer=2 + at,
            state="old" if at < versions - 1 else "live",
            next_block=7,
            next_line_pointer=2 + min(at + 1, versions - 1),
            xmin=1000 + at,
            xmax=1001 + at if at < versions - 1 else 0,
            is_heap_only=True,
        )
        for at in range(versions)
    ]
    first = (ChainLink(1, "redirect", 7, 2), *links[:4])
    return HotChain("public.simulated", at_s, 7, versions, first, tuple(links[4:][-5:]))


def _update(at_s: float, buffers: int, plan: Plan) -> UpdateSample:
    updating = {"Node Type": "ModifyTable", "Operation": "Update", "Plans": [_run(plan)]}
    took_s = buffers * 1e-6
    return UpdateSample(
        "simulated", UPDATE, at_s, buffers, 0, 1.0, took_s, node_words(plan), updating
    )


@dataclass(frozen=True)
class SimulatedHold:
    """One hold, from the beginning of the window.

    Attributes:
        holder: which kind holds.
        length_s: infinite: until the trial's end.
        cost_per_s: what each second of it adds to the cost of a transaction, as a share of that.
        cleaned_s: after its end, the time in which the added cost falls to 1/e.
        is_made_anew: indexes are, after its end.
    """

    holder: str
    length_s: float
    cost_per_s: float
    cleaned_s: float
    is_made_anew: bool = False

    def times_slower(self, t_s: float) -> float:
        """Return the cost of a transaction at a second of the window, over that without a hold."""
        if t_s <= self.length_s:
            return 1 + self.cost_per_s * t_s
        left = math.exp(-(t_s - self.length_s) / self.cleaned_s)
        return 1 + self.cost_per_s * self.length_s * left

    def recordings(self, samples: Sequence[Sample]) -> Recordings:
        """Return what the factor and collectors would record: the hold, the horizon's age and what it costs."""
        times = tuple(one.t_s for one in samples)
        ages: list[float] = []
        dead: list[float] = []
        bloat: list[float] = []
        committed = grown = 0
        for one in samples:
            is_held = one.t_s <= self.length_s
            committed = committed + one.committed if is_held else 0
            is_made_anew = not is_held and self.is_made_anew
            grown = 0 if is_made_anew else max(grown, committed)
            ages.append(float(committed))
            bloat.append(1 + grown / 10_000)
            kept = dead[-1] if dead else 0.0
            left = math.exp(-one.duration_s / self.cleaned_s)
            dead.append(kept + one.committed / 1000 if is_held else kept * left)
        end_s = min(self.length_s, times[-1] if times else 0.0)
        return Recordings(
            (
                Series("horizon_age_transactions", "age", "count", times, tuple(ages)),
                Series("dead_versions_per_row", "dead versions", "count", times, tuple(dead)),
                Series("bloat_ratio", "bloat", "count", times, tuple(bloat)),
                Event(HOLD_EVENT, 0.0, end_s, f"{self.holder}, session 1"),
            )
        )


def simulated_hold(treatment: Treatment, costs_per_s: Mapping[str, float]) -> SimulatedHold | None:
    """Return what the treatment holds; None without levels of the horizon.

    Args:
        costs_per_s: by the holder's name; a holder that is not named costs nothing.
    """
    levels = hold_levels(treatment)
    if levels.get(HOLDER, NOBODY) == NOBODY:
        return None
    length = levels.get(HOLD, WINDOW)
    return SimulatedHold(
        levels[HOLDER],
        math.inf if length == WINDOW else float(length.removesuffix("s")),
        costs_per_s.get(levels[HOLDER], 0.0),
        _CLEANED_S[levels.get(AFTER, NOTHING)],
        is_made_anew="reindex" in levels.get(AFTER, NOTHING),
    )

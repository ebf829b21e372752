"""How many worker threads does a load driver need? Short loads before the first trial tell, if nobody says it.

One thread costs least: its clients share its sleeps and wake-ups. So a load begins with one, and gets twice as many as
long as the busiest is busy for more than `BUSY` of the time. A thread counts as busy while it runs or is ready to run and waits
for a processor: on a machine that it shares with the server, answers wait for it in both cases.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from pgdrag.model.load import SHORTEST_S, Closed, LoadProfile
from pgdrag.model.measurement import Measurement
from pgdrag.model.threads import ChosenThreads, ThreadsProbe

# Where answers come at random, one finds the thread busy that often, and waits for 2.3 others on average: ρ / (1 - ρ).
# From there on the wait grows fast; at 0.8 the trial has a warning that the driver may be the bottleneck.
BUSY = 0.7
MOST = 256  # as the contract allows
# Probes would take longer than shorter windows.
SHORTEST_WINDOW_S = 5.0
_PROBE_S = 2.0


def is_to_choose(load: LoadProfile) -> bool:
    """Tell whether probes are to choose the number of threads: nobody has, and it is worth their time.

    Windows of fewer than 5 s, or of a number of transactions, and drivers of one client have one thread.
    """
    is_long = load.transactions is None and load.measure_s >= SHORTEST_WINDOW_S
    return load.threads is None and is_long and _clients(load) > 1


def probe_load(load: LoadProfile, threads: int) -> LoadProfile:
    """Return a short load for a probe, as hard as the hardest part of the load."""
    pacing = load.pacing
    rates = [step.rate_per_s for step in load.steps if step.rate_per_s is not None]
    if rates and not isinstance(pacing, Closed):
        pacing = replace(pacing, rate_per_s=max(rates))
    return replace(
        load,
        threads=threads,
        pacing=pacing,
        steps=(),
        warm_up_s=min(load.warm_up_s, SHORTEST_S),
        measure_s=_PROBE_S,
        budget_s=_PROBE_S,
        min_commits=0,
    )


def choose_threads(
    load: LoadProfile, probe: Callable[[LoadProfile], Measurement | None]
) -> ChosenThreads:
    """Return how many threads each driver of a load needs.

    Args:
        probe: runs a load and returns what was measured, None where nothing could be.
    """
    probes: list[ThreadsProbe] = []
    chosen = threads = 1
    is_limited = False
    while True:
        measured = probe(probe_load(load, threads))
        if measured is None or (busy_share := measured.busy_share) is None:
            break
        probes.append(ThreadsProbe(threads, round(busy_share, 3), measured.committed_per_s))
        if isinstance(load.pacing, Closed) and _is_slower(probes):
            break
        chosen, most = threads, _most(load, measured.driver.processors or 1)
        is_limited = busy_share > BUSY and threads >= most
        if busy_share <= BUSY or is_limited:
            break
        threads = min(2 * threads, most)
    return ChosenThreads(chosen, tuple(probes), is_limited)


def _is_slower(probes: list[ThreadsProbe]) -> bool:
    """Tell whether the last number brought nothing. A gain is not asked for: probes are too short to see a small one."""
    rates = [one.committed_per_s for one in probes[-2:]]
    return len(rates) == 2 and rates[1] < rates[0]


def _clients(load: LoadProfile) -> int:
    """Return how many clients the driver with the fewest has."""
    return load.connections // max(len(load.generators), 1)


def _most(load: LoadProfile, processors: int) -> int:
    """Return the most threads of a driver that make sense: one a client, one a processor of its share."""
    on_one_host = max(Counter(load.generators).values(), default=1)
    return max(1, min(MOST, _clients(load), processors // on_one_host))

"""How hard and how long is the workload driven? Sessions, pacing, steps, windows and limits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

DEFAULT_BACKLOG = 10_000  # BenchBase's queue, too
SHORTEST_S = 3.0  # a warm-up or a window is not shortened below this
_FEW_COMMITS = 4  # the budget is how long to wait for so few, not a matter of precision


@dataclass(frozen=True)
class Closed:
    """Closed loop: each client asks again as soon as it has its answer. Latency is service time."""

    kind: Literal["closed"] = "closed"


@dataclass(frozen=True)
class Open:
    """Open loop: arrivals follow a schedule, whatever the server does.

    Latency is response time: it counts from the moment at which the arrival was due.

    Attributes:
        rate_per_s: arrivals per second over all clients; where there are steps, of the first.
        arrivals: "poisson" (independent of each other, as many users are) or "uniform".
        backlog_limit: how many arrivals may wait for a client; beyond that the oldest is
            dropped.
    """

    rate_per_s: float
    arrivals: Literal["poisson", "uniform"] = "poisson"
    backlog_limit: int = DEFAULT_BACKLOG
    kind: Literal["open"] = "open"


@dataclass(frozen=True)
class BenchBaseRate:
    """BenchBase's rate limit: even arrivals into one queue; latency counts from when a client took one.

    Attributes:
        rate_per_s: as for `Open`.
        queue_limit: an arrival that finds this many waiting is dropped.
    """

    rate_per_s: float
    queue_limit: int = DEFAULT_BACKLOG
    kind: Literal["benchbase"] = "benchbase"


Pacing: TypeAlias = Closed | Open | BenchBaseRate


@dataclass(frozen=True)
class Step:
    """From `at_s` of the window on: how many clients work, and the rate offered (None: closed loop)."""

    at_s: float
    sessions: int
    rate_per_s: float | None = None


@dataclass(frozen=True)
class LoadProfile:
    """How hard and how long the workload is driven.

    Attributes:
        connections: sessions; all are opened before the warm-up.
        warm_up_s: load before the measured window, in seconds, over the same sessions.
        measure_s: length of the measured window, in seconds.
        budget_s: longest measured window, in seconds.
        pacing: when a client begins its next transaction.
        min_commits: with fewer commits the window goes on, up to `budget_s`.
        threads: worker threads of each load driver; None: one, or what probes at the start of the run chose.
        latency_limit_us: transactions that take longer are counted; in open loop an arrival that is
            later than this is skipped. None: no limit.
        transactions: how many each client ends in the window, which ends with the last of them, or after
            `measure_s`; None: as many as there is time for.
        reconnect: each transaction has a session of its own, and connecting is no part of its latency
            in closed loop.
        steps: how sessions and rate change, the first at 0 (and in the warm-up); none: all connections
            work at the pacing's rate throughout.
        generators: the host of each load driver, "" being this one, where several divide connections and rate between
            them; none: one driver, here. Each has `threads`.
    """

    connections: int
    warm_up_s: float
    measure_s: float
    budget_s: float
    pacing: Pacing = Closed()
    min_commits: int = 30
    threads: int | None = 1
    latency_limit_us: int | None = None
    steps: tuple[Step, ...] = ()
    transactions: int | None = None
    reconnect: bool = False
    generators: tuple[str, ...] = ()

    def shortened(self) -> LoadProfile:
        """Return the same load for a third of the time: enough to tell what matters, and not by how much.

        A load in steps is over when its last step is, and keeps its length. A window that goes on for very few commits
        keeps its budget: what commits within that must not count as a stall.
        """
        if self.steps:
            return self
        warm_up_s, measure_s, budget_s = (
            max(min(whole_s, SHORTEST_S), round(whole_s / 3, 1))
            for whole_s in (self.warm_up_s, self.measure_s, self.budget_s)
        )
        if 0 < self.min_commits <= _FEW_COMMITS:
            budget_s = self.budget_s
        return replace(self, warm_up_s=warm_up_s, measure_s=measure_s, budget_s=budget_s)

    @property
    def changes_s(self) -> tuple[float, ...]:
        """Seconds of the window at which sessions or rate change; none where they stay the same."""
        return tuple(step.at_s for step in self.steps[1:])

    @property
    def rate_per_s(self) -> float | None:
        """Transactions offered per second over all clients, at first; None in closed loop."""
        return None if isinstance(self.pacing, Closed) else self.pacing.rate_per_s

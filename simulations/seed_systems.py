"""Simulated servers on which the 32 settings of slow-42k have effects within the range measured on real ones."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

import numpy as np

from pgdrag.findings.readings import Reading
from pgdrag.stats.counts import FEW_COMMITS

_AUTOVACUUM, _COST = "Vacuuming / Automatic Vacuuming", "Vacuuming / Cost-Based Vacuum Delay"
_WAL, _CHECKPOINTS = "Write-Ahead Log / Settings", "Write-Ahead Log / Checkpoints"

# PostgreSQL's own categories (pg_settings), in the order of the experiment file.
GROUPS = {
    "shared_buffers": "Resource Usage / Memory",
    "maintenance_work_mem": "Resource Usage / Memory",
    "autovacuum_vacuum_insert_threshold": _AUTOVACUUM,
    "autovacuum_vacuum_threshold": _AUTOVACUUM,
    "autovacuum_vacuum_scale_factor": _AUTOVACUUM,
    "autovacuum_vacuum_max_threshold": _AUTOVACUUM,
    "autovacuum_naptime": _AUTOVACUUM,
    "vacuum_cost_limit": _COST,
    "vacuum_cost_page_dirty": _COST,
    "vacuum_cost_page_hit": _COST,
    "vacuum_cost_page_miss": _COST,
    "autovacuum_analyze_threshold": _AUTOVACUUM,
    "autovacuum_analyze_scale_factor": _AUTOVACUUM,
    "log_autovacuum_min_duration": "Reporting and Logging / What to Log",
    "logging_collector": "Reporting and Logging / Where to Log",
    "log_destination": "Reporting and Logging / Where to Log",
    "wal_writer_flush_after": _WAL,
    "wal_writer_delay": _WAL,
    "min_wal_size": _CHECKPOINTS,
    "max_wal_size": _CHECKPOINTS,
    "checkpoint_timeout": _CHECKPOINTS,
    "checkpoint_flush_after": _CHECKPOINTS,
    "wal_sync_method": _WAL,
    "wal_level": _WAL,
    "wal_log_hints": _WAL,
    "summarize_wal": "Write-Ahead Log / Summarization",
    "track_wal_io_timing": "Statistics / Cumulative Query and Index Statistics",
    "checkpoint_completion_target": _CHECKPOINTS,
    "random_page_cost": "Query Tuning / Planner Cost Constants",
    "cpu_index_tuple_cost": "Query Tuning / Planner Cost Constants",
    "io_method": "Resource Usage / I/O",
    "io_workers": "Resource Usage / I/O",
}
NAMES = tuple(GROUPS)
_WAL_GUILTY = 5  # settings that share what the write-ahead log costs
# Warm-up, window and longest window of a short trial and of a full one of docs/how-to/bisect.md, and what
# restoring and starting take.
_BRIEF, _FULL, _OVERHEAD_S = (2.7, 6.7, 20.0), (8.0, 20.0, 60.0), 10.0


@dataclass
class SeedSystem:
    """One machine and what the settings do on it; losses are of log throughput.

    Attributes:
        planner: of either planner setting, or both.
        cache: of the small cache.
        workers: of the single I/O worker.
        autovacuum: of the nap time and the threshold together, of neither alone.
        wal: by setting.
        noise: standard deviation between trials.
        reference: log throughput of the reference.
        interaction: of planner and cache together, beyond what each does. Where it is not 0, the single
            worker counts only together with both.
        fading: the part of what autovacuum and the write-ahead log do that is left where the planner errs.
    """

    rng: np.random.Generator
    planner: float
    cache: float
    workers: float
    autovacuum: float
    wal: dict[str, float]
    noise: float
    reference: float
    interaction: float = 0.0
    fading: float = 1.0
    seconds: float = field(default=0.0)

    @classmethod
    def drawn(cls, seed: int) -> SeedSystem:
        """Return the system of a seed: 10,000 to 30,000 times slower with all settings."""
        rng = np.random.default_rng(seed)
        log_groups = [x for x, group in GROUPS.items() if group.startswith("Write-Ahead Log")]
        while True:
            parts = rng.dirichlet(np.ones(_WAL_GUILTY)) * math.log(3)
            chosen = rng.choice(log_groups, _WAL_GUILTY, replace=False)
            system = cls(
                rng,
                planner=math.log(rng.uniform(100, 700)),
                cache=math.log(rng.uniform(2, 8)),
                workers=math.log(rng.uniform(1.5, 50)),
                autovacuum=math.log(1.5) * rng.uniform(0.8, 1.2),
                wal={str(name): float(x) for name, x in zip(chosen, parts, strict=True)},
                noise=rng.uniform(0.03, 0.10),
                reference=math.log(rng.uniform(1200, 2400)),
            )
            if system._is_within(10_000, 30_000):
                return system

    @classmethod
    def drawn_interacting(cls, seed: int) -> SeedSystem:
        """Return a system of which much shows only together: 8,000 to 30,000 times slower with all."""
        system = cls.drawn(seed)
        system.fading = 1 / 3
        ranges = {
            "planner": (30, 150),
            "cache": (2, 6),
            "interaction": (3, 30),
            "workers": (1.2, 15),
        }
        return system._redrawn(np.random.default_rng([seed, 1]), ranges, (8_000, 30_000))

    @classmethod
    def drawn_hiding(cls, seed: int) -> SeedSystem:
        """Return a system whose planner hides what other settings do: 3,000 to 8,000 times slower with all.

        As measured on a machine with the dataset in the operating system's cache: small settings slow the
        reference about as much as the small cache slows a server whose planner errs.
        """
        system = cls.drawn(seed)
        system.fading = 0.1
        rng = np.random.default_rng([seed, 2])
        system.wal = {name: part * rng.uniform(0.3, 0.6) for name, part in system.wal.items()}
        ranges = {
            "planner": (500, 1500),
            "cache": (1.05, 1.25),
            "interaction": (2, 5),
            "workers": (1.0, 1.2),
        }
        return system._redrawn(rng, ranges, (3_000, 8_000))

    def _redrawn(
        self,
        rng: np.random.Generator,
        ranges: Mapping[str, tuple[float, float]],
        whole: tuple[float, float],
    ) -> SeedSystem:
        """Draw some losses again, each as a ratio in its range, until all settings together are in theirs."""
        while True:
            for name, (low, high) in ranges.items():
                setattr(self, name, math.log(rng.uniform(low, high)))
            if self._is_within(*whole):
                return self

    def _is_within(self, low: float, high: float) -> bool:
        return math.log(low) <= self.lost(NAMES) <= math.log(high)

    def lost(self, names: Collection[str]) -> float:
        """Return the log throughput lost with these settings."""
        is_planned_badly = "random_page_cost" in names or "cpu_index_tuple_cost" in names
        lost = sum(x for name, x in self.wal.items() if name in names)
        if "autovacuum_naptime" in names and "autovacuum_vacuum_threshold" in names:
            lost += self.autovacuum
        if is_planned_badly:
            lost = lost * self.fading + self.planner
        lost += self.cache * ("shared_buffers" in names)
        are_together = is_planned_badly and "shared_buffers" in names
        lost += self.interaction * are_together
        has_effect = are_together or not self.interaction
        return lost + self.workers * ("io_workers" in names and has_effect)

    def share(self, names: Collection[str]) -> float:
        """Return the part of the log slowdown that these settings keep."""
        return self.lost(names) / self.lost(NAMES)

    def run(self, names: Collection[str], *, is_brief: bool) -> Reading:
        """Return the reading of a trial: commits are random, and a slow window is extended as the driver does."""
        log = self.reference - self.lost(names) + self.rng.normal(0, self.noise)
        rate = math.exp(log)
        warm_up_s, window_s, budget_s = _BRIEF if is_brief else _FULL
        if rate * window_s > 200:
            self.seconds += _OVERHEAD_S + warm_up_s + window_s
            se = 0.01 + 1 / math.sqrt(rate * window_s)
            return Reading(log + self.rng.normal(0, 0.01), se, False, 1, is_brief)
        count = max(round(rate * budget_s * 3), 3 * FEW_COMMITS)
        at_s = np.cumsum(self.rng.exponential(1 / rate, count))
        commits, took_s = int(np.sum(at_s <= window_s)), window_s
        is_inverse = False
        if commits < FEW_COMMITS:
            is_inverse = bool(at_s[FEW_COMMITS - 1] <= budget_s)
            took_s = float(at_s[FEW_COMMITS - 1]) if is_inverse else budget_s
            commits = FEW_COMMITS if is_inverse else int(np.sum(at_s <= budget_s))
        self.seconds += _OVERHEAD_S + warm_up_s + took_s
        if commits == 0:
            return Reading(math.log(-math.log(0.05) / took_s), 0.0, True, 1, is_brief)
        log_per_s = math.log((commits - is_inverse) / took_s)
        return Reading(log_per_s, 1 / math.sqrt(commits), False, 1, is_brief)

"""What did one measured window show? The values that its report needs beside those of any treatment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from pgdrag.findings.values import DesignFinding, Interval
from pgdrag.model import Measurement, Result, RunRecord
from pgdrag.model.measurement import Latency, Statement


@dataclass(frozen=True)
class WindowFinding(DesignFinding):
    """What one measured window showed.

    Attributes:
        committed_per_s: over the whole window; its interval does not cover variation between runs.
            None where no window was measured.
        latency_counts_from: when a transaction's latency starts: when it begins, when its arrival is
            due, or when a client takes the arrival from the queue.
        connecting: time to connect; None unless each transaction has its own connection.
        statements: latency of each statement of the scripts, where that was measured.
    """

    has_rungs: ClassVar[bool] = False
    needs_replicates: ClassVar[bool] = False  # it is the window that is reported

    committed_per_s: Interval | None
    latency_counts_from: Literal["begin", "due", "taken"]
    connecting: Latency | None
    statements: tuple[Statement, ...]


def measured_window(run: RunRecord) -> tuple[Result, Measurement] | None:
    """Return the run's first trial with a measured window of any length; None if there is none."""
    for result in run.results if run.study.rungs else ():
        if result.measurement is not None and result.measurement.elapsed_s > 0:
            return result, result.measurement
    return None

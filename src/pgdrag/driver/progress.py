"""How does a trial report its progress: its phases, its warnings and its throughput?"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pgdrag.driver.contract import IntervalLine, Line, PhaseLine, WarmingLine, sample_of
from pgdrag.model.events import Listener, PhaseStarted, Throughput
from pgdrag.model.measurement import Sample


@dataclass(frozen=True)
class TrialLog:
    """What a trial's result says however the trial ends.

    Attributes:
        listen: called when a phase begins.
        warnings: what may be wrong with the result.
        phases_s: how long each phase took, in seconds, in order.
    """

    listen: Listener
    warnings: list[str] = field(default_factory=list)
    phases_s: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(
        self, name: str, expected_s: float | None = None, explanation: str = ""
    ) -> Iterator[None]:
        """Announce a phase and time it; see `PhaseStarted`."""
        self.listen(PhaseStarted(name, expected_s, explanation))
        start = time.monotonic()
        try:
            yield
        finally:
            self.phases_s[name] = round(time.monotonic() - start, 3)


def throughput(listen: Listener) -> Callable[[Line], None]:
    """Return what turns the driver's lines into `Throughput` events."""
    committed = 0
    elapsed_s = 0.0

    def note(line: Line) -> None:
        nonlocal committed, elapsed_s
        if isinstance(line, PhaseLine) and line.name == "run":
            committed, elapsed_s = 0, 0.0
        if isinstance(line, IntervalLine | WarmingLine):
            committed += line.committed
            elapsed_s += line.duration_s
            last_per_s = line.committed / line.duration_s if line.duration_s else 0.0
            mean_per_s = committed / elapsed_s if elapsed_s else 0.0
            if isinstance(line, IntervalLine):
                sample = sample_of(line)
            else:
                sample = Sample(line.t_s, line.duration_s, line.committed, line.failed)
            listen(Throughput(elapsed_s, committed, last_per_s, mean_per_s, sample))

    return note

"""How far has `make bench` come, and how long will it still take? On standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Progress:
    """A line for each step, with the time left by plan and by what the steps took so far."""

    def __init__(self, planned_s: float) -> None:
        self._planned_s = planned_s
        self._done_s = 0.0
        self._took_s = 0.0

    @contextmanager
    def step(self, label: str, planned_s: float) -> Iterator[None]:
        """Say that a step begins, which was planned to take `planned_s`."""
        print(f"{_clock(self.left_s())} left  {label}", file=sys.stderr, flush=True)
        started = time.monotonic()
        yield
        self.note(planned_s, time.monotonic() - started)

    def note(self, planned_s: float, took_s: float) -> None:
        """A step that was planned for `planned_s` took `took_s`."""
        self._done_s += planned_s
        self._took_s += took_s

    def skip(self, planned_s: float) -> None:
        """A step is left out."""
        self._planned_s -= planned_s

    def left_s(self) -> float:
        """Seconds that are left, if the steps to come keep to their plan as those before did."""
        pace = self._took_s / self._done_s if self._done_s else 1.0
        return max(0.0, self._planned_s - self._done_s) * pace


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:3d} min {int(seconds) % 60:02d} s"

"""How is a quantity over time drawn in characters? Eight levels from 0 to its highest."""

from __future__ import annotations

from collections.abc import Sequence

_LEVELS = "▁▂▃▄▅▆▇█"
SPARK_WIDTH = 40


def spark(values: Sequence[float | None], *, highest: float | None = None) -> str:
    """Return values in at most 40 characters, the mean of neighbours in each; a blank where there is none.

    Args:
        highest: what the highest level stands for; by default the highest of the characters.
    """
    size = -(-len(values) // SPARK_WIDTH) or 1
    means = [_mean(values[at : at + size]) for at in range(0, len(values), size)]
    top = highest or max((mean for mean in means if mean is not None), default=0.0) or 1.0
    return "".join(_character(mean, top) for mean in means)


def _character(mean: float | None, top: float) -> str:
    return " " if mean is None else _LEVELS[round(min(mean / top, 1.0) * (len(_LEVELS) - 1))]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None

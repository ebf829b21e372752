"""What do two factors do alone, what do both do, and do they interact? The contrasts of a 2×2 factorial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
Signs = tuple[int, int, int, int]


class Factorial(NamedTuple, Generic[T]):
    """Estimates of log slowdown; the interaction is `both` less the sum of `first` and `second`."""

    first: T
    second: T
    both: T
    interaction: T


def two_by_two(contrast: Callable[[Signs], T]) -> Factorial[T]:
    """Return the four estimates of a factorial.

    Args:
        contrast: estimates the sum, with these signs, of the log throughputs of the four corners: neither,
            first, second, both.
    """
    return Factorial(
        first=contrast((1, -1, 0, 0)),
        second=contrast((1, 0, -1, 0)),
        both=contrast((1, 0, 0, -1)),
        interaction=contrast((-1, 1, 1, -1)),
    )

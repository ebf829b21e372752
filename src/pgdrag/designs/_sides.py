"""How much do trials differ by chance near the reference, and near the target?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from pgdrag.designs._subsets import Changes
from pgdrag.stats.noise import Noise, noise_by_side

N = TypeVar("N", bound=Noise)
T = TypeVar("T")


@dataclass(frozen=True)
class NoiseOfSides(Generic[N]):
    """The noise between trials of one set, by how many of the changes are in it.

    A set with most of the changes is as noisy as the target, any other one as the reference: a server that crawls
    commits little and waits for other things than one that runs, and its background processes weigh more.

    Attributes:
        reference, target: pooled over both sides, unless one is significantly noisier than the other.
        most: a set of more changes than this is near the target.
    """

    reference: N
    target: N
    most: float

    @classmethod
    def of(
        cls, sets: Mapping[Changes, T], most: float, noise_of: Callable[[Iterable[T]], N | None]
    ) -> NoiseOfSides[N] | None:
        """Estimate it; None where nothing was repeated.

        Args:
            sets: the trials of each.
            noise_of: pools the repeats of some sets; None where nothing of them was repeated.
        """
        pooled = noise_of(sets.values())
        if pooled is None:
            return None
        reference, target = (
            noise_of(trials for key, trials in sets.items() if (len(key) > most) is is_target)
            for is_target in (False, True)
        )
        return cls(*noise_by_side((reference, target), pooled), most)

    def near(self, changes: Changes) -> N:
        """Return the noise of the side that a set is on."""
        return self.target if len(changes) > self.most else self.reference

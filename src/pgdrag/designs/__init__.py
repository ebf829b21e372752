"""Which treatments next? One file a design; the laboratory adds replicates, order, seeds and storage.

A design only *asks* for the next block of treatments and is *told* what came of it, so that fixed
and adaptive designs look alike to the laboratory. It knows no clock, no server and no journal. It
is registered by being a concrete subclass of `Design` in a module of this folder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from pgdrag import registry
from pgdrag.model import Block, Forecast, Result, Rung


class DesignParameters(BaseModel):
    """The `[design]` table of an experiment file, without `kind`."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Design(ABC):
    """Decides which treatments are run.

    Life cycle: `ask()` returns a block, `tell(results)` hands back one result for each trial of
    it, in the order run, and so on until `ask()` returns an empty block. The same results told in
    the same order lead to the same next block: that is how a run is resumed.

    Class attributes:
        is_cumulative: in its experiment files each rung stands upon the ones before it; else each
            stands upon the baseline alone.

    Args:
        rungs: the experiment's named treatments; the first is the baseline. A design over the
            changes between two treatments takes the last one as its target.
        parameters: an instance of the class's `Parameters`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for `pgdrag list`
    Parameters: ClassVar[type[DesignParameters]] = DesignParameters
    is_cumulative: ClassVar[bool] = False

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        assert rungs, "a design needs a baseline"
        self.rungs = tuple(rungs)
        self.parameters = parameters

    @abstractmethod
    def ask(self) -> Block:
        """Return the next block; an empty one: done. Asking twice is asking once."""

    @abstractmethod
    def tell(self, results: Sequence[Result]) -> None:
        """Take the results of the block asked for last (all replicates of it)."""

    def forecast(self) -> Forecast:
        """Return how many trials are still to come, of one replicate; by default, one more block."""
        block = self.ask()
        count = len(block.treatments)
        return Forecast(0, 0, count, count) if block.is_brief else Forecast(count, count)


class OneBlock(Design):
    """A design that asks for all it wants at once, and does not adapt to what comes of it."""

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        self._is_told = False

    @abstractmethod
    def block(self) -> Block:
        """Return everything."""

    def ask(self) -> Block:
        """Return everything the first time, then nothing."""
        return Block() if self._is_told else self.block()

    def tell(self, results: Sequence[Result]) -> None:
        """Note that the block was run."""
        self._is_told = True


def all_designs() -> dict[str, type[Design]]:
    """Return every registered design, by name."""
    return registry.registered("pgdrag.designs", Design)  # type: ignore[type-abstract]

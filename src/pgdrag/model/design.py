"""What is a design? It asks for treatments, receives the results, and says what they show."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import BaseModel, ConfigDict, ValidationError

from pgdrag import registry
from pgdrag.model.treatment import Block, Forecast, Level, Treatment

if TYPE_CHECKING:
    from pgdrag.findings.values import DesignFinding
    from pgdrag.model.result import Result
    from pgdrag.model.run import RunRecord
    from pgdrag.model.study import Rung, Study


class DesignParameters(BaseModel):
    """The `[design]` table of an experiment file, without `kind`; each design with parameters has a subclass.

    Class attributes:
        unstored: what a journal means that was written before a parameter existed, by the parameter's name.
    """

    unstored: ClassVar[Mapping[str, object]] = {}

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class UnknownParameters(DesignParameters):
    """Parameters of a design that this pgdrag does not have, as a journal stored them."""

    model_config = ConfigDict(extra="allow", frozen=True)


class Design(ABC):
    """Decides which treatments are run, and says what they show together.

    Life cycle: `ask()` returns a block, `tell(results)` hands back one result for each trial of
    it, in the order run, and so on until `ask()` returns an empty block. The same results in
    the same order lead to the same next block: that is how a run is resumed, and how `find` sees
    exactly what the design decided on.

    Class attributes:
        is_cumulative: in its experiment files each rung stands upon the ones before it; else each
            stands upon the baseline alone.
        noun: what reports call one of its treatments: a "rung" of a ladder, an "arm" of a comparison.

    Attributes:
        replicates: how often the study wants each treatment; blocks that do not say otherwise are run so often.
        has_fresh_servers: each trial has a server of its own; False: all have the same one, which goes on.

    Args:
        rungs: the experiment's named treatments; the first is the baseline. A design over the
            changes between two treatments takes the last one as its target.
        parameters: an instance of the class's `Parameters`.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for `pgdrag list`
    Parameters: ClassVar[type[DesignParameters]] = DesignParameters
    is_cumulative: ClassVar[bool] = False
    noun: ClassVar[str] = "treatment"

    replicates: int = 1
    has_fresh_servers: bool = True

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        assert rungs, "a design needs a baseline"
        assert isinstance(parameters, self.Parameters), parameters
        self.rungs = tuple(rungs)
        self.parameters = parameters

    @property
    def levels(self) -> tuple[Level, ...]:
        """The levels that it may try although no rung names them: they are checked before the run, like those of rungs."""
        return ()

    @abstractmethod
    def ask(self) -> Block:
        """Return the next block; an empty one: done. Asking twice is asking once."""

    def ask_ahead(self, most: int) -> Sequence[Block]:
        """Return at most `most` blocks that will probably follow the one that `ask` returns.

        Where there are hosts to spare they are begun before the design is told what came before them. A wrong guess
        costs the trials of that block, and nothing else: their results are forgotten.
        """
        return ()

    @abstractmethod
    def tell(self, results: Sequence[Result]) -> None:
        """Take the results of the block asked for last (all replicates of it)."""

    def forecast(self) -> Forecast:
        """Return how many trials are still to come, of one replicate; by default, one more block."""
        block = self.ask()
        count = len(block.treatments)
        return Forecast(0, 0, count, count) if block.is_brief else Forecast(count, count)

    def trials_left(self) -> Forecast:
        """Return how many trials are still to come, of all replicates."""
        return self.forecast().times(self.replicates)

    def plan(self) -> str:
        """Say before the run in which order trials come, in a sentence or two; "" where rungs and replicates say it."""
        return ""

    def label(self, treatment: Treatment) -> str:
        """Return what a line of progress calls a treatment: by default its name."""
        return treatment.name

    def so_far(self, results: Sequence[Result]) -> str:
        """Say in a few words what is known by now, for the line of progress of the last result; "" where nothing is.

        It is asked after each trial, so it must be cheap, and it decides nothing.

        Args:
            results: those of the block asked for last that there are already, one or more, in the order run.
        """
        return ""

    def find(self, run: RunRecord) -> DesignFinding | None:
        """Return what the run's results show together, in whatever state the run is.

        The design has received every complete block of the run. None, the default: its rungs one by
        one say it all.
        """
        return None


class OneBlock(Design):
    """A design that asks for everything at once, and does not adapt to the results."""

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        self._is_done = False

    @abstractmethod
    def block(self) -> Block:
        """Return everything."""

    def ask(self) -> Block:
        """Return everything the first time, then nothing."""
        return Block() if self._is_done else self.block()

    def tell(self, results: Sequence[Result]) -> None:
        """Note that the block was run."""
        self._is_done = True


def all_designs() -> dict[str, type[Design]]:
    """Return every registered design, by name."""
    return registry.registered("pgdrag.designs", Design)  # type: ignore[type-abstract]


def make_design(study: Study) -> Design:
    """Return the study's design, from its name and parameters."""
    design = all_designs()[study.design](study.rungs, study.design_parameters)
    design.replicates = study.replicates
    design.has_fresh_servers = study.place is None
    return design


def parameters_of(design: str, values: Mapping[str, object]) -> DesignParameters:
    """Return a design's parameters; what is not given has its default.

    Raises:
        ValidationError: the design does not take these.
    """
    return _kind(design).model_validate(dict(values))


def stored_parameters(design: str, values: Mapping[str, object]) -> DesignParameters:
    """Return parameters as a journal stored them; those that the design no longer takes are left out."""
    kind = _kind(design)
    values = {**kind.unstored, **values}
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        wrong = {problem["loc"][0] for problem in error.errors() if problem["loc"]}
        return kind.model_validate({key: x for key, x in values.items() if key not in wrong})


def _kind(design: str) -> type[DesignParameters]:
    known = all_designs().get(design)
    return UnknownParameters if known is None else known.Parameters

"""What is searched, for what, and with how many trials?"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pgdrag.designs import DesignParameters

MOST_VALUES = 64


Goal = Literal["maximize", "minimize"]


class Dimension(BaseModel):
    """A factor that a search may change, and the values it may have.

    Attributes:
        kind, name: of the factor.
        values: as they are written in a configuration, distinct; ordered: ascending, and special ones
            (-1, 0) before the rest where they turn something off.
        is_ordered: neighbouring values are alike; false for words such as those of wal_sync_method.
        start: the value that the baseline has.
        rule: what a rule of thumb gives this machine; None: it says nothing.
        is_expected: it is known to matter often, so that the search tries it early.
        group: its category; a report names it.
        needs: the dimension without which this one does nothing; "": it always matters.
        needs_values: values of that one with which it matters.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: str = "setting"
    name: str
    values: Annotated[tuple[str, ...], Field(min_length=2, max_length=MOST_VALUES)]
    is_ordered: bool = True
    start: str
    rule: str | None = None
    is_expected: bool = False
    group: str = ""
    needs: str = ""
    needs_values: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _holds_its_own(self) -> Self:
        if len(set(self.values)) < len(self.values):
            raise ValueError(f"values of {self.name} repeat")
        for value in filter(None, (self.start, self.rule)):
            if value not in self.values:
                raise ValueError(f"{value} is none of the values of {self.name}")
        return self


class SearchParameters(DesignParameters):
    """Parameters of a search."""

    goal: Goal = Field(
        default="maximize",
        description="Whether the objective is to be as high or as low as possible",
    )
    objective: str = Field(
        default="throughput",
        description="What is maximized or minimized: see `pgdrag search --help`",
    )
    also: tuple[str, ...] = Field(
        default=(),
        description="Further objectives: what is best for each alone is then looked for, and what is for all together",
    )
    dimensions: tuple[Dimension, ...] = Field(
        default=(),
        description="Each factor with the values it may have; rungs beside the baseline are then rivals",
    )
    space: Literal["rungs", "all"] = Field(
        default="rungs",
        description="Without dimensions: the values that rungs name, or all settings of the server that may change",
    )
    max_trials: Annotated[int, Field(ge=8, le=1000)] = Field(
        default=48,
        description="Short trials to explore with, before the winner is reduced and proved",
    )
    redeployments: Annotated[int, Field(ge=3, le=100)] = Field(
        default=10, description="Fresh clusters on which the winner is compared with the baseline"
    )
    line_trials: Annotated[int, Field(ge=0, le=100)] = Field(
        default=4, description="Short trials without each line of the result; 0: none"
    )
    keep: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.95, description="Part of the log gain that the fewest settings must keep"
    )
    limits: dict[str, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict,
        description="Greatest value of each observation that a configuration may have, such as server_memory_bytes",
    )
    seed: Annotated[int, Field(ge=0)] = Field(default=0, description="Seed of what is tried")

    @property
    def objectives(self) -> tuple[str, ...]:
        """All objectives, each once."""
        return tuple(dict.fromkeys((self.objective, *self.also)))

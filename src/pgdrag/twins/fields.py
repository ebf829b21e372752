"""Which numbers may stand in a twin's file? Types that its dataclasses share; unknown keys are refused."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field

STRICT = ConfigDict(extra="forbid", strict=True)

Count = Annotated[int, Field(ge=0, lt=2**63)]
Height = Annotated[int, Field(ge=0, le=32)]  # of a B-tree; no disk holds one of 32 levels
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


def _six_or_none(ages_s: tuple[float, ...]) -> tuple[float, ...]:
    if len(ages_s) not in (0, 6):
        raise ValueError("there are six quantiles, or none")
    return ages_s


# Quantiles 0.1, 0.25, 0.5, 0.75, 0.9 and 0.99.
Ages = Annotated[tuple[Amount, ...], AfterValidator(_six_or_none)]

"""Which numbers may stand in a twin's file? Types that its dataclasses share; unknown keys are refused."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

STRICT = ConfigDict(extra="forbid", strict=True)

Count = Annotated[int, Field(ge=0, lt=2**63)]
Height = Annotated[int, Field(ge=0, le=32)]  # of a B-tree; no disk holds one of 32 levels
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]

"""What did older pgdrags store differently? Their values are converted when they are read."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from pgdrag.model import Instrument, Result, Study, Treatment, Trial

T = TypeVar("T")

# What observes a trial was once a level of its treatment, of this kind.
_INSTRUMENT = "instrument"


def of_today(value: T) -> T:
    """Return a value whose studies and trials have an instrument of their own, not their treatments."""
    match value:
        case Study():
            instrument, rungs = value.instrument, []
            for rung in value.rungs:
                treatment, instrument = _without_instrument(rung.treatment, instrument)
                added = tuple(level for level in rung.added if level.kind != _INSTRUMENT)
                rungs.append(replace(rung, treatment=treatment, added=added))
            return replace(value, rungs=tuple(rungs), instrument=instrument)
        case Trial():
            treatment, instrument = _without_instrument(value.treatment, value.instrument)
            return replace(value, treatment=treatment, instrument=instrument)
        case Result():
            return replace(value, trial=of_today(value.trial))
        case _:
            return value


def _without_instrument(
    treatment: Treatment, instrument: Instrument
) -> tuple[Treatment, Instrument]:
    for level in treatment.levels:
        if level.kind == _INSTRUMENT and level.name == "collectors":
            instrument = replace(instrument, collectors=level.value)  # type: ignore[arg-type]
        elif level.kind == _INSTRUMENT and level.value == "on":
            instrument = instrument.also(level.name)
    kept = tuple(level for level in treatment.levels if level.kind != _INSTRUMENT)
    return replace(treatment, levels=kept), instrument

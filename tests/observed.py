"""Samples of a server that nobody has, for files of observations."""

from __future__ import annotations

from pgdrag.model.observed import Quantity, Sample, Spread, Statement, StatementTotals, Wait
from pgdrag.observations.store import ObservationWriter

BEGAN = 1_764_000_000.0
QUANTITIES = tuple(Quantity(f"thing_{x}_per_s", f"things {x}", "1/s") for x in range(6))
WAITS = (
    Wait("client backend", ""),
    Wait("client backend", "IO:DataFileRead"),
    Wait("checkpointer", "IO:DataFileWrite"),
)


def flat(value: float, length_s: float = 10.0) -> Spread:
    return Spread(value, value, value, length_s)


def totals(calls: int, exec_s: float = 0.5) -> StatementTotals:
    return StatementTotals(calls, 2 * calls, exec_s, 0.0, exec_s / 2, calls, 1, 0, 100 * calls)


def sample(
    number: int, *, length_s: float = 10.0, text_bytes: int = 40, statements: int = 8
) -> Sample:
    began = BEGAN + number * length_s
    return Sample(
        began,
        began + length_s,
        length_s,
        began + length_s + 3600,
        {one.name: flat(number % 7 + at, length_s) for at, one in enumerate(QUANTITIES)},
        {one: (number + at) % 3 + 0.5 for at, one in enumerate(WAITS)},
        {
            Statement("shop", f"SELECT {'x' * text_bytes} FROM t{number % 40 + x}"): totals(
                number + 1, x / 8
            )
            for x in range(statements)
        },
    )


def hasty(writer: ObservationWriter) -> ObservationWriter:
    """A writer that does not wait for the disk: no test cuts the power."""
    writer._db.execute("PRAGMA synchronous = OFF")
    return writer

"""What a search asks to be run, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass

from pgdrag.designs.search.space import Point


@dataclass(frozen=True)
class Request:
    """One block of trials; a point may occur repeatedly, and a rival is named.

    Attributes:
        more: how many blocks with the same points follow it, whatever it shows.
    """

    points: tuple[Point | str, ...]
    is_brief: bool = True
    more: int = 0


@dataclass(frozen=True)
class Observed:
    """One finished trial.

    Attributes:
        point: what was tried; of a rival its name.
        values: the logarithm of each objective, where more is what is searched for; None: nothing was committed,
            or the server did not run.
        variances: of these, from within the trial.
        is_failure: the configuration is to blame where there are no values.
    """

    point: Point | str
    values: tuple[float, ...] | None
    variances: tuple[float, ...]
    block: int
    is_brief: bool
    is_failure: bool
    host: str = ""


def tells(one: Observed) -> bool:
    """Tell whether a trial says something of the space: a short one of a point, with a number."""
    return one.is_brief and one.values is not None and not isinstance(one.point, str)

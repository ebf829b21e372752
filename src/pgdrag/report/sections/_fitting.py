"""How fine may time series be drawn so that the whole report stays small, and which are left out?

Detail is taken from all rungs alike until the lines would lose their shape. Beyond that whole rungs
are left out, those first of which there is least to see: throughput changed least there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pgdrag.findings.values import TreatmentFinding
from pgdrag.report.document import Recording, TimeSeries
from pgdrag.report.series_picture import series_picture
from pgdrag.report.series_script import series_json
from pgdrag.report.thinning import thinned_recording

_EACH_RUNG_BYTES = 2_500  # what stands around its picture: captions, events in a table


@dataclass(frozen=True)
class Detail:
    """How much of each recording reaches the page.

    Attributes:
        points: of each line.
        still_points: of each line of the picture that cannot be zoomed, which has its shape from fewer.
        still_panels: of that picture, the first of all.
    """

    points: int
    still_points: int
    still_panels: int


_ALL = 1000
# From fine to coarse; the picture that stands where no script runs needs fewer points.
_DETAILS = (
    Detail(600, 44, _ALL),
    Detail(300, 44, _ALL),
    Detail(120, 30, _ALL),
    Detail(40, 20, 3),
)


def change_of(rung: TreatmentFinding) -> float:
    """Return how much there is to see on a rung: by which factor throughput changed, as a logarithm.

    A rung that is compared with none (the baseline, or one that stalled) counts as changed most.
    """
    slowdown = rung.to_previous.slowdown if rung.to_previous is not None else None
    if slowdown is None or not 0 < slowdown.center < math.inf:
        return math.inf
    return abs(math.log(slowdown.center))


def fitted(
    recordings: Mapping[str, Recording], changes: Mapping[str, float], *, room_bytes: float
) -> tuple[Detail, tuple[str, ...]]:
    """Return in which detail recordings are drawn, and the names of those that are, in their order.

    Two are kept in any case: one of them alone could be laid over nothing.

    Args:
        recordings: by name, whole.
        changes: how much there is to see of each, by name.
        room_bytes: what they may take in the page together.
    """

    for detail in _DETAILS:
        kept = {name: _size_bytes(one, detail) for name, one in recordings.items()}
        if sum(kept.values()) <= room_bytes:
            break
    # Of those that changed alike the later go first: all are compared with what came before.
    places = {name: place for place, name in enumerate(recordings)}
    for name in sorted(recordings, key=lambda one: (changes[one], -places[one])):
        if sum(kept.values()) <= room_bytes or len(kept) <= 2:
            break
        del kept[name]
    return detail, tuple(kept)


def still_picture(here: Recording, beside: Recording | None, detail: Detail) -> str:
    """Return what stands where no script runs."""
    shown = replace(here, panels=here.panels[: detail.still_panels])
    other = beside and replace(beside, panels=beside.panels[: detail.still_panels])
    titles = "; ".join(panel.title for panel in shown.panels)
    return series_picture(
        shown, other, f"{here.name} over time", titles, points=detail.still_points
    )


def _size_bytes(recording: Recording, detail: Detail) -> int:
    """Return what a recording takes in the page: as data, and as a picture."""
    thin = thinned_recording(recording, detail.points)
    data = series_json([TimeSeries(thin, (), "", "", "", "")])
    picture = still_picture(thin, None, detail)
    return len(data.encode()) + len(picture.encode()) + _EACH_RUNG_BYTES

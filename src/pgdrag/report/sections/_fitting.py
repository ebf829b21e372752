"""How fine may time series be drawn so that the whole report stays small, and which are left out?

Detail is taken from all rungs alike until the lines would lose their shape. Beyond that whole rungs
are left out, first those on which throughput changed least.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from pgdrag.findings.values import TreatmentFinding
from pgdrag.report.document import Recording, TimeSeries
from pgdrag.report.series_script import series_json
from pgdrag.report.series_words import panels_text
from pgdrag.report.thinning import thinned_recording

_EACH_RUNG_BYTES = 2_500  # what stands around its picture: captions, events in a table
_POINTS = (600, 300, 120, 40)  # of each line, from fine to coarse


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
) -> tuple[int, tuple[str, ...]]:
    """Return how many points each line has, and the names of the recordings to draw, in their order.

    Two are kept in any case: one of them alone could be laid over nothing.

    Args:
        recordings: by name, whole.
        changes: how much there is to see of each, by name.
        room_bytes: what they may take in the page together.
    """
    for points in _POINTS:
        kept = {name: _size_bytes(one, points) for name, one in recordings.items()}
        if sum(kept.values()) <= room_bytes:
            break
    # Of those that changed alike the later go first: all are compared with what came before.
    places = {name: place for place, name in enumerate(recordings)}
    for name in sorted(recordings, key=lambda one: (changes[one], -places[one])):
        if sum(kept.values()) <= room_bytes or len(kept) <= 2:
            break
        del kept[name]
    return points, tuple(kept)


def _size_bytes(recording: Recording, points: int) -> int:
    """Return what a recording takes in the page: as data, and as text."""
    data = series_json([TimeSeries(thinned_recording(recording, points), (), "", "", "")])
    return len(data.encode()) + len(panels_text(recording.panels).encode()) + _EACH_RUNG_BYTES

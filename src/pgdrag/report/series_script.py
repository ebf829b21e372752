"""What does a page need so that its time series can be zoomed: styles, scripts, data, and leave to run?

A page is one file that requests nothing and runs nothing but these scripts: its policy names them by
their hashes. What was measured stands beside them as JSON, which no browser runs.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any

from pgdrag.report.document import Block, Recording, TimeSeries, Trace, of_kind

# As many as the page tells; a line has some hundred pixels from bottom to top.
_DIGITS = {"1/s": 4}
_OTHER_DIGITS = 3


@dataclass(frozen=True)
class SeriesAssets:
    """What a page with time series carries beside its blocks.

    Attributes:
        policy: the sources of scripts that its Content-Security-Policy allows.
        data: JSON with nothing in it that ends a script element.
        licence: of the library among the scripts.
    """

    style: str
    scripts: tuple[str, ...]
    policy: str
    data: str
    licence: str


def series_of(blocks: Iterable[Block]) -> Iterator[TimeSeries]:
    """Yield all time series in their order, those within details, too."""
    return of_kind(TimeSeries, blocks)


def series_assets(figures: Sequence[TimeSeries]) -> SeriesAssets:
    """Return what a page with these figures, in this order, carries."""
    scripts = (_asset("uplot/uPlot.iife.min.js"), _asset("time_series.js"))
    style = _asset("uplot/uPlot.min.css") + _asset("time_series.css")
    policy, data = script_policy(scripts), series_json(figures)
    return SeriesAssets(style, scripts, policy, data, _asset("uplot/LICENSE"))


def script_policy(scripts: Iterable[str]) -> str:
    """Return the sources of a Content-Security-Policy that allows these scripts and no others."""
    hashes = (base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in scripts)
    return " ".join(f"'sha256-{one}'" for one in hashes)


def series_json(figures: Sequence[TimeSeries]) -> str:
    """Return the recordings, each once, and which of them each figure shows."""
    recordings: dict[str, Recording] = {}
    for figure in figures:
        for recording in (figure.recording, *figure.others):
            assert recordings.setdefault(recording.name, recording) == recording, recording.name
    places = {name: at for at, name in enumerate(recordings)}
    data = {
        "recordings": [_recording(one) for one in recordings.values()],
        "figures": [
            {
                "here": places[one.recording.name],
                "others": [places[other.name] for other in one.others],
                "overlay": places[one.overlay] if one.overlay else None,
                **({"all": True} if one.is_of_all else {}),
            }
            for one in figures
        ],
    }
    # Here: the terminal shows no such series, and does not wait for Jinja.
    from jinja2.utils import htmlsafe_json_dumps

    return htmlsafe_json_dumps(data, separators=(",", ":"), allow_nan=False)


def _recording(recording: Recording) -> dict[str, Any]:
    # Most lines of a recording were read at the same moments, which then stand there once.
    times: dict[tuple[int, ...], int] = {}
    colours = {mark.kind: mark.colour for mark in recording.marks}
    kinds = list(colours)
    return {
        "name": recording.name,
        "length": _rounded(recording.length_s, 6),
        **({} if recording.began_unix_s is None else {"began": round(recording.began_unix_s, 3)}),
        "panels": [
            {
                "title": panel.title,
                "unit": panel.unit,
                "traces": [
                    {
                        "label": one.label,
                        "colour": one.colour,
                        "times": times.setdefault(_edges_ms(one), len(times)),
                        "values": [
                            _rounded(x, _DIGITS.get(panel.unit, _OTHER_DIGITS)) for x in one.values
                        ],
                    }
                    for one in panel.traces
                ],
            }
            for panel in recording.panels
        ],
        "times": list(times),
        "kinds": list(colours.items()),
        "marks": [
            [
                kinds.index(one.kind),
                _rounded(one.start_s, 6),
                _rounded(one.end_s, 6),
                one.count,
                one.text,
            ]
            for one in recording.marks
        ],
    }


def _edges_ms(trace: Trace) -> tuple[int, ...]:
    """Return where the first interval begins, then how long each is, in whole milliseconds."""
    edges = [round(t_s * 1000) for t_s in (trace.begin_s, *trace.times_s)]
    return (edges[0], *(later - earlier for earlier, later in pairwise(edges)))


def _rounded(value: float | None, digits: int) -> float | None:
    """Return a rounded number, as an integer where possible, since JSON then needs no point."""
    if value is None:
        return None
    short = float(f"{value:.{digits}g}")
    return int(short) if short.is_integer() else short


@cache
def _asset(path: str) -> str:
    return files("pgdrag.report").joinpath("assets", path).read_text(encoding="utf-8")

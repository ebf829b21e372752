"""What does a page need so that its time series can be zoomed: styles, scripts, data, and leave to run?

A page is one file that requests nothing and runs nothing but these scripts: its policy names them by
their hashes. What was measured stands beside them as JSON, which no browser runs.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise

from pgdrag.report.document import Block, Details, Mark, Panel, Recording, TimeSeries, Trace

# As many as the page tells; a line has some hundred pixels from bottom to top.
_DIGITS = {"1/s": 4}
_OTHER_DIGITS = 3
# Within a script element only "<" could end it; the two line ends are none in older JavaScript.
_ESCAPES = {"<": "\\u003c", "\u2028": "\\u2028", "\u2029": "\\u2029"}


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
    for block in blocks:
        if isinstance(block, TimeSeries):
            yield block
        elif isinstance(block, Details):
            yield from series_of(block.blocks)


def series_assets(figures: Sequence[TimeSeries]) -> SeriesAssets:
    """Return what a page with these figures, in this order, carries."""
    scripts = (_asset("uplot/uPlot.iife.min.js"), _asset("time_series.js"))
    style = _asset("uplot/uPlot.min.css") + _asset("time_series.css")
    policy = " ".join(f"'sha256-{_hash(script)}'" for script in scripts)
    return SeriesAssets(style, scripts, policy, series_json(figures), _asset("uplot/LICENSE"))


def series_json(figures: Sequence[TimeSeries]) -> str:
    """Return the recordings, each once, and which of them each figure shows."""
    recordings: dict[str, Recording] = {}
    for figure in figures:
        for recording in (figure.recording, *figure.others):
            assert recordings.setdefault(recording.name, recording) == recording, recording.name
    places = {name: at for at, name in enumerate(recordings)}
    text = _object(
        recordings=_array(_recording(one) for one in recordings.values()),
        figures=_array(_figure(one, places) for one in figures),
    )
    for sign, escape in _ESCAPES.items():
        text = text.replace(sign, escape)
    return text


def _figure(figure: TimeSeries, places: Mapping[str, int]) -> str:
    return _object(
        here=str(places[figure.recording.name]),
        others=_array(str(places[other.name]) for other in figure.others),
        overlay=str(places[figure.overlay]) if figure.overlay else "null",
    )


def _recording(recording: Recording) -> str:
    # Most lines of a recording were read at the same moments, which then stand there once.
    times: dict[tuple[int, ...], int] = {}
    panels = [_panel(panel, times) for panel in recording.panels]
    colours = {mark.kind: mark.colour for mark in recording.marks}
    kinds = tuple(colours)
    return _object(
        name=json.dumps(recording.name),
        length=_number(recording.length_s, 6),
        times=_array(_array(map(str, one)) for one in times),
        panels=_array(panels),
        kinds=_array(_array((json.dumps(kind), str(colours[kind]))) for kind in kinds),
        marks=_array(_mark(mark, kinds) for mark in recording.marks),
    )


def _panel(panel: Panel, times: dict[tuple[int, ...], int]) -> str:
    digits = _DIGITS.get(panel.unit, _OTHER_DIGITS)
    traces = [
        _trace(trace, times.setdefault(_edges_ms(trace), len(times)), digits)
        for trace in panel.traces
    ]
    return _object(
        title=json.dumps(panel.title), unit=json.dumps(panel.unit), traces=_array(traces)
    )


def _trace(trace: Trace, times: int, digits: int) -> str:
    return _object(
        label=json.dumps(trace.label),
        colour=str(trace.colour),
        times=str(times),
        values=_array(_number(value, digits) for value in trace.values),
    )


def _edges_ms(trace: Trace) -> tuple[int, ...]:
    """Return where the first interval begins, then how long each is, in whole milliseconds."""
    edges = [round(t_s * 1000) for t_s in (trace.begin_s, *trace.times_s)]
    return (edges[0], *(later - earlier for earlier, later in pairwise(edges)))


def _mark(mark: Mark, kinds: Sequence[str]) -> str:
    place = kinds.index(mark.kind)
    times = (_number(at, 6) for at in (mark.start_s, mark.end_s))
    return _array((str(place), *times, str(mark.count), json.dumps(mark.text, ensure_ascii=False)))


def _number(value: float | None, digits: int) -> str:
    """Return a number in as few characters as its digits need: `12340000` is `1234e4`."""
    if value is None:
        return "null"
    assert math.isfinite(value), value
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = fraction.rstrip("0")
    short = f"{int(whole + fraction)}e{int(exponent) - len(fraction)}"
    plain = f"{float(f'{value:.{digits}g}'):.15g}"
    return min(plain, short, key=len)


def _object(**members: str) -> str:
    return f"{{{','.join(f'{json.dumps(name)}:{text}' for name, text in members.items())}}}"


def _array(items: Iterable[str]) -> str:
    return f"[{','.join(items)}]"


@cache
def _asset(path: str) -> str:
    return files("pgdrag.report").joinpath("assets", path).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()

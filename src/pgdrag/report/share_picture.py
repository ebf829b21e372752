"""The verdict as a picture to share: PNG, 1,200 by 630 pixels, which is what messengers and issues show of a link."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pgdrag.errors import UsageError
from pgdrag.findings.values import Findings
from pgdrag.report.document import of_kind
from pgdrag.report.rows_chart import Row, RowsFigure, extent, is_bound, shown_ratio
from pgdrag.report.sections import sections_for
from pgdrag.report.svg import LogScale, tick_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _HEIGHT, _DPI = 1200, 630, 100
_PAPER, _INK, _MUTED, _RULE = "#fcfcfa", "#1b1d20", "#5b626b", "#dcdcd6"
_BAR, _PUBLISHED = "#b9d0e6", "#a8480a"
_MOST_ROWS = 8
_TITLE_LENGTH, _LINE_LENGTH, _MOST_LINES = 60, 84, 4  # characters, and lines of the verdict
_NAME_LENGTH = 34
_LEFT, _RIGHT = 0.05, 0.95  # of the width
_PLOT_LEFT, _PLOT_RIGHT, _PLOT_BOTTOM = 0.34, 0.78, 0.17
_LINE, _ROW = 0.058, 0.062  # heights, of the whole
_NO_ENDS = 20.0  # a whisker reaches no further from its estimate


def render_png(findings: Findings) -> bytes:
    """Return the verdict, above the rows of the report's first picture of ratios where it has one.

    Raises:
        UsageError: the library that draws it is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise UsageError(
            "a picture needs the package matplotlib, which is not installed",
            hint="Run pip install 'pgdrag[png]', or take --format html.",
        ) from None
    run, study = findings.run, findings.run.study
    figure = Figure(figsize=(_WIDTH / _DPI, _HEIGHT / _DPI), dpi=_DPI, facecolor=_PAPER)

    def text(y: float, words: str, size: float, colour: str, weight: str = "normal") -> None:
        # In a title, "$" begins no formula.
        figure.text(
            _LEFT, y, words, size=size, color=colour, weight=weight, va="top", parse_math=False
        )

    lines = textwrap.wrap(findings.answer, _LINE_LENGTH, max_lines=_MOST_LINES, placeholder=" …")
    title = textwrap.shorten(study.title or study.name, _TITLE_LENGTH, placeholder=" …")
    text(0.95, f"pgdrag · {study.name} · PostgreSQL {run.server_version}", 11, _MUTED)
    text(0.905, title, 21, _INK, "bold")
    text(0.82, "\n".join(lines), 15, _INK)
    rows = _rows(findings)
    if rows:
        top = 0.79 - _LINE * len(lines)
        height = min(_ROW * len(rows), top - _PLOT_BOTTOM)
        axes = figure.add_axes((_PLOT_LEFT, top - height, _PLOT_RIGHT - _PLOT_LEFT, height))
        _draw(axes, rows)
    machine = f"{run.run_id} · {run.host.cpu_model}, {run.host.cpu_count} processors"
    legend = " · ◇ published" if any(row.published is not None for row in rows) else ""
    text(0.07, f"{machine}{legend}", 10, _MUTED)
    out = io.BytesIO()
    figure.savefig(out, format="png", facecolor=_PAPER, metadata={"Software": "pgdrag"})
    return out.getvalue()


def _rows(findings: Findings) -> Sequence[Row]:
    """Return the rows of the first picture that has any: of many those that differ most, in their order."""
    blocks = (x for section in sections_for(findings) for x in section.blocks(findings))
    rows = next((one.rows for one in of_kind(RowsFigure, blocks)), ())
    ranked = sorted(range(len(rows)), key=lambda at: -_size(rows[at]))[:_MOST_ROWS]
    return [row for at, row in enumerate(rows) if at in ranked]


def _size(row: Row) -> float:
    return 0.0 if row.found is None else abs(math.log(shown_ratio(row.found)))


def _draw(axes: Axes, rows: Sequence[Row]) -> None:
    """Draw a line a row, from top to bottom, on a logarithmic axis of ratios; right is slower."""
    scale = LogScale.around([1.0, *(ratio for row in rows for ratio in extent(row))])
    axes.set_facecolor(_PAPER)
    axes.set_xlim(0, 100)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks([])
    axes.set_xticks([scale.at(tick) for tick in scale.ticks()])
    axes.set_xticklabels([tick_words(tick) for tick in scale.ticks()])
    axes.tick_params(length=0, labelsize=10, labelcolor=_MUTED)
    axes.grid(visible=True, axis="x", color=_RULE, linewidth=1)
    axes.set_axisbelow(True)
    axes.spines[:].set_visible(False)
    no_change = scale.at(1.0)
    axes.axvline(no_change, color=_MUTED, linewidth=1)
    beside = (_PLOT_RIGHT - _PLOT_LEFT) / 100  # one per cent of the plot's width, of the whole
    for at, row in enumerate(rows):
        name = " ".join(filter(None, (row.name, row.aside)))
        name = name if len(name) <= _NAME_LENGTH else f"{name[: _NAME_LENGTH - 1].rstrip()}…"
        axes.text(
            (_LEFT - _PLOT_LEFT) / beside,
            at,
            name,
            size=11,
            color=_INK,
            va="center",
            parse_math=False,
        )
        words = (row.words or row.before_words).partition(" (")[0]  # whiskers show bounds
        axes.text(
            (_RIGHT - _PLOT_LEFT) / beside,
            at,
            words,
            size=11,
            color=_INK,
            va="center",
            ha="right",
            parse_math=False,
        )
        if row.published is not None:
            axes.plot(scale.at(row.published), at, "D", mfc="none", mec=_PUBLISHED, mew=2, ms=8)
        if row.found is None:
            axes.plot(no_change, at, "o", color=_INK, ms=7)
            continue
        found, here = row.found, scale.at(shown_ratio(row.found))
        axes.barh(at, here - no_change, left=no_change, height=0.35, color=_BAR)
        if is_bound(found):
            axes.plot(here, at, ">" if math.isinf(found.center) else "<", color=_INK, ms=9)
            continue
        ends = [max(found.low, found.center / _NO_ENDS), min(found.high, found.center * _NO_ENDS)]
        axes.plot([scale.at(x) for x in ends], [at, at], color=_INK, linewidth=1.5)
        axes.plot(here, at, "D" if row.is_whole else "o", color=_INK, ms=7)

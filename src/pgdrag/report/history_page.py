"""How does a history read? The same blocks for a page, a terminal and Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from statistics import geometric_mean

import pgdrag
from pgdrag.english import as_sentence, counted, listed, listed_some, percent_words
from pgdrag.findings.history import History, LevelChange, PastRun, TreatmentHistory
from pgdrag.findings.values import Interval
from pgdrag.findings.wording import inverse, slowdown_words
from pgdrag.report.cells import bare_ratio, bounds_words
from pgdrag.report.document import Block, Cell, Details, Heading, Paragraph, Tone, table_of
from pgdrag.report.html import PageHead, PagePart, render_page
from pgdrag.report.rows_chart import Row, rows_figure
from pgdrag.units import format_number, format_rate, format_ratio

_MOST_ROWS, _MOST_LINES = 40, 20  # of a picture: on a page, and in a terminal
_MOST_DIFFERENCES = 6


def history_blocks(found: History, *, has_details: bool = True) -> Iterator[Block]:
    """Yield the answer, and of each treatment its changes, a picture and its runs.

    Args:
        has_details: with each run's number, and the runs that were left out.
    """
    yield Paragraph(_answer(found), is_lead=True)
    for one in sorted(found.treatments, key=lambda x: not x.changes):
        yield from _of_treatment(found, one, _MOST_ROWS if has_details else _MOST_LINES)
    if found.left_out:
        reasons: dict[str, list[str]] = {}
        for left in found.left_out:
            reasons.setdefault(left.why, []).append(left.run_id)
        texts = [f"{why}: {listed_some(ids, 3)}" for why, ids in reasons.items()]
        yield Paragraph(as_sentence(f"not compared: {'; '.join(texts)}"), Tone.MUTED)
    if has_details and found.runs:
        yield Details(f"All {counted(len(found.runs), 'run')}", (_runs_table(found),))
    yield Paragraph(_method(found), Tone.MUTED)


def render_history_html(found: History) -> str:
    """Return a self-contained HTML page."""
    head = PageHead(
        eyebrow=f"pgdrag history · {found.experiment} · {_scale(found)}",
        title=found.experiment,
        question="When did it get slower or faster, and what was changed then?",
        footer=f"Made by pgdrag {pgdrag.__version__} from {counted(len(found.runs), 'run')}.",
    )
    return render_page(head, [PagePart("history", "History", [*history_blocks(found)])])


def _answer(found: History) -> str:
    changes = [(one.treatment, change) for one in found.treatments for change in one.changes]
    runs = f"{counted(len(found.runs), 'run')} of {found.experiment} ({_scale(found)})"
    most = max((len(one.runs) for one in found.treatments), default=0)
    needed = min((one.runs_needed for one in found.treatments), default=0)
    if not changes and most < needed:
        return f"No answer yet: {runs}; a change can be found in {needed} or more."
    if not changes:
        return f"No change found in {runs}."
    dates = _dates(found)
    words = [
        f"{name} became {slowdown_words(change.slowdown)} from {dates[change.after]} on"
        for name, change in sorted(changes, key=lambda x: dates[x[1].after], reverse=True)
    ]
    return f"{counted(len(changes), 'change')} in {runs}: {listed_some(words, 3)}."


def _of_treatment(found: History, one: TreatmentHistory, most: int) -> Iterator[Block]:
    name, dates = one.treatment, _dates(found)
    yield Heading(name, counted(len(one.runs), "run"))
    if len(one.runs) < one.runs_needed:
        more = one.runs_needed - len(one.runs)
        yield Paragraph(
            f"Too few to find a change: {counted(more, 'more run')} of {name} at least.",
            Tone.WARNING,
        )
    if one.changes:
        columns: Mapping[str, Callable[[LevelChange], Cell | str]] = {
            "From": lambda x: Cell(dates[x.after], x.after, is_strong=True),
            ">Effect": lambda x: slowdown_words(x.slowdown),
            ">p": lambda x: format_number(x.p, significant=2),
            "What differs from the run before": lambda x: _differences_words(x),
        }
        yield table_of(f"Changes of {name}", one.changes, columns)
    if len(one.runs) > 1:
        yield _picture(found, one, most)


def _differences_words(change: LevelChange) -> str:
    words = [x.words for x in change.differences]
    return listed_some(words, _MOST_DIFFERENCES) if words else "nothing that a run records"


def _picture(found: History, one: TreatmentHistory, most: int) -> Block:
    """Draw each run against the mean of those up to the first change; of many runs the older ones together."""
    values = {run.run_id: run.values[one.treatment] for run in found.runs if run.run_id in one.runs}
    first = one.changes[0].after if one.changes else ""
    level = one.runs[: one.runs.index(first)] if first else one.runs
    mean = geometric_mean([values[x].center for x in level])
    changed = {change.after: change for change in one.changes}
    dates = _dates(found)
    rows, together = [], 1
    for ids in _grouped(one.runs, changed.keys(), most):
        value = values[ids[0]]
        if len(ids) > 1:
            centers = [values[x].center for x in ids]
            mid, together = geometric_mean(centers), max(together, len(ids))
            value = replace(value, low=min(centers), center=mid, high=max(centers))
        words = _value_words(found, value)
        if (change := changed.get(ids[0])) is not None:
            words = f"{words} ← {slowdown_words(change.slowdown).partition(' (')[0]}"
        slowdown = _relative(value, mean, is_rate=found.quantity == "throughput")
        rows.append(Row(dates[ids[0]], words=words, found=slowdown))
    level_words = "up to the first change" if first else "of all runs"
    caption = (
        f"Each run of {one.treatment} with its interval, as a slowdown against the mean {level_words}. Logarithmic "
        "scale; further right is slower."
    )
    if together > 1:
        caption += f" A row of older runs has up to {together} of them: the date of the first, their mean, the slowest and the fastest."
    title = f"{one.treatment} over time"
    at = [x.treatment for x in found.treatments].index(one.treatment)
    return rows_figure(rows, title, caption, caption, name=f"history-{at}")


def _grouped(runs: Sequence[str], changes: Collection[str], most: int) -> Iterator[Sequence[str]]:
    """Yield the runs of each row: the newest one by one, older ones together, but not those around a change."""
    older = runs[: max(len(runs) - most // 2, 0)] if len(runs) > most else ()
    size = math.ceil(len(older) / (most - most // 2)) or 1
    starts = [at for at, run in enumerate(older) if run in changes]
    for begin, end in pairwise([0, *starts, len(older)]):
        yield from (older[at : min(at + size, end)] for at in range(begin, end, size))
    yield from ((run,) for run in runs[len(older) :])


def _relative(value: Interval, mean: float, *, is_rate: bool) -> Interval:
    low, center, high = value.low / mean, value.center / mean, value.high / mean
    if is_rate:
        low, center, high = inverse(high), inverse(center), inverse(low)
    return replace(value, low=low, center=center, high=high)


def _value_words(found: History, value: Interval) -> str:
    form = format_rate if found.quantity == "throughput" else format_ratio
    return form(value.center)


def _runs_table(found: History) -> Block:
    def cell(name: str) -> Callable[[PastRun], Cell | str]:
        form = format_number if found.quantity == "throughput" else bare_ratio

        def of_run(run: PastRun) -> Cell | str:
            value = run.values.get(name)
            if value is None:
                return "–"
            return Cell(_value_words(found, value), bounds_words(value, form))

        return of_run

    dates = _dates(found)
    columns: dict[str, Callable[[PastRun], Cell | str]] = {
        "Run": lambda run: Cell(run.run_id, dates[run.run_id], is_strong=True),
        "PostgreSQL": lambda run: run.server_version,
        "pgdrag": lambda run: run.pgdrag_version,
    }
    columns |= {f">{one.treatment}": cell(one.treatment) for one in found.treatments}
    return table_of("Every run, the oldest first", found.runs, columns)


def _dates(found: History) -> dict[str, str]:
    """Return when each run began, to the day, or to the minute where two began on one day."""
    times = {x.run_id: datetime.fromtimestamp(x.started_unix_s, UTC) for x in found.runs}
    days = [time.strftime("%Y-%m-%d") for time in times.values()]
    form = "%Y-%m-%d" if len(set(days)) == len(days) else "%Y-%m-%d %H:%M"
    return {run_id: time.strftime(form) for run_id, time in times.items()}


def _method(found: History) -> str:
    what = "throughput" if found.quantity == "throughput" else "the slowdown against the baseline"
    names = listed([one.treatment for one in found.treatments])
    return (
        f"Compared: {what} of {names}. If nothing changed, at most {percent_words(found.false_alarms)} of such histories "
        "show a change. A single run that differs is not called a change; several in a row are. What differs between two "
        "runs need not be the cause."
    )


def _scale(found: History) -> str:
    return found.scale if "," in found.scale else f"scale {found.scale}"

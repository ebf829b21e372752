"""What is a report made of, independent of the format?

A section hands out blocks; a renderer prints them. All text is plain and unescaped: escaping is the
renderer's work. Meaning never lies in a tone alone: the words say it, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from html import unescape
from typing import TypeVar

from pgdrag.model.recordings import SeriesUnit


class Tone(StrEnum):
    """What a text means to its reader."""

    PLAIN = "plain"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"
    MUTED = "muted"


class Shade(StrEnum):
    """Whether a cell's number is more or less of something: its colour. The text says it, too."""

    NONE = ""
    MORE = "more"
    MUCH_MORE = "more large"
    LESS = "less"
    MUCH_LESS = "less large"


class Align(StrEnum):
    """Where the text of a column stands."""

    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True)
class Cell:
    """One cell of a table, or one value.

    Attributes:
        note: what stands below in smaller type: an interval, a title, a reason.
        is_strong: worth finding at a glance.
        url: where the text leads, or "".
        anchor: under which a link finds it in a page, such as `trial-12`, or "".
    """

    text: str
    note: str = ""
    tone: Tone = Tone.PLAIN
    is_strong: bool = False
    url: str = ""
    shade: Shade = Shade.NONE
    anchor: str = ""


NOTHING = Cell("–", tone=Tone.MUTED)  # the cell is empty on purpose


@dataclass(frozen=True)
class Column:
    """One column of a table; numbers stand on the right."""

    title: str
    align: Align = Align.LEFT


def header(*titles: str) -> tuple[Column, ...]:
    """Return a table's columns; ">" before a title puts a column on the right."""
    return tuple(Column(x[1:], Align.RIGHT) if x[:1] == ">" else Column(x) for x in titles)


@dataclass(frozen=True)
class Heading:
    """A heading within a section; `aside` stands beside it in smaller type."""

    text: str
    aside: str = ""


@dataclass(frozen=True)
class Paragraph:
    """Running text. The lead is the one that a hurried reader reads."""

    text: str
    tone: Tone = Tone.PLAIN
    is_lead: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first cell of a row names the row.

    Attributes:
        caption: what the table shows, for those who cannot see where it stands.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            assert len(row) == len(self.columns), f"{self.caption}: {len(row)} cells in a row"


T = TypeVar("T")


def table_of(
    caption: str, items: Iterable[T], columns: Mapping[str, Callable[[T], Cell | str]]
) -> Table:
    """Return a table with a row an item, without the columns that have nothing in any row.

    Args:
        columns: the title, as for `header`, and how the column's cell is made of an item.
    """
    cells = [[make(item) for make in columns.values()] for item in items]
    rows = [[Cell(x) if isinstance(x, str) else x for x in row] for row in cells]
    kept = [at for at in range(len(columns)) if any(row[at].text not in ("", "–") for row in rows)]
    titles = list(columns)
    return Table(
        caption,
        header(*(titles[at] for at in kept)),
        tuple(tuple(row[at] for at in kept) for row in rows),
    )


@dataclass(frozen=True)
class Figure:
    """A picture.

    Attributes:
        svg: finished SVG, all text in it escaped.
        caption: how to read it.
        text: the same in lines of plain text; "" where a table beside it says as much.
    """

    svg: str
    caption: str
    text: str = ""

    @property
    def title(self) -> str:
        """What the picture itself says that it shows."""
        found = re.search(r"<title[^>]*>(.*?)</title>", self.svg)
        return "" if found is None else unescape(found[1])


@dataclass(frozen=True)
class Trace:
    """One line over time, drawn in steps: each value holds for the whole interval before its time.

    Attributes:
        begin_s: where the first interval begins.
        times_s: the end of each interval, growing.
        values: of each interval; None where there is none, which leaves a gap.
        colour: 1 to 6; what is the same in two pictures has the same.
    """

    label: str
    begin_s: float
    times_s: tuple[float, ...]
    values: tuple[float | None, ...]
    colour: int = 1

    def __post_init__(self) -> None:
        assert len(self.times_s) == len(self.values), self.label
        assert 1 <= self.colour <= 6, self.label


@dataclass(frozen=True)
class Panel:
    """Lines of one unit, over the time axis that all panels of a recording share."""

    title: str
    unit: SeriesUnit
    traces: tuple[Trace, ...]


@dataclass(frozen=True)
class Mark:
    """Something that happened at a moment, or from one moment to another (`end_s` is not None).

    Attributes:
        text: what else is known of it, or "".
        count: how many alike it stands for; then the text is that of the first.
        colour: 1 (the server's own upkeep) to 4; marks of one kind have the same.
    """

    kind: str
    start_s: float
    end_s: float | None
    text: str = ""
    count: int = 1
    colour: int = 1


@dataclass(frozen=True)
class Recording:
    """What was seen of one trial, or of a stretch of time; times are seconds from the start of its window.

    Attributes:
        name: what it is of; no other recording in a document has the same.
        began_unix_s: when the window began, where the axis has the time of day.
    """

    name: str
    length_s: float
    panels: tuple[Panel, ...]
    marks: tuple[Mark, ...] = ()
    began_unix_s: float | None = None


@dataclass(frozen=True)
class TimeSeries:
    """Panels one below the other over one time axis: to be zoomed where scripts run, else text.

    Attributes:
        others: what the reader may lay over it.
        overlay: the name of the one of these that is laid over it from the start, or "".
        is_of_all: each quantity has a panel with a line for each recording, this one and the others.
        text: the same in lines of plain text.
        change: how much there is to see in it: what has least is left out first where there is no room.
    """

    recording: Recording
    others: tuple[Recording, ...]
    overlay: str
    caption: str
    text: str
    change: float = math.inf
    is_of_all: bool = False

    def __post_init__(self) -> None:
        assert self.overlay in ("", *(one.name for one in self.others)), self.overlay


@dataclass(frozen=True)
class KeyValues:
    """Names with their values."""

    pairs: tuple[tuple[str, Cell], ...]


@dataclass(frozen=True)
class Note:
    """Something that must not be overlooked: one or several sentences under a title.

    Attributes:
        source: who says so, or None.
    """

    title: str
    texts: tuple[str, ...]
    tone: Tone = Tone.PLAIN
    source: Cell | None = None


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Lines:
    """Lines of text in which each blank counts."""

    text: str


@dataclass(frozen=True)
class Details:
    """Blocks for those who ask for them."""

    summary: str
    blocks: tuple[Block, ...]


Block = (
    Heading | Paragraph | Table | Figure | TimeSeries | KeyValues | Note | Items | Lines | Details
)


def of_kind(kind: type[T], blocks: Iterable[Block]) -> Iterator[T]:
    """Yield all blocks of a kind in their order, those within details, too."""
    for block in blocks:
        if isinstance(block, kind):
            yield block
        elif isinstance(block, Details):
            yield from of_kind(kind, block.blocks)

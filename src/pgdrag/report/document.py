"""What is a report made of, whatever it is printed on?

A section hands out blocks; a renderer prints them. All text is plain and unescaped: escaping is the
renderer's work. Meaning never lies in a tone alone: the words say it, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Tone(StrEnum):
    """What a text means to its reader."""

    PLAIN = "plain"
    GOOD = "good"
    DOUBT = "doubt"
    BAD = "bad"
    MUTED = "muted"


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
    """

    text: str
    note: str = ""
    tone: Tone = Tone.PLAIN
    is_strong: bool = False
    url: str = ""


@dataclass(frozen=True)
class Column:
    """One column of a table; numbers stand on the right."""

    title: str
    align: Align = Align.LEFT


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
class Details:
    """Blocks for those who ask for them."""

    summary: str
    blocks: tuple[Block, ...]


Block = Heading | Paragraph | Table | Figure | KeyValues | Note | Items | Details

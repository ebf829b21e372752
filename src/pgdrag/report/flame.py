"""What does a flame graph look like: of one profile, and of what changed between two?

Each function is a box on the one that called it, as wide as its share of the processor time. In the
difference of two profiles a box is as wide as both together, and its colour says which has more of it.
What is too narrow to see is drawn as one box beside its neighbours, so that widths keep their sum.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from statistics import NormalDist
from typing import Literal

from pgdrag.model.recordings import Stack
from pgdrag.report import svg

REST = "…"
KERNEL = "_[k]"
MOST_BOXES = 300
_THINNEST = 1 / 1000  # of the whole: a pixel or so
_LEGEND, _ROW = 26, 17  # heights
_PAPER = 1040  # the picture's usual width, to tell which text fits
_LETTER = 6.4
_SHORTEST = 4  # letters that still say something
# The chance of one or more false positives among all that is compared in a picture.
_CHANCE = 0.05
_OF_ONE = (("server", "the server and its libraries"), ("kernel", f"the kernel ({KERNEL})"))
_OF_TWO = (("more", "more"), ("less", "less"), ("same", "alike, or too few samples to tell"))

Change = Literal["more", "less", "same"]


@dataclass(frozen=True)
class Box:
    """One function, called as its ancestors say, or what is left of narrow ones.

    Attributes:
        depth: 0 is the type of process.
        left, width: parts of the whole, 0…1.
        before, after: samples of each profile; of one profile alone, `before` is 0.
    """

    depth: int
    left: float
    width: float
    name: str
    before: int
    after: int


@dataclass(frozen=True)
class Scales:
    """What a sample of each profile weighs: seconds per transaction, or its part of the whole.

    Attributes:
        words: a weight for people: "1.2 ms", "12.3 %".
    """

    before: float
    after: float
    words: Callable[[float], str]

    def weight(self, before: int, after: int) -> float:
        """Return the weight of this many samples of both profiles together."""
        return before * self.before + after * self.after


@dataclass(frozen=True)
class Difference:
    """How much a function weighs itself in two profiles."""

    name: str
    before: float
    after: float
    change: Change


def share_words(share: float) -> str:
    """Return a part of the whole as `12.3 %`."""
    return f"{share * 100:.1f} %"


def by_share(before: Sequence[Stack], after: Sequence[Stack]) -> Scales:
    """Return scales that compare the shares of two profiles, whatever their totals."""
    first, second = (sum(stack.samples for stack in stacks) for stacks in (before, after))
    return Scales(1 / first if first else 0.0, 1 / second if second else 0.0, share_words)


def own_differences(
    before: Sequence[Stack], after: Sequence[Stack], scales: Scales
) -> list[Difference]:
    """Return what each function weighs itself in both profiles, the largest change first."""
    first, second = _own(before), _own(after)
    names = first.keys() | second.keys()
    found = [
        Difference(
            name,
            first[name] * scales.before,
            second[name] * scales.after,
            change_of(first[name], second[name], scales, compared=len(names)),
        )
        for name in names
    ]
    return sorted(found, key=lambda one: (-abs(one.after - one.before), one.name))


def _own(stacks: Iterable[Stack]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for stack in stacks:
        counts[stack.frames[-1]] += stack.samples
    return counts


def change_of(before: int, after: int, scales: Scales, *, compared: int) -> Change:
    """Tell whether two counts of samples differ by more than counting alone would make them.

    Args:
        compared: so many pairs of counts are, whose chances of error add up (Bonferroni).
    """
    difference = after * scales.after - before * scales.before
    error = math.sqrt(before * scales.before**2 + after * scales.after**2)
    errors_allowed = -NormalDist().inv_cdf(_CHANCE / 2 / max(compared, 1))
    if abs(difference) <= errors_allowed * error:
        return "same"
    return "more" if difference > 0 else "less"


def boxes(
    before: Sequence[Stack], after: Sequence[Stack], scales: Scales, *, most: int = MOST_BOXES
) -> tuple[Box, ...]:
    """Return where each box stands; the widest where there would be too many.

    Boxes upon another are never wider together than it is; the rest of it is the function's own time.
    """
    counts: defaultdict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
    for side, stacks in enumerate((before, after)):
        for stack in stacks:
            for depth in range(len(stack.frames) + 1):
                counts[stack.frames[:depth]][side] += stack.samples
    whole = scales.weight(*counts[()])
    if not whole:
        return ()
    widths = {path: scales.weight(*both) / whole for path, both in counts.items() if path}
    # A caller is as wide as what it calls, and comes first.
    wide = [path for path, width in widths.items() if width >= _THINNEST]
    shown = set(sorted(wide, key=lambda path: (-widths[path], len(path), path))[:most])
    free: dict[tuple[str, ...], float] = {(): 0.0}  # where the next box upon each begins
    found = []
    # By name, so that the same function stands at the same place in every picture.
    for path in sorted(shown):
        caller = path[:-1]
        left = free[caller]
        free[path], free[caller] = left, left + widths[path]
        found.append(Box(len(caller), left, widths[path], path[-1], *counts[path]))
    narrow: defaultdict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0])
    for path in widths.keys() - shown:
        if (caller := path[:-1]) in free:
            narrow[caller] = [x + y for x, y in zip(narrow[caller], counts[path], strict=True)]
    for caller, both in sorted(narrow.items()):
        if (width := scales.weight(*both) / whole) >= _THINNEST:
            found.append(Box(len(caller), free[caller], width, REST, *both))
    return tuple(found)


def flame_graph(
    before: Sequence[Stack],
    after: Sequence[Stack],
    scales: Scales,
    *,
    name: str,
    title: str,
    previous: str = "",
    most: int = MOST_BOXES,
) -> str:
    """Return the flame graph of two profiles together, coloured by which has more of a box.

    Args:
        before: empty for the flame graph of one profile alone.
        name: unique in the document.
        previous: what the profile before is of.
    """
    drawn = boxes(before, after, scales, most=most)

    def kind(box: Box) -> str:
        if not before:
            is_type = box.depth == 0 or box.name == REST
            return "type" if is_type else "kernel" if box.name.endswith(KERNEL) else "server"
        change = change_of(box.before, box.after, scales, compared=len(drawn))
        first, second = box.before * scales.before, box.after * scales.after
        # Three times as much, or a third, is a difference to be seen from afar.
        is_large = abs(second - first) >= (first + second) / 2
        return f"{change} large" if is_large and change != "same" else change

    def words(box: Box) -> str:
        now = f"{box.name}: {scales.words(box.after * scales.after)}"
        if not before:
            return f"{now}, {box.after:,} samples"
        return f"{now}, on {previous} {scales.words(box.before * scales.before)}"

    rows = 1 + max((box.depth for box in drawn), default=0)
    parts = svg.legend(_OF_TWO if before else _OF_ONE)
    for box in drawn:
        # A picture within the picture: text that does not fit is cut off at its edge.
        label = _fitting(box.name, box.width * _PAPER)
        text = f'<text x="3" y="12">{escape(label)}</text>' if label else ""
        parts.append(
            f'<svg x="{box.left * 100:.2f}%" y="{_LEGEND + (rows - 1 - box.depth) * _ROW}"'
            f' width="{box.width * 100:.2f}%" height="{_ROW}">'
            f'<title>{escape(words(box))}</title><rect class="{kind(box)}"/>{text}</svg>'
        )
    flame = f'<g class="flame">{"".join(parts)}</g>'
    widest = "; ".join(words(box) for box in drawn if box.depth == 0)
    return svg.picture(name, title, widest, _LEGEND + rows * _ROW, [flame])


def _fitting(name: str, width: float) -> str:
    letters = int((width - 5) / _LETTER)
    if len(name) <= letters:
        return name
    return f"{name[: letters - 1]}…" if letters > _SHORTEST else ""

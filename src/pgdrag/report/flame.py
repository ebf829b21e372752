"""What does a flame graph look like: of one profile, and of what changed between two?

Each function is a box on the one that called it, as wide as its share of the processor time. In the
difference of two profiles a box is as wide as both together, and its colour says which has more of it.
What is too narrow to see is drawn as one box beside its neighbours, so that widths keep their sum.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
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
_LETTER, _LEGEND_LETTER = 6.4, 7.5
_SHORTEST = 4  # letters that still say something
# The chance of one or more false positives among all that is compared in a picture.
_CHANCE = 0.05

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


@dataclass(frozen=True)
class Difference:
    """How much a function, or a box, weighs in two profiles."""

    name: str
    before: float
    after: float
    change: Change


@dataclass
class _Node:
    name: str
    before: int = 0
    after: int = 0
    children: dict[str, _Node] = field(default_factory=dict)


def share_words(share: float) -> str:
    """Return a part of the whole as `12.3 %`."""
    return f"{share * 100:.1f} %"


def alone(stacks: Sequence[Stack]) -> Scales:
    """Return the scales of one profile, in parts of it."""
    return Scales(0.0, _per_sample(stacks), share_words)


def by_share(before: Sequence[Stack], after: Sequence[Stack]) -> Scales:
    """Return scales that compare two profiles part by part, whatever they were the profile of."""
    return Scales(_per_sample(before), _per_sample(after), share_words)


def own_shares(stacks: Iterable[Stack]) -> list[tuple[str, float]]:
    """Return the part of the samples that each function was itself in, the largest first."""
    counts = _own(stacks)
    whole = counts.total()
    return [(name, count / whole) for name, count in _ranked(counts)]


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
    root = _tree(before, after)
    whole = _weight(root, scales)
    if not whole:
        return ()
    shown = _widest(root, scales, whole, most)
    return tuple(_laid_out(root, scales, whole, shown, depth=-1, left=0.0))


def flame_graph(stacks: Sequence[Stack], *, name: str, title: str, most: int = MOST_BOXES) -> str:
    """Return the flame graph of one profile; `name` is unique in the document."""
    scales = alone(stacks)
    drawn = boxes((), stacks, scales, most=most)
    legend = (("server", "the server and its libraries"), ("kernel", f"the kernel ({KERNEL})"))

    def kind(box: Box) -> str:
        if box.depth == 0 or box.name == REST:
            return "type"
        return "kernel" if box.name.endswith(KERNEL) else "server"

    def words(box: Box) -> str:
        return f"{box.name}: {share_words(box.width)}, {box.after:,} samples"

    return _picture(drawn, legend, kind, words, name=name, title=title)


def difference_graph(
    before: Sequence[Stack],
    after: Sequence[Stack],
    scales: Scales,
    *,
    name: str,
    title: str,
    previous: str,
    most: int = MOST_BOXES,
) -> str:
    """Return the flame graph of both profiles together, coloured by which has more of a box."""
    drawn = boxes(before, after, scales, most=most)
    legend = (("more", "more"), ("less", "less"), ("same", "alike, or too few samples to tell"))

    def kind(box: Box) -> str:
        change = change_of(box.before, box.after, scales, compared=len(drawn))
        first, second = box.before * scales.before, box.after * scales.after
        # Three times as much, or a third, is a difference to be seen from afar.
        is_large = abs(second - first) >= (first + second) / 2
        return f"{change} large" if is_large and change != "same" else change

    def words(box: Box) -> str:
        now, then = (
            scales.words(box.after * scales.after),
            scales.words(box.before * scales.before),
        )
        return f"{box.name}: {now}, on {previous} {then}"

    return _picture(drawn, legend, kind, words, name=name, title=title)


def _picture(
    drawn: Sequence[Box],
    legend: Sequence[tuple[str, str]],
    kind: Callable[[Box], str],
    words: Callable[[Box], str],
    *,
    name: str,
    title: str,
) -> str:
    rows = 1 + max((box.depth for box in drawn), default=0)
    parts = [*_legend(legend)]
    parts += [
        _drawn(box, _LEGEND + (rows - 1 - box.depth) * _ROW, kind(box), words(box)) for box in drawn
    ]
    flame = f'<g class="flame">{"".join(parts)}</g>'
    widest = "; ".join(words(box) for box in drawn if box.depth == 0)
    return svg.picture(name, title, widest, _LEGEND + rows * _ROW, [flame])


def _drawn(box: Box, top: int, kind: str, words: str) -> str:
    # A picture within the picture: text that does not fit is cut off at its edge.
    label = _fitting(box.name, box.width * _PAPER)
    text = f'<text x="3" y="12">{escape(label)}</text>' if label else ""
    return (
        f'<svg x="{box.left * 100:.2f}%" y="{top}" width="{box.width * 100:.2f}%" height="{_ROW}">'
        f'<title>{escape(words)}</title><rect class="{kind}"/>{text}</svg>'
    )


def _fitting(name: str, width: float) -> str:
    letters = int((width - 5) / _LETTER)
    if len(name) <= letters:
        return name
    return f"{name[: letters - 1]}…" if letters > _SHORTEST else ""


def _legend(entries: Sequence[tuple[str, str]]) -> Iterator[str]:
    left = 0.0
    for kind, words in entries:
        yield (
            f'<g transform="translate({left:.0f},0)"><svg y="3" width="12" height="12">'
            f'<rect class="{kind}"/></svg><g transform="translate(18,0)">'
            f"{svg.text(0, 13, words, 'muted key')}</g></g>"
        )
        left += 40 + len(words) * _LEGEND_LETTER


def _tree(before: Sequence[Stack], after: Sequence[Stack]) -> _Node:
    root = _Node("")
    for stacks, is_after in ((before, False), (after, True)):
        for stack in stacks:
            node = root
            _count(node, stack.samples, is_after=is_after)
            for name in stack.frames:
                node = node.children.setdefault(name, _Node(name))
                _count(node, stack.samples, is_after=is_after)
    return root


def _count(node: _Node, samples: int, *, is_after: bool) -> None:
    if is_after:
        node.after += samples
    else:
        node.before += samples


def _weight(node: _Node, scales: Scales) -> float:
    return node.before * scales.before + node.after * scales.after


def _widest(root: _Node, scales: Scales, whole: float, most: int) -> set[int]:
    """Return the boxes to be drawn, by identity: a box's caller is as wide as it, and comes first."""
    found: list[tuple[float, int, int, _Node]] = []
    waiting = [(0, root)]
    while waiting:
        depth, node = waiting.pop()
        for child in node.children.values():
            width = _weight(child, scales) / whole
            if width >= _THINNEST:
                found.append((-width, depth, len(found), child))
                waiting.append((depth + 1, child))
    return {id(node) for *_, node in sorted(found, key=lambda each: each[:3])[:most]}


def _laid_out(
    node: _Node, scales: Scales, whole: float, shown: set[int], *, depth: int, left: float
) -> Iterator[Box]:
    if depth >= 0:
        width = _weight(node, scales) / whole
        yield Box(depth, left, width, node.name, node.before, node.after)
    narrow = _Node(REST)
    # By name, so that the same function stands at the same place in every picture.
    for child in sorted(node.children.values(), key=lambda each: each.name):
        if id(child) in shown:
            yield from _laid_out(child, scales, whole, shown, depth=depth + 1, left=left)
            left += _weight(child, scales) / whole
        else:
            narrow.before += child.before
            narrow.after += child.after
    rest = _weight(narrow, scales) / whole
    if rest >= _THINNEST:
        yield Box(depth + 1, left, rest, REST, narrow.before, narrow.after)


def _own(stacks: Iterable[Stack]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for stack in stacks:
        counts[stack.frames[-1]] += stack.samples
    return counts


def _ranked(counts: Counter[str]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda each: (-each[1], each[0]))


def _per_sample(stacks: Iterable[Stack]) -> float:
    whole = sum(stack.samples for stack in stacks)
    return 1 / whole if whole else 0.0

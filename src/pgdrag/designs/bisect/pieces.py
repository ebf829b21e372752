"""Into which pieces is a set of changes divided? Named groups first, halves of them next, members last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Subset = frozenset[int]

MOST_UNITS = (
    8  # looked at one by one; more groups than this are taken together by their first words
)
_SEPARATOR = " / "  # as in PostgreSQL's own categories: "Resource Usage / Memory"


@dataclass(frozen=True)
class Node:
    """A set of changes that is looked at as one, and the parts it falls into.

    Attributes:
        label: the group's name; "" for a part that has none.
    """

    members: Subset
    parts: tuple[Node, ...] = ()
    label: str = ""

    def halves(self) -> tuple[Node, Node]:
        """Return two parts of about the same size: whole groups where it has any, else members in order."""
        assert len(self.members) > 1, "a single change has no halves"
        if len(self.parts) == 1:
            return self.parts[0].halves()
        parts = self.parts or tuple(Node(frozenset([one])) for one in sorted(self.members))
        if not self.parts:
            middle = len(parts) // 2
            return _together(parts[:middle]), _together(parts[middle:])
        # The largest first, each to the side that has less.
        sides: tuple[list[Node], list[Node]] = ([], [])
        for part in sorted(parts, key=lambda part: (-len(part.members), min(part.members))):
            sizes = [sum(len(one.members) for one in side) for side in sides]
            sides[sizes[1] < sizes[0]].append(part)
        return _together(sides[0]), _together(sides[1])


def units(names: Sequence[str], groups: Mapping[str, str]) -> tuple[Node, ...]:
    """Return the units that a search begins with, in the order of the changes.

    Args:
        names: of the changes, in their order.
        groups: by name, the group; a change without one is in a group of its own with all such.
    """
    by_group: dict[str, list[int]] = {}
    for at, name in enumerate(names):
        by_group.setdefault(groups.get(name, ""), []).append(at)
    loose = by_group.pop("", [])
    nodes = [Node(frozenset(members), (), label) for label, members in by_group.items()]
    if len(nodes) + bool(loose) > MOST_UNITS:
        nodes = _by_first_words(nodes)
    nodes += _chunks(loose, max(1, MOST_UNITS - len(nodes)))
    return tuple(sorted(nodes, key=lambda node: min(node.members)))


def _by_first_words(nodes: Sequence[Node]) -> list[Node]:
    families: dict[str, list[Node]] = {}
    for node in nodes:
        families.setdefault(node.label.partition(_SEPARATOR)[0], []).append(node)
    return [
        members[0]
        if len(members) == 1
        else Node(frozenset().union(*(one.members for one in members)), tuple(members), label)
        for label, members in families.items()
    ]


def _chunks(members: Sequence[int], count: int) -> list[Node]:
    """Divide changes without a group evenly, neighbours together: people write related lines together."""
    count = min(count, len(members))
    bounds = [round(at * len(members) / count) for at in range(count + 1)] if count else [0]
    return [Node(frozenset(members[low:high])) for low, high in pairwise(bounds)]


def _together(nodes: Sequence[Node]) -> Node:
    if len(nodes) == 1:
        return nodes[0]
    members: Subset = frozenset().union(*(node.members for node in nodes))
    return Node(members, tuple(nodes) if any(len(x.members) > 1 for x in nodes) else ())

"""Into which units is a set of changes divided? Named groups first, halves of them next, members last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pgdrag.designs._subsets import Changes

MOST_UNITS = 8  # measured one by one; more groups than this are merged by their first words
_SEPARATOR = " / "  # as in PostgreSQL's own categories: "Resource Usage / Memory"


@dataclass(frozen=True)
class Node:
    """A set of changes that is tried as one, and the parts it consists of.

    Attributes:
        label: the group's name; "" for a part that has none.
    """

    members: Changes
    parts: tuple[Node, ...] = ()
    label: str = ""

    def halves(self) -> tuple[Node, Node]:
        """Return two parts of about the same size: whole groups where it has any, else members in order."""
        assert len(self.members) > 1, "a single change has no halves"
        if len(self.parts) == 1:
            return self.parts[0].halves()
        if not self.parts:
            ordered, middle = sorted(self.members), len(self.members) // 2
            return Node(frozenset(ordered[:middle])), Node(frozenset(ordered[middle:]))
        # The largest first, each to the side that has less.
        sides: tuple[list[Node], list[Node]] = ([], [])
        for part in sorted(self.parts, key=lambda part: (-len(part.members), min(part.members))):
            sizes = [sum(len(one.members) for one in side) for side in sides]
            sides[sizes[1] < sizes[0]].append(part)
        return _merged(sides[0]), _merged(sides[1])


def units(changes: Mapping[int, str], groups: Mapping[str, str]) -> tuple[Node, ...]:
    """Return the units that a search begins with, in the order of the changes.

    Args:
        changes: their names, by their places.
        groups: by name, the group; changes without one are divided in their order.
    """
    by_group: dict[str, list[int]] = {}
    for at, name in changes.items():
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
    return [_merged(nodes, label) for label, nodes in families.items()]


def _chunks(members: Sequence[int], count: int) -> list[Node]:
    """Divide changes without a group evenly, neighbours together: people write related lines together."""
    count = min(count, len(members))
    bounds = [round(at * len(members) / count) for at in range(count + 1)] if count else [0]
    return [Node(frozenset(members[low:high])) for low, high in pairwise(bounds)]


def _merged(nodes: Sequence[Node], label: str = "") -> Node:
    if len(nodes) == 1:
        return nodes[0]
    has_groups = bool(label) or any(len(node.members) > 1 for node in nodes)
    members: Changes = frozenset().union(*(node.members for node in nodes))
    return Node(members, tuple(nodes) if has_groups else (), label)

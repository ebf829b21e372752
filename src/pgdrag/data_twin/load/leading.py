"""Whose values do parameters have that are equal? Those of the statement whose work depends most on which they are.

A ticket is looked up by its key, which takes as much for each, and then its comments are, of which one has none and another has
hundreds: how many are read is right if the ticket is one that was chosen for its comments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pgdrag.data_twin.load.kinds import Link, TransactionType
from pgdrag.data_twin.load.links import Place, origin
from pgdrag.data_twin.load.scripts import Sendable

_MORE = 2.0  # times as much as what takes the values first
_LEAST = 1.0  # rows and blocks


def with_leading_steps(kind: TransactionType, sendable: Mapping[int, Sendable]) -> TransactionType:
    """Return a transaction in which the steps whose work differs most have values of their own, and earlier ones have those."""
    links = {(x.step, x.parameter): x for x in kind.links}
    constants = {(x.step, x.parameter) for x in kind.constants}
    steps = {
        at: sendable[step.statement]
        for at, step in enumerate(kind.steps)
        if step.statement in sendable and runs_once(kind, at)
    }
    settled: set[Place] = set()
    for at in sorted(steps, key=lambda x: -steps[x].deviation):
        own = {(at, n) for n in range(1, len(steps[at].types) + 1)}
        firsts = {x: origin(links, x) for x in sorted(own & links.keys())}
        roots = {x for x in firsts.values() if x is not None and x[0] != at}
        alike = {x for x in links if origin(links, x) in roots} | roots | own
        before = {x for x, _ in alike if x < at}
        leads = (
            None not in firsts.values()
            and all(x in steps and steps[x].is_there and not steps[x].is_insert for x in {at, *before})
            and not alike & (constants | settled)
            and steps[at].deviation >= max([_LEAST, *(_MORE * steps[x].deviation for x in before)])
        )  # fmt: skip
        if leads or not roots:
            settled |= alike
        for place, root in firsts.items() if leads else ():
            if root in roots - links.keys():
                links[root] = Link(*root, *place)
                del links[place]
    return replace(kind, links=tuple(links.values()))


def runs_once(kind: TransactionType, at: int) -> bool:
    """Return whether each transaction of a kind runs a step once."""
    is_in_loop = any(x.first <= at <= x.last for x in kind.loops)
    part = next(x for x in kind.parts if x.first <= at <= x.last)
    return kind.steps[at].share == 1 and part.is_sure and not is_in_loop

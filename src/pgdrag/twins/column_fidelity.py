"""Which columns of a data twin have other statistics than the original, after ANALYZE? Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest

from pgdrag.english import percent_words
from pgdrag.twins.model import ColumnStatistics, Relation, Twin
from pgdrag.units import format_number

# What ANALYZE's own sample varies by, and a bit more.
_NULLS, _COMMON, _CORRELATION, _DISTINCT, _WIDTH = 0.02, 0.05, 0.25, 0.3, 0.15
_WIDTH_BYTES = 2


def column_differences(
    original: Twin, twin: Twin, table_scale: Callable[[Relation], float]
) -> tuple[tuple[str, ...], int]:
    """Return a clause on each column whose statistics differ, and how many columns both have.

    Args:
        table_scale: what share of a table's rows the data twin is to have.
    """
    there = {_key(x): x for x in twin.statistics}
    rows, twin_rows = _rows(original), _rows(twin)
    scales = {(x.schema, x.name): table_scale(x) for x in original.relations if not x.table}
    found, compared = [], 0
    for was in original.statistics:
        now = there.get(_key(was))
        if now is None:
            continue
        compared += 1
        name = was.schema, was.relation
        distinct = _distinct(was, rows.get(name, 0.0)), _distinct(now, twin_rows.get(name, 0.0))
        differences = [*_differences(was, now, distinct, scales.get(name, 1.0))]
        if differences:
            found.append(f"{'.'.join(name)}.{was.column}: {', '.join(differences)}")
    return tuple(found), compared


def _key(one: ColumnStatistics) -> tuple[str, str, str, bool]:
    return one.schema, one.relation, one.column, one.is_inherited


def _rows(twin: Twin) -> dict[tuple[str, str], float]:
    found = {(x.schema, x.name): max(x.tuples, 0.0) for x in twin.relations}
    # An index' expression has statistics, too, of as many rows as its table.
    return found | {(x.schema, x.name): found.get((x.schema, x.table), 0.0) for x in twin.relations if x.table}  # fmt: skip


def _distinct(one: ColumnStatistics, rows: float) -> float:
    return -one.n_distinct * rows if one.n_distinct < 0 else one.n_distinct


def _differences(
    was: ColumnStatistics, now: ColumnStatistics, distinct: tuple[float, float], scale: float
) -> Iterator[str]:
    if abs(now.null_share - was.null_share) > _NULLS:
        yield f"NULLs {percent_words(now.null_share)} instead of {percent_words(was.null_share)}"
    if abs(now.width - was.width) > max(_WIDTH * was.width, _WIDTH_BYTES):
        yield f"width {now.width} instead of {was.width}"
    before, after = distinct
    if not any(abs(after - x) <= max(_DISTINCT * x, 1) for x in (before, before * scale)):
        yield f"distinct values {format_number(round(after))} instead of {format_number(round(before))}"
    correlations = [x for x in (was.correlation, now.correlation) if x is not None]
    if len(correlations) == 2 and abs(correlations[1] - correlations[0]) > _CORRELATION:
        yield f"correlation {correlations[1]:.2f} instead of {correlations[0]:.2f}"
    shares = (sorted(x.most_common_shares, reverse=True) for x in (was, now))
    # How many of them ANALYZE keeps depends on chance where all are about as common.
    apart = sum(abs(x - y) for x, y in zip_longest(*shares, fillvalue=0.0)) / 2
    if was.most_common_shares and now.most_common_shares and apart > _COMMON:
        yield f"most common values differ by {percent_words(apart)}"

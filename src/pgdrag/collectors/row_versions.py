"""How many old row versions does a table keep, where are they, and what does skipping them cost?

A look copies pages with pageinspect's get_raw_page(), and they are read here. It takes about as long as it
may: of a table that is too large for that, pages spread evenly over it are read. All of it goes over a
session of its own that waits for no lock longer than a moment.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import ClassVar

import psycopg

from pgdrag.collectors import Amounts, Collector, Metric, Observer, Unseen, Window, detailed
from pgdrag.collectors._extensions import extension_schemas
from pgdrag.collectors._metric import NO_READING
from pgdrag.collectors._pace import Pace
from pgdrag.collectors._table_looks import Look, Looker
from pgdrag.collectors._table_strips import Strips
from pgdrag.collectors.counters import attempt, require_track_counts
from pgdrag.errors import PgdragError
from pgdrag.model.recordings import Recordings, Series, SeriesUnit

_NO_ROWS = "the tables have no rows"
_DEAD = ("dead_versions_per_row", "old row versions and dead line pointers per row")
_CHAIN = ("hot_chain_length", "row versions in the HOT chain that an index entry points to")
_LONGEST = ("hot_chain_length_max", "row versions in the longest HOT chain of one page")
_BLOAT = ("bloat_ratio", "bytes of the tables over what their rows need")
_ENTRIES = ("index_entries_visited", "index entries visited per row updated")
_DENSITY = ("index_leaf_density", "bytes in use of the indexes' leaf pages")
_INDEXES, _TABLES = ("index_bytes", "size of the indexes"), ("table_bytes", "size of the tables")


class RowVersions(Collector):
    """Old row versions, HOT chains and sizes of the tables that the workload updates most."""

    name: ClassVar[str] = "row_versions"
    summary: ClassVar[str] = "row versions, HOT chains and bloat, page by page; if asked for"
    needs: ClassVar[str] = "pageinspect, a superuser, and a table"
    is_optional: ClassVar[bool] = True
    # fmt: off
    metrics: ClassVar[tuple[Metric, ...]] = (
        *detailed(
            "{looked}",
            Metric(*_DEAD, "dead", "count", step="per row"),
            Metric(*_CHAIN, "chain", "count", step="per chain"),
            Metric(*_LONGEST, "longest", "count"),
            Metric(*_BLOAT, "bloat", "count", step=0.01),
        ),
        Metric(
            *_ENTRIES, "entries", "count", step="per update", detail=(
            "Entries that scans of these tables' indexes returned (idx_tup_read), those of other"
            " statements, too; not those that a unique index is searched for when one is added." ),
        ),
        Metric(*_DENSITY, "density", "ratio", step=0.001, detail="{first density} when the window began."),
    )
    # fmt: on

    def __init__(self) -> None:
        self._looker: Looker | Unseen = NO_READING
        self._looks: list[Look] = []
        self._strips = Strips()
        self._densities: list[tuple[float, float]] = []
        self._density_unseen = NO_READING
        self._last: Look | Unseen = NO_READING
        self._pace = Pace()

    def before(self, observer: Observer) -> None:
        """Open a session, make the extension's functions where that may be, and look."""
        self._looker = attempt(lambda: _looker(observer))
        self._look()
        self._look_at_indexes()

    def sample(self, observer: Observer) -> None:
        """Look, where the last look is long enough ago."""
        if self._pace.is_due(time.monotonic(), looks=len(self._looks)):
            self._look()

    def after(self, observer: Observer) -> None:
        """Look for the last time."""
        self._look()

    def afterwards(self, observer: Observer) -> None:
        """Read the indexes whole, and close the session."""
        self._look_at_indexes()
        if isinstance(self._looker, Looker):
            observer.own_sessions.discard(self._looker.backend_pid)
            self._looker.close()

    def _look(self) -> None:
        looker = self._looker
        if isinstance(looker, Unseen):
            self._last = looker
            return
        self._pace.begin(time.monotonic())
        found = attempt(looker.look)
        if isinstance(found, Unseen):
            self._last = self._last if self._looks else found
            return
        if self._looks and not found.is_of_same(self._looks[-1]):
            # Nothing had been updated before: those were the largest tables, not the workload's choice.
            self._looks.clear()
            self._strips = Strips()
        self._last = found
        self._looks.append(found)
        self._strips.add(found, looker.pages)

    def _look_at_indexes(self) -> None:
        looker = self._looker
        found = looker if isinstance(looker, Unseen) else attempt(looker.leaf_density)
        if isinstance(found, Unseen):
            self._density_unseen = found
        else:
            self._densities.append((time.time(), found))

    def amounts(self, window: Window) -> Amounts | Unseen:
        """Return what there was at the last look, and index entries visited within the window."""
        last = self._last
        if isinstance(last, Unseen):
            return last
        first = self._looks[0]

        def known(value: float | None, reason: str) -> float | Unseen:
            return Unseen(reason) if value is None else value

        return {
            "dead": known(last.dead_per_row, _NO_ROWS),
            "per row": 1 / max(last.rows, 1),
            "chain": known(last.chain_length, _NO_ROWS),
            "per chain": 1 / max(last.chains, 1),
            "longest": float(last.longest),
            "bloat": known(last.bloat_ratio, _NO_ROWS),
            "entries": known(last.entries_since(first), "no row was updated between two looks"),
            "per update": 1 / max(last.updates - first.updates, 1),
            "density": self._densities[-1][1] if len(self._densities) > 1 else self._density_unseen,
        }

    def words(self, amounts: Amounts, window: Window) -> Mapping[str, str]:
        """Return what was looked at, and the first density of the indexes."""
        first = f"{self._densities[0][1]:.0%}" if self._densities else ""
        looked = "" if isinstance(self._last, Unseen) else self._looked(self._last)
        return {"looked": looked, "first density": first}

    def recordings(self, window: Window) -> Recordings:
        """Return everything over time, of all tables together and of each, and the strips of pages."""
        if not self._looks:
            last = self._last
            why = last.reason if isinstance(last, Unseen) else ""
            return Recordings(missing={self.name: why} if why else {})
        series = [*_all_together(self._looks, window), *_of_each(self._looks, window)]
        if self._densities:
            series.append(_series(*_DENSITY, "ratio", self._densities, window))
        return Recordings(
            (*(one for one in series if one.values), *self._strips.chosen(window.started_unix_s))
        )

    def _looked(self, last: Look) -> str:
        """Say what was looked at, and what looking cost."""
        names = ", ".join(table.name for table in last.tables)
        read, pages = (
            sum(getattr(one, what) for one in last.tables) for what in ("pages_read", "pages")
        )
        part = "all" if read == pages else f"{read:,} of"
        costs_ms = [1000 * look.took_s for look in self._looks]
        cost = f"each {sum(costs_ms) / len(costs_ms):.0f} ms, at most {max(costs_ms):.0f} ms"
        missed = self._looker.missed if isinstance(self._looker, Looker) else 0
        lacking = f"; {missed} more failed" if missed else ""
        return f"Of {names}; {part} {pages:,} pages at the end. {len(costs_ms)} looks, {cost}{lacking}."


def _looker(observer: Observer) -> Looker:
    require_track_counts(observer)
    schema = extension_schemas(observer, ["pageinspect"])["pageinspect"]
    tuples = attempt(lambda: extension_schemas(observer, ["pgstattuple"])["pgstattuple"])
    try:
        connection = observer.cluster.connect(application_name="pgdrag row versions")
    except (PgdragError, psycopg.Error) as error:
        raise Unseen(f"no session could be had to look at pages: {error}") from error
    try:
        looker = Looker(Observer(observer.cluster, connection), schema, tuples)
    except Unseen:
        with suppress(psycopg.Error):
            connection.close()
        raise
    observer.own_sessions.add(looker.backend_pid)
    return looker


def _all_together(looks: Sequence[Look], window: Window) -> list[Series]:
    """Return the series by which the tables are judged as a whole."""
    quantities: tuple[tuple[tuple[str, str], SeriesUnit, list[float | None]], ...] = (
        (_DEAD, "count", [one.dead_per_row for one in looks]),
        (_CHAIN, "count", [one.chain_length for one in looks]),
        (_LONGEST, "count", [float(one.longest) for one in looks]),
        (_BLOAT, "count", [one.bloat_ratio for one in looks]),
        (_TABLES, "bytes", [float(one.table_bytes) for one in looks]),
        (_INDEXES, "bytes", [float(one.index_bytes) for one in looks]),
    )
    entries = [
        (now.at_unix_s, value)
        for then, now in pairwise(looks)
        if (value := now.entries_since(then)) is not None
    ]
    return [
        *(
            _series(*names, unit, _known([x.at_unix_s for x in looks], values), window)
            for names, unit, values in quantities
        ),
        _series(*_ENTRIES, "count", entries, window),
    ]


def _of_each(looks: Sequence[Look], window: Window) -> list[Series]:
    """Return the series of each table and of each index, where there are several."""
    names = dict.fromkeys((one.oid, one.name) for look in looks for one in look.tables)
    found: list[Series] = []
    for oid, name in names if len(names) > 1 else ():
        of = [(look.at_unix_s, look.table(oid)) for look in looks]
        there = [(at, table) for at, table in of if table is not None]
        times = [at for at, _ in there]
        quantities: tuple[tuple[tuple[str, str], SeriesUnit, list[float | None]], ...] = (
            (_DEAD, "count", [one.dead_per_row for _, one in there]),
            (_CHAIN, "count", [one.chain_length for _, one in there]),
            (_TABLES, "bytes", [float(one.bytes) for _, one in there]),
        )
        found += [
            _series(*_named(kind, name), unit, _known(times, values), window)
            for kind, unit, values in quantities
        ]
    indexes = dict.fromkeys(name for look in looks for name in look.indexes)
    for name in indexes if len(indexes) > 1 else ():
        sizes = [
            (look.at_unix_s, float(look.indexes[name])) for look in looks if name in look.indexes
        ]
        found.append(_series(*_named(_INDEXES, name), "bytes", sizes, window))
    # Two names may be one in small letters: then the first is drawn.
    return list({one.name: one for one in reversed(found)}.values())[::-1]


def _named(kind: tuple[str, str], relation: str) -> tuple[str, str]:
    slug = re.sub(r"[^a-z0-9]+", "_", relation.lower()).strip("_")
    return f"{kind[0]}_of_{slug}", f"{kind[1]}: {relation}"


def _known(times: Sequence[float], values: Sequence[float | None]) -> list[tuple[float, float]]:
    pairs = zip(times, values, strict=True)
    return [(at, value) for at, value in pairs if value is not None]


def _series(
    name: str,
    label: str,
    unit: SeriesUnit,
    points: Sequence[tuple[float, float]],
    window: Window,
) -> Series:
    times_s = tuple(round(at - window.started_unix_s, 3) for at, _ in points)
    return Series(name, label, unit, times_s, tuple(value for _, value in points))

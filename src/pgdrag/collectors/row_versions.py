"""How many old row versions does a table keep, where are they, and what does skipping them cost?

A sample copies pages with pageinspect's get_raw_page(), and they are read here. It takes about as long as it
may: of a table that is too large for that, pages spread evenly over it are read. All of it goes over a
session of its own that waits for no lock longer than a moment.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter
from typing import ClassVar

from pgdrag.collectors import (
    Amounts,
    Collector,
    Metric,
    Observer,
    Unseen,
    Window,
    attempt,
    detailed,
    known,
)
from pgdrag.collectors._metric import NO_READING, series_of
from pgdrag.collectors._session import (
    close_session,
    evenly,
    extension_schemas,
    is_due,
    open_session,
)
from pgdrag.collectors._table_samples import TableSampler, TablesSample
from pgdrag.collectors.counters import require_track_counts
from pgdrag.english import counted
from pgdrag.host.clock import CLOCK
from pgdrag.model.recordings import HotChain, PageStrip, Recordings, Series, SeriesUnit

MOST_MOMENTS = 6
# More strips than this are thinned, every second one of them.
_MOST_KEPT = 64
_DEAD = ("dead_versions_per_row", "old row versions and dead line pointers per row")
_CHAIN = ("hot_chain_length", "row versions in the HOT chain that an index entry points to")
_LONGEST = ("hot_chain_length_max", "row versions in the longest HOT chain of one page")
_BLOAT = ("bloat_ratio", "size of the tables divided by what their rows need")
_ENTRIES = ("index_entries_visited", "index entries visited per row updated")
_DENSITY = ("index_leaf_density", "share of the indexes' leaf pages in use")
_INDEXES, _TABLES = ("index_bytes", "size of the indexes"), ("table_bytes", "size of the tables")
# What is drawn of a `TableSample` of all tables together, and of each where there are several.
_OF_ALL: tuple[tuple[tuple[str, str], SeriesUnit, str], ...] = (
    (_DEAD, "count", "dead_per_row"),
    (_CHAIN, "count", "chain_length"),
    (_LONGEST, "count", "longest"),
    (_BLOAT, "count", "bloat_ratio"),
    (_TABLES, "bytes", "bytes"),
)
_OF_EACH = [one for one in _OF_ALL if one[0] in (_DEAD, _CHAIN, _TABLES)]


class RowVersions(Collector):
    """Old row versions, HOT chains and sizes of the tables that the workload updates most."""

    name: ClassVar[str] = "row_versions"
    summary: ClassVar[str] = "row versions, HOT chains and bloat, page by page; on request"
    needs: ClassVar[str] = "pageinspect, a superuser, and a table"
    is_optional: ClassVar[bool] = True
    metrics: ClassVar[tuple[Metric, ...]] = (
        *detailed(
            "{sampled}",
            Metric(*_DEAD, "dead", "count", step="per row"),
            Metric(*_CHAIN, "chain", "count", step="per chain"),
            Metric(*_LONGEST, "longest", "count"),
            Metric(*_BLOAT, "bloat", "count", step=0.01),
        ),
        Metric(
            *_ENTRIES, "entries", "count", step="per update", detail=(
            "Entries that scans of these tables' indexes returned (idx_tup_read), also of other"
            " statements, but without the search in a unique index when an entry is added." ),
        ),
        Metric(*_DENSITY, "density", "ratio", step=0.001, detail="{first density} when the window began."),
    )  # fmt: skip

    def __init__(self) -> None:
        self._sampler: TableSampler | Unseen = NO_READING
        self._samples: list[TablesSample] = []
        self._strips = Strips()
        self._densities: list[tuple[float, float]] = []
        self._density_unseen = NO_READING
        self._unseen = NO_READING
        self._began_s = -math.inf  # the last sample

    def before(self, observer: Observer) -> None:
        """Open a session, make the extension's functions where that may be, and sample."""
        self._sampler = attempt(lambda: _sampler(observer))
        self._sample()
        self._sample_indexes()

    def sample(self, observer: Observer) -> None:
        if is_due(time.monotonic() - self._began_s, samples=len(self._samples)):
            self._sample()

    def after(self, observer: Observer) -> None:
        self._sample()

    def afterwards(self, observer: Observer) -> None:
        self._sample_indexes()
        if isinstance(self._sampler, TableSampler):
            close_session(observer, self._sampler.connection)

    def _sample(self) -> None:
        self._began_s = time.monotonic()
        found = attempt(lambda: known(self._sampler).sample())
        if isinstance(found, Unseen):
            self._unseen = found
            return
        if self._samples and [x.oid for x in found.tables] != [
            x.oid for x in self._samples[-1].tables
        ]:
            # Nothing had been updated before: those were the largest tables, not the workload's choice.
            self._samples.clear()
            self._strips = Strips()
        self._samples.append(replace(found, drawn=()))
        self._strips.add(found.drawn)

    def _sample_indexes(self) -> None:
        found = attempt(lambda: known(self._sampler).leaf_density())
        if isinstance(found, Unseen):
            self._density_unseen = found
        else:
            self._densities.append((CLOCK.unix_s(), found))

    def amounts(self, window: Window) -> Amounts:
        if not self._samples:
            raise Unseen(self._unseen.reason)
        first, last = self._samples[0], self._samples[-1]
        whole, missed = last.whole, known(self._sampler).missed
        entries, no_rows = last.entries_since(first), Unseen("the tables have no rows")
        part = "all" if whole.pages_read == whole.pages else f"{whole.pages_read:,} of"
        costs_ms = [1000 * sample.took_s for sample in self._samples]
        cost = f"each {sum(costs_ms) / len(costs_ms):.0f} ms, at most {max(costs_ms):.0f} ms"
        return {
            "sampled": f"Of {whole.name}; {part} {whole.pages:,} pages at the end. {counted(len(costs_ms), 'sample')},"
            f" {cost}{f'; {missed} more failed' if missed else ''}.",
            "dead": no_rows if whole.dead_per_row is None else whole.dead_per_row,
            "per row": 1 / max(whole.rows, 1),
            "chain": no_rows if whole.chain_length is None else whole.chain_length,
            "per chain": 1 / max(whole.chains, 1),
            "longest": float(whole.longest),
            "bloat": no_rows if whole.bloat_ratio is None else whole.bloat_ratio,
            "entries": Unseen("no row was updated between two samples")
            if entries is None
            else entries,
            "per update": 1 / max(whole.updates - first.whole.updates, 1),
            "density": self._densities[-1][1] if len(self._densities) > 1 else self._density_unseen,
            "first density": f"{self._densities[0][1]:.0%}" if self._densities else "",
        }

    def recordings(self, window: Window) -> Recordings:
        """Return everything over time, of all tables together and of each, and the strips of pages with their chains."""
        if not self._samples:
            return Recordings(missing={self.name: self._unseen.reason})
        # Two names may be one in small letters: then the first is drawn.
        series = {one.name: one for one in reversed(list(self._series(window)))}
        return Recordings([*list(series.values())[::-1], *self._strips.chosen(window)])

    def _series(self, window: Window) -> Iterator[Series]:
        samples = self._samples
        wholes = [(sample.at_unix_s, sample.whole) for sample in samples]
        for names, unit, quantity in _OF_ALL:
            values = ((at, attrgetter(quantity)(whole)) for at, whole in wholes)
            yield from series_of(*names, unit, values, window)
        sizes = ((sample.at_unix_s, sum(sample.indexes.values())) for sample in samples)
        yield from series_of(*_INDEXES, "bytes", sizes, window)
        entries = ((now.at_unix_s, now.entries_since(then)) for then, now in pairwise(samples))
        yield from series_of(*_ENTRIES, "count", entries, window)
        tables = dict.fromkeys((one.oid, one.name) for sample in samples for one in sample.tables)
        for oid, name in tables if len(tables) > 1 else ():
            seen = [(x.at_unix_s, table) for x in samples for table in x.tables if table.oid == oid]
            for names, unit, quantity in _OF_EACH:
                values = ((at, attrgetter(quantity)(table)) for at, table in seen)
                yield from series_of(*_named(names, name), unit, values, window)
        indexes = dict.fromkeys(name for sample in samples for name in sample.indexes)
        for name in indexes if len(indexes) > 1 else ():
            sizes = ((x.at_unix_s, x.indexes[name]) for x in samples if name in x.indexes)
            yield from series_of(*_named(_INDEXES, name), "bytes", sizes, window)
        yield from series_of(*_DENSITY, "ratio", self._densities, window)


class Strips:
    """Of what many samples draw the last, and of the earlier ones as many as a picture may need."""

    def __init__(self) -> None:
        self._kept: list[Sequence[PageStrip | HotChain]] = []
        self._last: Sequence[PageStrip | HotChain] = ()
        self._seen = 0
        self._every = 1

    def add(self, strips: Sequence[PageStrip | HotChain]) -> None:
        if self._seen % self._every == 0:
            self._kept.append(strips)
        self._last = strips
        self._seen += 1
        if len(self._kept) > _MOST_KEPT:
            self._kept = self._kept[::2]
            self._every *= 2

    def chosen(self, window: Window) -> list[PageStrip | HotChain]:
        """Return the strips of a few moments, evenly spread, including the first and the last."""
        is_last_kept = self._kept[-1:] == [self._last]
        moments = self._kept if is_last_kept else [*self._kept, self._last]
        return [
            replace(strip, at_s=round(strip.at_s - window.started_unix_s, 3))
            for strips in evenly(moments, MOST_MOMENTS)
            for strip in strips
        ]


def _sampler(observer: Observer) -> TableSampler:
    require_track_counts(observer)
    schema = extension_schemas(observer, ["pageinspect"])["pageinspect"]
    tuples = attempt(lambda: extension_schemas(observer, ["pgstattuple"])["pgstattuple"])
    return open_session(
        observer, "pgdrag row versions", lambda mine: TableSampler(observer, mine, schema, tuples)
    )


def _named(kind: tuple[str, str], relation: str) -> tuple[str, str]:
    slug = re.sub(r"[^a-z0-9]+", "_", relation.lower()).strip("_")
    return f"{kind[0]}_of_{slug}", f"{kind[1]}: {relation}"

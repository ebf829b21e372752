"""What do the pages, sizes and counters of the most updated tables show at one moment?"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import psycopg

from pgdrag.collectors import Observer, Unseen, known
from pgdrag.collectors._heap_pages import NotPages, Numbers, Pages, parse
from pgdrag.collectors._session import QUIET
from pgdrag.host.clock import CLOCK
from pgdrag.model.recordings import HotChain, PageStrip
from pgdrag.servers.roles import EXTENSIONS_SCHEMA

MOST_COLUMNS = 200
MOST_STRIPS = 3  # tables
MOST_LINKS = 5  # of a chain, at each end
BUDGET_S = 0.020  # for the pages of one sample, as fast as the last sample's came
MOST_PAGES = 4096
MOST_TABLES = 4
MOST_INDEX_BYTES = 64 << 20  # of indexes that are read whole
_FEWEST_PAGES = 64
_FIRST_PAGE_S = 50e-6  # until a sample has shown how long one takes
_LOCK_WAIT_MS = 5
_SAMPLE_TIMEOUT_MS = 500
_HEADER_BYTES = 24  # of a page

# Of pgdrag's own session alone: another's lock on a table is not waited for, nor is a slow storage.
_LIMITS = (
    f"SELECT set_config('lock_timeout', '{_LOCK_WAIT_MS}ms', false),"
    f" set_config('statement_timeout', '{_SAMPLE_TIMEOUT_MS}ms', false)"
)
# Those that are updated most, then the largest; what only another session may see is not the workload's.
_CHOSEN = f"""
SELECT relid::bigint, n_tup_upd + n_tup_del
  FROM pg_stat_user_tables
  JOIN pg_class ON pg_class.oid = relid
  JOIN pg_am ON pg_am.oid = relam AND amname = 'heap'
 WHERE relkind = 'r' AND relpersistence <> 't' AND schemaname <> '{EXTENSIONS_SCHEMA}'
 ORDER BY 2 DESC, relpages DESC, relid
 LIMIT %s
"""
_TABLES = """
SELECT relid::bigint, quote_ident(schemaname) || '.' || quote_ident(tables.relname), n_tup_upd,
       n_tup_ins - n_tup_del, reltuples, coalesce(pg_relation_size(relid), 0),
       coalesce(pg_table_size(relid), 0)
  FROM unnest(%s::bigint[]) WITH ORDINALITY AS chosen (oid, place)
  JOIN pg_stat_user_tables AS tables ON relid = chosen.oid
  JOIN pg_class ON pg_class.oid = relid
 ORDER BY place
"""
_INDEXES = """
SELECT quote_ident(schemaname) || '.' || quote_ident(indexrelname),
       coalesce(pg_relation_size(indexrelid), 0), idx_tup_read
  FROM pg_stat_user_indexes
 WHERE relid::bigint = ANY (%s::bigint[])
 ORDER BY indexrelid
"""
_BTREES = """
SELECT quote_ident(nspname) || '.' || quote_ident(relname),
       coalesce(pg_relation_size(pg_class.oid), 0)
  FROM pg_index
  JOIN pg_class ON pg_class.oid = indexrelid
  JOIN pg_namespace ON pg_namespace.oid = relnamespace
  JOIN pg_am ON pg_am.oid = relam AND amname = 'btree'
 WHERE indrelid::bigint = ANY (%s::bigint[]) AND indisvalid
 ORDER BY 2
"""


@dataclass(frozen=True)
class TableSample:
    """One table, or several together, at one moment.

    Counts of a table that was not read whole are reckoned from its part.

    Attributes:
        oid: 0 of several tables.
        name: with its schema.
        pages_read: of its `pages`.
        rows: versions that are the newest of their row; of a table that is not read whole, as many as
            there were when it was (or as the server estimates), and those inserted and deleted since.
        dead: versions that are not, and dead line pointers.
        pages_bytes: of all pages.
        needed_bytes: of the fewest pages that its rows fit into; one page at least.
        chains, steps, longest: see `Pages`; of the pages read.
        bytes: with the maps of free and visible space, and what is stored outside of rows.
        updates: rows updated so far.
    """

    oid: int
    name: str
    pages: int
    pages_read: int
    rows: float
    dead: float
    pages_bytes: int
    needed_bytes: float
    chains: int
    steps: int
    longest: int
    bytes: int
    updates: int

    @property
    def dead_per_row(self) -> float | None:
        """Old versions and dead line pointers for each row; None where there is no row."""
        return self.dead / self.rows if self.rows else None

    @property
    def chain_length(self) -> float | None:
        """Versions in a chain, on average; None where there is none."""
        return self.steps / self.chains if self.chains else None

    @property
    def bloat_ratio(self) -> float | None:
        """Bytes of its pages over the fewest that its rows fit into; None without a row."""
        return self.pages_bytes / self.needed_bytes if self.rows else None


_ADDED = ("pages", "pages_read", "rows", "dead", "pages_bytes", "needed_bytes", "chains", "steps", "bytes", "updates")  # fmt: skip


def together(tables: Sequence[TableSample]) -> TableSample:
    """Return the totals of several tables."""
    sums = {name: sum(getattr(one, name) for one in tables) for name in _ADDED}
    names = ", ".join(one.name for one in tables)
    return TableSample(oid=0, name=names, longest=max(one.longest for one in tables), **sums)


@dataclass(frozen=True)
class TablesSample:
    """All tables that were chosen, at one moment.

    Attributes:
        took_s: from the first question to the last answer read.
        whole: all tables together.
        indexes: bytes of each, by its name with its schema.
        entries: entries that scans of these indexes have returned so far.
        drawn: pages and longest chain of the tables that are updated most; `at_s` is by the clock.
    """

    at_unix_s: float
    took_s: float
    tables: Sequence[TableSample]
    whole: TableSample
    indexes: Mapping[str, int]
    entries: int
    drawn: Sequence[PageStrip | HotChain]

    def entries_since(self, earlier: TablesSample) -> float | None:
        """Return index entries visited for each row updated since then; None where none was updated."""
        updates = self.whole.updates - earlier.whole.updates
        entries = self.entries - earlier.entries
        return entries / updates if updates > 0 and entries >= 0 else None


class TableSampler:
    """Samples the same tables repeatedly, as many of their pages as the time allows.

    Attributes:
        connection: a session of its own.
        missed: samples that the server refused, or that would have had to wait.
    """

    def __init__(
        self,
        observer: Observer,
        connection: psycopg.Connection[Any],
        schema: str,
        tuples_schema: str | Unseen,
    ) -> None:
        """Prepare the session.

        Args:
            observer: of the trial.
            connection: for this alone.
            schema: of pageinspect, quoted.
            tuples_schema: of pgstattuple, or why it is not there.
        """
        self.connection = connection
        self.missed = 0
        self._reader = Observer(observer.cluster, connection)
        self._schema = schema
        self._tuples_schema = tuples_schema
        self._oids: list[int] = []
        self._was_updated = False
        self._page_s = _FIRST_PAGE_S
        self._row_bytes: dict[int, float] = {}
        self._fixed_rows: dict[int, float] = {}  # without those inserted and deleted since
        self._samples = 0
        [(self._page_bytes,)] = self._reader.query("SELECT current_setting('block_size')::int")
        self._reader.query(_LIMITS)
        self._reader.query(QUIET)

    def sample(self) -> TablesSample:
        """Sample the tables that the workload has updated most; once chosen they stay the same.

        Raises:
            Unseen: there is none, or the server refused.
        """
        try:
            return self._sample()
        except Unseen:
            self.missed += 1
            # A storage that is slow is asked for less the next time.
            self._page_s *= 2
            raise

    def leaf_density(self) -> float:
        """Return the share of the bytes of B-tree leaf pages that is in use, over these tables' indexes.

        Raises:
            Unseen: it cannot be measured here, or would take too long.
        """
        schema = known(self._tuples_schema)
        indexes = self._reader.query(_BTREES, self._oids)
        if sum(size for _, size in indexes) > MOST_INDEX_BYTES:
            raise Unseen(f"the indexes are larger than the {MOST_INDEX_BYTES >> 20} MB read")
        pages, used = 0, 0.0
        for name, _ in indexes:
            sql = f"SELECT leaf_pages, avg_leaf_density FROM {schema}.pgstatindex(%s)"
            [(count, density)] = self._reader.query(sql, name)
            if count and density == density:  # not NaN
                pages, used = pages + count, used + count * density / 100
        if not pages:
            raise Unseen("the tables have no B-tree index with entries")
        return used / pages

    def _sample(self) -> TablesSample:
        begin_s, at_unix_s = time.perf_counter(), CLOCK.unix_s()
        if not self._was_updated:
            chosen = self._reader.query(_CHOSEN, MOST_TABLES)
            updated = [oid for oid, updates in chosen if updates]
            self._was_updated = bool(updated)
            self._oids = updated or [oid for oid, _ in chosen]
        rows = self._reader.query(_TABLES, self._oids)
        if not rows:
            raise Unseen("the workload's database has no table")
        counts = [-(-size // self._page_bytes) for *_, size, _ in rows]
        reading_s = time.perf_counter()
        tables: list[TableSample] = []
        drawn: list[PageStrip | HotChain] = []
        for row, pages, share in zip(rows, counts, self._shares(counts), strict=True):
            # Another part of each stretch each time.
            found = self._read(row[1], spread(pages, share, (self._samples * 0.618) % 1))
            tables.append(self._table(row, pages, found))
            if share and len(drawn) < 2 * MOST_STRIPS:
                drawn.append(strip_of(tables[-1], found, at_unix_s, self._page_bytes))
                drawn.append(chain_of(tables[-1].name, found, at_unix_s))
        whole = together(tables)
        if (
            whole.pages_read >= _FEWEST_PAGES // 2
        ):  # of fewer, what a question takes would count as theirs
            page_s = (time.perf_counter() - reading_s) / whole.pages_read
            self._page_s = (self._page_s + page_s) / 2
        indexes = self._reader.query(_INDEXES, self._oids)
        self._samples += 1
        sizes = {name: size for name, size, _ in indexes}
        entries = sum(entries for *_, entries in indexes)
        took_s = time.perf_counter() - begin_s
        return TablesSample(at_unix_s, took_s, tables, whole, sizes, entries, drawn)

    def _shares(self, counts: Sequence[int]) -> list[int]:
        """Return how many pages to read of each table: all of small ones, if time allows."""
        left = min(MOST_PAGES, max(_FEWEST_PAGES, int(BUDGET_S / self._page_s)))
        shares = [0] * len(counts)
        by_size = sorted(range(len(counts)), key=lambda at: counts[at])
        for rank, at in enumerate(by_size):
            shares[at] = min(counts[at], max(1, left // (len(counts) - rank)))
            left = max(0, left - shares[at])
        return shares

    def _read(self, name: str, blocks: Sequence[int]) -> Pages:
        sql = f"SELECT {self._schema}.get_raw_page(%s, 'main', block) FROM unnest(%s::bigint[]) AS block"
        pages = self._reader.query(sql, name, list(blocks), is_binary=True)
        try:
            return parse([page for (page,) in pages], blocks)
        except NotPages as error:
            raise Unseen(str(error)) from error

    def _table(
        self, row: tuple[int, str, int, int, float, int, int], pages: int, found: Pages
    ) -> TableSample:
        oid, name, updates, came, estimate, _, size = row
        read = len(found.blocks)
        part = read / pages if pages else 1.0
        live = int(found.live.sum())
        if live:
            # Of a row with its line pointer.
            self._row_bytes[oid] = float(found.live_bytes.sum()) / live
        if read == pages:
            self._fixed_rows[oid] = live - came
        elif oid not in self._fixed_rows:
            self._fixed_rows[oid] = (estimate if estimate > 0 else live / part) - came
        rows = max(0.0, self._fixed_rows[oid] + came)
        room = self._page_bytes - _HEADER_BYTES
        return TableSample(
            oid=oid,
            name=name,
            pages=pages,
            pages_read=read,
            rows=rows,
            dead=float(found.old.sum() + found.dead.sum()) / part if read else 0.0,
            pages_bytes=pages * self._page_bytes,
            needed_bytes=self._page_bytes
            * max(1, -(-rows * self._row_bytes.get(oid, 0.0) // room)),
            chains=int(found.chains.sum()),
            steps=int(found.steps.sum()),
            longest=int(found.longest.max(initial=0)),
            bytes=size,
            updates=updates,
        )


def strip_of(table: TableSample, found: Pages, at_unix_s: float, page_bytes: int) -> PageStrip:
    """Return what was found of a table's pages as a strip of at most `MOST_COLUMNS` columns."""
    columns = min(MOST_COLUMNS, len(found.blocks))
    first = np.arange(columns) * len(found.blocks) // columns
    counts = np.diff(np.append(first, len(found.blocks)))

    def means(numbers: Numbers) -> tuple[float, ...]:
        sums = np.add.reduceat(numbers, first)
        return tuple(round(float(x), 1) for x in sums / counts)

    return PageStrip(
        relation=table.name,
        at_s=at_unix_s,
        pages=table.pages,
        pages_read=table.pages_read,
        page_bytes=page_bytes,
        live=means(found.live),
        old=means(found.old),
        redirect=means(found.redirect),
        dead=means(found.dead),
        unused=means(found.unused),
        free_bytes=tuple(int(x) for x in means(found.free_bytes)),
    )


def chain_of(relation: str, found: Pages, at_unix_s: float) -> HotChain:
    """Return the longest HOT chain of these pages, of a long one both ends."""
    links = found.longest_chain
    is_long = len(links) > 2 * MOST_LINKS
    return HotChain(
        relation=relation,
        at_s=at_unix_s,
        block=found.longest_block,
        versions=int(found.longest.max(initial=0)),
        first=links[:MOST_LINKS] if is_long else links,
        last=links[-MOST_LINKS:] if is_long else (),
    )


def spread(pages: int, count: int, offset: float) -> list[int]:
    """Return `count` numbers of pages, evenly spread: one of each stretch, at the same place (0…1) of it."""
    if count >= pages:
        return list(range(pages))
    return [int(at) for at in (np.arange(count) + offset) * pages / count]

"""By how much did each of the workload's tables and indexes grow? `tables` has the whole database's growth.

Sizes are those of the files in the data directory. The server's own pg_relation_size() opens the relation
and so waits for any session that holds it in ACCESS EXCLUSIVE mode; pg_relation_filepath() only reads the catalogue.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import ClassVar

from pgdrag.collectors import Amounts, Metric, Observer, Unseen, Window
from pgdrag.collectors._metric import of_kind
from pgdrag.collectors.counters import CounterCollector, Counters
from pgdrag.units import format_bytes

# A table's overflow table and its index are stored for the table, and go under its name. What only
# another session may see is not the workload's to keep. Catalogs of all databases are not its own either.
_FILES = """
SELECT CASE WHEN relation.relnamespace = 'pg_catalog'::regnamespace THEN 'catalog'
            WHEN relation.relkind = 'i' AND owner.oid IS NULL THEN 'index' ELSE 'table' END,
       coalesce(owner.oid, relation.oid)::text,
       coalesce(owner.relnamespace, relation.relnamespace)::regnamespace
       || '.' || quote_ident(coalesce(owner.relname, relation.relname)),
       pg_relation_filepath(relation.oid)
  FROM pg_class AS relation
  LEFT JOIN pg_index AS of_overflow ON of_overflow.indexrelid = relation.oid
  LEFT JOIN pg_class AS owner
         ON owner.reltoastrelid = coalesce(of_overflow.indrelid, relation.oid)
  JOIN pg_namespace AS space ON space.oid = coalesce(owner.relnamespace, relation.relnamespace)
 WHERE relation.relkind IN ('r', 't', 'm', 'i')
   AND relation.relpersistence <> 't'
   AND space.nspname NOT IN ('pg_toast', 'information_schema')
   AND (space.nspname <> 'pg_catalog' OR relation.relnamespace = space.oid AND NOT relation.relisshared)
"""
_FORKS = ("_fsm", "_vm")
_NAMED = 3
_KINDS = {"table": "tables", "index": "indexes", "catalog": "catalogs"}


class Relations(CounterCollector):
    """Sizes of the files of each table and index of the workload's database, at both ends."""

    name: ClassVar[str] = "relations"
    summary: ClassVar[str] = "sizes of the workload's tables and indexes, and what grew most"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric(
            "table_growth_bytes_per_transaction", "growth of the workload's tables per transaction", "table *", "bytes/transaction", step=8192,
            detail="{grown tables}",
        ),
        Metric(
            "tables_bytes", "size of the workload's tables at the window's end", "table_bytes", "bytes", step=8192,
            detail="Of {tables}, with what is stored outside of rows. {largest tables}",
        ),
        Metric(
            "index_growth_bytes_per_transaction", "growth of the workload's indexes per transaction", "index *", "bytes/transaction", step=8192,
            detail="{grown indexes}",
        ),
        Metric(
            "indexes_bytes", "size of the workload's indexes at the window's end", "index_bytes", "bytes", step=8192,
            detail="Of {indexes}. {largest indexes}",
        ),
        Metric(
            "catalog_growth_bytes_per_transaction", "growth of the system catalogs per transaction", "catalog *", "bytes/transaction", step=8192,
            detail="{grown catalogs}",
        ),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[str, int] = {}
        self._most: dict[str, int] = {}

    def read(self, observer: Observer) -> Counters:
        """Counters named "KIND OID": bytes of each relation that exists now, the most that it ever had."""
        observer.postmaster()  # without it the files are not on this host
        sizes: dict[str, int] = {}
        for kind, oid, name, path in observer.query(_FILES):
            self.titles[oid] = name
            size = stored_bytes(observer.cluster.data_directory / path) if path else 0
            sizes[f"{kind} {oid}"] = sizes.get(f"{kind} {oid}", 0) + size
        self._sizes = sizes
        # Space freed by vacuum or TRUNCATE is not negative growth, and does not offset that of others.
        self._most = {name: max(size, self._most.get(name, 0)) for name, size in sizes.items()}
        return self._most

    def amounts(self, window: Window) -> Amounts:
        moved = self.moved()
        found: dict[str, float | str] = {**moved}
        for kind, kinds in _KINDS.items():
            sizes = of_kind(self._sizes, kind)
            found[f"{kind}_bytes"] = sum(sizes.values())
            found[kinds] = f"{len(sizes):,}"
            found[f"largest {kinds}"] = self._largest("The largest", sizes)
            found[f"grown {kinds}"] = self._largest("Grew most", of_kind(moved, kind))
        return found

    def _largest(self, heading: str, sizes: Mapping[str, float]) -> str:
        ranked = sorted(sizes.items(), key=lambda each: (-each[1], self.titles[each[0]]))
        named = [
            f"{self.titles[oid]} {format_bytes(size)}" for oid, size in ranked[:_NAMED] if size
        ]
        return f"{heading}: {', '.join(named)}." if named else ""


def stored_bytes(first: Path) -> int:
    """Return the bytes of a relation's files: all segments of its rows, and the maps of free and visible space.

    Args:
        first: the first segment, as pg_relation_filepath() names it; others have .1, .2 … after it.

    Raises:
        Unseen: this user may not look.
    """
    total = 0
    for fork in ("", *_FORKS):
        for number in count():
            try:
                # Of each relation twice a trial: a Path of it would take longer than the kernel.
                found = os.stat(f"{first}{fork}{f'.{number}' if number else ''}")  # noqa: PTH116
                total += found.st_size
            except FileNotFoundError:
                # Past the last segment, a fork that was not needed, or a relation dropped meanwhile.
                break
            except OSError as error:
                text = f"the files in the data directory cannot be looked at: {error.strerror}"
                raise Unseen(text) from error
    return total

"""A plan twin: a throw-away server with a twin's schema, statistics and sizes, and without rows.

What a twin's file says somebody wrote who may be a stranger: his statements run as a role that owns this one database and
may do nothing beyond it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import LiteralString

import psycopg

from pgdrag.data_twin.schema import restore_schema
from pgdrag.errors import ServerLost
from pgdrag.planning.btree_height import btree_height
from pgdrag.planning.explaining import PlanningSession
from pgdrag.planning.extended_statistics import restore_extended
from pgdrag.planning.planner_statistics import restore_sizes, restore_statistics
from pgdrag.planning.relation_files import Layout, WantedFile, resize
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.cluster import Cluster
from pgdrag.servers.scratch import Scratch, storage_errors
from pgdrag.twins.mending import GENERIC_SINCE
from pgdrag.twins.model import Relation, Twin

# Nothing may analyse the empty tables; a query locks all partitions that it may read.
_SETTINGS: Mapping[str, str] = {
    "autovacuum": "off",
    "fsync": "off",
    "shared_buffers": "16MB",
    "max_locks_per_transaction": "1024",
}
_NO_CHECKSUMS_SINCE = 18  # before, they are off by default, and initdb does not know the option
_DEFAULT_WIDTH = 8.0  # of a key that has no statistics

_FILES: LiteralString = """
SELECT nspname::text, relname::text, pg_catalog.pg_relation_filepath(c.oid), coalesce(amname, 'heap')::text,
       coalesce(indrelid, 0)::int8, c.oid::int8
  FROM pg_catalog.pg_class AS c
  JOIN pg_catalog.pg_namespace AS n ON n.oid = relnamespace
  LEFT JOIN pg_catalog.pg_am AS a ON a.oid = relam
  LEFT JOIN pg_catalog.pg_index AS i ON indexrelid = c.oid
 WHERE c.oid >= 16384 AND relkind IN ('r', 'm', 'i') AND relpersistence <> 't'
"""
_KEYS: LiteralString = """
SELECT indexrelid::int8, array_agg(coalesce(stawidth, typlen, -1)::int4 ORDER BY key.at)
  FROM pg_catalog.pg_index
 CROSS JOIN LATERAL pg_catalog.unnest(indkey::int2[]) WITH ORDINALITY AS key (attnum, at)
  JOIN pg_catalog.pg_attribute AS a ON a.attrelid = indexrelid AND a.attnum = key.at
  JOIN pg_catalog.pg_type AS t ON t.oid = a.atttypid
  LEFT JOIN LATERAL (SELECT max(stawidth) AS stawidth FROM pg_catalog.pg_statistic
                      WHERE key.attnum > 0 AND (starelid, staattnum) = (indrelid, key.attnum)
                         OR key.attnum = 0 AND (starelid, staattnum) = (indexrelid, key.at)) AS s ON true
 WHERE indexrelid >= 16384
 GROUP BY indexrelid
"""
_LAYOUT: LiteralString = """
SELECT pg_catalog.current_setting('block_size')::int4, (SELECT setting::int4 FROM pg_catalog.pg_settings WHERE name = 'segment_size')
"""


@dataclass(frozen=True)
class PlanTwin:
    """A running plan twin.

    Attributes:
        notes: what it has not of the original, and what that means, as clauses.
    """

    cluster: Cluster
    notes: tuple[str, ...]

    @property
    def version_num(self) -> int:
        """The server's, such as 180006."""
        return self.cluster.binaries.version_num

    @contextmanager
    def session(self, *, is_generic: bool | None = None) -> Iterator[PlanningSession]:
        """Yield a session that explains statements.

        Args:
            is_generic: EXPLAIN makes generic plans; by default where it can.
        """
        if is_generic is None:
            is_generic = self.version_num >= GENERIC_SINCE
        with self.cluster.connect(
            application_name="pgdrag plans", role=self.cluster.load_role
        ) as connection:
            yield PlanningSession(connection, is_generic=is_generic)


@contextmanager
def running_plan_twin(twin: Twin, binaries: Binaries, scratch: Scratch) -> Iterator[PlanTwin]:
    """Make a plan twin, and remove it at the end.

    Raises:
        ServerError: the server cannot be made or started.
        StorageError: the disk has no room for it.
    """
    with Cluster.create(scratch, binaries) as cluster:
        options = ["--no-data-checksums"] if binaries.major >= _NO_CHECKSUMS_SINCE else []
        cluster.initdb(options=options)
        cluster.configure(_SETTINGS)
        cluster.start()
        notes = [*_fill(twin, cluster)]
        files, layout = _files(twin, cluster)
        cluster.stop()
        with storage_errors("make the twin's files", cluster.data_directory):
            resize(files, layout)
        cluster.start()
        if layout.block_bytes != twin.source.block_bytes:
            notes.append(
                f"blocks have {layout.block_bytes} bytes here, and {twin.source.block_bytes} in the original"
            )
        yield PlanTwin(cluster, tuple(notes))


def _fill(twin: Twin, cluster: Cluster) -> Iterator[str]:
    """Make schema and statistics, and yield what could not be made."""
    with _losses():
        with cluster.connect(application_name="pgdrag plans", role=cluster.load_role) as connection:
            yield from restore_schema(connection, twin)
        with cluster.connect(application_name="pgdrag plans") as connection:
            restore_sizes(connection, twin.relations)
            yield from restore_statistics(connection, twin.statistics)
            yield from restore_extended(connection, twin)


@contextmanager
def _losses() -> Iterator[None]:
    """Turn a server that is gone into an error.

    Raises:
        ServerLost: it is.
    """
    try:
        yield
    except psycopg.Error as error:
        raise ServerLost(f"could not make the plan twin: {error}") from error


def _files(twin: Twin, cluster: Cluster) -> tuple[list[WantedFile], Layout]:
    """Return what the files are to look like."""
    known = {(one.schema, one.name): one for one in twin.relations}
    with _losses(), cluster.connect(application_name="pgdrag plans") as connection:
        rows = connection.execute(_FILES).fetchall()
        widths: dict[int, list[int]] = dict(connection.execute(_KEYS).fetchall())
        layout = Layout(*(connection.execute(_LAYOUT).fetchone() or ()))
    blocks = {
        oid: _blocks(one, twin)
        for schema, name, *_, oid in rows
        if (one := known.get((schema, name))) is not None
    }
    files = []
    for schema, name, path, method, table, oid in rows:
        if oid not in blocks:
            continue
        height = known[schema, name].height
        if height is None:
            keys = [_DEFAULT_WIDTH if x < 0 else float(x) for x in widths.get(oid, ())]
            height = btree_height(blocks[oid], keys, block_bytes=layout.block_bytes)
        path = cluster.data_directory / path
        files.append(
            WantedFile(path, blocks[oid], method, height, table_blocks=blocks.get(table, 0))
        )
    return files, layout


def _blocks(relation: Relation, twin: Twin) -> int:
    if relation.bytes is None:
        return relation.pages
    return relation.bytes // twin.source.block_bytes

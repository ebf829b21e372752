"""Rows of one table, read by primary key: a workload whose load is a pgbench script.

pgdrag's load driver runs the script, so pacing, latency, open loop and error counts come with it. The
class's fields are the keys of `[workload]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from pgdrag.model.measurement import Measurement
from pgdrag.workloads import Loading, Workload
from pgdrag.workloads.pgbench import pgbench_job
from pgdrag.workloads.scripts import Script
from pgdrag.workloads.tables import run_setup, violated

if TYPE_CHECKING:
    from pgdrag.driver.process import Driver, Target

SCRIPT = """
\\set id random(1, :rows)
SELECT note FROM lookup WHERE id = :id;
"""
TABLE = """
CREATE TABLE lookup (id integer PRIMARY KEY, note text NOT NULL);
INSERT INTO lookup SELECT id, md5(id::text) FROM generate_series(1, {rows}) AS id;
ANALYZE lookup;
"""
CONDITIONS = {
    "rows": (
        "rows of lookup are missing, added or changed",
        """SELECT abs(count(*) - {rows}) + count(*) FILTER (WHERE note <> md5(id::text)) FROM lookup""",
    )
}
EMPTY_CLUSTER_BYTES = 60_000_000
ROW_BYTES = 90  # with its entry in the index


class Lookup(Workload):
    """One SELECT a transaction."""

    name = "lookup"
    summary = "rows of one table, read by primary key"

    rows: Annotated[int, Field(ge=1, le=10_000_000)] = Field(
        default=10_000, description="Rows of the table"
    )

    @property
    def changes_data(self) -> bool:
        """Tell pgdrag that the next trial may go on with the same cluster."""
        return False

    @property
    def transactions(self) -> tuple[str, ...]:
        """Name the type of transaction: it is the script's name."""
        return ("lookup",)

    def dataset(self) -> Mapping[str, object]:
        """Return what the dataset is made from: pgdrag loads it once and restores a snapshot by this key."""
        return {"kind": self.name, "data_version": 1, "rows": self.rows}

    def dataset_bytes(self) -> int:
        """Return about how many bytes the cluster takes, so that pgdrag can warn of a full disk."""
        return EMPTY_CLUSTER_BYTES + ROW_BYTES * self.rows

    def job(self) -> dict[str, object]:
        """Return what the load driver is told."""
        script = Script(name=self.transactions[0], text=SCRIPT)
        return pgbench_job(
            (script,), scale=1, statements="prepared", variables={"rows": str(self.rows)}
        )

    def populate(self, loading: Loading) -> None:
        """Make the table in an empty database, with SQL."""
        run_setup(TABLE.format(rows=self.rows), loading.target)

    def violations(
        self, driver: Driver, target: Target, measured: Measurement, *, timeout_s: float
    ) -> tuple[str, ...]:
        """Check after each trial that the table is as it was; a violation makes the trial invalid."""
        conditions = {
            name: (message, query.format(rows=self.rows))
            for name, (message, query) in CONDITIONS.items()
        }
        return violated(conditions, target, timeout_s=timeout_s)

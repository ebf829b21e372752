"""Counters that all sessions add to, in ten variants of schema, statement and locks.

Each transaction draws a counter and a delta from -10 to 10 and adds it. What an update must never do is to get
lost: after a trial the deltas of all that committed, as the driver has summed them, must be what the tables say.
The variants with "ctid = (SELECT …)" and no lock around it do lose some: an update that waited for another
finds its row moved, looks no further, and touches none.

C10 appends: a delta is a row of a ledger, numbered in the order of arrival. One transaction in a thousand then
rolls up, in transactions of its own: it picks a mark up to which all deltas are known to be committed or never
to be (for a moment nobody appends), and adds a row of balances for each counter that has news since the last
mark. A counter's value is its last balance and the deltas behind the last mark. Only one session rolls up at a
time; the others go on appending.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from pgdrag.model.measurement import Example, Measurement, Sum
from pgdrag.workloads import Workload
from pgdrag.workloads._counter_variants import CATALOGUE, DELTA, Variant
from pgdrag.workloads.pgbench import pgbench_job
from pgdrag.workloads.scripts import Script
from pgdrag.workloads.tables import look_up, run_setup

if TYPE_CHECKING:
    from pgdrag.driver.process import Driver, Target
    from pgdrag.workloads import Listener

BYTES_WITHOUT_COUNTERS = 60_000_000
BYTES_PER_COUNTER = 120  # the row, and an entry in each of two indexes

_SKEW = re.compile(r"(zipfian|exponential|gaussian)\(([0-9]+(?:\.[0-9]+)?)\)")
# pgbench's own bounds: the least of each parameter, and whether it may be had.
_LEAST = {"zipfian": 1.001, "exponential": 0.001, "gaussian": 2.0}
_MOST = 1000.0


def _skew(text: str) -> str:
    if text == "uniform":
        return text
    found = _SKEW.fullmatch(text)
    if found is None:
        raise ValueError('write "uniform", or zipfian, exponential or gaussian with (a number)')
    least = _LEAST[found[1]]
    if not least <= float(found[2]) <= _MOST:
        raise ValueError(f"the parameter of {found[1]} is from {least:g} to {_MOST:g}")
    return text


class Counters(Workload):
    """Deltas that are added to a few counters by all sessions."""

    name = "counters"
    summary = (
        "global counters that all sessions add to: ten variants of schema, statement and locks"
    )
    alike_at_all_scales: ClassVar[tuple[str, ...]] = ("statements",)

    variant: Literal["C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "C10"] = Field(
        default="C1", description="Schema, statement and locks, by the study's name"
    )
    rows: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=100, description="Counters, with the ids from 1"
    )
    skew: Annotated[str, AfterValidator(_skew)] = Field(
        default="uniform",
        description='How a counter is drawn: "uniform", or by pgbench\'s "zipfian(1.2)", "exponential(5)", "gaussian(3)"',
    )
    statements: Literal["simple", "extended", "prepared"] = Field(
        default="simple", description="How statements are sent (pgbench's -M)"
    )

    @classmethod
    def words(cls, parameters: Mapping[str, object]) -> str:
        """Return the parameters, and what the variant is."""
        variant = CATALOGUE.get(str(parameters.get("variant")))
        return super().words(parameters) + (f": {variant.title}" if variant else "")

    @property
    def transactions(self) -> tuple[str, ...]:
        """One type, of the same name in all variants."""
        return ("add",)

    def dataset(self) -> Mapping[str, object]:
        """Return what makes the tables: variants that differ in statement or locks alone share them."""
        return {"kind": self.name, "data_version": 1, "schema": self._schema}

    def dataset_bytes(self) -> int:
        """Return about how many bytes the tables take."""
        return BYTES_WITHOUT_COUNTERS + BYTES_PER_COUNTER * self.rows

    def job(self) -> dict[str, object]:
        """Return the driver's `workload` object: a script of pgbench's."""
        variant = self._variant
        return pgbench_job(
            (Script(self.transactions[0], f"\\set b_id {self._draw}\n{variant.script}"),),
            scale=1,
            statements=self.statements,
            sums=(DELTA,),
            after_failure="SELECT pg_advisory_unlock_all()" if variant.keeps_locks else "",
        )

    def populate(
        self,
        driver: Driver,
        target: Target,
        *,
        seed: int,
        parallelism: int,
        timeout_s: float,
        listen: Listener,
    ) -> None:
        """Make and fill the tables.

        Raises:
            DriverError: they could not be made.
        """
        run_setup(f"{self._schema}ANALYZE;", target)

    def sends(self, driver: Driver, *, seed: int) -> tuple[Example, ...]:
        """Return the variant's statements, variables being parameters.

        Raises:
            DriverError: the driver cannot tell.
        """
        return driver.examples(self.job(), seed=seed)

    def violations(
        self, driver: Driver, target: Target, measured: Measurement, *, timeout_s: float
    ) -> tuple[str, ...]:
        """Return what tells that updates were lost, or that an id has not exactly one counter.

        Raises:
            DriverError: the check could not be carried out.
        """
        strays = self._variant.strays.format(rows=self.rows)
        total, wrong = look_up((self._variant.total, strays), target, timeout_s=timeout_s)
        found = [lost_updates(measured.sums[DELTA], total)]
        if wrong:
            found.append(f"{wrong:,} ids do not have exactly one counter")
        return tuple(filter(None, found))

    @property
    def _variant(self) -> Variant:
        return CATALOGUE[self.variant]

    @property
    def _schema(self) -> str:
        return self._variant.schema.format(rows=self.rows)

    @property
    def _draw(self) -> str:
        found = _SKEW.fullmatch(self.skew)
        if found is None:
            return f"random(1, {self.rows})"
        return f"random_{found[1]}(1, {self.rows}, {float(found[2])})"


def lost_updates(deltas: Sum, total: int) -> str:
    """Return a sentence where deltas that were committed are not in the total; "" where all are.

    An update that touched no row is lost whatever its delta; where each touched one, the difference tells.
    """
    if not deltas.untouched and deltas.allows(total):
        return ""
    count = f"{deltas.untouched:,} of {deltas.committed:,} " if deltas.untouched else ""
    unknown = (
        f"; {deltas.unknown:,} more may have committed, as their connections broke, and add between "
        f"{deltas.unknown_low:,} and {deltas.unknown_high:,}"
        if deltas.unknown
        else ""
    )
    return f"{count}updates were lost: the deltas sum to {deltas.sum:,}, the table to {total:,}{unknown}"

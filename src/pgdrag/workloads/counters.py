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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from pgdrag.model.measurement import Measurement, Sum
from pgdrag.workloads import Workload
from pgdrag.workloads.pgbench import pgbench_job
from pgdrag.workloads.scripts import Script
from pgdrag.workloads.tables import look_up, run_setup

if TYPE_CHECKING:
    from pgdrag.driver.process import Driver, Target
    from pgdrag.workloads import Loading

DELTA = "v_delta"  # the variable that the driver sums


@dataclass(frozen=True)
class Variant:
    """One way to count.

    Attributes:
        title: what it changes.
        schema: makes the tables, and fills them with counters from 1 to {rows} that are at 0.
        statement: adds `:v_delta` to the counter `:b_id`, in a transaction of its own.
        lock: the key of the advisory lock that a session holds around the statement; "": none.
        then: what a session does after it, in pgbench's script language.
        total: a query for what the counters have counted in all.
        strays: a query for how many ids have another number of counters than one.
    """

    title: str
    schema: str
    statement: str
    lock: str = ""
    then: str = ""
    total: str = "SELECT coalesce(sum(cnt), 0) FROM global_counters"
    strays: str = """SELECT count(*) FROM (
        SELECT FROM (SELECT id FROM global_counters UNION ALL SELECT generate_series(1, {rows})) AS every (id)
        GROUP BY id HAVING count(*) <> 2) AS strays"""

    @property
    def script(self) -> str:
        """The script, but for how `b_id` is drawn."""
        around = (f"SELECT pg_advisory_{x}lock({self.lock});\n" for x in ("", "un"))
        before, after = around if self.lock else ("", "")
        return f"\\set {DELTA} random(-10, 10)\n{before}{self.statement};\n{after}{self.then}"


_FILL = "INSERT INTO global_counters (id, cnt) SELECT i, 0 FROM generate_series(1, {rows}) AS i;"
_PLAIN = f"CREATE TABLE global_counters (id int PRIMARY KEY, cnt bigint);\n{_FILL}\n"
_DATED = "CREATE TABLE global_counters (id int{key}, cnt bigint, last timestamp);\n" + _FILL
_NEWEST_FIRST = "\nCREATE INDEX global_counters_newest ON global_counters (id, last);\n"
_DATED_WITH_KEY = _DATED.replace("{key}", " PRIMARY KEY") + _NEWEST_FIRST
_DATED_WITHOUT_KEY = _DATED.replace("{key}", "") + _NEWEST_FIRST

_ADD = f"UPDATE global_counters SET cnt = cnt + :{DELTA} WHERE id = :b_id"
_ADD_TO_NEWEST = f"""UPDATE global_counters SET cnt = cnt + :{DELTA}, last = now()
WHERE ctid = (SELECT ctid FROM global_counters WHERE id = :b_id ORDER BY last DESC LIMIT 1)"""

# Nothing is ever updated or deleted: deltas are appended, and so are the balances that sum them up to a mark.
_LEDGER = """
CREATE TABLE global_counter_deltas (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id int NOT NULL, delta bigint NOT NULL);
CREATE TABLE global_counter_marks (upto bigint PRIMARY KEY);
CREATE TABLE global_counter_balances (id int, upto bigint, cnt bigint NOT NULL, PRIMARY KEY (id, upto));
INSERT INTO global_counter_marks VALUES (0);
INSERT INTO global_counter_balances SELECT i, 0, 0 FROM generate_series(1, {rows}) AS i;
"""
# Whoever appends holds lock 10 in share until the commit, and takes it before the number.
_APPEND = f"""INSERT INTO global_counter_deltas (id, delta)
SELECT :b_id::int, :{DELTA}::bigint FROM pg_advisory_xact_lock_shared(10)"""
# One append in a thousand is followed by a roll-up, unless one is under way (lock 11). It chooses the mark while
# nobody appends: every delta up to it has committed or never will, and those beyond it are for the next time.
# That takes no longer than the appends under way, and it does not ask for the horizon, which may be held.
# The folding itself is one statement: a delta is in a balance, or behind the mark, and never in both.
_ROLL_UP = """\\set turn random(1, 1000)
\\if :turn = 1
SELECT pg_try_advisory_lock(11) AS rolls_up \\gset
\\if :rolls_up
BEGIN ISOLATION LEVEL READ COMMITTED;
SELECT pg_advisory_xact_lock(10);
SELECT coalesce(max(seq), 0) AS upto FROM global_counter_deltas \\gset
COMMIT;
WITH mark AS (
    INSERT INTO global_counter_marks SELECT :upto::bigint WHERE :upto::bigint > (SELECT max(upto) FROM global_counter_marks)
    RETURNING upto
), news AS (
    SELECT id, sum(delta) AS delta FROM global_counter_deltas
    WHERE seq > (SELECT max(upto) FROM global_counter_marks) AND seq <= :upto::bigint GROUP BY id
)
INSERT INTO global_counter_balances
SELECT id, upto, delta + (SELECT cnt FROM global_counter_balances AS b WHERE b.id = news.id ORDER BY b.upto DESC LIMIT 1)
FROM news, mark;
SELECT pg_advisory_unlock(11);
\\endif
\\endif
"""

# The variants are named as in the study that published them; its table is `global_counters (id, cnt)`. C10 was
# published as an idea, without SQL: how it is meant here is said above.
CATALOGUE: Mapping[str, Variant] = {
    # What all others are compared with: an update by key, and nobody holds the horizon.
    "C1": Variant("primary key, no holder", _PLAIN, _ADD),
    # The same table and statement as C1; the held horizon is another factor's level.
    "C2": Variant("primary key, under a holder", _PLAIN, _ADD),
    # Finds the version that lives without walking the chain of dead ones: by its time, then by its place.
    "C3": Variant("the newest version by an index on (id, last)", _DATED_WITH_KEY, _ADD_TO_NEWEST),
    # Nobody changes the row between the look for its newest version and its update: sessions queue.
    "C4": Variant("C3 inside one advisory lock", _DATED_WITH_KEY, _ADD_TO_NEWEST, lock="123"),
    # No unique index is left that must look at every dead version of a key when it is inserted again.
    "C5": Variant("C3 without the primary key", _DATED_WITHOUT_KEY, _ADD_TO_NEWEST),
    # C5, with all sessions in one queue.
    "C6": Variant("C5 inside one advisory lock", _DATED_WITHOUT_KEY, _ADD_TO_NEWEST, lock="123"),
    # C5, with a queue for each counter: sessions wait only for those that count the same.
    "C7": Variant(
        "C5 inside an advisory lock for each counter",
        _DATED_WITHOUT_KEY,
        _ADD_TO_NEWEST,
        lock=":b_id",
    ),
    # Whether it is uniqueness that costs: an index that no statement reads guarantees it again.
    "C8": Variant(
        "C5 with a unique index on (id + 0)",
        _DATED_WITHOUT_KEY + "CREATE UNIQUE INDEX ON global_counters ((id + 0));\n",
        _ADD_TO_NEWEST,
    ),
    # No update is HOT: each puts an entry into every index.
    "C9": Variant(
        "C2 with an index on cnt", _PLAIN + "CREATE INDEX ON global_counters (cnt);\n", _ADD
    ),
    # Nothing is ever updated: there are no dead versions for a held horizon to keep.
    "C10": Variant(
        "an append-only ledger with rolled-up balances",
        _LEDGER,
        _APPEND,
        then=_ROLL_UP,
        total="""SELECT (SELECT sum(cnt) FROM (
            SELECT DISTINCT ON (id) cnt FROM global_counter_balances ORDER BY id, upto DESC) AS balances)
            + (SELECT coalesce(sum(delta), 0) FROM global_counter_deltas
               WHERE seq > (SELECT max(upto) FROM global_counter_marks))""",
        strays="""SELECT count(*) FROM (
            SELECT FROM (SELECT DISTINCT id FROM global_counter_balances
                         UNION ALL SELECT generate_series(1, {rows})) AS every (id)
            GROUP BY id HAVING count(*) <> 2) AS strays""",
    ),
}

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
        drawn = f"random(1, {self.rows})"
        if (skew := _SKEW.fullmatch(self.skew)) is not None:
            drawn = f"random_{skew[1]}(1, {self.rows}, {float(skew[2])})"
        return pgbench_job(
            (Script(name="add", text=f"\\set b_id {drawn}\n{variant.script}"),),
            scale=1,
            statements=self.statements,
            sums=(DELTA,),
            # A session that fails between two statements would go on with a lock.
            after_failure="SELECT pg_advisory_unlock_all()" if variant.lock or variant.then else "",
        )

    def populate(self, loading: Loading) -> None:
        """Make and fill the tables.

        Raises:
            DriverError: they could not be made.
        """
        run_setup(f"{self._schema}ANALYZE;", loading.target)

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

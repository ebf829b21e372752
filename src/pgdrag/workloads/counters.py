"""Counters that all sessions add to, in ten published variants of schema, statement and locks, and as production has them.

Each transaction draws a counter and a delta from -10 to 10 and adds it. What an update must never do is to get
lost: after a trial the deltas of all that committed, as the driver has summed them, must be what the tables say.
The variants with "ctid = (SELECT …)" and no lock around it do lose some: an update that waited for another
finds its row moved, looks no further, and touches none.

C10 appends: a delta is a row of a ledger, numbered in the order of arrival. One transaction in a thousand then
rolls up, in transactions of its own: it picks a mark up to which all deltas are known to be committed or never
to be (for a moment nobody appends), and adds a row of balances for each counter that has news since the last
mark. A counter's value is its last balance and the deltas behind the last mark. Only one session rolls up at a
time; the others go on appending.

Beside the updates, a share of the transactions may read a counter, or make a temporary table and drop it again,
which leaves dead rows in the system catalogs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from pgdrag.model.measurement import Measurement, Sum
from pgdrag.workloads import Workload
from pgdrag.workloads.pgbench import pgbench_job
from pgdrag.workloads.scripts import Script
from pgdrag.workloads.tables import look_up, run_setup

if TYPE_CHECKING:
    from pgdrag.driver.process import Driver, Target
    from pgdrag.workloads import Loading

DELTA = "v_delta"  # the variable that the driver sums
START = 1_000_000  # where the published counters begin


Variants = Literal[
    "C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "C10", "talk", "branches", "locks"
]  # fmt: skip


def _strays(counters: str) -> str:
    """Return a query for how many ids do not have exactly one counter, where `counters` selects those that have one."""
    return f"""SELECT count(*) FROM (
        SELECT FROM ({counters} UNION ALL SELECT generate_series(1, {{rows}})) AS every (id)
        GROUP BY id HAVING count(*) <> 2) AS strays"""


@dataclass(frozen=True)
class Variant:
    """One way to count.

    Attributes:
        title: what it changes.
        schema: makes the tables, and fills them with counters from 1 to {rows}.
        statement: adds `:v_delta` to the counter `:b_id`, and the {counters} - 1 after it, in a transaction.
        lock: the key of the advisory lock that a session holds around the statement; "": none.
        then: what a session does after it, in pgbench's script language.
        total: a query for what the counters have counted in all.
        strays: a query for how many ids do not have exactly one counter.
        read: reads the counter `:b_id`.
        takes_several: a transaction may add to several counters.
    """

    title: str
    schema: str
    statement: str
    lock: str = ""
    then: str = ""
    total: str = f"SELECT coalesce(sum(cnt - {START}), 0) FROM global_counters"
    strays: str = _strays("SELECT id FROM global_counters")
    read: str = "SELECT cnt FROM global_counters WHERE id = :b_id"
    takes_several: bool = False

    @property
    def is_summed(self) -> bool:
        """Whether it counts at all, so that a lost update would show."""
        return f":{DELTA}" in self.statement

    @property
    def script(self) -> str:
        """The script, but for how `b_id` is drawn."""
        around = (f"SELECT pg_advisory_{x}lock({self.lock});\n" for x in ("", "un"))
        before, after = around if self.lock else ("", "")
        drawn = f"\\set {DELTA} random(-10, 10)\n" if self.is_summed else ""
        return f"{drawn}{before}{self.statement};\n{after}{self.then}"


_FROM_ALL = "FROM generate_series(1, {rows}) AS i;\n"
_PLAIN = f"""CREATE TABLE global_counters (id int PRIMARY KEY, cnt bigint);
INSERT INTO global_counters SELECT i, {START} {_FROM_ALL}"""
# Without a time at the beginning the first version of each counter would sort as its newest, for ever.
_DATED = f"""CREATE TABLE global_counters (id int{{key}}, cnt bigint, last timestamp);
INSERT INTO global_counters SELECT i, {START}, now() {_FROM_ALL}"""
_NEWEST_FIRST = "CREATE INDEX global_counters_newest ON global_counters (id, last);\n"
_DATED_WITH_KEY = _DATED.replace("{key}", " PRIMARY KEY") + _NEWEST_FIRST
_DATED_WITHOUT_KEY = _DATED.replace("{key}", "") + _NEWEST_FIRST

_ADD = f"UPDATE global_counters SET cnt = cnt + :{DELTA} WHERE id = :b_id"
_ADD_TO_NEWEST = f"""UPDATE global_counters SET cnt = cnt + :{DELTA}, last = now()
WHERE ctid = (SELECT ctid FROM global_counters WHERE id = :b_id ORDER BY last DESC LIMIT 1)"""

# Nothing is ever updated or deleted: deltas are appended, and so are the balances that sum them up to a mark.
_LEDGER = f"""
CREATE TABLE global_counter_deltas (seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id int NOT NULL, delta bigint NOT NULL);
CREATE TABLE global_counter_marks (upto bigint PRIMARY KEY);
CREATE TABLE global_counter_balances (id int, upto bigint, cnt bigint NOT NULL, PRIMARY KEY (id, upto));
INSERT INTO global_counter_marks VALUES (0);
INSERT INTO global_counter_balances SELECT i, 0, {START} {_FROM_ALL}"""
# Whoever appends holds lock 10 in share until the commit, and takes it before the number.
_APPEND = f"""INSERT INTO global_counter_deltas (id, delta)
SELECT :b_id::int, :{DELTA}::bigint FROM pg_advisory_xact_lock_shared(10)"""
# One append in a thousand is followed by a roll-up, unless one is under way (lock 11). It chooses the mark while
# nothing is appended: every delta up to it has committed or never will, and later ones are for the next time.
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
    # What all others are compared with: an update by key while the horizon is not held.
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
        total=f"""SELECT (SELECT sum(cnt - {START}) FROM (
            SELECT DISTINCT ON (id) cnt FROM global_counter_balances ORDER BY id, upto DESC) AS balances)
            + (SELECT coalesce(sum(delta), 0) FROM global_counter_deltas
               WHERE seq > (SELECT max(upto) FROM global_counter_marks))""",
        strays=_strays("SELECT DISTINCT id FROM global_counter_balances"),
        read="""SELECT cnt + (SELECT coalesce(sum(delta), 0) FROM global_counter_deltas AS news
        WHERE news.id = :b_id AND seq > (SELECT max(upto) FROM global_counter_marks))
FROM global_counter_balances AS balances WHERE balances.id = :b_id ORDER BY upto DESC LIMIT 1""",
    ),
    # The script of the talk that the study begins with: each update makes a version, and counts nothing.
    "talk": Variant(
        "the talk's script: set id = id",
        _PLAIN,
        "UPDATE global_counters SET id = id WHERE id = :b_id",
    ),
    # The same in a table that everybody has: pgbench's, with a row for each branch.
    "branches": Variant(
        "pgbench's table of branches",
        f"""CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88));
INSERT INTO pgbench_branches (bid, bbalance) SELECT i, 0 {_FROM_ALL}""",
        f"UPDATE pgbench_branches SET bbalance = bbalance + :{DELTA} WHERE bid = :b_id",
        total="SELECT coalesce(sum(bbalance), 0) FROM pgbench_branches",
        strays=_strays("SELECT bid FROM pgbench_branches"),
        read="SELECT bbalance FROM pgbench_branches WHERE bid = :b_id",
    ),
    # A lock for each counter, kept to the transaction's end: all sessions' locks must fit into the server's table.
    # They are taken in ascending order, so that no two transactions wait for each other.
    "locks": Variant(
        "C1 with an advisory lock for each of a transaction's counters",
        _PLAIN,
        f"""BEGIN;
SELECT count(pg_advisory_xact_lock(id)) FROM generate_series(:b_id, :b_id + {{counters}} - 1) AS id;
UPDATE global_counters SET cnt = cnt + :{DELTA} WHERE id BETWEEN :b_id AND :b_id + {{counters}} - 1;
END""",
        takes_several=True,
    ),
}
# One transaction that leaves dead rows in pg_class, pg_attribute, pg_type and pg_depend.
_MAKE_TABLE = """BEGIN;
CREATE TEMPORARY TABLE global_counters_copied (id int, cnt bigint, last timestamp) ON COMMIT DROP;
END;
"""

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
    summary = "global counters that all sessions add to: variants of schema, statement and locks"
    alike_at_all_scales: ClassVar[tuple[str, ...]] = ("statements",)

    variant: Variants = Field(
        default="C1",
        description="Schema, statement and locks: C1 to C10 by the study's names, or talk, branches, locks",
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
    reads: Annotated[int, Field(ge=0, le=99)] = Field(
        default=0, description="Transactions that read a counter instead, per cent of all"
    )
    temporary_tables: Annotated[int, Field(ge=0, le=99)] = Field(
        default=0,
        description="Transactions that make and drop a temporary table instead, per cent of all",
    )
    counters_per_transaction: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=1,
        description="Variant locks: neighbouring counters that a transaction locks and adds to",
    )

    @model_validator(mode="after")
    def _goes_together(self) -> Self:
        if self.reads + self.temporary_tables > 99:
            raise ValueError("reads and temporary_tables leave no transaction that adds")
        if self.counters_per_transaction > 1 and not self._variant.takes_several:
            raise ValueError('counters_per_transaction goes with variant = "locks" alone')
        if self.counters_per_transaction > self.rows:
            raise ValueError("counters_per_transaction must be at most rows")
        return self

    @classmethod
    def words(cls, parameters: Mapping[str, object]) -> str:
        variant = CATALOGUE.get(str(parameters.get("variant")))
        return super().words(parameters) + (f": {variant.title}" if variant else "")

    @property
    def transactions(self) -> tuple[str, ...]:
        return tuple(script.name for script in self._scripts)

    def dataset(self) -> Mapping[str, object]:
        """Return what makes the tables: variants that differ in statement or locks alone share them."""
        return {"kind": self.name, "data_version": 1, "schema": self._schema}

    def dataset_bytes(self) -> int:
        return BYTES_WITHOUT_COUNTERS + BYTES_PER_COUNTER * self.rows

    def job(self) -> dict[str, object]:
        variant = self._variant
        return pgbench_job(
            self._scripts,
            scale=1,
            statements=self.statements,
            sums=(DELTA,) if variant.is_summed else (),
            # A session that fails between two statements would go on with a lock.
            after_failure="SELECT pg_advisory_unlock_all()" if variant.lock or variant.then else "",
        )

    def populate(self, loading: Loading) -> None:
        """Make and fill the tables."""
        run_setup(f"{self._schema}ANALYZE;", loading.target)

    def violations(
        self, driver: Driver, target: Target, measured: Measurement, *, timeout_s: float
    ) -> tuple[str, ...]:
        """Return what tells that updates were lost, or that an id has not exactly one counter."""
        strays = self._variant.strays.format(rows=self.rows)
        total, wrong = look_up((self._variant.total, strays), target, timeout_s=timeout_s)
        found = []
        if self._variant.is_summed:
            found.append(
                lost_updates(_times(measured.sums[DELTA], self.counters_per_transaction), total)
            )
        if wrong:
            found.append(f"{wrong:,} ids do not have exactly one counter")
        return tuple(filter(None, found))

    @property
    def _variant(self) -> Variant:
        return CATALOGUE[self.variant]

    @property
    def _scripts(self) -> tuple[Script, ...]:
        last = self.rows - self.counters_per_transaction + 1
        drawn = f"random(1, {last})"
        if (skew := _SKEW.fullmatch(self.skew)) is not None:
            drawn = f"random_{skew[1]}(1, {last}, {float(skew[2])})"
        draw = f"\\set b_id {drawn}\n"
        adds = self._variant.script.replace("{counters}", str(self.counters_per_transaction))
        weights = {
            "add": (draw + adds, 100 - self.reads - self.temporary_tables),
            "read": (f"{draw}{self._variant.read};\n", self.reads),
            "temporary table": (_MAKE_TABLE, self.temporary_tables),
        }
        return tuple(
            Script(name=name, text=text, weight=weight)
            for name, (text, weight) in weights.items()
            if weight
        )

    @property
    def _schema(self) -> str:
        return self._variant.schema.format(rows=self.rows)


def _times(deltas: Sum, counters: int) -> Sum:
    """Return the sum of the deltas, each of which is added to several counters."""
    return replace(
        deltas,
        sum=deltas.sum * counters,
        unknown_low=deltas.unknown_low * counters,
        unknown_high=deltas.unknown_high * counters,
    )


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

"""Which ways are there to count in a table, for all sessions together? Ten variants, as they were published.

Each is a schema, a statement and what is locked around it. The names are those of the study; its table is
`global_counters (id, cnt)`, to which each transaction adds a delta. C10 was published as an idea, without SQL:
how it is meant here is said where it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

DELTA = "v_delta"  # the variable that the driver sums


@dataclass(frozen=True)
class Variant:
    """One way to count.

    Attributes:
        title: what it changes.
        purpose: what it is for, a sentence.
        schema: makes the tables, and fills them with counters from 1 to {rows} that are at 0.
        statement: adds `:v_delta` to the counter `:b_id`, in a transaction of its own.
        lock: the key of the advisory lock that a session holds around the statement; "": none.
        then: what a session does after it, in pgbench's script language.
        total: a query for what the counters have counted in all.
        strays: a query for how many ids have another number of counters than one.
    """

    title: str
    purpose: str
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

    @property
    def keeps_locks(self) -> bool:
        """Whether a session that fails between two statements would go on with a lock."""
        return bool(self.lock or self.then)


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

CATALOGUE: Mapping[str, Variant] = {
    "C1": Variant(
        "primary key, no holder",
        "What all others are compared with: an update by key, and nobody holds the horizon.",
        _PLAIN,
        _ADD,
    ),
    "C2": Variant(
        "primary key, under a holder",
        "The same table and statement as C1; the held horizon is another factor's level.",
        _PLAIN,
        _ADD,
    ),
    "C3": Variant(
        "the newest version by an index on (id, last)",
        "Finds the version that lives without walking the chain of dead ones: by its time, then by its place.",
        _DATED_WITH_KEY,
        _ADD_TO_NEWEST,
    ),
    "C4": Variant(
        "C3 inside one advisory lock",
        "Nobody changes the row between the look for its newest version and its update: sessions queue.",
        _DATED_WITH_KEY,
        _ADD_TO_NEWEST,
        lock="123",
    ),
    "C5": Variant(
        "C3 without the primary key",
        "No unique index is left that must look at every dead version of a key when it is inserted again.",
        _DATED_WITHOUT_KEY,
        _ADD_TO_NEWEST,
    ),
    "C6": Variant(
        "C5 inside one advisory lock",
        "C5, with all sessions in one queue.",
        _DATED_WITHOUT_KEY,
        _ADD_TO_NEWEST,
        lock="123",
    ),
    "C7": Variant(
        "C5 inside an advisory lock for each counter",
        "C5, with a queue for each counter: sessions wait only for those that count the same.",
        _DATED_WITHOUT_KEY,
        _ADD_TO_NEWEST,
        lock=":b_id",
    ),
    "C8": Variant(
        "C5 with a unique index on (id + 0)",
        "Whether it is uniqueness that costs: an index that no statement reads guarantees it again.",
        _DATED_WITHOUT_KEY + "CREATE UNIQUE INDEX ON global_counters ((id + 0));\n",
        _ADD_TO_NEWEST,
    ),
    "C9": Variant(
        "C2 with an index on cnt",
        "No update is HOT: each puts an entry into every index.",
        _PLAIN + "CREATE INDEX ON global_counters (cnt);\n",
        _ADD,
    ),
    "C10": Variant(
        "an append-only ledger with rolled-up balances",
        "Nothing is ever updated: there are no dead versions for a held horizon to keep.",
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

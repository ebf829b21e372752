"""pg_expecto's three scenarios on pgbench's tables: what its functions do, each in sessions of its own.

As in its repository at commit 7947b79 (2026-01-03), of the study of the operating system. There a load of so many
sessions starts `CEIL(load × weight)` clients for each scenario, so that more sessions work than the load says.
Each scenario draws its rows within the server, uniformly, between the least and the greatest key.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from ctypes import c_float
from itertools import count
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import Field

from pgdrag.english import counted, listed
from pgdrag.model.load import LoadProfile
from pgdrag.model.measurement import Example, Measurement
from pgdrag.workloads import DatasetSize, Driving, Objection, Weights, Workload
from pgdrag.workloads.pgbench import LARGEST_SCALE, Pgbench
from pgdrag.workloads.scripts import Script
from pgdrag.workloads.tables import violated

if TYPE_CHECKING:
    from pgdrag.driver.process import Driver, Target
    from pgdrag.workloads import Listener, Loading

_PARTS = 1_000_000  # weights are drawn by, in whole numbers

_TABLES = {"aid": "pgbench_accounts", "tid": "pgbench_tellers", "bid": "pgbench_branches"}
# What a scenario does, in SQL with {0}, {1} … for the keys that were drawn and the amount.
_READ = """SELECT bbalance FROM pgbench_branches
    JOIN pgbench_accounts ON pgbench_accounts.bid = pgbench_branches.bid WHERE aid = {aid}"""
_READ_ACCOUNT = "SELECT abalance FROM pgbench_accounts WHERE aid = {aid}"
_ADD = {
    key: f"UPDATE {table} SET {key[0]}balance = {key[0]}balance + {{amount}} WHERE {key} = {{{key}}}"
    for key, table in _TABLES.items()
}
_NOTE = """INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
    VALUES ({tid}, {bid}, {aid}, {amount}, CURRENT_TIMESTAMP)"""


def _drawing(key: str, *ends: str) -> str:
    """Return what draws one of a table's keys in PL/pgSQL, as published: by a statement for each end."""
    looks = "".join(
        f"\n    SELECT {end}({key}) INTO {end}_key FROM {_TABLES[key]};" for end in ends
    )
    return f"{looks}\n    the_{key} := floor(random() * (max_key - min_key + 1)) + min_key;"


def _function(name: str, body: str) -> str:
    """Return a function; in PL/pgSQL, whose plans a session keeps."""
    return f"""
CREATE FUNCTION scenario_{name}() RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    min_key bigint; max_key bigint; the_aid bigint; the_tid bigint; the_bid bigint; the_amount bigint; balance bigint;
BEGIN{body}
    RETURN 0;
END $$;"""


_KEYS = {name: f"the_{name}" for name in (*_TABLES, "amount")}


def _functions(insert_rows: int) -> str:
    account, *others = (_drawing(key, "min", "max") for key in _TABLES)
    into = f"{_READ} INTO balance", f"{_READ_ACCOUNT} INTO balance"
    read, read_account = (text.format(**_KEYS) for text in into)
    add = {key: text.format(**_KEYS) for key, text in _ADD.items()}
    update = f"""
    the_amount := round(random())::bigint * 10 + 1;{account}
    {add["aid"]};
    {read_account};{others[0]}
    {add["tid"]};{others[1]}
    {add["bid"]};"""
    insert = f"""{account}{"".join(others)}
    the_amount := random() * 1000.0;
    FOR number IN 1..{insert_rows} LOOP
        {_NOTE.format(**_KEYS)};
    END LOOP;"""
    bodies = {
        "select": f"{_drawing('aid', 'max', 'min')}\n    {read};",
        "update": update,
        "insert": insert,
    }
    return "\n".join(_function(name, body) for name, body in bodies.items())


# The same statements one by one. A script draws its keys itself, of those that the scale says.
_LOOK = {
    key: f"SELECT max({key}) FROM {x};\nSELECT min({key}) FROM {x};\n" for key, x in _TABLES.items()
}
_DRAW = {
    "aid": "\\set aid random(1, 100000 * :scale)\n",
    "tid": "\\set tid random(1, 10 * :scale)\n",
    "bid": "\\set bid random(1, :scale)\n",
}
_VARIABLES = {name: f":{name}" for name in _KEYS}


def _scripts(insert_rows: int) -> dict[str, str]:
    read, read_account, note = (
        f"{text.format(**_VARIABLES)};\n" for text in (_READ, _READ_ACCOUNT, _NOTE)
    )
    add = {key: f"{text.format(**_VARIABLES)};\n" for key, text in _ADD.items()}
    update = (
        _LOOK["aid"]
        + add["aid"]
        + read_account
        + _LOOK["tid"]
        + add["tid"]
        + _LOOK["bid"]
        + add["bid"]
    )
    amount = "\\set amount random(0, 1) * 10 + 1\n"
    draws = "".join(_DRAW.values())
    return {
        "select": f"{_DRAW['aid']}BEGIN;\n{_LOOK['aid']}{read}END;\n",
        "update": f"{draws}{amount}BEGIN;\n{update}END;\n",
        "insert": f"{draws}\\set amount random(0, 1000)\nBEGIN;\n{''.join(_LOOK.values())}{note * insert_rows}END;\n",
    }


class ScenarioWeights(Weights):
    """What each scenario has, as a share of the sum: of the sessions, or of the transactions."""

    select: Annotated[float, Field(ge=0, le=1_000_000)] = 0.7
    update: Annotated[float, Field(ge=0, le=1_000_000)] = 0.2
    insert: Annotated[float, Field(ge=0, le=1_000_000)] = 0.1


class Scenarios(Workload):
    """Reads, updates of three tables and inserts, as server-side functions or as plain statements."""

    name = "scenarios"
    summary = "pg_expecto's scenarios: sessions that read (0.7), update (0.2) and insert (0.1)"
    dataset_size = DatasetSize("scale", "scale {}".format, "pgbench_scale")
    alike_at_all_scales: ClassVar[tuple[str, ...]] = (
        "statements",
        "sent_as",
        "split",
        "insert_rows",
    )
    alike_in_all_arms: ClassVar[tuple[str, ...]] = ("weights", "split", "insert_rows")

    scale: Annotated[int, Field(ge=1, le=LARGEST_SCALE)] = Field(
        default=1,
        description="Scale of pgbench's tables: 100,000 accounts and about 16 MB per unit",
    )
    sent_as: Literal["functions", "scripts"] = Field(
        default="functions",
        description="One call of a server-side function a transaction, or its statements one by one",
    )
    statements: Literal["simple", "extended", "prepared"] = Field(
        default="extended", description="How statements are sent (pgbench's -M)"
    )
    weights: ScenarioWeights = Field(
        default_factory=ScenarioWeights,
        description="Shares of select, update and insert among the sessions, or the transactions",
    )
    split: Literal["sessions", "transactions"] = Field(
        default="sessions",
        description="What the weights split: sessions, each of which runs one scenario throughout, or transactions, which all sessions draw",
    )
    insert_rows: Annotated[int, Field(ge=1, le=10_000)] = Field(
        default=1000,
        description="Rows that an insert adds to the history (pg_expecto: 1,000 until 2026-01-15, then 1)",
    )

    @classmethod
    def example(cls) -> Self:
        """Return one with two sessions that run all scenarios."""
        return cls(split="transactions")

    @property
    def transactions(self) -> tuple[str, ...]:
        return tuple(ScenarioWeights.model_fields)

    @property
    def changes_data(self) -> bool:
        return self.weights.update > 0 or self.weights.insert > 0

    def objection(self, load: LoadProfile) -> Objection | None:
        if self.split == "transactions":
            return None
        sessions = min((step.sessions for step in load.steps), default=load.connections)
        running = {self.transactions[number] for number in self.clients(sessions)}
        weighted = zip(self.transactions, self._weights, strict=True)
        wanted = [name for name, weight in weighted if weight > 0]
        idle = [name for name in wanted if name not in running]
        if not idle:
            return None
        return Objection(
            "split",
            f'must be "transactions" where {counted(sessions, "session")} are to run {listed(wanted)}',
            f"Each session runs one scenario, and none is left for {listed(idle)}: ask for more sessions.",
        )

    def sessions_of(self, load: int) -> tuple[int, ...]:
        """Return how many sessions each scenario has under a load, as in pg_expecto.

        Its weights are of SQL's type `real`, so that 0.1 of 10 sessions are a little more than one: two.
        """
        return tuple(math.ceil(load * c_float(weight).value) for weight in self._weights)

    def clients(self, connections: int) -> tuple[int, ...]:
        """Return which scenario each of these clients runs, in the order in which a growing load adds them."""
        found: list[int] = []
        before = [0] * len(self.transactions)
        for load in count(1):
            for scenario, sessions in enumerate(self.sessions_of(load)):
                found += [scenario] * (sessions - before[scenario])
                before[scenario] = sessions
            if len(found) >= connections:
                return tuple(found[:connections])
        raise AssertionError("some weight is over 0")

    def dataset(self) -> Mapping[str, object]:
        """Return what makes pgbench's tables and the functions, which are there in either form."""
        return self._pgbench.dataset()

    def dataset_bytes(self) -> int:
        return self._pgbench.dataset_bytes()

    def job(self) -> dict[str, object]:
        """Return the driver's `workload` object: scripts of pgbench's."""
        return self._pgbench.job()

    def driving(
        self, driver: Driver, target: Target, load: LoadProfile, *, seed: int, listen: Listener
    ) -> AbstractContextManager[Driving]:
        job = self.job()
        if self.split == "sessions":
            job["clients"] = self.clients(load.connections)
        return driver.driving(target, job, load, seed=seed, listen=listen)

    def populate(self, loading: Loading) -> None:
        """Make and fill pgbench's tables, and make the functions."""
        self._pgbench.populate(loading)

    def sends(self, driver: Driver, *, seed: int) -> tuple[Example, ...]:
        """Return the scenarios' statements, which functions hide, variables being parameters."""
        plain = {"sent_as": "scripts", "insert_rows": 1}
        return self.model_copy(update=plain)._pgbench.sends(driver, seed=seed)

    def violations(
        self, driver: Driver, target: Target, measured: Measurement, *, timeout_s: float
    ) -> tuple[str, ...]:
        """Return what the scenarios cannot have done: rows lost or made up, sums that differ."""
        return violated(_conditions(self.scale, self.insert_rows), target, timeout_s=timeout_s)

    @property
    def _weights(self) -> tuple[float, ...]:
        weights = self.weights.model_dump().values()
        return tuple(weight / sum(weights) for weight in weights)

    @property
    def _pgbench(self) -> Pgbench:
        calls = {name: f"SELECT scenario_{name}();\n" for name in self.transactions}
        texts = calls if self.sent_as == "functions" else _scripts(self.insert_rows)
        scripts = tuple(
            Script(name=name, text=texts[name], weight=_parts(weight))
            for name, weight in zip(self.transactions, self._weights, strict=True)
        )
        return Pgbench(
            scripts=scripts,
            scale=self.scale,
            statements=self.statements,
            setup=_functions(self.insert_rows),
        )


def _parts(weight: float) -> int:
    """Return a share as a whole number, at least 1 if it is not 0."""
    return max(round(_PARTS * weight), 1) if weight > 0 else 0


def _conditions(scale: int, insert_rows: int) -> dict[str, tuple[str, str]]:
    """Each table is read once."""
    rows = {"aid": 100_000 * scale, "tid": 10 * scale, "bid": scale}
    seen = ", ".join(
        f"""(SELECT abs(count(*) - {number}) + count(*) FILTER (WHERE {key} NOT BETWEEN 1 AND {number}
            OR {key[0]}balance < 0) AS wrong, sum({key[0]}balance) AS total FROM {_TABLES[key]}) AS {key}"""
        for key, number in rows.items()
    )
    elsewhere = " OR ".join(f"{key} NOT BETWEEN 1 AND {number}" for key, number in rows.items())
    return {
        "balances": (
            "accounts, tellers and branches have not been added the same amounts, or their rows are not "
            "those of the scale",
            f"""SELECT aid.wrong + tid.wrong + bid.wrong + abs(aid.total - tid.total)
                + abs(aid.total - bid.total) FROM {seen}""",
        ),
        "history": (
            f"the rows of pgbench_history are not a multiple of {insert_rows:,}, or not of this scale",
            f"""SELECT count(*) % {insert_rows} + count(*) FILTER (WHERE {elsewhere}
                OR delta NOT BETWEEN 0 AND 1000) FROM pgbench_history""",
        ),
    }

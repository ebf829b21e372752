"""pg_expecto's three scenarios on pgbench's tables: reads, updates and inserts of single rows, drawn by weight.

Each transaction takes one account, uniformly over all of them, so that the share of the dataset that fits into
memory is the share of accesses that need no disk. The amount that is added to an account, or noted in the
history, belongs to that account: every row can be checked by itself after a trial, without a statement that
pg_expecto would not have sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from pgdrag.model.measurement import Example, Measurement
from pgdrag.workloads import DatasetSize, Workload
from pgdrag.workloads.pgbench import LARGEST_SCALE, Pgbench
from pgdrag.workloads.scripts import Script
from pgdrag.workloads.tables import violated

if TYPE_CHECKING:
    from pgdrag.driver.process import Driver, Target
    from pgdrag.workloads import Loading

_PARTS = 1_000_000  # weights are drawn by, in whole numbers

_ACCOUNT = "\\set aid random(1, 100000 * :scale)\n"
_AMOUNT = "\\set amount :aid % 97 + 1\n"
_PLACE = "\\set bid (:aid - 1) / 100000 + 1\n\\set tid (:bid - 1) * 10 + random(1, 10)\n"

# What a transaction does, in SQL with {0}, {1} … for what it is given; the last SELECT is its answer.
_READ = """SELECT bbalance FROM pgbench_branches
    JOIN pgbench_accounts ON pgbench_accounts.bid = pgbench_branches.bid WHERE aid = {aid}"""
_READ_ACCOUNT = "SELECT abalance FROM pgbench_accounts WHERE aid = {aid}"
_ADD = "UPDATE pgbench_accounts SET abalance = abalance + {amount} WHERE aid = {aid}"
_NOTE = """INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
    VALUES ({tid}, {bid}, {aid}, {amount}, CURRENT_TIMESTAMP)"""

_GIVEN = {name: f":{name}" for name in ("aid", "amount", "bid", "tid")}
_ARGUMENT = {name: f"the_{name}" for name in _GIVEN}
_DRAWN = {
    "select": _ACCOUNT,
    "update": _ACCOUNT + _AMOUNT,
    "insert": _ACCOUNT + _PLACE + _AMOUNT,
}
_PLAIN = {
    "select": f"{_READ};\n",
    "update": f"BEGIN;\n{_READ_ACCOUNT};\n{_ADD};\nEND;\n",
    "insert": f"{_NOTE};\n",
}
_CALL = {
    "select": "SELECT scenario_select(:aid);\n",
    "update": "SELECT scenario_update(:aid, :amount);\n",
    "insert": "SELECT scenario_insert(:tid, :bid, :aid, :amount);\n",
}
# In PL/pgSQL, whose plans a session keeps; SQL functions of some versions plan anew in each call.
_FUNCTIONS = f"""
CREATE FUNCTION scenario_select(the_aid pgbench_accounts.aid%TYPE) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE balance integer;
BEGIN
    {_READ.format(**_ARGUMENT)} INTO balance;
    RETURN balance;
END $$;
CREATE FUNCTION scenario_update(the_aid pgbench_accounts.aid%TYPE, the_amount integer) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE balance integer;
BEGIN
    {_READ_ACCOUNT.format(**_ARGUMENT)} INTO balance;
    {_ADD.format(**_ARGUMENT)};
    RETURN balance + the_amount;
END $$;
CREATE FUNCTION scenario_insert(
    the_tid integer, the_bid integer, the_aid pgbench_accounts.aid%TYPE, the_amount integer
) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    {_NOTE.format(**_ARGUMENT)};
END $$;
"""


class ScenarioWeights(BaseModel):
    """How often each scenario is drawn, as a share of the sum."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    select: Annotated[float, Field(ge=0, le=1_000_000)] = 0.7
    update: Annotated[float, Field(ge=0, le=1_000_000)] = 0.2
    insert: Annotated[float, Field(ge=0, le=1_000_000)] = 0.1

    @model_validator(mode="after")
    def _has_weight(self) -> ScenarioWeights:
        if not sum(self.model_dump().values()) > 0:
            raise ValueError("at least one weight must be over 0")
        return self


class Scenarios(Workload):
    """SELECT, UPDATE and INSERT of single rows, as server-side functions or as plain statements."""

    name = "scenarios"
    summary = "pg_expecto's scenarios: select 0.7, update 0.2, insert 0.1 of random single rows"
    dataset_size = DatasetSize("scale", "scale {}".format, "pgbench_scale")
    alike_at_all_scales: ClassVar[tuple[str, ...]] = ("statements", "sent_as")
    alike_in_all_arms: ClassVar[tuple[str, ...]] = ("weights",)

    scale: Annotated[int, Field(ge=1, le=LARGEST_SCALE)] = Field(
        default=1, description="Of pgbench's tables: 100,000 accounts and about 16 MB each"
    )
    sent_as: Literal["functions", "scripts"] = Field(
        default="functions",
        description="One call of a server-side function a transaction, or its statements one by one",
    )
    statements: Literal["simple", "extended", "prepared"] = Field(
        default="prepared", description="How statements are sent (pgbench's -M)"
    )
    weights: ScenarioWeights = Field(
        default_factory=ScenarioWeights,
        description="How often select, update and insert are drawn",
    )

    @property
    def transactions(self) -> tuple[str, ...]:
        """The three scenarios."""
        return tuple(ScenarioWeights.model_fields)

    @property
    def changes_data(self) -> bool:
        """Reading alone leaves the tables as they were."""
        return self.weights.update > 0 or self.weights.insert > 0

    def dataset(self) -> Mapping[str, object]:
        """Return what makes pgbench's tables and the functions, which are there in either form."""
        return self._pgbench.dataset()

    def dataset_bytes(self) -> int:
        """Return about how many bytes the tables take."""
        return self._pgbench.dataset_bytes()

    def job(self) -> dict[str, object]:
        """Return the driver's `workload` object: scripts of pgbench's."""
        return self._pgbench.job()

    def populate(self, loading: Loading) -> None:
        """Make and fill pgbench's tables, and make the functions.

        Raises:
            DriverError: they could not be made.
        """
        self._pgbench.populate(loading)

    def sends(self, driver: Driver, *, seed: int) -> tuple[Example, ...]:
        """Return the scenarios' statements, which functions hide, variables being parameters.

        Raises:
            DriverError: the driver cannot tell.
        """
        return self.model_copy(update={"sent_as": "scripts"})._pgbench.sends(driver, seed=seed)

    def violations(
        self, driver: Driver, target: Target, measured: Measurement, *, timeout_s: float
    ) -> tuple[str, ...]:
        """Return what the scenarios cannot have done: rows lost or made up, amounts of other accounts.

        Raises:
            DriverError: the check could not be carried out.
        """
        return violated(_conditions(self.scale), target, timeout_s=timeout_s)

    @property
    def _pgbench(self) -> Pgbench:
        texts = _CALL if self.sent_as == "functions" else _PLAIN
        weights = self.weights.model_dump()
        scripts = tuple(
            Script(name=x, text=_DRAWN[x] + text.format(**_GIVEN), weight=_parts(weights, x))
            for x, text in texts.items()
        )
        return Pgbench(
            scripts=scripts, scale=self.scale, statements=self.statements, setup=_FUNCTIONS
        )


def _parts(weights: Mapping[str, float], name: str) -> int:
    """Return a weight as a whole number; what is to be drawn at all is drawn."""
    parts = round(_PARTS * weights[name] / sum(weights.values()))
    return max(parts, 1) if weights[name] > 0 else 0


def _conditions(scale: int) -> dict[str, tuple[str, str]]:
    accounts = 100_000 * scale
    return {
        "accounts": (
            "the rows of pgbench_accounts are not those of the scale, or have a balance that is no "
            "multiple of their account's amount",
            f"""SELECT abs(count(*) - {accounts}) + count(*) FILTER (WHERE aid NOT BETWEEN 1 AND {accounts}
                OR bid IS DISTINCT FROM (aid - 1) / 100000 + 1 OR abalance < 0
                OR abalance % (aid % 97 + 1) <> 0) FROM pgbench_accounts""",
        ),
        "history": (
            "rows of pgbench_history have another amount, branch or teller than their account's",
            f"""SELECT count(*) FROM pgbench_history WHERE aid NOT BETWEEN 1 AND {accounts}
                OR delta IS DISTINCT FROM aid % 97 + 1 OR bid IS DISTINCT FROM (aid - 1) / 100000 + 1
                OR (tid - 1) / 10 + 1 IS DISTINCT FROM bid""",
        ),
        "branches_and_tellers": (
            "rows of pgbench_branches or pgbench_tellers are not as they were loaded",
            f"""SELECT abs((SELECT count(*) FROM pgbench_branches WHERE bbalance = 0) - {scale})
                + abs((SELECT count(*) FROM pgbench_tellers WHERE tbalance = 0) - {10 * scale})""",
        ),
    }

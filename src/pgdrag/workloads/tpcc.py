"""TPC-C as BenchBase runs it: its schema, its mix, its population; the driver does the work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from pgdrag.english import counted
from pgdrag.model.load import Closed, LoadProfile
from pgdrag.workloads import DatasetSize, Objection, Weights, Workload

if TYPE_CHECKING:
    pass

# Measured on PostgreSQL 18 with all indexes, after VACUUM ANALYZE.
BYTES_PER_WAREHOUSE = 110_000_000
BYTES_WITHOUT_WAREHOUSES = 60_000_000


class Mix(Weights):
    """Weights of the five transactions; BenchBase's are 45, 43, 4, 4, 4."""

    new_order: Annotated[float, Field(ge=0)] = 45
    payment: Annotated[float, Field(ge=0)] = 43
    order_status: Annotated[float, Field(ge=0)] = 4
    delivery: Annotated[float, Field(ge=0)] = 4
    stock_level: Annotated[float, Field(ge=0)] = 4


class Tpcc(Workload):
    """TPC-C's five transactions on BenchBase's schema."""

    name = "tpcc"
    summary = "TPC-C on BenchBase's schema: order entry, five transaction types"
    # One warehouse is too small to measure.
    dataset_size = DatasetSize(
        "warehouses",
        lambda size: counted(size, "warehouse"),
        "warehouses",
        start=10,
        counted="warehouse",
    )
    tables: ClassVar[tuple[str, ...]] = (
        "warehouse",
        "item",
        "stock",
        "district",
        "customer",
        "history",
        "oorder",
        "new_order",
        "order_line",
    )
    alike_at_all_scales: ClassVar[tuple[str, ...]] = ("statements",)
    # The last two decide whether the report may speak of tpmC.
    alike_in_all_arms: ClassVar[tuple[str, ...]] = ("mix", "terminals", "wait_scale")

    warehouses: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1, description="Scale: about 110 MB of tables and indexes each"
    )
    isolation: Literal["read committed", "repeatable read", "serializable"] = Field(
        default="read committed", description="Transaction isolation level"
    )
    statements: Literal["simple", "extended", "prepared", "pipelined"] = Field(
        default="prepared",
        description="How statements are sent: one a round trip, or what is independent in one flight",
    )
    terminals: Literal["benchbase", "specification"] = Field(
        default="benchbase",
        description="Spread over the warehouses, or ten a warehouse, each bound to its district",
    )
    wait_scale: Annotated[float, Field(ge=0, le=10)] = Field(
        default=0,
        description="Keying and think times: 0 none, 1 the specification's; outside of latency",
    )
    max_tries: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=3, description="Attempts in all, after serialization failures and deadlocks"
    )
    retry_deadlocks: bool = Field(
        default=True,
        description="Whether deadlocks are among them; BenchBase retries serialization failures alone",
    )
    mix: Mix = Field(default_factory=Mix, description="Weights of the transaction types")

    @property
    def transactions(self) -> tuple[str, ...]:
        return tuple(Mix.model_fields)

    def dataset(self) -> Mapping[str, object]:
        return {"kind": self.name, "data_version": 1, "warehouses": self.warehouses}

    def dataset_bytes(self) -> int:
        return BYTES_WITHOUT_WAREHOUSES + BYTES_PER_WAREHOUSE * self.warehouses

    def objection(self, load: LoadProfile) -> Objection | None:
        """Refuse keying and think times where a schedule says when transactions arrive."""
        if self.wait_scale == 0 or isinstance(load.pacing, Closed):
            return None
        return Objection(
            "wait_scale",
            f"must be 0 where arrivals follow a rate, not {self.wait_scale:g}",
            "Terminals that key and think set the pace themselves: leave out the rate or the waits.",
        )

    def job(self) -> dict[str, object]:
        given = self.model_dump(mode="json")
        if self.retry_deadlocks:  # as drivers did before they could be told
            del given["retry_deadlocks"]
        return {"kind": self.name, **given}

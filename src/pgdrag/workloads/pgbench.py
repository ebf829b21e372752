"""What is the driver told of pgbench's scripts and tables?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from pgdrag.workloads._scripts import Script

LARGEST_SCALE = 20_000  # from 21,475 on an account's number is no integer any more


class Tables(BaseModel):
    """How pgbench's tables are made (`pgbench -i`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    steps: str = "dtgvp"
    fillfactor: int = 100
    partitions: int = 0
    partition_method: Literal["range", "hash"] = "range"
    tablespace: str | None = None
    index_tablespace: str | None = None
    unlogged: bool = False
    foreign_keys: bool = False

    def job(self) -> dict[str, object]:
        """Return the `tables` object of the driver's job."""
        return self.model_dump(mode="json")


def pgbench_job(
    scripts: tuple[Script, ...],
    *,
    scale: int,
    statements: str = "simple",
    variables: Mapping[str, str] | None = None,
    max_tries: int = 1,
    allow_shell: bool = False,
    tables: Tables | None = None,
) -> dict[str, object]:
    """Return the driver's `workload` object for scripts, and for `tables` where they are to be made."""
    return {
        "kind": "pgbench",
        "scripts": [_table(script) for script in scripts],
        "scale": scale,
        "statements": statements,
        "variables": dict(variables or {}),
        "max_tries": max_tries,
        "allow_shell": allow_shell,
        "tables": tables.job() if tables is not None else None,
    }


def _table(script: Script) -> dict[str, Any]:
    return {"name": script.name, "text": script.text, "weight": script.weight}

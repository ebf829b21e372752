"""pgbench's scripts, its own and yours, on its tables: the driver runs its script language."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)

from pgdrag.errors import UsageError
from pgdrag.model.program import Program
from pgdrag.workloads import DatasetSize, Workload
from pgdrag.workloads.scripts import Script, any_script, builtin_script, with_own_names
from pgdrag.workloads.tables import run_setup

if TYPE_CHECKING:
    from pgdrag.workloads import Loading

# Measured on PostgreSQL 18 with primary keys, after VACUUM; the rest is an empty cluster.
BYTES_PER_SCALE = 16_000_000
BYTES_WITHOUT_TABLES = 60_000_000
LARGEST_SCALE = 20_000  # from 21,475 on an account's number is no integer any more

# A line that may run a program, with those that continue it; the driver knows which lines do.
_SHELL_LINE = re.compile(r"^.*shell(?:.*\\\r?\n)*.*$", re.MULTILINE | re.IGNORECASE)
_NAME_FORM = r"^[A-Za-z0-9_]+$"


def _script(value: object, info: ValidationInfo) -> object:
    """Read a word of an experiment file, whose directory the context names."""
    if not isinstance(value, str):
        return value
    try:
        return any_script(value, Path((info.context or {}).get("directory", "")))
    except UsageError as problem:
        hint = f". {problem.hint}" if problem.hint else ""
        raise ValueError(f"{problem.message}{hint}") from None


ScriptEntry = Annotated[
    Script,
    BeforeValidator(_script),
    WithJsonSchema({"anyOf": [{"type": "string"}, Script.model_json_schema()]}),
]
Variable = Annotated[str, BeforeValidator(lambda x: str(x) if _is_number(x) else x)]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Pgbench(Workload):
    """Scripts in pgbench's language."""

    name = "pgbench"
    summary = "pgbench's scripts: tpcb-like, simple-update, select-only, and yours"
    # Scale 1 is too small to measure.
    dataset_size = DatasetSize(
        "scale", "scale {}".format, "pgbench_scale", start=10, counted="pgbench_branches"
    )
    tables: ClassVar[tuple[str, ...]] = (
        "pgbench_accounts",
        "pgbench_branches",
        "pgbench_history",
        "pgbench_tellers",
    )
    alike_at_all_scales: ClassVar[tuple[str, ...]] = ("statements",)
    alike_in_all_arms: ClassVar[tuple[str, ...]] = ("scripts",)

    scripts: tuple[ScriptEntry, ...] = Field(
        default=("tpcb-like",),
        validate_default=True,
        json_schema_extra={"minItems": 1},
        description='Files, relative to the experiment file, or built-in scripts, each with "@weight" if it has one',
    )
    scale: Annotated[int, Field(ge=1, le=LARGEST_SCALE)] = Field(
        default=1,
        description="Scale of pgbench's tables: 100,000 accounts and about 16 MB per unit",
    )
    statements: Literal["simple", "extended", "prepared"] = Field(
        default="simple", description="How statements are sent (pgbench's -M)"
    )
    variables: dict[Annotated[str, Field(pattern=_NAME_FORM)], Variable] = Field(
        default_factory=dict, description="Variables of the scripts (pgbench's -D)"
    )
    max_tries: Annotated[int, Field(ge=0, le=1_000_000)] = Field(
        default=1,
        description="Attempts at a transaction that meets a serialization failure or deadlock; 0: no limit",
    )
    allow_shell: bool = Field(default=False, description=r"Let scripts run programs by \shell")
    superuser: bool = Field(
        default=False,
        description="Connect as a superuser; its SQL can run programs and read the server's files",
    )
    fillfactor: Annotated[int, Field(ge=10, le=100)] = Field(
        default=100, description="Of the tables"
    )
    partitions: Annotated[int, Field(ge=0, le=10_000)] = Field(
        default=0, description="Partitions of pgbench_accounts; 0: not partitioned"
    )
    partition_method: Literal["range", "hash"] = Field(
        default="range", description="How pgbench_accounts is partitioned"
    )
    unlogged: bool = Field(default=False, description="Make unlogged tables")
    foreign_keys: bool = Field(default=False, description="Make foreign keys between the tables")
    setup: str = Field(
        default="", description="SQL that is run once on the loaded tables, in one transaction"
    )

    @classmethod
    def words(cls, parameters: Mapping[str, object]) -> str:
        scripts = parameters.get("scripts")
        if not isinstance(scripts, list):
            return super().words(parameters)
        names = [f"{x['name']}@{x['weight']}" for x in scripts if isinstance(x, dict)]
        return super().words({**parameters, "scripts": " ".join(names)})

    @property
    def changes_data(self) -> bool:
        """Only scripts that are known to read leave the tables as they were."""
        return any(script.text != builtin_script("select-only").text for script in self.scripts)

    @property
    def uses_dataset(self) -> bool:
        """Only built-in scripts are known to need pgbench's tables."""
        return any(script.is_builtin for script in self.scripts)

    @property
    def has_own_scripts(self) -> bool:
        """Scripts in files are a person's."""
        return not all(script.is_builtin for script in self.scripts)

    @property
    def needs_superuser(self) -> bool:
        """Only where the experiment file says so."""
        return self.superuser

    @property
    def transactions(self) -> tuple[str, ...]:
        return tuple(script.name for script in self.scripts)

    @field_validator("scripts", mode="after")
    @classmethod
    def _have_own_names(cls, scripts: tuple[Script, ...]) -> tuple[Script, ...]:
        if not scripts:
            raise ValueError("at least one script is needed")
        try:
            return with_own_names(scripts)
        except UsageError as problem:
            raise ValueError(problem.message) from None

    def dataset(self) -> Mapping[str, object]:
        return {
            "kind": self.name,
            "data_version": 1,
            "scale": self.scale,
            "tables": self._tables().model_dump(),
            "setup": self.setup,
        }

    def dataset_bytes(self) -> int:
        """Return about how many bytes the tables take, without what `setup` adds."""
        return BYTES_WITHOUT_TABLES + BYTES_PER_SCALE * self.scale * 100 // self.fillfactor

    def populate(self, loading: Loading) -> None:
        """Make and fill pgbench's tables, then run `setup`."""
        super().populate(loading)
        if self.setup:
            run_setup(self.setup, loading.target)

    def programs(self) -> tuple[Program, ...]:
        """Return the lines of scripts that run something, or look so; and all SQL of a superuser, which may."""
        return self._superusers_sql() + self._shell_lines()

    def _superusers_sql(self) -> tuple[Program, ...]:
        if not self.superuser:
            return ()
        texts = {f'script "{x.name}"': x.text for x in self.scripts if not x.is_builtin}
        return tuple(
            Program(
                f"be {name} of a superuser, whose SQL can run programs",
                text.strip(),
                around=json.dumps(self.variables),
            )
            for name, text in {**texts, "setup": self.setup}.items()
            if text.strip()
        )

    def _shell_lines(self) -> tuple[Program, ...]:
        if not self.allow_shell:
            return ()
        return tuple(
            # Variables, and what queries return, become words of the command.
            Program(
                f'be part of script "{script.name}"',
                found[0].strip(),
                around=json.dumps([script.text, self.variables]),
            )
            for script in self.scripts
            for found in _SHELL_LINE.finditer(script.text)
        )

    def job(self) -> dict[str, object]:
        return pgbench_job(
            self.scripts,
            scale=self.scale,
            statements=self.statements,
            variables=self.variables,
            max_tries=self.max_tries,
            allow_shell=self.allow_shell,
            tables=self._tables(),
        )

    def _tables(self) -> Tables:
        return Tables.model_validate(self.model_dump(include=set(Tables.model_fields)))


class Tables(BaseModel):
    """How pgbench's tables are made (`pgbench -i`)."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    steps: str = "dtgvp"
    fillfactor: int = 100
    partitions: int = 0
    partition_method: Literal["range", "hash"] = "range"
    tablespace: str | None = None
    index_tablespace: str | None = None
    unlogged: bool = False
    foreign_keys: bool = False


def pgbench_job(
    scripts: tuple[Script, ...],
    *,
    scale: int,
    statements: str = "simple",
    variables: Mapping[str, str] | None = None,
    max_tries: int = 1,
    allow_shell: bool = False,
    time_statements: bool = False,
    tables: Tables | None = None,
    sums: tuple[str, ...] = (),
    after_failure: str = "",
) -> dict[str, object]:
    """Return the driver's `workload` object for scripts, and for `tables` where they are to be made.

    Args:
        sums: variables whose values the driver adds up over what commits: see `Measurement.sums`.
        after_failure: SQL that a session runs after an attempt that failed, once that is rolled back.
    """
    return {
        "kind": "pgbench",
        "scripts": [script.model_dump() for script in scripts],
        "scale": scale,
        "statements": statements,
        "variables": dict(variables or {}),
        "max_tries": max_tries,
        "allow_shell": allow_shell,
        "time_statements": time_statements,
        "tables": tables.model_dump() if tables is not None else None,
        **({"sums": list(sums)} if sums else {}),
        **({"after_failure": after_failure} if after_failure else {}),
    }

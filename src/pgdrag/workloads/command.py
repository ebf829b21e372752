"""Any other program as a workload: run by the shell, its result read by pattern or JSON path."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from pgdrag.errors import UsageError
from pgdrag.model.load import LoadProfile
from pgdrag.model.measurement import Measurement
from pgdrag.workloads import Workload
from pgdrag.workloads._driving import ProgramCaller, ProgramDriving
from pgdrag.workloads._profiles import PROFILES
from pgdrag.workloads._reading import (
    Figures,
    JsonPath,
    Reading,
    paths_problem,
    pattern_problem,
    read_figures,
)

if TYPE_CHECKING:
    from pgdrag.driver.process import Driver, Target
    from pgdrag.workloads import Listener


class Command(Workload):
    """Another program that puts load on the server and says what it did."""

    name = "command"
    summary = "any other program (pgbench, BenchBase, HammerDB, sysbench, go-tpc or yours)"
    # What is counted and how it is read; and a directory is relative to the experiment file.
    alike_in_all_arms: ClassVar[tuple[str, ...]] = (
        "profile",
        "pattern",
        "json_paths",
        "result_file",
        "directory",
    )

    command: Annotated[str, Field(min_length=1)] = Field(
        description="What the shell runs; the server is in PGHOST, PGPORT, PGUSER, PGDATABASE and PGDRAG_DSN"
    )
    profile: Literal["pgbench", "benchbase", "hammerdb", "sysbench", "go-tpc"] | None = Field(
        default=None, description="A program whose output pgdrag knows how to read"
    )
    pattern: str | tuple[str, ...] = Field(
        default=(),
        description="Regular expressions with groups named tps, committed, latency_ms …, searched in what it prints",
    )
    json_paths: dict[str, str | tuple[str | int, ...]] = Field(
        default_factory=dict,
        description='Where figures are in JSON: tps = "summary.tps", or a list of keys',
    )
    result_file: str | None = Field(
        default=None,
        description="JSON file it writes below PGDRAG_RESULTS, a pattern (default: what it prints)",
    )
    setup: str = Field(
        default="",
        description="What the shell runs once to make the dataset (default: an empty database)",
    )
    check: str = Field(
        default="",
        description="What the shell runs after each trial; an exit status other than 0 makes it invalid",
    )
    overtime_s: Annotated[float, Field(ge=0, le=86_400)] = Field(
        default=60, description="How much longer than asked it may run before it is ended, seconds"
    )
    dataset_mb: Annotated[int, Field(ge=1, le=100_000_000)] = Field(
        default=1000, description="About how large the dataset is, MB: room that must be free"
    )
    data_version: Annotated[int, Field(ge=1)] = Field(
        default=1, description="Raise it when setup makes another dataset by the same words"
    )
    directory: str = Field(
        default="",
        validate_default=True,
        description="Where the shell runs it (default: the directory of the experiment file)",
    )

    @classmethod
    def example(cls) -> Command:
        """Return pgbench's select-only script on its smallest tables."""
        profile = PROFILES["pgbench"]
        return cls(
            command=f"{profile.call} -S", profile="pgbench", setup="pgbench -i -q", dataset_mb=70
        )

    @classmethod
    def words(cls, parameters: Mapping[str, object]) -> str:
        """Return what was given, and what the figures of a known program count."""
        given = {key: value for key, value in parameters.items() if value not in ("", [], {}, None)}
        profile = PROFILES.get(str(parameters.get("profile")))
        counts = f". What it counts: {profile.counts}" if profile else ""
        return super().words(given) + counts

    @property
    def transactions(self) -> tuple[str, ...]:
        """What the program counts."""
        return (PROFILES[self.profile].transaction if self.profile else "transaction",)

    @field_validator("pattern", mode="after")
    @classmethod
    def _has_figures(cls, pattern: str | tuple[str, ...]) -> tuple[str, ...]:
        patterns = (pattern,) if isinstance(pattern, str) else pattern
        for one in patterns:
            if problem := pattern_problem(one):
                raise ValueError(f"{one!r} {problem}")
        return patterns

    @field_validator("json_paths", mode="after")
    @classmethod
    def _names_figures(
        cls, paths: dict[str, str | tuple[str | int, ...]]
    ) -> dict[str, str | tuple[str | int, ...]]:
        if problem := paths_problem(paths):
            raise ValueError(problem)
        return paths

    @field_validator("directory", mode="after")
    @classmethod
    def _is_there(cls, directory: str, info: ValidationInfo) -> str:
        base = Path((info.context or {}).get("directory", ""))
        path = (base / directory).absolute()
        if not path.is_dir():
            raise ValueError(f'there is no directory "{path}"')
        return str(path)

    @model_validator(mode="after")
    def _is_read_in_one_way(self) -> Command:
        ways = [bool(self.profile), bool(self.pattern), bool(self.json_paths)]
        if sum(ways) != 1:
            raise ValueError("give one of profile, pattern and json_paths, to say how it is read")
        if self.result_file and not self.json_paths:
            raise ValueError("result_file is read by json_paths, which are not given")
        return self

    def dataset(self) -> Mapping[str, object]:
        """Return what makes the dataset; a change in files that `setup` reads is not seen."""
        return {
            "kind": self.name,
            "data_version": self.data_version,
            "setup": self.setup,
            "directory": self.directory if self.setup else "",
        }

    def dataset_bytes(self) -> int:
        """Return what the experiment file says."""
        return self.dataset_mb * 1_000_000

    def job(self) -> dict[str, object]:
        """Return the parameters: pgdrag's own driver has no part in it."""
        return {"kind": self.name, **self.model_dump(mode="json")}

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
        """Run `setup`.

        Raises:
            DriverError: it failed, or took longer than `timeout_s`.
        """
        if self.setup:
            self._caller(target).run("setup", self.setup, {}, timeout_s=timeout_s)

    @contextmanager
    def driving(
        self, driver: Driver, target: Target, load: LoadProfile, *, seed: int, listen: Listener
    ) -> Iterator[ProgramDriving]:
        """Let the program drive the server: one run of it warms up, another is measured.

        Raises:
            UsageError: the load has what no program can be asked for.
        """
        if load.steps or load.latency_limit_us is not None:
            raise UsageError(
                "steps of sessions or rates and a latency limit cannot be asked of another program",
                hint="Leave them out of the load; the program has its own options.",
            )
        yield ProgramDriving(self._caller(target), self, load, seed)

    def violations(
        self, driver: Driver, target: Target, measured: Measurement, *, timeout_s: float
    ) -> tuple[str, ...]:
        """Run `check`, if there is one: what fails says in its last line what is wrong."""
        if not self.check:
            return ()
        ended = self._caller(target).end_of("check", self.check, {}, timeout_s=timeout_s)
        if ended.status == 0:
            return ()
        said = ended.said.splitlines()[-1] if ended.said else "without a word"
        return (f"its check ended with status {ended.status}: {said}",)

    @property
    def reads_file(self) -> str | None:
        """The pattern of the file that has the result; None: it is printed."""
        return self._reading.result_file

    def read(self, text: str, asked_s: float) -> Figures:
        """Return what the program says that it did.

        Raises:
            Unreadable: it does not say it.
        """
        return read_figures(text, self._reading, asked_s=asked_s)

    def _caller(self, target: Target) -> ProgramCaller:
        return ProgramCaller(target, self.directory)

    @property
    def _reading(self) -> Reading:
        if self.profile:
            return PROFILES[self.profile].reading
        paths = {name: _json_path(path) for name, path in self.json_paths.items()}
        return Reading(tuple(self.pattern), paths, self.result_file)


def _json_path(path: str | tuple[str | int, ...]) -> JsonPath:
    return tuple(path.split(".")) if isinstance(path, str) else path

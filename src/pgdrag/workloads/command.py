"""Any other program as a workload: run by the shell, its result read by pattern or JSON path."""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from pgdrag.errors import DriverError, UsageError
from pgdrag.host.foreign_files import read_foreign
from pgdrag.model import Counts, DriverCost, Latency, Measurement
from pgdrag.model.load import LoadProfile
from pgdrag.model.measurement import Example
from pgdrag.model.program import Program
from pgdrag.passwords import has_password_in_command
from pgdrag.workloads import Objection, Workload
from pgdrag.workloads._program import Ended, program_environment, run_program
from pgdrag.workloads._reading import (
    PROFILES,
    Figures,
    Reading,
    Unreadable,
    check_figures,
    read_figures,
)

if TYPE_CHECKING:
    from pgdrag.driver.process import Driver, Target
    from pgdrag.host.server_user import ServerUser
    from pgdrag.workloads import Listener, Loading

# What a program does not say; no SQLSTATE has five question marks.
UNKNOWN_STATE = "?????"
_LARGEST_RESULT_BYTES = 16 * 2**20


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
        "environment",
        "tcp",
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
    environment: tuple[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], ...] = Field(
        default=(),
        description="Variables of pgdrag's environment that the shell is given, such as JAVA_HOME",
    )
    superuser: bool = Field(
        default=False,
        description="Connect as a superuser, as programs do that make databases or extensions",
    )
    tcp: bool = Field(
        default=False,
        description="Connect by TCP on 127.0.0.1 with the password in PGPASSWORD, as JDBC clients must (default: by Unix socket)",
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
        absent: tuple[object, ...] = ("", [], (), {}, None)
        given = {x: y for x, y in parameters.items() if y not in absent and y is not False}
        profile = PROFILES.get(str(parameters.get("profile")))
        counts = f". What it counts: {profile.counts}" if profile else ""
        return super().words(given) + counts

    def objection(self, load: LoadProfile) -> Objection | None:
        """Refuse several generators: the program is one of its own."""
        if not load.generators:
            return None
        return Objection(
            "command",
            "is one program, which cannot be divided between load generators",
            "Omit the generators: only the load driver's own workloads have several.",
        )

    @property
    def uses_load_driver(self) -> bool:
        return False

    @property
    def needs_superuser(self) -> bool:
        """Only where the experiment file says so."""
        return self.superuser

    @property
    def needs_tcp(self) -> bool:
        """Only where the experiment file says so."""
        return self.tcp

    @property
    def transactions(self) -> tuple[str, ...]:
        return (PROFILES[self.profile].transaction if self.profile else "transaction",)

    @field_validator("command", "setup", "check", mode="after")
    @classmethod
    def _has_no_password(cls, command: str) -> str:
        if has_password_in_command(command):
            raise ValueError(
                "there is a password in it, which journal and report would show: write a variable in its place, "
                'such as $PGPASSWORD, and name that in environment = ["PGPASSWORD"]'
            )
        return command

    @field_validator("pattern", mode="after")
    @classmethod
    def _has_figures(cls, pattern: str | tuple[str, ...]) -> tuple[str, ...]:
        patterns = (pattern,) if isinstance(pattern, str) else pattern
        for one in patterns:
            try:
                groups = re.compile(one, re.MULTILINE).groupindex
            except re.error as error:
                raise ValueError(f"{one!r} is not a regular expression: {error}") from None
            if not groups:
                raise ValueError(f"{one!r} names no group, such as (?P<tps>[0-9.]+)")
            check_figures(groups)
        return patterns

    @field_validator("json_paths", mode="after")
    @classmethod
    def _names_figures(
        cls, paths: dict[str, str | tuple[str | int, ...]]
    ) -> dict[str, str | tuple[str | int, ...]]:
        check_figures(paths)
        return paths

    @field_validator("result_file", mode="after")
    @classmethod
    def _is_below_the_results(cls, pattern: str | None) -> str | None:
        path = Path(pattern or "")
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f'"{pattern}" is not below PGDRAG_RESULTS')
        return pattern

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
        return self.dataset_mb * 1_000_000

    def job(self) -> dict[str, object]:
        """Return the parameters: pgdrag's own driver has no part in it."""
        return {"kind": self.name, **self.model_dump(mode="json")}

    def programs(self) -> tuple[Program, ...]:
        written = {
            "make the dataset": self.setup,
            "put load on the server": self.command,
            "check the dataset": self.check,
        }
        passed = f"given {', '.join(self.environment)}" if self.environment else ""
        return tuple(
            Program(x, text, self.directory, around=passed) for x, text in written.items() if text
        )

    def populate(self, loading: Loading) -> None:
        """Run `setup`."""
        if self.setup:
            target, timeout_s = loading.target, loading.timeout_s
            _refuse_failure("setup", self.run(target, "setup", self.setup, {}, timeout_s=timeout_s))

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
        yield ProgramDriving(self, target, load, seed)

    def sends(self, driver: Driver, *, seed: int) -> tuple[Example, ...]:
        """Return nothing: a program does not say what it sends."""
        return ()

    def violations(
        self, driver: Driver, target: Target, measured: Measurement, *, timeout_s: float
    ) -> tuple[str, ...]:
        """Run `check`, if there is one: what fails says in its last line what is wrong."""
        if not self.check:
            return ()
        ended = self.run(target, "check", self.check, {}, timeout_s=timeout_s)
        if ended.status == 0:
            return ()
        said = ended.said.splitlines()[-1] if ended.said else "without a word"
        return (f"its check ended with status {ended.status}: {said}",)

    def run(
        self,
        target: Target,
        purpose: str,
        command: str,
        more: Mapping[str, str],
        *,
        timeout_s: float,
    ) -> Ended:
        """Run one of its programs until it ends, successfully or not; `more` is added to the environment.

        Raises:
            DriverError: it cannot be started, ran too long or printed too much.
        """
        return run_program(
            command,
            directory=self.directory,
            environment=program_environment(
                target, {"PGDRAG_PHASE": purpose, **more}, self.environment
            ),
            timeout_s=timeout_s,
            purpose=f"the {purpose} command",
            user=target.run_as,
        )

    @property
    def reading(self) -> Reading:
        """How the program's result is read."""
        if self.profile:
            return PROFILES[self.profile].reading
        paths = {
            name: tuple(path.split(".")) if isinstance(path, str) else path
            for name, path in self.json_paths.items()
        }
        return Reading(tuple(self.pattern), paths, self.result_file)


class ProgramDriving:
    """A program in the driver's place: one run of it warms up, another is the window."""

    def __init__(self, command: Command, target: Target, load: LoadProfile, seed: int) -> None:
        self._command = command
        self._target = target
        self._load = load
        self._seed = seed

    def warm_up(self) -> None:
        """Run the program for the warm-up, with another seed than in the window.

        Raises:
            DriverError: it failed or ran too long.
        """
        if self._load.warm_up_s > 0:
            with self._results() as results:
                # The same transactions would be cheaper the second time.
                self._run("warm-up", self._load.warm_up_s, self._seed ^ 1, results)

    def measure(self) -> Measurement:
        """Run the program for the window and return what it says that it did.

        Raises:
            DriverError: it failed, ran too long, or its result cannot be read.
        """
        asked_s, reading = self._load.measure_s, self._command.reading
        with self._results() as results:
            ended = self._run("measure", asked_s, self._seed, results)
            try:
                text = (
                    _result(reading.result_file, Path(results), self._target.run_as)
                    if reading.result_file
                    else ended.output
                )
                figures = read_figures(text, reading, asked_s=asked_s)
            except Unreadable as problem:
                raise DriverError(
                    f"the command's result cannot be read: {problem}",
                    detail=ended.said or "It printed nothing.",
                ) from None
        return _measurement(figures, ended, self._command.transactions[0], self._load)

    @contextmanager
    def _results(self) -> Iterator[str]:
        with tempfile.TemporaryDirectory(prefix="pgdrag-results-") as results:
            if (user := self._target.run_as) is not None:
                os.chown(results, user.uid, user.gid)
            yield results

    def _run(self, purpose: str, seconds: float, seed: int, results: str) -> Ended:
        rate_per_s = self._load.rate_per_s
        more = {
            "PGDRAG_RESULTS": results,
            "PGDRAG_SEED": str(seed),
            "PGDRAG_CONNECTIONS": str(self._load.connections),
            # As most programs want it: whole seconds, not fewer than asked, at least one.
            "PGDRAG_DURATION_S": str(max(1, math.ceil(seconds))),
            "PGDRAG_RATE_PER_S": "" if rate_per_s is None else f"{rate_per_s:g}",
        }
        command, timeout_s = self._command, seconds + self._command.overtime_s
        ended = command.run(self._target, purpose, command.command, more, timeout_s=timeout_s)
        _refuse_failure(purpose, ended)
        return ended


def _refuse_failure(purpose: str, ended: Ended) -> None:
    if ended.status != 0:
        how = f"signal {-ended.status}" if ended.status < 0 else f"status {ended.status}"
        raise DriverError(
            f"the {purpose} command ended with {how}", detail=ended.said or "It printed nothing."
        )


def _result(pattern: str, results: Path, user: ServerUser | None) -> str:
    """Return the newest file that the program wrote: not a link, and not owned by another user."""
    uid = os.geteuid() if user is None else user.uid
    try:
        found = [path for path in results.resolve().glob(pattern) if path.resolve() == path]
        written = max(found, key=lambda path: path.lstat().st_mtime_ns, default=None)
        if written is None:
            raise Unreadable(f'it wrote no file "{pattern}" in PGDRAG_RESULTS')
        content = read_foreign(written, _LARGEST_RESULT_BYTES + 1, owner=uid)
    except OSError as error:
        name = Path(error.filename or pattern).name
        raise Unreadable(f'its file "{name}": {error.strerror}') from None
    if len(content) > _LARGEST_RESULT_BYTES:
        raise Unreadable(f'its file "{written.name}" is larger than any result')
    return content.decode(errors="replace")


def _measurement(
    figures: Figures, ended: Ended, transaction: str, load: LoadProfile
) -> Measurement:
    counts = Counts(
        scheduled=figures.committed + figures.failed,
        committed=figures.committed,
        failed=figures.failed,
        retried=figures.retried,
        failed_by_sqlstate={UNKNOWN_STATE: figures.failed} if figures.failed else {},
    )
    told, latency = figures.latency_us, {}
    if figures.committed and {"mean", "p50", "p95", "p99", "max"} <= told.keys():
        latency[transaction] = Latency(
            figures.committed,
            mean_us=told["mean"],
            p50_us=told["p50"],
            p95_us=told["p95"],
            p99_us=told["p99"],
            max_us=told["max"],
        )
    return Measurement(
        elapsed_s=figures.elapsed_s,
        stopped_by="deadline",
        transactions={transaction: counts},
        latency=latency,
        samples=(),
        # How many threads it has is not known: as many as connections would want, and fit.
        driver=DriverCost(
            ended.user_cpu_s, ended.system_cpu_s, threads=min(load.connections, os.cpu_count() or 1)
        ),
        warm_up_s=load.warm_up_s,
    )

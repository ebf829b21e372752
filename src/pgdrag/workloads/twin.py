"""A captured twin as a workload: a database like the original's, and the original's load on it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, LiteralString, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from pgdrag.data_twin import Step
from pgdrag.data_twin.load import (
    LOAD_VERSION,
    driving_load,
    job,
    prepare_load,
    transactions,
)
from pgdrag.data_twin.sizes import data_twin_bytes
from pgdrag.driver.contract import ProgressLine
from pgdrag.errors import DriverError, TwinError
from pgdrag.host.foreign_files import read_named
from pgdrag.twins.file import LARGEST_BYTES, parse_twin
from pgdrag.twins.model import Twin
from pgdrag.workloads import DatasetSize, Driving, Workload
from pgdrag.workloads.tables import connected

if TYPE_CHECKING:
    import psycopg

    from pgdrag.driver.process import Driver, Target
    from pgdrag.model.load import LoadProfile
    from pgdrag.model.measurement import Measurement
    from pgdrag.workloads import Listener, Loading

ROWS_VERSION = 11  # raised when the same twin gets other rows: datasets made before are made again

# Functions and expressions of the twin run as the role that restores it.
_POWERS: LiteralString = """
SELECT rolname::text FROM pg_catalog.pg_roles
 WHERE rolname IN ('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files')
   AND pg_catalog.pg_has_role(oid, 'USAGE')
"""


class TwinWorkload(Workload):
    """A twin's data and load."""

    name = "twin"
    summary = (
        "a captured database (pgdrag capture twin): rows that fit its statistics, and its load"
    )
    dataset_size = DatasetSize("scale", "scale {:g}".format, "twin_scale")
    file_suffix = ".twin"
    # Where the file is, and which it was.
    alike_in_all_arms: ClassVar[tuple[str, ...]] = ("file", "digest")

    digest: Annotated[str, Field(pattern=r"^[0-9a-f]*$", max_length=64)] = Field(
        default="", description="SHA-256 of the file (default: that of the file as it is)"
    )
    file: Annotated[str, Field(min_length=1)] = Field(
        description="The twin, relative to the experiment file"
    )
    scale: Annotated[float, Field(ge=0.001, le=1)] = Field(
        default=1.0,
        description="Share of the rows of tables that have more than 1,000; 1: as large as the original",
    )

    @classmethod
    def example(cls) -> Self:
        return cls(file=str(Path(__file__).with_name("example.twin")))

    @classmethod
    def words(cls, parameters: Mapping[str, object]) -> str:
        name = Path(str(parameters.get("file", ""))).name
        shown = {**parameters, "file": name, "digest": str(parameters.get("digest", ""))[:12]}
        return super().words(shown)

    @field_validator("file", mode="after")
    @classmethod
    def _is_a_twin(cls, file: str, info: ValidationInfo) -> str:
        path = (Path((info.context or {}).get("directory", "")) / file).absolute()
        if info.data.get("digest"):  # of a run that began before: it is read when it is needed
            return str(path)
        try:
            _twin(str(path), _digest(_content(path)))
        except TwinError as problem:
            hint = f". {problem.hint}" if problem.hint else ""
            raise ValueError(f"{problem.message}{hint}") from None
        return str(path)

    @model_validator(mode="after")
    def _has_digest(self) -> Self:
        if not self.digest:
            self.__dict__["digest"] = _digest(_content(Path(self.file)))
        return self

    @property
    def twin(self) -> Twin:
        """The twin.

        Raises:
            TwinError: the file is gone, or is another one than when the run began.
        """
        return _twin(self.file, self.digest)

    @property
    def transactions(self) -> tuple[str, ...]:
        return transactions(self.twin)

    @property
    def unchecked(self) -> str:
        scale = f" --scale {self.scale:g}" if self.scale != 1 else ""
        check = f"pgdrag twin check {Path(self.file).name}{scale}"
        return f"nobody has checked how far this twin is like its original; run: {check}"

    def dataset(self) -> Mapping[str, object]:
        return {
            "kind": self.name,
            "data_version": ROWS_VERSION,
            "load_version": LOAD_VERSION,
            "digest": self.digest,
            "scale": self.scale,
        }

    def dataset_bytes(self) -> int:
        return data_twin_bytes(self.twin, self.scale)

    def job(self) -> dict[str, object]:
        return job(self.twin)

    def populate(self, loading: Loading) -> None:
        """Make schema, rows and indexes, then what its load needs."""
        # Here: reports need the workloads, and no server.
        import psycopg

        from pgdrag.data_twin.making import restore_rows

        twin, step = self.twin, _step(loading.listen)
        try:
            with connected(loading.target, "pgdrag twin", autocommit=True) as connection:
                _refuse_powers(connection)
                restore_rows(connection, twin, scale=self.scale, seed=loading.seed, step=step)
                prepare_load(connection, twin, seed=loading.seed, step=step, warn=loading.warn)  # fmt: skip
        except psycopg.Error as error:
            said = error.diag.message_primary or str(error).strip()
            raise DriverError(f"could not make the data twin: {said}") from error

    def driving(
        self, driver: Driver, target: Target, load: LoadProfile, *, seed: int, listen: Listener
    ) -> AbstractContextManager[Driving]:
        return driving_load(self.twin, driver, target, load, seed=seed, listen=listen)

    def violations(
        self, driver: Driver, target: Target, measured: Measurement, *, timeout_s: float
    ) -> tuple[str, ...]:
        """Return nothing: which conditions hold in the original no twin tells."""
        return ()


def _content(path: Path) -> bytes:
    try:
        return read_named(path, LARGEST_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise TwinError(f'could not read "{path}": {reason}') from None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@lru_cache(maxsize=4)
def _twin(file: str, digest: str) -> Twin:
    content = _content(Path(file))
    if _digest(content) != digest:
        raise TwinError(
            "another file than when the run began",
            path=file,
            hint="Put the twin back that the run began with, or begin a new run.",
        )
    return parse_twin(content, Path(file))


def _step(listen: Listener) -> Step:
    def step(phase: str, done: int, total: int) -> None:
        listen(ProgressLine(type="progress", phase=phase, done=done, total=total, t_s=0))

    return step


def _refuse_powers(connection: psycopg.Connection) -> None:
    powers = [name for (name,) in connection.execute(_POWERS)]
    if powers:
        raise DriverError(
            "this role may run programs or read files of the server",
            detail="A twin has functions and expressions that somebody else wrote; they run as this role.",
            hint="Connect as a role that is no superuser and only owns the database.",
        )

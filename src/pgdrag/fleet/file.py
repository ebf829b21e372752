"""Which hosts run trials? A fleet file says it: TOML, checked like an experiment file."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pgdrag.english import counted
from pgdrag.errors import FileError, UsageError
from pgdrag.experiment.mistakes import experiment_error, mistakes_of
from pgdrag.toml_lines import KeyLines
from pgdrag.units import parse_seconds

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
# An argument to another program is neither an option of it nor another program.
_HOST = r"^([A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9][A-Za-z0-9._:-]*$"
_PROGRAM = r"^(~?/?([A-Za-z0-9._-]+/)+)?pgdrag$"
_OPTION = r"^--(account|constraint|cpus-per-task|mem|nodelist|partition|qos|reservation|time)=[A-Za-z0-9_.,:+-]+$"
_FORMS = {
    _HOST: 'letters, digits, "." and "-", with a user before "@" if there is one',
    _PROGRAM: 'names of directories and "pgdrag" at the end',
    _OPTION: 'an option that pgdrag passes on and its value, such as "--partition=bench"; the options are account, '
    "constraint, cpus-per-task, mem, nodelist, partition, qos, reservation and time",
}
MOST_HOSTS = 1000


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SshHost(_Table):
    """A host that the coordinator reaches by SSH, without a password: the agent runs there for the run's time."""

    host: Annotated[str, Field(pattern=_HOST)] = Field(
        description="As ssh takes it: a name of ~/.ssh/config, or user@host"
    )
    name: str = Field(default="", description="What reports call it (default: host without user)")
    program: Annotated[str, Field(pattern=_PROGRAM)] = Field(
        default="pgdrag", description="The program there: pgdrag, or a path that ends with it"
    )
    scratch: str = Field(
        default="", description="PGDRAG_SCRATCH there: where clusters and datasets are kept"
    )

    @field_validator("scratch")
    @classmethod
    def _is_absolute(cls, path: str) -> str:
        if path and not path.startswith("/"):  # no shell there expands "~"
            raise ValueError(f'it must be an absolute path, not "{path}"')
        return path

    @property
    def known_as(self) -> str:
        """Its name in the fleet."""
        return self.name or self.host.rpartition("@")[2]


class Slurm(_Table):
    """Hosts that a Slurm partition gives, each for itself: one job of an array each."""

    hosts: Annotated[int, Field(ge=1, le=MOST_HOSTS)] = Field(description="How many")
    program: Annotated[str, Field(pattern=_PROGRAM)] = Field(
        default="pgdrag", description="The program there: pgdrag, or a path that ends with it"
    )
    options: tuple[Annotated[str, Field(pattern=_OPTION)], ...] = Field(
        default=(), description='Of sbatch, such as "--partition=bench"'
    )


class Kubernetes(_Table):
    """Hosts that are pods of one indexed job, no two of them on one node."""

    hosts: Annotated[int, Field(ge=1, le=MOST_HOSTS)] = Field(description="How many")
    image: str = Field(description="An image that has pgdrag of the same version")
    namespace: str = Field(default="default", description="Where the job runs")
    context: str = Field(default="", description="Of kubectl (default: the current one)")


class FleetFile(_Table):
    """The hosts of a fleet, and how patient its coordinator is."""

    local: Annotated[int, Field(ge=0, le=64)] = Field(
        default=0,
        description="So many hosts on this machine, for trying out: they disturb each other",
    )
    ssh: tuple[SshHost, ...] = Field(default=(), description="Hosts that are reached by SSH")
    join: tuple[str, ...] = Field(
        default=(), description="Names of hosts that come by themselves, by pgdrag fleet join"
    )
    slurm: Slurm | None = Field(default=None, description="Hosts that Slurm gives")
    kubernetes: Kubernetes | None = Field(default=None, description="Hosts that Kubernetes gives")
    listen: str = Field(
        default="127.0.0.1:0",
        description="Address and port where the coordinator listens; port 0: any that is free",
    )
    reach: str = Field(
        default="", description="Address or name by which hosts reach it (default: that of listen)"
    )
    lease: str = Field(
        default="30s", description="A host that is silent for so long is lost: its trial runs again"
    )
    wait: str = Field(
        default="10min", description="Give up after so long without a host that can run trials"
    )

    @property
    def lease_s(self) -> float:
        """The lease, in seconds."""
        return parse_seconds(self.lease)

    @property
    def wait_s(self) -> float:
        """The patience, in seconds."""
        return parse_seconds(self.wait)

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all hosts."""
        numbered = (("local", self.local), ("slurm", self.slurm), ("kubernetes", self.kubernetes))
        counts = {
            kind: many if isinstance(many, int) else many.hosts if many is not None else 0
            for kind, many in numbered
        }
        made = [f"{kind}-{at}" for kind, count in counts.items() for at in range(1, count + 1)]
        return (*made, *(one.known_as for one in self.ssh), *self.join)

    @field_validator("lease", "wait")
    @classmethod
    def _is_span(cls, text: str) -> str:
        try:
            span_s = parse_seconds(text)
        except UsageError as error:
            raise ValueError(error.message) from None
        if not 0.5 <= span_s <= 86_400:
            raise ValueError("it is out of range: 1s to 1d")
        return text

    @field_validator("listen")
    @classmethod
    def _is_address(cls, text: str) -> str:
        if not re.fullmatch(r".+:\d{1,5}", text) or int(text.rpartition(":")[2]) > 65_535:
            raise ValueError("it must be an address with a port, such as 10.0.0.5:7433")
        return text

    @model_validator(mode="after")
    def _is_whole(self) -> FleetFile:
        names = self.names
        if not 1 <= len(names) <= MOST_HOSTS:
            raise ValueError(
                f"it has {counted(len(names), 'host')}, and must have 1 to {MOST_HOSTS:,}"
            )
        for name in names:
            if not _NAME.fullmatch(name):
                raise ValueError(f'"{name}" is not a name of a host')
            if names.count(name) > 1:
                raise ValueError(f'two hosts have the name "{name}"')
        others = self.join or self.slurm or self.kubernetes
        if others and self.address[0] in ("127.0.0.1", "::1", "localhost") and not self.reach:
            raise ValueError(
                "listen must be an address that hosts of join, slurm and kubernetes can connect to"
            )
        return self


def read_fleet(path: Path) -> FleetFile:
    """Return what a fleet file says.

    Raises:
        FileError: it cannot be read, or is none.
    """
    hint = "docs/how-to/fleet.md shows what a fleet file has."
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except OSError as error:
        raise FileError(
            f"could not read the fleet file: {(error.strerror or '').lower()}", path=path, hint=hint
        ) from None
    except UnicodeDecodeError:
        raise FileError("is not TOML: it is not text", path=path, hint=hint) from None
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"is not TOML: {error}", path=path, hint=hint) from None
    try:
        return FleetFile.model_validate(table)
    except ValidationError as error:
        mistakes = mistakes_of(error, FleetFile.model_json_schema(), forms=_FORMS)
        raise experiment_error(mistakes, KeyLines(text), path) from None

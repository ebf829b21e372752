"""What do the clients do? One file per workload: the driver's job, the dataset, the checks.

A workload is a value: its parameters (a pydantic model, so that an experiment file's mistakes are
named) and pure functions of them. The load driver does the work, unless a workload overrides how its
dataset is made, how it is driven or how it is checked. It is registered by being a concrete subclass
of `Workload` in a module of this folder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from pydantic import BaseModel, ConfigDict, model_validator

from pgdrag import registry
from pgdrag.model.load import LoadProfile
from pgdrag.model.measurement import Example, Measurement
from pgdrag.model.program import Program

if TYPE_CHECKING:
    from pgdrag.driver.contract import Line
    from pgdrag.driver.process import Driver, Target

    Listener = Callable[[Line], None]


@dataclass(frozen=True)
class Loading:
    """An empty database that is to get a workload's dataset.

    Attributes:
        parallelism: how many connections may load at the same time.
        timeout_s: how long each step may take.
        listen: called with the driver's progress.
        warn: called with a clause that trials with the dataset have to warn of.
    """

    driver: Driver
    target: Target
    seed: int
    parallelism: int
    timeout_s: float
    listen: Listener
    warn: Callable[[str], None] = lambda _: None


class Driving(Protocol):
    """A load under way: first `warm_up`, then `measure`, each once."""

    def warm_up(self) -> None:
        """Return when the warm-up is over; the load may continue."""
        ...

    def measure(self) -> Measurement:
        """Drive the measured window, and return what was counted in it.

        Raises:
            DriverError: nothing could be counted.
        """
        ...


@dataclass(frozen=True)
class Objection:
    """Why a workload cannot be driven by a load.

    Attributes:
        parameter: the workload's own that does not go with it.
        message: what follows its name: "must be 0 …".
        hint: what to do about it, in sentences.
    """

    parameter: str
    message: str
    hint: str


@dataclass(frozen=True)
class DatasetSize:
    """Which parameter sets how large a workload's dataset is.

    Attributes:
        parameter: its name.
        describe: returns a size in a few words: "scale 10".
        option: the command-line option that sets it, such as "pgbench_scale".
        start: its value on the command line, unless given; None: the parameter's default.
        counted: the table that has a row for each unit of it; "": there is none.
    """

    parameter: str
    describe: Callable[[Any], str]
    option: str
    start: float | None = None
    counted: str = ""


class Weights(BaseModel):
    """Weights of a workload's parts; not all of them are 0."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    @model_validator(mode="after")
    def _has_weight(self) -> Self:
        if not sum(self.model_dump().values()) > 0:
            raise ValueError("at least one weight must be over 0")
        return self


class Workload(BaseModel, ABC):
    """One workload with its parameters: the `[workload]` table of an experiment file, without `kind`."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for `pgdrag list`
    dataset_size: ClassVar[DatasetSize | None] = None
    # Of a file that stands for the workload on the command line: it becomes the parameter "file".
    file_suffix: ClassVar[str] = ""
    # The tables of its dataset, where all of its kind have the same.
    tables: ClassVar[tuple[str, ...]] = ()
    # Parameters in which the scales of one experiment cannot differ: their numbers mean another thing.
    alike_at_all_scales: ClassVar[tuple[str, ...]] = ()
    # Parameters that are no levels of treatments: they say what a transaction is, or where files are.
    alike_in_all_arms: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def example(cls) -> Self:
        """Return a small one of its kind, as the conformance suite runs it."""
        return cls()

    @classmethod
    def words(cls, parameters: Mapping[str, object]) -> str:
        """Return parameters as a report shows them; they may be of another pgdrag version."""
        return ", ".join(f"{key} = {value}" for key, value in parameters.items())

    @property
    def changes_data(self) -> bool:
        """Whether its transactions write, so that the next trial needs the dataset as it was loaded."""
        return True

    @property
    def unchecked(self) -> str:
        """The warning of trials whose dataset was not checked against its original; "" if it has none."""
        return ""

    @property
    def uses_dataset(self) -> bool:
        """Whether its transactions need the tables that `populate` makes; else they have tables of their own."""
        return True

    @property
    def has_own_scripts(self) -> bool:
        """Whether the driver compiles what a person wrote for it, in which there may be mistakes."""
        return False

    @property
    def needs_superuser(self) -> bool:
        """Whether it works as a superuser, whose SQL can run programs and read all files of the server's."""
        return False

    @property
    def needs_tcp(self) -> bool:
        """Whether it connects by TCP, with a password: its programs cannot use a Unix socket."""
        return False

    @property
    def uses_load_driver(self) -> bool:
        """Whether pgdrag's load driver runs it, with as many threads as its load says."""
        return True

    @property
    @abstractmethod
    def transactions(self) -> tuple[str, ...]:
        """The types of transactions that the driver counts, in its order."""

    @abstractmethod
    def dataset(self) -> Mapping[str, object]:
        """Return all that determines the dataset's bytes but the seed: it keys the snapshot.

        It carries a `data_version`, to be raised whenever the driver's population changes.
        """

    @abstractmethod
    def dataset_bytes(self) -> int:
        """Return about how many bytes the loaded dataset takes on disk."""

    @abstractmethod
    def job(self) -> dict[str, object]:
        """Return the `workload` object of the driver's job."""

    def programs(self) -> Sequence[Program]:
        """Return the programs that it starts on this machine; without consent none of its trials is run."""
        return ()

    def objection(self, load: LoadProfile) -> Objection | None:
        """Return why these parameters make no sense under this load; None where they do."""
        return None

    def populate(self, loading: Loading) -> None:
        """Make and fill the tables in an empty database.

        Raises:
            DriverError: they could not be made.
        """
        loading.driver.load(
            loading.target,
            self.job(),
            seed=loading.seed,
            parallelism=loading.parallelism,
            timeout_s=loading.timeout_s,
            listen=loading.listen,
        )

    def driving(
        self, driver: Driver, target: Target, load: LoadProfile, *, seed: int, listen: Listener
    ) -> AbstractContextManager[Driving]:
        """Start driving; leaving the block ends it in any state."""
        return driver.driving(target, self.job(), load, seed=seed, listen=listen)

    def sends(self, driver: Driver, *, seed: int) -> tuple[Example, ...]:
        """Return the statements of its transactions, so that the server's plans for them can be inspected.

        Raises:
            DriverError: the driver cannot tell.
        """
        return driver.examples(self.job(), seed=seed)

    def violations(
        self, driver: Driver, target: Target, measured: Measurement, *, timeout_s: float
    ) -> tuple[str, ...]:
        """Return a sentence for each consistency condition that the dataset violates.

        Args:
            measured: what the driver counted since the dataset was as it was loaded.

        Raises:
            DriverError: the check could not be carried out.
        """
        return driver.check(target, self.job(), timeout_s=timeout_s)


def all_workloads() -> dict[str, type[Workload]]:
    """Return every registered workload, by name."""
    return registry.registered("pgdrag.workloads", Workload)  # type: ignore[type-abstract]

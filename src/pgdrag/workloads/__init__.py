"""What do the clients do? One file a workload: what the driver is told, its dataset, its checks.

A workload is a value: its parameters (a pydantic model, so that an experiment file's mistakes are
named) and pure functions of them. The driver does the work. It is registered by being a concrete
subclass of `Workload` in a module of this folder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from pgdrag import registry


class Workload(BaseModel, ABC):
    """One workload with its parameters: the `[workload]` table of an experiment file, without `kind`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for `pgdrag list`
    transactions: ClassVar[tuple[str, ...]]  # types that the driver counts, in its order

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


def all_workloads() -> dict[str, type[Workload]]:
    """Return every registered workload, by name."""
    import pgdrag.workloads as package

    return registry.registered(package, Workload)  # type: ignore[type-abstract]

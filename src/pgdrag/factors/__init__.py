"""What can be changed? One file a kind of factor: check, apply, read back, undo.

A kind of factor is the name of a table in an experiment file (`[baseline.setting]`); its keys name
factors, its values levels. It is registered by being a concrete subclass of `Factor` in a module
of this folder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pgdrag import registry
from pgdrag.plan import Applied, Level
from pgdrag.settings import SettingsCatalog

if TYPE_CHECKING:
    from pgdrag.servers.cluster import Cluster


@dataclass(frozen=True)
class Problem:
    """Why a level cannot be had here.

    Attributes:
        is_mistake: True: nobody could run this (a typo, a value out of every range); False: only
            this server or machine lacks what it needs, and the level is *untestable here*.
        message: what is wrong, in the style of PostgreSQL's messages.
        hint: what to do, or "".
    """

    level: Level
    is_mistake: bool
    message: str
    hint: str = ""


@dataclass(frozen=True)
class Here:
    """What is known of the place where trials would run, before anything is started.

    Attributes:
        settings: what the server at hand says of its settings.
        newest_settings: the same of the newest server that pgdrag knows (the embedded one), which
            tells a typo from a setting that the server at hand is too old for.
    """

    settings: SettingsCatalog
    newest_settings: SettingsCatalog


@dataclass(frozen=True)
class Example:
    """Levels to try a kind of factor with, on any server: see `pgdrag.testing.conformance_factors`.

    Attributes:
        level: can be had, and is not the default.
        effective: how `level` reads back.
        mistake: can be had nowhere.
    """

    level: Level
    effective: str
    mistake: Level


class Factor(ABC):
    """One kind of factor. One instance serves one trial.

    Life cycle: `check` before the run; then in each trial `before_start` on a stopped cluster,
    `after_start` on the running one, `read_back`, and at the end `undo`, whatever happened.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for `pgdrag list`
    examples: ClassVar[
        tuple[Example, ...]
    ]  # for its conformance suite; none: nothing to try on a cluster

    @abstractmethod
    def check(self, levels: Sequence[Level], here: Here) -> list[Problem]:
        """Return what keeps these levels from being applied here; empty: nothing known."""

    @abstractmethod
    def before_start(self, cluster: Cluster, levels: Mapping[str, str]) -> None:
        """Apply what must be in place before the server starts; called with no levels too."""

    def after_start(self, cluster: Cluster, levels: Mapping[str, str]) -> None:  # noqa: B027
        """Apply what needs a running server; by default nothing."""

    @abstractmethod
    def read_back(self, cluster: Cluster, levels: Mapping[str, str]) -> list[Applied]:
        """Return, one per level, what the running system says."""

    def undo(self, cluster: Cluster) -> None:  # noqa: B027
        """Restore whatever outlives the cluster; by default nothing does."""


def all_factors() -> dict[str, type[Factor]]:
    """Return every registered kind of factor, by name."""
    import pgdrag.factors as package

    return registry.registered(package, Factor)  # type: ignore[type-abstract]

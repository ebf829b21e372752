"""What can be changed? One file a kind of factor: check, apply, read back, undo.

A kind of factor is the name of a table in an experiment file (`[baseline.setting]`); its keys name
factors, its values levels. It is registered by being a concrete subclass of `Factor` in a module
of this folder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pgdrag import registry
from pgdrag.model import Applied, Level, Recordings, Trial, WorkloadSpec
from pgdrag.model.program import Program
from pgdrag.servers.settings import SettingsCatalog

if TYPE_CHECKING:
    from pgdrag.servers.cluster import Cluster


class Phase(Enum):
    """What a kind of factor changes, in the order in which it is in place.

    The core asks for the phase where a kind needs more than its own hooks, never for a kind by its name.
    """

    STORAGE = "where the data lie; what other kinds can change depends on it"
    SERVER = "which PostgreSQL is started; a level's value is as `find_binaries` takes it"
    SETTINGS = "settings of the server; levels are written as in postgresql.conf"
    WORKLOAD = "what the clients do"
    DURING = "anything else, from before the server starts until the end of the trial"


@dataclass(frozen=True)
class Problem:
    """Why a level cannot be applied here.

    Attributes:
        is_mistake: True: it cannot run anywhere (a typo, a value out of every range); False: only
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
        scratch_root: the directory below which the clusters' data lie.
        allowed: what of this machine may be changed: the names given to `--allow-change`; and what
            may be started: the keys of `Program`s.
        storage: the levels of the treatment's own storage, by name; none: the clusters lie on the disk
            that the scratch directory is on.
        workload: what the experiment's clients do; None: that is not known yet.
        settings_asked: the treatment's own settings, as they are written, by name in lower case.
    """

    settings: SettingsCatalog
    newest_settings: SettingsCatalog
    scratch_root: Path = Path("/var/tmp")
    allowed: frozenset[str] = frozenset()
    storage: Mapping[str, str] = field(default_factory=dict)
    workload: WorkloadSpec | None = None
    settings_asked: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Example:
    """Levels to try a kind of factor with, on any server: see `pgdrag.testing.conformance_factors`.

    Attributes:
        level: can be had, and is not the default.
        effective: how `level` reads back.
        mistake: can be had nowhere.
        needs_root: only root can try them.
    """

    level: Level
    effective: str
    mistake: Level
    needs_root: bool = False


class Factor(ABC):
    """One kind of factor. One instance serves one trial.

    Life cycle: `check` before the run; then in each trial `serve`, `before_start` on a stopped cluster,
    `after_start` on the running one, `read_back`, after the warm-up `window_began`, and at the end `failure`
    and `undo`, whatever happened. One that `reads_back_late` is read back when the window has ended.

    What would outlive the process is noted in the undo journal (`pgdrag.host.undo`) before it is changed.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for `pgdrag list`
    examples: ClassVar[
        tuple[Example, ...]
    ]  # for its conformance suite; none: nothing to try on a cluster
    phase: ClassVar[Phase] = Phase.DURING
    # It changes the operating system: the host is locked, and the trials of all arms begin with the dataset
    # out of the page cache.
    changes_host: ClassVar[bool] = False
    # Values that a search may try, by the level's name.
    search_values: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    # What it does goes on within the window, and can be read back only when that has ended, before `undo`.
    reads_back_late: ClassVar[bool] = False

    def problem(self, level: Level, here: Here) -> Problem | None:
        """Return what keeps this level, by itself, from being applied here; None: nothing known."""
        return None

    def value_now(self, name: str, here: Here) -> str | None:
        """Return the default value of a level of this name; None if it is not known beforehand."""
        return None

    def check(self, levels: Sequence[Level], here: Here) -> list[Problem]:
        """Return what keeps these levels from being applied here; by default the problem of each by itself."""
        return [problem for level in levels if (problem := self.problem(level, here)) is not None]

    @classmethod
    def inlined(cls, name: str, value: str, directory: Path) -> str:
        """Return a level's value with the content of the file that it names, on one line; any other value unchanged.

        The study keeps it: resuming or reporting a run does not need the file.

        Args:
            name: of the level.
            directory: the experiment's, which the file's name is relative to.

        Raises:
            PgdragError: the file cannot be read, or is wrong.
        """
        return value

    @classmethod
    def programs(cls, levels: Mapping[str, str]) -> Sequence[Program]:
        """Return the programs that the levels of one treatment name; a program that was not allowed is never started."""
        return ()

    @classmethod
    def mount_options(cls, levels: Mapping[str, str]) -> list[str]:
        """Return what a scratch device must be mounted with afresh for these levels."""
        return []

    @classmethod
    def more_clusters(cls, levels: Mapping[str, str]) -> int:
        """Return how many clusters with a copy of all data are needed beside the trial's own."""
        return 0

    def serve(self, trial: Trial) -> None:  # noqa: B027 (most need no more than their levels)
        """Learn which trial this is, before anything else: its seed, and how long its load takes."""

    def before_start(self, cluster: Cluster, levels: Mapping[str, str]) -> None:  # noqa: B027
        """Apply what must be in place before the server starts, if anything; called with no levels too."""

    def after_start(self, cluster: Cluster, levels: Mapping[str, str]) -> None:  # noqa: B027
        """Apply what needs a running server; by default nothing."""

    def window_began(self, cluster: Cluster) -> None:  # noqa: B027 (most are in force all along)
        """Start what is to happen within the window, and return at once: the load is being measured."""

    @abstractmethod
    def read_back(self, cluster: Cluster, levels: Mapping[str, str]) -> list[Applied]:
        """Return, one per level, what the running system says."""

    def recordings(self, started_unix_s: float) -> Recordings:
        """Return what it did within the window, which began at `started_unix_s`; asked when that has ended."""
        return Recordings()

    def failure(self, cluster: Cluster) -> str:
        """Return why the levels did not stay in force to the end of the trial: a clause, or "".

        Asked before `undo`, however the trial ended. It is the reason why a server broke; a trial that
        would have been measured is invalid.
        """
        return ""

    def undo(self, cluster: Cluster) -> None:  # noqa: B027
        """Restore everything that outlives the cluster; by default nothing does."""


def all_factors() -> dict[str, type[Factor]]:
    """Return every registered kind of factor, by name."""
    return registry.registered("pgdrag.factors", Factor)  # type: ignore[type-abstract]


def is_of(phase: Phase, kind: str) -> bool:
    """Tell whether a kind of factor, by name, belongs to a phase; an unknown one belongs to none."""
    found = all_factors().get(kind)
    return found is not None and found.phase is phase


def kind_of(phase: Phase) -> str:
    """Return the name of the kind of factor that pgdrag itself has for a phase."""
    own = registry.shipped(all_factors())
    return next(name for name, kind in own.items() if kind.phase is phase)


def levels_of(phase: Phase, levels: Iterable[Level]) -> dict[str, str]:
    """Return the levels that belong to a phase, by name."""
    return {level.name: level.value for level in levels if is_of(phase, level.kind)}

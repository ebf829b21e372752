"""What can hold a horizon back on purpose? Each kind of holder holds, verifies that it does, and lets go.

A holder is registered by being a concrete subclass of `Holder` in a module of this folder. What it
holds with ends with the process that holds: a session by itself, the rest with its throw-away cluster.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from pgdrag import registry
from pgdrag.errors import SettingError
from pgdrag.units import to_base_integer

if TYPE_CHECKING:
    from pgdrag.servers.cluster import Cluster

# Names of sessions as pg_stat_activity shows them: those that hold, those that manage it,
# and one that clears away when all is released.
APPLICATION_NAME = "pgdrag horizon holder"
WATCHER_NAME = "pgdrag horizon"
CLEANUP_NAME = "pgdrag vacuum"
# What is known of a session that the server ended without a word, as where it crashes.
LOST_SILENTLY = "its session was lost"


@dataclass(frozen=True)
class HoldPlace:
    """Where a horizon is held.

    Attributes:
        conninfo: libpq's, of the database.
        longest_s: the server itself ends a session that holds for longer, should this process be
            stopped; None: it does not, whatever its own settings say.
        cluster: the throw-away cluster; None: an existing server.
        application_name: of the sessions that hold, as shown in pg_stat_activity.
        before_prepare: called with the identifier of a prepared transaction before it is prepared, for it
            outlives its session.
    """

    conninfo: str = field(repr=False)
    longest_s: float | None = None
    cluster: Cluster | None = None
    application_name: str = APPLICATION_NAME
    before_prepare: Callable[[str], None] | None = field(default=None, repr=False)


class Held:
    """A hold in force, until it is released; used by one thread at a time.

    Attributes:
        who: holds, as `HolderSample.who` names it: "session 4711".
    """

    def __init__(self, who: str, end: Callable[[], None]) -> None:
        self.who = who
        self._end = end
        self.is_released = False

    def lost(self) -> str:
        """Return why it no longer holds although it was not released; "" if it appears to hold."""
        return ""  # without a session there is nothing that could be seen to break

    def release(self) -> None:
        """Let go; again is fine.

        Raises:
            ServerError: the server does not let it.
        """
        if not self.is_released:
            self._end()
            self.is_released = True


class Holder(ABC):
    """One kind of holder. One instance serves one place.

    Life cycle: `prepare` while nobody measures, `hold` as often as wanted, `close` at the end.
    """

    name: ClassVar[str]
    summary: ClassVar[str]  # one line for lists
    is_bounded_by_session: ClassVar[bool]  # it ends with its session, whatever happens to pgdrag
    # It needs a server that pgdrag may connect to others and restart.
    needs_cluster: ClassVar[bool] = False
    is_repeatable: ClassVar[bool] = True
    # What the server must be started with, unless it is set.
    settings: ClassVar[Mapping[str, str]] = {}

    @classmethod
    def refusal(cls, settings: Mapping[str, str]) -> str:
        """Return why it cannot hold on a server with these settings: a clause, or ""."""
        return ""

    def prepare(self, place: HoldPlace) -> None:  # noqa: B027 (most need nothing)
        """Make what takes time and holds nothing yet.

        Raises:
            ServerError: it cannot be made here.
        """

    @abstractmethod
    def hold(self, place: HoldPlace) -> Held:
        """Hold, and return as soon as the server shows that it does.

        Raises:
            ServerError: it refuses, or does not show it.
        """

    def close(self) -> None:  # noqa: B027 (most have nothing)
        """Remove what `prepare` made; again is fine."""


def whole_setting(settings: Mapping[str, str], name: str) -> int | None:
    """Return a whole-numbered setting as a person wrote it; None where it is not set, or is no number."""
    try:
        return to_base_integer(settings[name], None) if name in settings else None
    except SettingError:
        return None


def all_holders() -> dict[str, type[Holder]]:
    """Return every registered kind of holder, by name."""
    return registry.registered("pgdrag.horizon.holders", Holder)  # type: ignore[type-abstract]

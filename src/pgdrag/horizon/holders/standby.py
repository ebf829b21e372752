"""A report on a standby that gives feedback: the primary keeps what that may still read."""

from __future__ import annotations

from collections.abc import Mapping

from pgdrag.horizon.holders import Held, Holder, HoldPlace, _standby
from pgdrag.servers.cluster import Cluster


class StandbyHolder(Holder):
    """A long transaction on a real, living standby that pgdrag starts beside the cluster.

    The primary learns within a second that it has ended.
    """

    name = "standby"
    summary = "a long transaction on a real standby with hot_standby_feedback"
    is_bounded_by_session = False
    needs_cluster = True

    def __init__(self) -> None:
        self._standby: Cluster | None = None

    @classmethod
    def refusal(cls, settings: Mapping[str, str]) -> str:
        """Return that there can be no standby."""
        return _standby.refusal(settings)

    def prepare(self, place: HoldPlace) -> None:
        """Start the standby."""
        if self._standby is None:
            self._standby = _standby.make_standby(place)

    def hold(self, place: HoldPlace) -> Held:
        """Take a snapshot there; the standby serves any number of them."""
        self.prepare(place)
        assert self._standby is not None
        return _standby.hold_on(self._standby, place)

    def close(self) -> None:
        """Remove the standby."""
        if self._standby is not None:
            self._standby.remove()
            self._standby = None

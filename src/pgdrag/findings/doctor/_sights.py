"""What was seen in a window, asked by name; and where sessions' time went."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TypeVar

from pgdrag.model.live import LiveWindow, ServerSetting
from pgdrag.model.recordings import SESSION_TYPES, Recording, WaitTime, is_at_work

R = TypeVar("R", bound=Recording)


class NotSeen(Exception):
    """What a symptom needs was not seen; its text says why, a clause without a full stop."""


@dataclass(frozen=True)
class SessionTimes:
    """Seconds of all sessions together by wait, without those in which they waited for their clients.

    Attributes:
        by_wait: "Type:Event"; "" is on a processor, or wanting one.
    """

    by_wait: Mapping[str, float]
    length_s: float

    @property
    def whole_s(self) -> float:
        """Of all waits."""
        return sum(self.by_wait.values())

    @property
    def sessions(self) -> float:
        """How many sessions were at work or waiting on average."""
        return self.on_average(self.whole_s)

    def seconds(self, *patterns: str) -> float:
        """Return the seconds in waits that match patterns such as "Lock:*"."""
        return sum(self.matching(*patterns).values())

    def matching(self, *patterns: str) -> dict[str, float]:
        """Return the seconds by wait, of those that match one of the patterns."""
        return {
            wait: time_s
            for wait, time_s in self.by_wait.items()
            if any(fnmatchcase(wait, pattern) for pattern in patterns)
        }

    def share(self, seconds: float) -> float:
        """Return a part of the whole."""
        return min(seconds / self.whole_s, 1.0) if self.whole_s else 0.0

    def on_average(self, seconds: float) -> float:
        """Return how many sessions that many seconds were, on average."""
        return seconds / self.length_s if self.length_s else 0.0

    def lost(self, seconds: float) -> dict[str, float]:
        """Return both of seconds that something took, as numbers of a symptom."""
        return {"sessions": self.on_average(seconds), "share": self.share(seconds)}


class Sights:
    """What was seen in a window, for those who ask: what is missing raises `NotSeen`."""

    def __init__(self, window: LiveWindow) -> None:
        self.window = window

    @property
    def length_s(self) -> float:
        """The window's length."""
        return self.window.length_s

    def value(self, name: str) -> float:
        """Return the value of an observation.

        Raises:
            NotSeen: it has none.
        """
        found = self.window.by_name.get(name)
        if found is None:
            raise NotSeen(f"{name} was not observed")
        if found.value is None:
            raise NotSeen(found.missing)
        return found.value

    def per_s(self, name: str) -> float:
        """Return an observation that is one of each transaction, per second.

        Raises:
            NotSeen: it has no value. Where nothing committed it has none.
        """
        if not self.window.transactions:
            raise NotSeen("nothing was committed")
        return self.value(name) * self.window.transactions / self.length_s

    def detail(self, name: str) -> str:
        """Return the words behind an observation; "" where there are none."""
        found = self.window.by_name.get(name)
        return found.detail if found is not None else ""

    def all_of(self, kind: type[R], collector: str) -> tuple[R, ...]:
        """Return the recordings of a kind.

        Raises:
            NotSeen: the collector that makes them could not.
        """
        missing = self.window.recordings.missing.get(collector)
        if missing:
            raise NotSeen(missing)
        return self.window.recordings.of(kind)

    @cached_property
    def settings(self) -> Mapping[str, ServerSetting]:
        """The server's settings that were read.

        Raises:
            NotSeen: they could not be read.
        """
        return {one.name: one for one in self.all_of(ServerSetting, "live_settings")}

    def setting(self, name: str) -> str:
        """Return a setting as it may be written; "" where it was not asked for."""
        return self.settings[name].words if name in self.settings else ""

    def size_of(self, name: str) -> float:
        """Return a setting's bytes, seconds or number.

        Raises:
            NotSeen: it is hidden.
        """
        found = self.settings.get(name)
        if found is None or found.size is None:
            raise NotSeen(f"setting {name} is hidden")
        return found.size

    @cached_property
    def time(self) -> SessionTimes:
        """Where sessions' time went.

        Raises:
            NotSeen: other sessions cannot be seen.
        """
        times = Counter[str]()
        for one in self.all_of(WaitTime, "waits"):
            if one.backend_type in SESSION_TYPES and is_at_work(one.wait):
                times[one.wait] += one.time_s  # type: ignore[assignment]
        return SessionTimes(dict(times), self.length_s)

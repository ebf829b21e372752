"""What looks at holders of the horizon come to: who held it from when to when, and how old it was."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

import pgdrag.collectors.horizon as horizon_module
from pgdrag.collectors import Observer, Unseen, Window
from pgdrag.collectors.horizon import Horizon
from pgdrag.horizon.sampling import HolderSample, ObjectType
from pgdrag.host.clock import CLOCK
from pgdrag.model.recordings import Event, Recordings

WINDOW = Window(elapsed_s=10.0, committed=1, started_unix_s=100.0, finished_unix_s=110.0)


def session(pid: int, age: int, held_s: float, state: str = "") -> HolderSample:
    since_s = 100.0 - held_s
    return HolderSample(100.0, ObjectType.SESSION, str(pid), age=age, state=state, since_s=since_s)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Returns what comes of looks: at each second from the window's start, who is found."""

    def of(*looks: list[HolderSample] | Unseen) -> Recordings:
        collector = Horizon()
        for second, found in enumerate(looks):

            def read(*_: object, found: list[HolderSample] | Unseen = found, **__: object) -> Any:
                if isinstance(found, Unseen):
                    raise found
                return found

            monkeypatch.setattr(CLOCK, "unix_s", lambda second=second: 100.0 + second)
            monkeypatch.setattr(horizon_module, "read_holders", read)
            collector.sample(cast("Observer", SimpleNamespace(query=None)))
        return collector.recordings(WINDOW)

    return of


def test_a_holder_is_one_event_from_its_begin_until_last_seen_whatever_it_does(seen: Any) -> None:
    found = seen(
        [session(7, 5, 3.0, "active")],
        [session(7, 9, 4.0, "idle in transaction")],
        [],
    )
    text = "session 7 (idle in transaction), 9 transactions old when last seen"
    assert found.events == (Event("holder", -3.0, 1.0, text),)
    [series] = found.series
    assert (series.times_s, series.values) == ((0.0, 1.0, 2.0), (5.0, 9.0, 0.0))


def test_two_transactions_of_one_session_are_two_holders(seen: Any) -> None:
    found = seen([session(7, 5, 3.0)], [], [session(7, 1, 1.5)], [session(7, 2, 2.5)])
    assert [(one.start_s, one.end_s) for one in found.events] == [(-3.0, 0.0), (0.5, 3.0)]


def test_who_holds_for_less_than_two_seconds_is_no_event(seen: Any) -> None:
    found = seen([session(7, 5, 1.9)], [session(8, 5, 1.0)])
    assert found.events == ()
    assert found.series[0].values == (5.0, 5.0)


def test_a_slot_that_does_not_say_since_when_has_held_since_it_was_first_seen(seen: Any) -> None:
    slot = HolderSample(100.0, ObjectType.SLOT, "standby", age=70)
    found = seen([], [slot], Unseen("the server refused"), [slot])
    assert [(one.start_s, one.end_s) for one in found.events] == [(1.0, 3.0)]
    assert found.series[0].times_s == (0.0, 1.0, 3.0)


def test_where_nobody_could_look_there_is_nothing(seen: Any) -> None:
    assert not seen(Unseen("the connection to the server was lost"))

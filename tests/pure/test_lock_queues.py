"""Who blocks others is found from the first one in each queue, and long queues stand for the short ones beside them."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pgdrag.collectors import Observer
from pgdrag.live import lock_queues
from pgdrag.live.lock_queues import LockQueues, heads


class Locked:
    """A server with queues, each of those who wait, and whom the first ones of them wait for."""

    def __init__(self, *queues: list[int], blockers: Mapping[int, list[int]]) -> None:
        self._queues = [("relation", pids) for pids in queues]
        self._blockers = blockers
        self.asked: list[int] = []

    def query(self, sql: str, *parameters: list[int]) -> list[tuple[Any, ...]]:
        if sql == lock_queues._QUEUES:
            return list(self._queues)
        [pids] = parameters
        if sql == lock_queues._BLOCKERS:
            self.asked += pids
            return [(pid, self._blockers[pid]) for pid in pids]
        return [(pid, "app", "active", 2.0, "SELECT") for pid in pids]


def blocked(server: Locked, waiting: int) -> dict[int, float]:
    found = LockQueues()
    found.look(cast(Observer, server), waiting)
    return {one.pid: one.blocked_s for one in found.blockers(step_s=1.0)}


def test_all_in_a_queue_wait_for_whom_its_first_waits_and_only_that_one_is_asked_about() -> None:
    server = Locked([1, 2, 3, 4], blockers={1: [9]})
    assert blocked(server, 4) == {9: 4.0}
    assert server.asked == [1]


def test_a_queue_behind_somebody_who_waits_is_counted_at_the_end_of_the_chain() -> None:
    server = Locked([1, 2, 3], [4], blockers={1: [4], 4: [9]})
    assert blocked(server, 4) == {9: 4.0}


def test_the_longest_queues_stand_for_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_queues, "MOST_QUEUES", 1)
    server = Locked([1], [2, 3, 4], [5], blockers={1: [7], 2: [8], 5: [9]})
    assert blocked(server, 5) == {8: 5.0}


def test_a_chain_is_followed_into_a_queue_that_is_too_short_to_be_asked_about(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lock_queues, "MOST_QUEUES", 1)
    server = Locked([1], [2, 3, 4], blockers={1: [9], 2: [1]})
    assert blocked(server, 4) == {9: 4.0}


def test_a_slow_look_is_not_repeated_at_once_and_what_it_missed_is_in_proportion(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = iter((0.0, 1.0, 5.0, 30.0, 30.1))
    monkeypatch.setattr(lock_queues, "time", SimpleNamespace(monotonic=lambda: next(now)))
    server, found = Locked([1, 2], blockers={1: [9]}), LockQueues()
    for _ in range(3):
        found.look(cast(Observer, server), 2)
    assert server.asked == [1, 1]
    [one] = found.blockers(step_s=1.0)
    assert one.blocked_s == 6.0


def test_a_circle_has_no_head_but_whoever_is_beside_it() -> None:
    assert heads(1, {1: [2], 2: [1, 3]}) == {3}
    assert heads(1, {1: [2], 2: [1]}) == set()

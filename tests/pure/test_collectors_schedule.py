"""Looks at processes add up to who ran, and how long sessions waited for a processor."""

from __future__ import annotations

import os

import pytest

from pgdrag.collectors import Amounts, Window
from pgdrag.collectors._proc import Account
from pgdrag.collectors.processes import Schedule

SESSION, VACUUM = "client backend", "autovacuum worker"
S = 1_000_000_000  # nanoseconds
Look = tuple[float, dict[int, Account], float]


def account(cpu_s: float, queue_s: float = 0.0) -> Account:
    return {"cpu_ns": int(cpu_s * S), "queue_ns": int(queue_s * S)}


def seen(kind: str, *looks: Look) -> Amounts:
    """What looks come to: a moment, the processes, all of one kind, and the time of all that have ended."""
    schedule = Schedule()
    for at_s, accounts, ended_s in looks:
        schedule.note(at_s, accounts, ended_s, lambda _: kind)
    return schedule.amounts(Window(elapsed_s=2, committed=1, started_unix_s=0, finished_unix_s=2))


def test_a_session_that_lives_through_the_window_counts_from_the_first_look_on():
    found = seen(SESSION, (10.0, {1: account(5, 2)}, 100.0), (11.0, {1: account(6, 4)}, 100.0))
    assert (found["looks"], found["observed_s"]) == (2, 1.0)
    assert (found["session_cpu_s"], found["session_cpu_wait_s"]) == pytest.approx((1.0, 2.0))
    assert found["session_cpu_s in window"] == pytest.approx(2.0)
    assert found["all_s"] == os.cpu_count()


def test_what_a_worker_took_after_the_last_look_is_in_the_postmasters_account():
    found = seen(VACUUM, (10.0, {}, 100.0), (11.0, {7: account(0.5)}, 100.0), (12.0, {}, 100.75))
    assert found["autovacuum_cpu_s"] == pytest.approx(0.75)
    assert found["session_cpu_s"] == 0


def test_what_was_taken_before_the_first_look_does_not_count_also_of_one_that_ends():
    found = seen(VACUUM, (10.0, {7: account(30)}, 100.0), (11.0, {}, 130.25))
    assert found["autovacuum_cpu_s"] == pytest.approx(0.25)


def test_a_number_that_is_used_again_is_another_process():
    found = seen(VACUUM, (10.0, {7: account(3, 1)}, 0.0), (11.0, {7: account(1, 0)}, 3.0))
    assert found["autovacuum_cpu_s"] == pytest.approx(1.0)

"""Looks at processes add up to who ran, and how long sessions waited for a processor."""

from __future__ import annotations

import pytest

from pgdrag.collectors.schedule import Account, Looks

SESSION, VACUUM = "client backend", "autovacuum worker"
S = 1_000_000_000  # nanoseconds


def test_a_session_that_lives_through_the_window_counts_from_the_first_look_on():
    looks = Looks()
    looks.add(10.0, {1: Account(SESSION, 5 * S, 2 * S)}, ended_s=100.0)
    looks.add(11.0, {1: Account(SESSION, 6 * S, 4 * S)}, ended_s=100.0)
    assert (looks.count, looks.observed_s) == (2, 1.0)
    assert looks.cpu_s(SESSION) == pytest.approx(1.0)
    assert looks.queue_s(SESSION) == pytest.approx(2.0)


def test_what_a_worker_took_after_the_last_look_is_in_the_postmasters_account():
    looks = Looks()
    looks.add(10.0, {}, ended_s=100.0)
    looks.add(11.0, {7: Account(VACUUM, S // 2, 0)}, ended_s=100.0)
    looks.add(12.0, {}, ended_s=100.75)
    assert looks.cpu_s(VACUUM) == pytest.approx(0.75)
    assert looks.cpu_s_without(SESSION) == pytest.approx(0.75)


def test_what_was_taken_before_the_first_look_does_not_count_also_of_one_that_ends():
    looks = Looks()
    looks.add(10.0, {7: Account(VACUUM, 30 * S, 0)}, ended_s=100.0)
    looks.add(11.0, {}, ended_s=130.25)
    assert looks.cpu_s(VACUUM) == pytest.approx(0.25)


def test_a_number_that_is_used_again_is_another_process():
    looks = Looks()
    looks.add(10.0, {7: Account(VACUUM, 3 * S, S)}, ended_s=0.0)
    looks.add(11.0, {7: Account(VACUUM, S, 0)}, ended_s=3.0)
    assert looks.cpu_s(VACUUM) == pytest.approx(1.0)

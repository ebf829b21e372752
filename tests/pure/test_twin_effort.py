"""How much values of a twin's statements are tried: by what the server does, and not by the clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgdrag.data_twin.load.conditions import Conditions
from pgdrag.data_twin.load.effort import SLOWEST, Effort, executions_within
from pgdrag.data_twin.load.statements import Analysed
from pgdrag.data_twin.load.texts import change_of
from twin_statements import READ, WRITE, called

SCAN = {"Node Type": "Seq Scan", "Actual Rows": 10.0, "Rows Removed by Filter": 89_990, "Actual Loops": 10, "Shared Hit Blocks": 100_000}  # fmt: skip


def analysed(text: str = READ, *, mean_s: float = 0.0, blocks: float = 1) -> Analysed:
    one = called(text, exec_s=100 * mean_s, shared_hit=blocks)
    return Analysed(1, text, ("int4",), change_of(text), None, Conditions((), {}), {}, {}, one)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_it_ends_after_as_many_blocks_and_rows_however_slow_the_machine_is() -> None:
    for slower in (0.1, 1.0, SLOWEST - 1):
        clock, tries = Clock(), 0
        effort = Effort(analysed(), 4.0, clock)
        while effort.may_go_on:
            effort.executed(SCAN)  # 900,000 rows and 100,000 blocks: a second
            tries, clock.now_s = tries + 1, clock.now_s + slower
        assert (tries, effort.was_cut_short) == (4, False)


def test_the_clock_ends_what_takes_too_long_all_the_same() -> None:
    clock = Clock()
    effort = Effort(analysed(), 4.0, clock)
    effort.executed(SCAN)
    clock.now_s = 4 * SLOWEST + 1
    assert (effort.may_go_on, effort.was_cut_short) == (False, True)


@pytest.mark.parametrize(("text", "spent_s"), [(READ, 0.501), (WRITE, 0.001), (f"{READ} FOR UPDATE", 0.001)])  # fmt: skip
def test_rows_take_as_long_as_in_the_original_unless_that_waited_for_locks(
    text: str, spent_s: float
) -> None:
    effort = Effort(analysed(text, mean_s=1.0), 4.0, Clock())  # for a row and a block
    effort.executed({"Node Type": "Result", "Actual Rows": 1.0, "Shared Hit Blocks": 0})
    assert effort.spent_s == pytest.approx(spent_s, abs=1e-4)


def test_executions_are_cancelled_that_take_far_longer_than_the_originals_did() -> None:
    assert [Effort(analysed(mean_s=x), 4.0, Clock()).timeout_s for x in (0.001, 1.0, 1000.0)] == [4, 20, 120]  # fmt: skip
    effort = Effort(analysed(), 4.0, Clock())
    effort.failed(is_cancelled=False)
    assert not effort.was_cut_short  # the server refused it
    effort.failed(is_cancelled=True)
    assert effort.was_cut_short
    effort.executed(SCAN)
    assert not effort.was_cut_short  # others could be executed


def test_rows_are_inserted_before_values_are_tried_for_as_long_as_that_took_in_the_original() -> None:  # fmt: skip
    assert executions_within(20.0, analysed(mean_s=0.01)) == 2000
    never = analysed()
    assert executions_within(20.0, replace(never, wanted=replace(never.wanted, calls=0))) > 10**9

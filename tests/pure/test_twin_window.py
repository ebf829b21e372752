"""How long a twin's load is watched while it is checked."""

from __future__ import annotations

from pgdrag.driver.contract import IntervalLine, Transactions, WarmingLine
from pgdrag.model.events import Event, PhaseStarted
from pgdrag.twin_check import Window


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def ran(transactions: int) -> IntervalLine:
    counts = Transactions(scheduled=transactions, committed=transactions - 2, rolled_back=1, failed=1)  # fmt: skip
    return IntervalLine(type="interval", t_s=1.0, duration_s=1.0, sessions=1, transactions={"t": counts})  # fmt: skip


def test_it_lasts_until_as_many_transactions_have_run_as_in_the_original() -> None:
    events: list[Event] = []
    window = Window(30.0, 100, events.append, Clock())
    for _ in range(9):
        window.note(ran(10))
        assert not window.is_enough()
    window.note(ran(10))
    assert (window.is_enough(), window.warnings) == (True, ())
    [said] = events
    assert isinstance(said, PhaseStarted)
    assert (said.name, said.expected_s) == ("watch the load until it has run enough transactions", 270.0)  # fmt: skip


def test_those_of_the_warm_up_have_run_by_the_middle_of_the_window() -> None:
    window = Window(30.0, 100)
    window.note(WarmingLine(type="warming", t_s=1.0, duration_s=1.0, committed=29, failed=1))
    window.note(ran(40))
    assert window.is_enough()


def test_a_machine_that_runs_far_fewer_ends_it_and_the_check_says_so() -> None:
    clock = Clock()
    window = Window(30.0, 100, clock=clock)
    window.note(ran(40))
    assert not window.is_enough()
    clock.now_s = 271.0
    assert window.is_enough()
    assert (
        "the load ran 0.40 times as many transactions as in the original's window"
        in window.warnings[0]
    )


def test_without_a_number_the_time_is_enough() -> None:
    window = Window(30.0)
    assert (window.is_enough(), window.warnings) == (True, ())

"""How far a look at a server is: a line now and then where there is no terminal."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from pgdrag.cli.driving import showing_run
from pgdrag.cli.server_argument import live_line, time_words
from pgdrag.driver.contract import PhaseLine
from pgdrag.errors import Interrupted
from pgdrag.model.load import LoadProfile


@pytest.mark.parametrize(
    ("first_s", "said"), [(0.0, ["0", "10", "20", "29", "30"]), (10.0, ["10", "20", "29", "30"])]
)
def test_elsewhere_than_on_a_terminal_a_line_comes_every_ten_seconds_and_when_sight_is_lost_or_back(
    first_s: float, said: list[str]
) -> None:
    file = StringIO()
    with live_line(Console(file=file, force_terminal=False), first_s=first_s) as show:
        for second in (0, 5, 10, 19, 20, 29, 30):
            show(str(second), float(second), "blind" if second == 29 else None)
    assert file.getvalue().split() == said


def test_what_is_left_is_never_less_than_nothing() -> None:
    assert time_words(300.0, 3600.0) == "5 min of 1 h, 55 min left"
    assert time_words(3601.0, 3600.0) == "1 h of 1 h, 0 s left"


@pytest.mark.parametrize(("phase", "doing"), [("warm_up", "warming up"), ("run", "measuring")])
def test_an_interrupted_load_says_what_it_was_doing_and_that_there_is_no_result(
    phase: str, doing: str
) -> None:
    load = LoadProfile(connections=1, warm_up_s=5, measure_s=20, budget_s=20)

    def run() -> None:
        with showing_run(load, every_s=None) as listen:
            listen(PhaseLine(type="phase", name=phase, t_s=1.0))
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as found:
        run()
    assert found.value.message == f"interrupted while {doing}"
    assert found.value.detail == "A window that is cut short has no result."
    assert found.value.exit_status == 130

"""A statement that clearly takes longer, or reads more, for a call is named; noise, drift and another mix are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pgdrag.findings.doctor import Diagnoses
from pgdrag.findings.doctor.statement_rises import (
    LEAST_PARTS,
    compared_count,
    not_compared,
    rise_diagnoses,
    statement_rises,
)
from pgdrag.model.live import LiveWindow
from pgdrag.model.observed import NO_TOTALS, ObservedServer, Sample, Statement, StatementTotals
from pgdrag.model.recordings import Recordings, StatementUse
from pgdrag.observations.store import ObservationWriter
from pgdrag.observations.stretch import statement_parts

STATEMENTS = 20
PARTS = 10


def totals(calls: int, time_s: float, blocks: int) -> StatementTotals:
    return replace(NO_TOTALS, calls=calls, exec_s=time_s, blocks_hit=blocks)


def use(text: str, one: StatementTotals) -> StatementUse:
    return StatementUse(
        text, one.calls, one.rows, one.exec_s, None, one.blocks_hit, one.blocks_read, 0, 0, 0
    )


def steady(count: int = PARTS, **statements: StatementTotals) -> list[dict[str, StatementTotals]]:
    return [dict(statements) for _ in range(count)]


BEFORE = totals(calls=1000, time_s=1.0, blocks=4000)


def test_a_statement_that_reads_and_takes_more_is_named_with_both() -> None:
    now = use("a", totals(calls=1000, time_s=6.0, blocks=400_000))
    [one] = statement_rises(steady(a=BEFORE), [now, use("b", BEFORE)])
    assert (one.statement, one.is_slower, one.reads_more) == ("a", True, True)
    assert one.time_before_s == pytest.approx(0.001)
    assert one.time_now_s == pytest.approx(0.006)
    assert (round(one.blocks_before), round(one.blocks_now)) == (4, 400)
    assert one.share == pytest.approx(5 / 7)
    [told] = Diagnoses((), (), {}).with_others(rise_diagnoses([one], PARTS, "shop.obs")).found
    assert told.headline == "a statement takes 6 ms a call, 6 times as long as in shop.obs: a"
    assert "its plan has changed" in told.step


def test_one_that_only_takes_longer_waits_for_something() -> None:
    [one] = statement_rises(steady(a=BEFORE), [use("a", totals(1000, 4.0, 4000))])
    assert (one.is_slower, one.reads_more) == (True, False)
    [told] = rise_diagnoses([one], PARTS, "shop.obs")
    assert "what it waits for" in told.step


def test_one_that_only_reads_more_is_named_by_its_blocks() -> None:
    [one] = statement_rises(steady(a=BEFORE), [use("a", totals(1000, 1.0, 40_000))])
    assert (one.is_slower, one.reads_more) == (False, True)
    [told] = rise_diagnoses([one], PARTS, "shop.obs")
    assert told.headline == "a statement reads 40 blocks a call, 10 times as many as in shop.obs: a"


def test_more_calls_of_the_same_statements_are_another_mix_and_no_news() -> None:
    now = [use("a", totals(50_000, 50.0, 200_000)), use("b", totals(20, 0.02, 80))]
    assert statement_rises(steady(a=BEFORE, b=BEFORE), now) == []


def test_what_is_slower_for_all_statements_alike_is_no_statements_own() -> None:
    before = dict.fromkeys("abcdef", BEFORE)
    now = [use(name, totals(1000, 3.0, 4000)) for name in "abcde"]
    assert statement_rises([before] * PARTS, [*now, use("f", totals(1000, 3.0, 4000))]) == []
    [one] = statement_rises([before] * PARTS, [*now, use("f", totals(1000, 30.0, 4000))])
    assert one.statement == "f"


def test_few_calls_and_few_parts_tell_nothing() -> None:
    slow = totals(1000, 9.0, 4000)
    assert statement_rises(steady(LEAST_PARTS - 1, a=BEFORE), [use("a", slow)]) == []
    assert statement_rises(steady(a=BEFORE), [use("a", totals(9, 0.9, 36))]) == []
    assert statement_rises(steady(a=BEFORE), [use("new", slow)]) == []


def test_it_is_said_why_statements_were_not_compared() -> None:
    seen = Recordings((use("a", BEFORE),))
    window = LiveWindow("", "18.6", 0.0, 30.0, 0, recordings=seen)
    assert not_compared(steady(a=BEFORE), window, "shop.obs") == ""
    assert "less than 5 times as long" in not_compared(steady(2, a=BEFORE), window, "shop.obs")
    assert "shop.obs has no statements" in not_compared([{}, {}], window, "shop.obs")
    assert "is in 5 periods of shop.obs" in not_compared(steady(b=BEFORE), window, "shop.obs")
    assert compared_count(steady(a=BEFORE), [use("a", BEFORE), use("new", BEFORE)]) == 1
    hidden = replace(window, recordings=Recordings(missing={"statements": "it is not loaded"}))
    assert "it is not loaded" in not_compared(steady(a=BEFORE), hidden, "shop.obs")


class Shop:
    """A server whose statements vary from call to call, and together with the machine's slow drift."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._time_s = rng.lognormal(-7, 1.5, STATEMENTS)
        self._blocks = rng.lognormal(2, 1, STATEMENTS)
        self._each = rng.lognormal(0, 1, STATEMENTS)  # how calls differ from each other
        self._speed = 0.0
        self.slowest = int(self._time_s.argmax())
        self._each[self.slowest] = 0.5  # of the wildest ones a threefold rise is within the noise

    def part(self, *, load: float = 1.0, slower: float = 1.0) -> dict[str, StatementTotals]:
        """Return what each took in one part of the time, the slowest one so many times as long as usually."""
        rng = self._rng
        self._speed = 0.8 * self._speed + 0.1 * float(rng.normal())
        found = {}
        for at in range(STATEMENTS):
            # Each time another mix.
            calls = int(rng.poisson(load * rng.lognormal(5, 1)))
            if calls:
                noise = float(rng.normal()) * self._each[at] / calls**0.5 + 0.05 * rng.normal()
                each_s = self._time_s[at] * np.exp(self._speed + noise)
                each_s *= slower if at == self.slowest else 1
                blocks = self._blocks[at] * np.exp(0.5 * noise)
                found[f"s{at}"] = totals(calls, each_s * calls, round(blocks * calls))
        return found


def compared(rng: np.random.Generator, **now: float) -> tuple[list[str], str]:
    """Return the statements that are named, and the one that was made slower."""
    shop = Shop(rng)
    parts = [shop.part() for _ in range(PARTS)]
    last = shop.part(**now)
    rises = statement_rises(parts, [use(text, one) for text, one in last.items()])
    return [one.statement for one in rises], f"s{shop.slowest}"


@pytest.mark.parametrize("load", [0.2, 1.0, 5.0])
def test_noise_drift_and_another_load_are_rarely_news(load: float) -> None:
    rng = np.random.default_rng(7)
    looks = 200
    assert sum(bool(compared(rng, load=load)[0]) for _ in range(looks)) <= 0.02 * looks


def test_a_threefold_rise_is_nearly_always_named_and_nothing_with_it() -> None:
    rng = np.random.default_rng(8)
    found = [compared(rng, slower=3.0) for _ in range(100)]
    assert sum(named == [planted] for named, planted in found) >= 95


def test_parts_of_a_file_are_each_as_long_as_the_look_and_of_one_database(tmp_path: Path) -> None:
    path = tmp_path / "shop.obs"
    file = ObservationWriter.create(path, began_unix_s=0.0, most_bytes=50 << 20)
    file.append_server(0.0, ObservedServer("database", "18.6"))
    one = totals(10, 0.1, 40)
    said = {Statement("shop", "a"): one, Statement("other", "a"): totals(99, 9.0, 0)}
    for at in range(7):
        file.append_sample(Sample(10.0 * at, 10.0 * at + 10, 10.0, 0.0, statements=said), [])
    file.close()
    parts = statement_parts(path, "shop", 20.0)
    assert parts == [{"a": one + one}] * 3

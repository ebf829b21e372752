"""[scales.NAME.load]: what its keys come to, and what is said where they do not go together."""

from pathlib import Path

import pytest

from pgdrag.errors import ExperimentError
from pgdrag.experiment import parse_experiment, shipped_experiments
from pgdrag.model.load import BenchBaseRate, Closed, LoadProfile, Open, Step

TEXT = """\
pgdrag = 1
name = "small"
[workload]
kind = "tpcc"
[[rungs]]
name = "A1"
setting = { work_mem = "1MB" }
[scales.demo]
[scales.demo.load]
"""
LINE = TEXT.count("\n") + 1


def load_of(*keys: str) -> LoadProfile:
    text = TEXT + "\n".join(keys)
    return parse_experiment(text, Path("my.toml")).study("demo").load


def test_without_a_key_it_is_a_closed_loop_of_eight() -> None:
    assert load_of() == LoadProfile(8, 10, 30, 150, Closed(), threads=None)


@pytest.mark.parametrize(
    ("keys", "pacing"),
    [
        (["rate_per_s = 100"], Open(100, "poisson", 10_000)),
        (
            ["rate_per_s = 0.5", 'arrivals = "uniform"', "backlog_limit = 7"],
            Open(0.5, "uniform", 7),
        ),
        (['pacing = "open"', "rate_per_s = 5"], Open(5)),
        (['pacing = "benchbase"', "rate_per_s = 5"], BenchBaseRate(5, 10_000)),
        (['pacing = "benchbase"', "rate_per_s = 5", "queue_limit = 9"], BenchBaseRate(5, 9)),
        (['pacing = "closed"'], Closed()),
    ],
)
def test_the_pacing_follows_from_the_rate_unless_named(keys: list[str], pacing: object) -> None:
    assert load_of(*keys).pacing == pacing


def test_the_studys_own_protocol_keeps_benchbases_rate_limit() -> None:
    load = shipped_experiments()["slow-42k"].study("paper").load
    assert load.pacing == BenchBaseRate(10_000, 10_000)


def test_a_limit_is_kept_in_microseconds() -> None:
    assert load_of("latency_limit_ms = 0.25").latency_limit_us == 250


@pytest.mark.parametrize(
    ("sessions", "steps"),
    [
        ("{ from = 2, to = 4, step_s = 10 }", [(0, 2), (10, 3), (20, 4)]),
        ("{ from = 4, to = 2, step_s = 10 }", [(0, 4), (10, 3), (20, 2)]),
        ("{ from = 1, to = 6, by = 2, step_s = 5 }", [(0, 1), (5, 3), (10, 5), (15, 6)]),
        ("{ from = 3, to = 3, step_s = 10 }", [(0, 3)]),
        ("[[0, 5], [20.5, 8]]", [(0, 5), (20.5, 8)]),
    ],
)
def test_sessions_are_a_ramp_or_pairs(sessions: str, steps: list[tuple[float, int]]) -> None:
    found = load_of(f"sessions = {sessions}")
    assert [(x.at_s, x.sessions, x.rate_per_s) for x in found.steps] == [(*x, None) for x in steps]
    assert found.connections == max(count for _, count in steps)


def test_a_ramp_is_as_long_as_its_steps_unless_the_window_is_named() -> None:
    ramp = "sessions = { from = 5, to = 22, step_s = 60 }"
    assert (load_of(ramp).measure_s, load_of(ramp).budget_s) == (1080, 5400)
    assert load_of(ramp, "measure_s = 1100").measure_s == 1100


def test_a_ramp_of_rates_in_tenths_has_no_step_too_many() -> None:
    found = load_of("rate_per_s = { from = 0.1, to = 0.7, by = 0.1, step_s = 1 }")
    assert [x.rate_per_s for x in found.steps] == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
    assert found.pacing == Open(0.1)


def test_sessions_and_rates_that_both_change_are_laid_over_each_other() -> None:
    found = load_of("sessions = [[0, 2], [10, 4]]", "rate_per_s = [[0, 50], [10, 60], [15, 70]]")
    assert found.steps == (Step(0, 2, 50), Step(10, 4, 60), Step(15, 4, 70))


def test_generators_are_of_the_machine_that_runs_the_experiment() -> None:
    assert load_of("generators = 3").generators == ("", "", "")
    assert load_of("generators = 1").generators == ()


MISTAKES = [
    (["sessions = 5"], 0, '"sessions" in [scales.demo.load] must be a ramp with from, to and step_s, or pairs of a second and a number (a fixed number is called connections), not 5', None),
    (["sessions = { from = 5, to = 6, step_s = 0 }"], 0, '"step_s" in [scales.demo.load.sessions] must be over 0, not 0', None),
    (["sessions = { from = 5, to = 6, step = 9, step_s = 1 }"], 0, 'unknown key "step" in [scales.demo.load.sessions]', None),
    (["sessions = { to = 6, step_s = 1 }"], 0, 'missing key "from" in [scales.demo.load.sessions]', None),
    (["sessions = { from = 0, to = 6, step_s = 1 }"], 0, '"from" in [scales.demo.load.sessions] must be at least 1, not 0', None),
    (["sessions = { from = 1, to = 9999, step_s = 1 }"], 0, '"sessions" in [scales.demo.load] must have at most 1,000 steps', None),
    (["sessions = []"], 0, '"sessions" in [scales.demo.load] must have at least 1 element', None),
    (["sessions = [[0, 5], [60]]"], 0, 'element 2 of "sessions" must be a second and a number, such as [60, 8], not an array', None),
    (["sessions = [[0, 5], [10, 2.5]]"], 0, 'element 2 of "sessions" must be an integer, not 2.5', None),
    (["sessions = [[5, 5]]"], 0, '"sessions" in [scales.demo.load] must begin with a pair for second 0', None),
    (["sessions = [[0, 5], [0, 6]]"], 0, '"sessions" in [scales.demo.load] must have its seconds in ascending order', None),
    (["sessions = [[0, 5], [30, 6]]"], 0, "the window of [scales.demo.load] ends after 30 s, before its step at 30 s begins", "Set measure_s to more than 30."),
    (["measure_s = 9", "sessions = { from = 5, to = 6, step_s = 9 }"], 0, "the window of [scales.demo.load] ends after 9 s, before its step at 9 s begins", "Set measure_s to more than 9."),
    (["connections = 3", "sessions = [[0, 5]]"], 1, '"sessions" in [scales.demo.load] go up to 5, but there are only 3 connections', 'Set connections to 5 or more, or leave "connections" out.'),
    (['rate_per_s = "fast"'], 0, '"rate_per_s" in [scales.demo.load] must be a number, not "fast"', None),
    (["rate_per_s = 0"], 0, '"rate_per_s" in [scales.demo.load] must be over 0, not 0', None),
    (["rate_per_s = { from = 1, to = 9, step_s = 1 }"], 0, 'missing key "by" in [scales.demo.load.rate_per_s]', None),
    (['pacing = "closed"', "rate_per_s = 1"], 1, '"rate_per_s" in [scales.demo.load] has no effect with pacing = "closed"', 'It belongs to pacing = "open" or pacing = "benchbase".'),
    (["queue_limit = 5"], 0, '"queue_limit" in [scales.demo.load] has no effect with pacing = "closed"', 'It belongs to pacing = "benchbase".'),
    (['pacing = "benchbase"', "rate_per_s = 1", 'arrivals = "uniform"'], 2, '"arrivals" in [scales.demo.load] has no effect with pacing = "benchbase"', 'It belongs to pacing = "open".'),
    (['pacing = "open"'], 0, '"pacing" in [scales.demo.load] is "open", which needs "rate_per_s"', "Say how many transactions per second are offered."),
    (["rate = 5"], 0, 'unknown key "rate" in [scales.demo.load]', 'Did you mean "rate_per_s"?'),
    (["threads = 9"], 0, '"threads" in [scales.demo.load] must be at most the connections, 8, not 9', None),
    (["generators = 9"], 0, '"generators" in [scales.demo.load] must be at most the connections, 8, not 9', None),
    (["latency_limit_ms = 0"], 0, '"latency_limit_ms" in [scales.demo.load] must be at least 0.001, not 0', None),
    (["budget_s = 29"], 0, '"budget_s" in [scales.demo.load] must be at least measure_s, 30, not 29', None),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "line", "message", "hint"), MISTAKES)
def test_a_mistake_is_told_with_its_line(
    keys: list[str], line: int, message: str, hint: str | None
) -> None:
    with pytest.raises(ExperimentError) as caught:
        load_of(*keys)
    assert str(caught.value) == f"my.toml:{LINE + line}: {message}"
    assert caught.value.hint == hint


def test_the_check_can_be_switched_off_at_a_scale() -> None:
    text = TEXT.replace("[scales.demo]", "[scales.all]\n[scales.demo]\ncheck = false")
    experiment = parse_experiment(text, Path("my.toml"))
    assert [experiment.study(name).is_checked for name in ("all", "demo")] == [True, False]


@pytest.mark.parametrize("load", ["rate_per_s = 5", 'pacing = "benchbase"\nrate_per_s = 5'])
@pytest.mark.parametrize(
    ("own", "over", "line", "table"),
    [("wait_scale = 0.5", "", 5, "workload"), ("", "wait_scale = 0.5", 11, "scales.demo.workload")],
)
def test_keying_and_think_times_do_not_go_with_a_rate(
    load: str, own: str, over: str, line: int, table: str
) -> None:
    text = TEXT.replace('kind = "tpcc"', f'kind = "tpcc"\n{own}') + load
    text = text.replace("[scales.demo.load]", f"[scales.demo.workload]\n{over}\n[scales.demo.load]")
    with pytest.raises(ExperimentError) as raised:
        parse_experiment(text, Path("my.toml"))
    assert (
        f'my.toml:{line}: "wait_scale" in [{table}] must be 0 where arrivals follow a rate, not 0.5'
        in str(raised.value)
    )


def test_keying_and_think_times_go_with_the_closed_loop() -> None:
    text = TEXT.replace('kind = "tpcc"', 'kind = "tpcc"\nwait_scale = 0.5')
    assert parse_experiment(text, Path("my.toml")).study("demo").load.pacing == Closed()

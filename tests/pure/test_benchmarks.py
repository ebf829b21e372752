"""The harness of `make bench`: its statistics, its order of runs, and how it counts."""

from __future__ import annotations

import math
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy
from hypothesis import given
from hypothesis.strategies import floats, integers, lists

from benchmarks import driver_job, pgbench, sysbench
from benchmarks.__main__ import BENCHMARKS, DEFAULT, QUICK, _module, _names
from benchmarks.clients import (
    BenchmarkError,
    Command,
    Measured,
    measure_peak,
    measure_whole,
    measure_window,
    run_to_end,
)
from benchmarks.contest import Contest, Contestant, Pair, Setting, missing_rows
from benchmarks.driver_job import Script
from benchmarks.observe import Spent, usual_ratio
from benchmarks.peers import Missing, Peer, Peers, find_peers
from benchmarks.progress import Progress
from benchmarks.rounds import Ratio, orders, paired_ratio
from benchmarks.rows import (
    from_json,
    measured_row,
    meets,
    merged,
    missing_row,
    notes,
    summary,
    table,
    to_json,
)
from benchmarks.stage import GIB, server_settings
from pgdrag.errors import UsageError

ABSENT = Missing("peer", "peer is not installed: install it")
PAIR = Pair("select-only", "A", "B", ">= 1.00", "<= 0.85", work="select")


def setting(rounds: int = 2) -> Setting:
    return Setting(
        driver=Path("driver"),
        driver_version="1",
        peers=Peers(ABSENT, ABSENT, ABSENT, Path("java")),
        connections=8,
        threads=2,
        rounds=rounds,
        window_s=1.0,
        warm_up_s=1.0,
        scale=1,
        is_quick=False,
        seed=1,
        progress=Progress(10.0),
    )


# The order of runs


@given(integers(1, 5), integers(1, 9), integers(0, 1000))
def test_every_round_runs_every_contestant_once(names: int, rounds: int, seed: int) -> None:
    wanted = [str(i) for i in range(names)]
    drawn = orders(wanted, rounds, seed)
    assert len(drawn) == rounds
    assert all(sorted(order) == wanted for order in drawn)


@given(integers(0, 1000))
def test_each_second_round_is_the_reverse_of_the_one_before(seed: int) -> None:
    drawn = orders(["A", "B", "C"], 6, seed)
    assert all(b == a[::-1] for a, b in list(pairwise(drawn))[::2])


def test_the_seed_decides_the_order() -> None:
    names = list("ABCD")
    assert orders(names, 8, 1) == orders(names, 8, 1)
    assert len({str(orders(names, 8, seed)) for seed in range(20)}) > 10


@given(integers(0, 1000), floats(-0.5, 0.5), integers(1, 4))
def test_a_steady_drift_of_the_machine_cancels(seed: int, drift: float, pairs: int) -> None:
    ticks = 0
    values: dict[str, list[float]] = {"A": [], "B": []}
    for order in orders(["A", "B"], 2 * pairs, seed):
        for name in order:
            values[name].append((2.0 if name == "A" else 1.0) * math.exp(drift * ticks))
            ticks += 1
    assert paired_ratio(values["A"], values["B"]).center == pytest.approx(2.0)


# The ratio


def test_twice_as_much_in_each_round_is_a_ratio_of_two_without_noise() -> None:
    assert paired_ratio([2, 4, 6], [1, 2, 3]) == Ratio(2.0, 2.0, 2.0, 0.0, 3)


def test_one_round_has_no_interval() -> None:
    assert paired_ratio([3], [2]) == Ratio(pytest.approx(1.5), None, None, None, 1)


@given(lists(floats(0.1, 10), min_size=2, max_size=8), floats(0.01, 100))
def test_what_a_whole_round_has_in_common_cancels(values: list[float], factor: float) -> None:
    peers = [1.0] * len(values)
    plain = paired_ratio(values, peers)
    scaled = paired_ratio([v * factor for v in values], [p * factor for p in peers])
    assert scaled.center == pytest.approx(plain.center)
    assert scaled.high == pytest.approx(plain.high)


@given(lists(floats(0.1, 10), min_size=2, max_size=8))
def test_the_other_way_round_the_ratio_is_its_reciprocal(values: list[float]) -> None:
    peers = [1.0] * len(values)
    there, back = paired_ratio(values, peers), paired_ratio(peers, values)
    assert there.low is not None
    assert back.high is not None
    assert there.low * back.high == pytest.approx(1.0)


def test_the_interval_is_that_of_a_paired_t_test_on_logarithms() -> None:
    subject, peer = [1.1, 1.3, 0.9, 1.2], [1.0, 1.1, 1.0, 0.9]
    found = paired_ratio(subject, peer)
    expected = scipy.stats.ttest_rel(np.log(subject), np.log(peer)).confidence_interval(0.95)
    assert (found.low, found.high) == (
        pytest.approx(math.exp(expected.low)),
        pytest.approx(math.exp(expected.high)),
    )


def test_the_interval_covers_the_true_ratio_95_times_in_100() -> None:
    rng = np.random.default_rng(1)
    runs, hits = 2000, 0
    for _ in range(runs):
        shared = rng.normal(0, 0.3, 6)
        own = np.exp(shared + rng.normal(math.log(0.8), 0.05, 6))
        peer = np.exp(shared + rng.normal(0, 0.05, 6))
        found = paired_ratio(list(own), list(peer))
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 0.8 <= found.high
    assert 0.935 <= hits / runs <= 0.965


# Goals and rows


@pytest.mark.parametrize(
    ("ratio", "goal", "met"),
    [
        (0.85, "<= 0.85", True),
        (0.86, "<= 0.85", False),
        (1.10, ">= 1.10", True),
        (1.09, ">= 1.10", False),
        (1.0, "", None),
    ],
)
def test_a_goal_is_met_up_to_its_bound(ratio: float, goal: str, met: bool | None) -> None:
    assert meets(ratio, goal) is met


def test_a_goal_within_the_interval_is_met_but_not_certain() -> None:
    sure = measured_row("n", "s", "p", Ratio(0.8, 0.78, 0.82, 0.01, 6), "<= 0.85")
    unsure = measured_row("n", "s", "p", Ratio(0.8, 0.70, 0.90, 0.1, 6), "<= 0.85")
    single = measured_row("n", "s", "p", Ratio(0.8, None, None, None, 1), "<= 0.85")
    assert [(row.met, row.certain) for row in (sure, unsure, single)] == [
        (True, True),
        (True, False),
        (True, None),
    ]


def test_rows_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    rows = [
        measured_row("a", "s", "p", Ratio(0.8, 0.7, 0.9, 0.1, 6), "<= 0.85", values=(1, 2)),
        missing_row("b", "s", "p", ">= 1.00", "install it"),
    ]
    file = tmp_path / "bench.json"
    file.write_text(to_json(rows))
    assert from_json(file) == rows
    assert from_json(tmp_path / "none.json") == []


def test_a_row_replaces_that_of_its_name_and_leaves_the_others() -> None:
    old = [missing_row(name, "s", "p", "", "old") for name in "ab"]
    new = [missing_row(name, "s", "p", "", "new") for name in "bc"]
    assert [(row.name, row.note) for row in merged(old, new)] == [
        ("a", "old"),
        ("b", "new"),
        ("c", "new"),
    ]


def test_the_table_says_what_was_not_measured_and_why() -> None:
    rows = list(missing_rows([PAIR], setting(), "peer", "install it"))
    assert [row.goal for row in rows] == [">= 1.00", "<= 0.85"]
    assert all(row.met is None and row.ratio is None for row in rows)
    assert list(table(rows, width=80).columns[-1].cells) == ["not measured"] * 2
    assert summary(rows) == "Goals: 0 met, 0 not met, 2 not measured."
    assert notes(rows) == [f"{rows[0].name}; {rows[1].name}: install it"]


# Contests


def contestant(name: str, results: list[Measured | type[BaseException]]) -> Contestant:
    def run(number: int) -> Measured:
        result = results[number - 1]
        if isinstance(result, Measured):
            return result
        raise result("no luck")

    return Contestant(name, f"{name} 1.0", run, 1.0)


def test_a_contest_gives_throughput_and_cpu_per_transaction() -> None:
    contest = Contest(
        "t",
        [
            contestant("A", [Measured(200, 1.0, 0.01)] * 2),
            contestant("B", [Measured(100, 1.0, 0.01)] * 2),
        ],
        before_run=lambda: None,
    )
    contest.run(setting())
    throughput, cpu = contest.rows([PAIR])
    assert throughput.name == "select-only: throughput, A / B"
    assert (throughput.ratio, throughput.met, throughput.unit) == (2.0, True, "/s")
    assert cpu.name == "select-only: client CPU per select, A / B"
    assert (cpu.ratio, cpu.met, cpu.subject_value) == (0.5, True, 50.0)


def test_an_interrupt_keeps_the_rounds_that_were_done() -> None:
    here = setting(rounds=3)
    good = Measured(100, 1.0, 0.01)
    contest = Contest(
        "t",
        [contestant("A", [good] * 3), contestant("B", [good, good, KeyboardInterrupt])],
        before_run=lambda: None,
    )
    contest.run(here)
    assert here.is_interrupted
    assert [row.rounds for row in contest.rows([PAIR])] == [2, 2]


def test_an_interrupt_in_the_first_round_leaves_rows_that_say_so() -> None:
    contest = Contest(
        "t",
        [contestant("A", [KeyboardInterrupt]), contestant("B", [KeyboardInterrupt])],
        before_run=lambda: None,
    )
    contest.run(setting())
    assert {(row.ratio, row.note) for row in contest.rows([PAIR])} == {
        (None, "interrupted before the first round was done")
    }


def test_a_round_that_fails_is_left_out_and_said() -> None:
    here, good = setting(rounds=4), Measured(100, 1.0, 0.01)
    contest = Contest(
        "t",
        [contestant("A", [good] * 4), contestant("B", [good, BenchmarkError, good, good])],
        before_run=lambda: None,
    )
    contest.run(here)
    assert here.has_failed
    assert [(row.rounds, row.note) for row in contest.rows([PAIR])] == [(3, "no luck")] * 2


def test_a_contest_in_which_every_round_fails_ends_after_two_and_says_why() -> None:
    here = setting(rounds=4)
    broken = [contestant(name, [BenchmarkError] * 2) for name in "AB"]
    contest = Contest("t", broken, before_run=lambda: None)
    contest.run(here)
    assert here.has_failed
    assert {(row.ratio, row.note) for row in contest.rows([PAIR])} == {(None, "no luck; no luck")}


def test_the_time_left_follows_the_pace_so_far() -> None:
    progress = Progress(100.0)
    assert progress.left_s() == 100.0
    progress.note(20.0, took_s=40.0)
    assert progress.left_s() == 160.0


# Clients

SPIN = "import time\nwhile time.process_time() < 0.2: pass\nprint(time.process_time())"


def python(text: str) -> Command:
    return Command([sys.executable, "-c", text])


def counter(*values: int):  # type: ignore[no-untyped-def]
    left = list(values)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def test_a_client_is_charged_for_the_cpu_time_of_its_children_as_well() -> None:
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SPIN!r}])"
    measured = measure_whole(python(nested), counter(0, 1000), duration_s=2.0)
    assert measured.cpu_s >= 0.2
    assert (measured.transactions, measured.tps) == (1000, 500.0)


def test_a_window_sees_the_cpu_time_of_a_client_that_still_runs() -> None:
    busy = python("while True: pass")
    measured = measure_window(busy, counter(0, 5, 10, 30), warm_up_s=0.3, window_s=0.5)
    assert measured.transactions == 20
    assert measured.cpu_s > 0.0
    assert measured.cpu_us == pytest.approx(measured.cpu_s / 20 * 1e6)


def test_a_client_whose_count_differs_from_the_servers_is_refused() -> None:
    liar = Command([sys.executable, "-c", "print(9000)"], own_count=int)
    with pytest.raises(BenchmarkError, match="9000 transactions, the server counted 5000"):
        measure_whole(liar, counter(0, 5000), duration_s=1.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [("raise SystemExit(3)", "ended with 3"), ("pass", "committed nothing")],
)
def test_a_client_that_fails_or_does_nothing_is_an_error(text: str, message: str) -> None:
    with pytest.raises(BenchmarkError, match=message):
        measure_whole(python(text), counter(7), duration_s=1.0)


def test_a_client_that_ends_before_its_window_is_an_error() -> None:
    with pytest.raises(BenchmarkError, match="ended with 4"):
        measure_window(python("raise SystemExit(4)"), counter(0, 1), warm_up_s=20.0, window_s=20.0)


def test_a_client_that_hangs_is_ended() -> None:
    with pytest.raises(BenchmarkError, match="did not end within"):
        run_to_end(python("import time; time.sleep(600)"), timeout_s=0.2)


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(BenchmarkError, match="/no/such/client"):
        run_to_end(Command(["/no/such/client"]), timeout_s=1.0)


def test_the_peak_of_memory_counts_what_was_freed_again() -> None:
    text = "x = bytearray(64 << 20); del x; import time; time.sleep(1)"
    assert measure_peak(python(text), timeout_s=20.0) > 64 << 20


# What the programs are told, and what they say


def test_pipelined_puts_all_statements_between_the_two_commands() -> None:
    script = Script("s", "-- s\n\\set a 1\nBEGIN;\nSELECT :a;\nEND;\n")
    assert pgbench.pipelined(script).text == (
        "-- s\n\\set a 1\n\\startpipeline\nBEGIN;\nSELECT :a;\nEND;\n\\endpipeline\n"
    )


def test_many_repeats_a_script_with_variables_of_its_own() -> None:
    script = Script("s", "-- s\n\\set aid random(1, 10 * :scale)\nSELECT :aid;\n")
    assert pgbench.many(script, 2).text == (
        "\\set aid_0 random(1, 10 * :scale)\n\\set aid_1 random(1, 10 * :scale)\n"
        "\\startpipeline\nSELECT :aid_0;\nSELECT :aid_1;\n\\endpipeline\n"
    )


def test_sysbench_read_write_has_its_twenty_statements() -> None:
    statements = [line for line in sysbench.read_write().splitlines() if line.endswith(";")]
    assert len(statements) == 20
    assert (statements[0], statements[-1]) == ("BEGIN;", "COMMIT;")
    assert (
        sum(statement.startswith("SELECT c FROM sbtest1 WHERE id=") for statement in statements)
        == 10
    )


def test_counts_are_read_from_what_the_programs_print() -> None:
    assert pgbench.processed("number of transactions actually processed: 123\n") == 123
    assert sysbench.transactions("    transactions:        77     (12.3 per sec.)\n") == 77
    with pytest.raises(BenchmarkError):
        pgbench.processed("nothing")
    with pytest.raises(BenchmarkError):
        sysbench.transactions("nothing")


def test_the_drivers_count_is_that_of_its_last_line() -> None:
    done = '{"type": "done", "transactions": {"a": {"committed": 3}, "b": {"committed": 4}}}'
    assert driver_job.committed(f'{{"type": "hello"}}\n{done}\n') == 7
    with pytest.raises(BenchmarkError):
        driver_job.committed('{"type": "error", "message": "no"}\n')


def test_shared_buffers_leave_room_on_a_small_machine() -> None:
    assert server_settings(64 * GIB)["shared_buffers"] == "4096MB"
    assert server_settings(4 * GIB)["shared_buffers"] == "1024MB"


def test_a_peer_that_is_not_there_says_how_to_install_it(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("#!/bin/sh\necho other\n")
    wrong.chmod(0o755)
    found = find_peers(sysbench=wrong, go_tpc=wrong, benchbase=tmp_path, java=wrong)
    for peer in (found.sysbench, found.go_tpc, found.benchbase):
        assert isinstance(peer, Missing)
        assert "--" in peer.note


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_tells_its_time_and_its_rows(name: str) -> None:
    module = _module(name)
    assert module.seconds(setting()) >= 0
    assert callable(module.run)


def test_everything_takes_at_most_forty_minutes_and_a_quick_run_ten() -> None:
    found = Peer(Path("peer"), "peer 1")
    here = setting()
    here.peers = Peers(found, found, found, Path("java"))
    for depth, is_quick, minutes in ((DEFAULT, False, 40), (QUICK, True, 10)):
        here.rounds, here.window_s, here.is_quick = depth.rounds, depth.window_s, is_quick
        here.warm_up_s, here.scale = depth.warm_up_s, depth.scale
        assert sum(_module(name).seconds(here) for name in BENCHMARKS) <= 60 * minutes


def test_an_unknown_benchmark_is_refused_with_the_known_ones() -> None:
    assert _names(["tpcc-benchbase"]) == ["tpcc_benchbase"]
    with pytest.raises(UsageError) as refused:
        _names(["nothing"])
    assert "memory" in str(refused.value.hint)


def test_what_an_observer_costs_is_a_share_of_what_one_costs_that_looks_more_often() -> None:
    usual = Spent(queries=100, cpu_s=0.1, elapsed_s=10.0)
    often = Spent(queries=2000, cpu_s=2.0, elapsed_s=10.0)
    found = usual_ratio(Ratio(0.8, 0.7, 0.9, 0.1, 9), often, usual)
    assert found.center**20 == pytest.approx(0.8)
    assert found.low is not None
    assert found.low**20 == pytest.approx(0.7)
    cheap = Spent(queries=2000, cpu_s=1.0, elapsed_s=10.0)  # half of the time a query
    assert usual_ratio(Ratio(0.8, 0.7, 0.9, 0.1, 9), cheap, usual).center ** 10 == pytest.approx(
        0.8
    )

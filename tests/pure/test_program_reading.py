"""What other programs print comes to the figures that they mean."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from pgdrag.host.server_user import ServerUser
from pgdrag.workloads._reading import PROFILES, Reading, Unreadable, read_figures
from pgdrag.workloads.command import Command, _result

OUTPUT = Path(__file__).parent / "program_output"


def recorded(name: str) -> str:
    return (OUTPUT / name).read_text(encoding="utf-8")


# profile, its output, committed, failed, TPS, seconds
CASES = [
    ("pgbench", "pgbench-two-scripts.txt", 17447, 0, 5839.839710, 2.98758),
    ("pgbench", "pgbench-rate.txt", 1476, 0, 494.162455, 2.98687),
    ("sysbench", "sysbench.txt", 2827, 10, 570.30, 4.9554),
    ("go-tpc", "go-tpc.txt", 227 + 2435 + 195 + 2357 + 203, 2, 54465.4 / 60, 5.96747),
    ("benchbase", "benchbase.summary.json", 2005, 0, 334.165533, 6.0),
    ("hammerdb", "hammerdb.txt", 162 * 30, 0, 162.0, 30.0),
]


@pytest.mark.parametrize(("name", "file", "committed", "failed", "tps", "elapsed_s"), CASES)
def test_a_profile_reads_what_its_program_printed(
    name: str, file: str, committed: int, failed: int, tps: float, elapsed_s: float
) -> None:
    found = read_figures(recorded(file), PROFILES[name].reading, asked_s=30)
    assert (found.committed, found.failed) == (committed, failed)
    assert found.tps == pytest.approx(tps, rel=1e-6)
    assert found.elapsed_s == pytest.approx(elapsed_s, rel=1e-4)


def test_every_profile_is_held_against_output() -> None:
    assert {case[0] for case in CASES} == set(PROFILES)


def test_latencies_become_microseconds() -> None:
    pgbench = read_figures(
        recorded("pgbench-two-scripts.txt"), PROFILES["pgbench"].reading, asked_s=3
    )
    assert pgbench.latency_us == {"mean": pytest.approx(685)}
    benchbase = read_figures(
        recorded("benchbase.summary.json"), PROFILES["benchbase"].reading, asked_s=6
    )
    assert benchbase.latency_us["p99"] == pytest.approx(17777)


def patterns(*found: str) -> Reading:
    return Reading(tuple(found))


def test_the_last_rate_counts_and_counts_are_added_up() -> None:
    text = "tps 1\nok 3\ntps 2\nok 4\n"
    found = read_figures(text, patterns(r"tps (?P<tps>\d+)", r"ok (?P<committed>\d+)"), asked_s=9)
    assert (found.tps, found.committed, found.elapsed_s) == (2.0, 7, 3.5)


def test_a_rate_alone_holds_for_the_seconds_asked() -> None:
    assert read_figures("1,200/min", patterns(r"(?P<tpm>[\d,]+)/min"), asked_s=30).committed == 600


def test_a_program_that_committed_nothing_says_so() -> None:
    found = read_figures("done: 0", patterns(r"done: (?P<committed>\d+)"), asked_s=30)
    assert (found.committed, found.tps, found.elapsed_s) == (0, 0.0, 30)


def test_json_is_found_by_path_in_the_last_line_of_what_was_printed() -> None:
    text = 'started\n{"runs": [{"tps": "10"}, {"tps": 20, "p99": 1.5}]}\n'
    paths = {"tps": ("runs", "-1", "tps"), "latency_ms_p99": ("runs", 1, "p99")}
    found = read_figures(text, Reading(json_paths=paths), asked_s=2)
    assert (found.committed, found.latency_us) == (40, {"p99": pytest.approx(1500)})


@pytest.mark.parametrize(
    ("text", "reading", "words"),
    [
        ("nothing here", patterns(r"tps (?P<tps>\d+)"), "nothing in its output matches"),
        ("failed 3", patterns(r"failed (?P<failed>\d+)"), "no rate"),
        ("tps -5", patterns(r"tps (?P<tps>\S+)"), "its tps is -5"),
        ("tps inf", patterns(r"tps (?P<tps>\S+)"), "its tps is inf"),
        ("tps fast", patterns(r"tps (?P<tps>\S+)"), "its tps is not a number: 'fast'"),
        ("{", Reading(json_paths={"tps": ("tps",)}), "not JSON"),
        ('{"a": [1]}', Reading(json_paths={"tps": ("a", 1)}), "nothing at a → 1"),
        ('{"a": {}}', Reading(json_paths={"tps": ("a",)}), "its tps is not a number"),
    ],
)
def test_what_cannot_be_read_is_told(text: str, reading: Reading, words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        read_figures(text, reading, asked_s=30)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "one of profile, pattern and json_paths"),
        ({"profile": "pgbench", "pattern": r"(?P<tps>\d+)"}, "one of profile"),
        ({"pattern": r"(?P<tps>\d+"}, "not a regular expression"),
        ({"pattern": r"\d+"}, "names no group"),
        ({"pattern": r"(?P<qps>\d+)"}, '"qps" is not a figure'),
        ({"json_paths": {"throughput": "a.b"}}, '"throughput" is not a figure'),
        ({"profile": "pgbench", "result_file": "x.json"}, "read by json_paths"),
        ({"json_paths": {"tps": "a"}, "result_file": "../../root/x.json"}, "is not below"),
        ({"json_paths": {"tps": "a"}, "result_file": "/root/x.json"}, "is not below"),
        ({"profile": "pgbench", "directory": "/nowhere/at/all"}, "no directory"),
        ({"profile": "oltpbench"}, "pgbench"),
    ],
)
def test_a_command_that_could_not_be_read_is_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        Command.model_validate({"command": "true", **given})


def test_the_newest_result_is_read_and_no_link_out_of_the_results(tmp_path: Path) -> None:
    results, secret = tmp_path / "results", tmp_path / "secret"
    (results / "run").mkdir(parents=True)
    secret.mkdir()
    (secret / "x.json").write_text('{"tps": "secret"}')
    (results / "run" / "x.json").write_text('{"tps": 2}')
    (results / "older.json").write_text('{"tps": 1}')
    os.utime(results / "older.json", (1, 1))
    (results / "away").symlink_to(secret)
    (results / "away.json").symlink_to(secret / "x.json")
    for pattern, text in (("*/x.json", '{"tps": 2}'), ("*.json", '{"tps": 1}')):
        assert _result(pattern, results, None) == text
    with pytest.raises(Unreadable, match=r'wrote no file "away/x.json"'):
        _result("away/x.json", results, None)
    # The directory is the program's own: it can put a link in its place.
    elses = ServerUser("own", os.geteuid() + 1, 1)
    with pytest.raises(Unreadable, match=r'its file "older.json": it belongs to another user'):
        _result("older.json", results, elses)


def test_a_command_is_run_where_its_file_is(tmp_path: Path) -> None:
    given = {"command": "true", "profile": "pgbench"}
    found = Command.model_validate(given, context={"directory": str(tmp_path)})
    assert found.directory == str(tmp_path)
    # As the journal keeps it, read again from anywhere.
    assert Command.model_validate(found.model_dump(mode="json")) == found


def test_a_path_in_json_may_be_written_with_dots_or_as_a_list() -> None:
    paths = {"tps": "a.b.0", "latency_us": ["a", "b.c"]}
    found = Command.model_validate({"command": "true", "json_paths": paths})
    figures = read_figures('{"a": {"b": [5], "b.c": 7}}', found.reading, asked_s=1.0)
    assert (figures.tps, figures.latency_us) == (5.0, {"mean": pytest.approx(7)})
    assert math.isclose(figures.elapsed_s, 1.0)

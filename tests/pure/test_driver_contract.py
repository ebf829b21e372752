"""Whatever a driver writes, Python takes it as a result only if it keeps the contract."""

import json
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pgdrag.driver.contract import Line
from pgdrag.driver.conversation import Conversation
from pgdrag.driver.process import Driver, Target
from pgdrag.errors import DriverError
from pgdrag.model.load import LoadProfile, Open, Step
from pgdrag.model.measurement import Measurement, Sample, Sum

LOAD = LoadProfile(connections=2, warm_up_s=0, measure_s=1, budget_s=1)
TARGET = Target("/nowhere", 5432, "me", "db", password="secret")
HELLO = {
    "type": "hello",
    "contract": 2,
    "driver_version": "0",
    "pid": 1,
    "action": "run",
    "started_unix_s": 0.0,
}
WARM = {"type": "warm", "t_s": 1.0}
USE = {
    "user_cpu_s": 0.1,
    "system_cpu_s": 0.1,
    "threads": 1,
    "busiest_thread_cpu_s": 0.2,
    "max_rss_bytes": 1000,
    "send_lag_us_p99": 1.0,
    "send_lag_us_max": 2.0,
    "lateness_us_p99": None,
    "lateness_us_max": None,
    "stall_us_p99": 1.0,
    "stall_us_max": 2.0,
}
ARRIVALS = {
    "scheduled": 6,
    "carried": 0,
    "dropped": 1,
    "skipped": 2,
    "late": 3,
    "max_queue": 4,
    "queue_us_p50": 5.0,
    "queue_us_p99": 6.0,
    "queue_us_max": 7.0,
}


def latency(count: int) -> dict[str, Any]:
    times = {"mean_us": 5.0, "p50_us": 5.0, "p95_us": 6.0, "p99_us": 6.0, "max_us": 6.0}
    return {"count": count, "encoded": "", **times}


def counts(committed: int, **others: int) -> dict[str, Any]:
    ends = sum(others.get(key, 0) for key in ("failed", "in_flight", "dropped", "skipped"))
    found: dict[str, Any] = {"scheduled": committed + ends, "committed": committed, **others}
    return found | ({"latency": latency(committed)} if committed else {})


def interval(committed: int, t_s: float = 2.0, **others: int) -> dict[str, Any]:
    line = {"type": "interval", "t_s": t_s, "duration_s": 1.0, "sessions": 2}
    return line | {"transactions": {"payment": counts(committed, **others)}}


def done(elapsed_s: float = 1.0, **found: Any) -> dict[str, Any]:
    return {
        "type": "done",
        "t_s": 2.0,
        "elapsed_s": elapsed_s,
        "warm_up_s": 1.0,
        "stopped_by": "deadline",
        "transactions": {"payment": found},
        "errors": [],
        "driver": USE,
    }


def driver_that(
    tmp_path: Path, *lines: object, before: Sequence[object] = (HELLO, WARM), end: str = ""
) -> Driver:
    """Return a driver that answers its job with `before`, the next line with `lines`, and does `end`."""
    parts = [before, lines] if WARM in before else [before]
    texts = ["\n".join(x if isinstance(x, str) else json.dumps(x) for x in part) for part in parts]
    script = tmp_path / "driver"
    script.write_text(
        f"#!{sys.executable}\nimport sys, time\n"
        f"said = open({str(tmp_path / 'said')!r}, 'w', buffering=1)\n"
        f"for text in {texts!r}:\n    said.write(sys.stdin.readline())\n"
        f"    if text: print(text, flush=True)\n{end}\n"
    )
    script.chmod(stat.S_IRWXU)
    return Driver(script)


def run_fake(tmp_path: Path, *lines: object, load: LoadProfile = LOAD, **more: Any) -> Measurement:
    """Run a driver that writes these lines once it is asked to measure."""
    driver = driver_that(tmp_path, *lines, **more)
    return driver.run(TARGET, {"kind": "tpcc"}, load, seed=1)


def test_a_measurement_has_counts_samples_and_cost(tmp_path: Path) -> None:
    found = run_fake(tmp_path, interval(3, scheduled=4), done(**counts(3, in_flight=1)))
    assert (found.total.committed, found.total.in_flight, found.committed_per_s) == (3, 1, 3.0)
    assert found.samples == (
        Sample(1.0, 1.0, 3, 0, p99_us=6.0, sessions=2, p50_us=5.0, p95_us=6.0),
    )
    assert found.latency["payment"].p50_us == 5.0
    assert (found.driver.busiest_thread_cpu_s, found.driver.lateness_us_p99) == (0.2, None)
    assert (found.warm_up_s, found.arrivals) == (1.0, None)


def test_the_job_carries_the_whole_load_and_the_window_is_asked_for(tmp_path: Path) -> None:
    load = LoadProfile(
        connections=2,
        warm_up_s=3,
        measure_s=4,
        budget_s=5,
        pacing=Open(100.0, "uniform", 7),
        min_commits=6,
        threads=2,
        latency_limit_us=8_000,
        steps=(Step(0, 1, 100.0), Step(2, 2, 200.0)),
    )
    run_fake(tmp_path, interval(3), done(**counts(3)), load=load)
    job, asked = (json.loads(line) for line in (tmp_path / "said").read_text().splitlines())
    assert asked == {"type": "measure"}
    assert (job["action"], job["seed"], job["server"]["password"]) == ("run", 1, "secret")
    assert {
        key: value for key, value in job["run"].items() if key not in ("interval_s", "grace_s")
    } == {
        "connections": 2,
        "threads": 2,
        "reconnect": False,
        "warm_up_s": 3,
        "handshake": True,
        "duration_s": 4,
        "transactions": None,
        "min_commits": 6,
        "budget_s": 5,
        "pacing": {"kind": "open", "rate_per_s": 100.0, "arrivals": "uniform", "backlog_limit": 7},
        "steps": [
            {"at_s": 0, "sessions": 1, "rate_per_s": 100.0},
            {"at_s": 2, "sessions": 2, "rate_per_s": 200.0},
        ],
        "latency_limit_us": 8_000,
    }


def test_sums_of_variables_are_kept_with_what_is_unknown(tmp_path: Path) -> None:
    unknown = {"unknown": 2, "unknown_low": -3, "unknown_high": 4}
    sums = {"d": {"sum": 7, "committed": 5, "untouched": 1, **unknown}}
    found = run_fake(tmp_path, interval(3), done(**counts(3)) | {"sums": sums})
    assert found.sums == {"d": Sum(7, 5, 1, 2, -3, 4)}
    assert run_fake(tmp_path, interval(3), done(**counts(3))).sums == {}


def test_arrivals_are_counted_with_their_wait(tmp_path: Path) -> None:
    line = done(**counts(3, dropped=1, skipped=2)) | {"arrivals": ARRIVALS}
    found = run_fake(tmp_path, interval(3, dropped=1, skipped=2), line)
    assert found.arrivals is not None
    assert (found.arrivals.late, found.arrivals.queue_us_p99) == (3, 6.0)
    assert (found.total.dropped, found.total.skipped) == (1, 2)


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ([interval(3), done(**counts(3) | {"scheduled": 5})], "do not add up"),
        ([interval(3), done(**counts(3, failed=1))], "do not add up"),
        ([interval(2), done(**counts(3))], "sum to 2 payment scheduled, its total is 3"),
        ([interval(3, over_limit=1), done(**counts(3))], "sum to 1 payment over_limit"),
        ([interval(3, retried=1), done(**counts(3, retried=2))], "sum to 1 payment retried"),
        ([interval(3), done(2.0, **counts(3))], "intervals last 1.0 s, its window 2.0 s"),
        ([interval(1), interval(2), done(2.0, **counts(3))], "do not follow each other"),
        ([interval(3), done(**counts(3) | {"latency": latency(2)})], "3 commits and 2 latencies"),
        (
            [interval(3), done(**counts(3)) | {"arrivals": ARRIVALS}],
            "arrivals have 6 scheduled, its types 3",
        ),
        ([{"type": "surprise"}], "surprise"),
        ([HELLO | {"more": 1}], "Extra inputs"),
    ],
)
def test_a_breach_of_the_contract_is_no_result(
    tmp_path: Path, lines: list[object], what: str
) -> None:
    with pytest.raises(DriverError, match="broke its contract") as caught:
        run_fake(tmp_path, *lines)
    assert what in str(caught.value.detail)


@pytest.mark.parametrize(
    ("before", "what"),
    [
        (["no json"], "Invalid JSON"),
        ([WARM], "first line is of type warm"),
        ([HELLO | {"contract": 1}], "speaks version 1, not 2"),
        ([HELLO, interval(3), done(**counts(3))], "intervals last 0.0 s"),
    ],
)
def test_so_is_one_before_the_window(tmp_path: Path, before: list[object], what: str) -> None:
    with pytest.raises(DriverError, match="broke its contract") as caught:
        run_fake(tmp_path, before=before)
    assert what in str(caught.value.detail)


def test_a_driver_that_was_stopped_in_the_warm_up_says_so(tmp_path: Path) -> None:
    stopped = done(0.0, **counts(0)) | {"stopped_by": "signal"}
    with pytest.raises(DriverError, match="stopped by a signal before its window began"):
        run_fake(tmp_path, before=[HELLO, stopped])


def test_clients_that_cannot_go_on_in_the_warm_up_say_why(tmp_path: Path) -> None:
    error = {"transaction": "payment", "sqlstate": "42P01", "message": "no table", "count": 2}
    stopped = done(0.0, **counts(0)) | {"stopped_by": "clients", "errors": [error]}
    with pytest.raises(DriverError, match="no client could go on in the warm-up") as caught:
        run_fake(tmp_path, before=[HELLO, stopped])
    assert caught.value.detail == "The first error was: no table (SQLSTATE 42P01)."
    assert caught.value.is_servers


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_error_line_is_the_drivers_own_message(tmp_path: Path, when: str) -> None:
    error = {
        "type": "error",
        "message": "could not connect",
        "sqlstate": "53300",
        "phase": "connect",
    }
    before, lines = ([HELLO, error], []) if when == "before" else ([HELLO, WARM], [error])
    with pytest.raises(DriverError, match="could not connect") as caught:
        run_fake(tmp_path, *lines, before=before, end="sys.exit(1)")
    assert caught.value.sqlstate == "53300"


@pytest.mark.parametrize("before", [[HELLO], [HELLO, WARM]])
def test_a_driver_that_dies_leaves_its_last_words(tmp_path: Path, before: list[object]) -> None:
    with pytest.raises(DriverError, match="exit status 101") as caught:
        run_fake(tmp_path, before=before, end="print('it hurts', file=sys.stderr); sys.exit(101)")
    assert caught.value.detail == "it hurts"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONNECT_TIMEOUT_S", "SLACK_S"):
        monkeypatch.setattr(f"pgdrag.driver.process.{name}", 0.1)
    for name in ("GRACE_S", "THREADS_GIVEN_UP_S"):
        monkeypatch.setattr(f"pgdrag.driver.process.{name}", 0.1)
        monkeypatch.setattr(f"pgdrag.driver.conversation.{name}", 0.1)
    monkeypatch.setattr("pgdrag.driver.conversation.CANCELLED_S", 0.3)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("before", [[HELLO], [HELLO, WARM]])
def test_a_driver_that_hangs_is_ended_and_its_job_is_an_error(
    tmp_path: Path, before: list[object]
) -> None:
    hang = "import signal; signal.signal(15, signal.SIG_IGN); time.sleep(60)"
    with pytest.raises(DriverError, match="did not end within"):
        run_fake(tmp_path, before=before, end=hang)


@pytest.mark.usefixtures("impatient")
def test_a_driver_that_talks_without_end_is_late_as_well(tmp_path: Path) -> None:
    progress = json.dumps({"type": "phase", "name": "run", "t_s": 1.0})
    talk = f"while True: print({progress!r}, flush=True)"
    with pytest.raises(DriverError, match="did not end within"):
        run_fake(tmp_path, end=talk)


def test_lines_are_told_as_they_come(tmp_path: Path) -> None:
    heard: list[Line] = []
    warming = {"type": "warming", "t_s": 0.5, "duration_s": 0.5, "committed": 1, "failed": 0}
    driver = driver_that(tmp_path, interval(3), done(**counts(3)), before=[HELLO, warming, WARM])
    with driver.driving(TARGET, {"kind": "tpcc"}, LOAD, seed=1, listen=heard.append) as driving:
        driving.warm_up()
        assert [line.type for line in heard] == ["hello", "warming", "warm"]
        driving.measure()
    assert [line.type for line in heard[3:]] == ["interval", "done"]


def test_who_leaves_before_the_window_ends_the_driver(tmp_path: Path) -> None:
    driver = driver_that(tmp_path, end="time.sleep(60)")
    with driver.driving(TARGET, {"kind": "tpcc"}, LOAD, seed=1) as driving:
        driving.warm_up()
    assert (tmp_path / "said").read_text().count("\n") == 1


def test_an_interrupted_load_gives_its_driver_a_moment_to_cancel_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited_s: list[float] = []
    monkeypatch.setattr(Conversation, "drain", lambda self, timeout_s: waited_s.append(timeout_s))
    monkeypatch.setattr("pgdrag.driver.conversation.CANCELLED_S", 3600.0)
    phase = {"type": "phase", "name": "populate", "t_s": 1.0}
    hang = "import signal; signal.signal(15, signal.SIG_IGN); time.sleep(3600)"
    driver = driver_that(tmp_path, before=[HELLO, phase], end=hang)

    def interrupt(line: Line) -> None:
        if line.type == "phase":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):  # within the test's patience: the driver was killed
        driver.load(TARGET, {}, seed=1, parallelism=1, timeout_s=60, listen=interrupt)
    assert waited_s == [1.0]

"""Whatever a driver writes, Python takes it as a result only if it keeps the contract."""

import json
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from pgdrag.driver import Driver, IntervalLine, Line, Target
from pgdrag.errors import DriverError
from pgdrag.plan import LoadProfile, Measurement

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
LATENCY = {
    "count": 3,
    "mean_us": 5.0,
    "p50_us": 5.0,
    "p95_us": 6.0,
    "p99_us": 6.0,
    "max_us": 6.0,
    "encoded": "",
}
USE = {
    "user_cpu_s": 0.1,
    "system_cpu_s": 0.1,
    "busiest_thread_cpu_s": 0.2,
    "threads": 1,
    "max_rss_bytes": 5_000_000,
    "send_lag_us_p99": 1.0,
    "send_lag_us_max": 2.0,
    "lateness_us_p99": None,
    "lateness_us_max": None,
    "stall_us_p99": 1.0,
    "stall_us_max": 2.0,
}


def interval(committed: int) -> dict[str, Any]:
    counts = {"scheduled": committed, "committed": committed, "latency": LATENCY}
    return {"type": "interval", "t_s": 2.0, "duration_s": 1.0, "transactions": {"payment": counts}}


def done(**counts: Any) -> dict[str, Any]:
    return {
        "type": "done",
        "t_s": 2.0,
        "elapsed_s": 1.0,
        "stopped_by": "deadline",
        "transactions": {"payment": counts},
        "errors": [],
        "driver": USE,
    }


def run_fake(tmp_path: Path, *lines: object, end: str = "", timeout_s: float = 5) -> Measurement:
    """Run a driver that reads its job, writes these lines, and then executes `end`."""
    text = "\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines)
    script = tmp_path / "driver"
    script.write_text(
        f"#!{sys.executable}\nimport sys, time\n"
        f"open({str(tmp_path / 'job')!r}, 'w').write(sys.stdin.readline())\n"
        f"print({text!r}, flush=True)\n{end}\n"
    )
    script.chmod(stat.S_IRWXU)
    return Driver(script).run(TARGET, {"kind": "tpcc"}, LOAD, seed=1)


def test_a_measurement_has_counts_samples_and_cost(tmp_path: Path) -> None:
    found = run_fake(
        tmp_path, HELLO, interval(3), done(scheduled=4, committed=3, in_flight=1, latency=LATENCY)
    )
    assert (found.total.committed, found.total.in_flight, found.committed_per_s) == (3, 1, 3.0)
    assert [(x.t_s, x.committed, x.p99_us) for x in found.samples] == [(1.0, 3, 6.0)]
    assert found.latency["payment"].p50_us == 5.0
    job = json.loads((tmp_path / "job").read_text())
    assert (job["action"], job["run"]["connections"], job["seed"]) == ("run", 2, 1)


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        (["no json"], "Invalid JSON"),
        ([done(scheduled=0)], "first line is of type done"),
        ([HELLO | {"contract": 1}], "speaks version 1, not 2"),
        ([HELLO, {"type": "surprise"}], "surprise"),
        ([HELLO, HELLO | {"more": 1}], "Extra inputs"),
        ([HELLO, interval(3), done(scheduled=5, committed=3)], "do not add up"),
        ([HELLO, interval(3), done(scheduled=4, committed=3, failed=1)], "do not add up"),
        ([HELLO, interval(2), done(scheduled=3, committed=3)], "its total is 3"),
    ],
)
def test_a_breach_of_the_contract_is_no_result(
    tmp_path: Path, lines: list[object], what: str
) -> None:
    with pytest.raises(DriverError, match="broke its contract") as caught:
        run_fake(tmp_path, *lines)
    assert what in str(caught.value.detail)


def test_an_error_line_is_the_drivers_own_message(tmp_path: Path) -> None:
    error = {
        "type": "error",
        "message": "could not connect",
        "sqlstate": "53300",
        "phase": "connect",
    }
    with pytest.raises(DriverError, match="could not connect") as caught:
        run_fake(tmp_path, HELLO, error, end="sys.exit(1)")
    assert caught.value.sqlstate == "53300"


def test_a_driver_that_dies_leaves_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(DriverError, match="exit status 101") as caught:
        run_fake(tmp_path, HELLO, end="print('it hurts', file=sys.stderr); sys.exit(101)")
    assert caught.value.detail == "it hurts"


def test_a_driver_that_hangs_is_ended_and_its_job_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CONNECT_TIMEOUT_S", "SLACK_S", "GRACE_S"):
        monkeypatch.setattr(f"pgdrag.driver.{name}", 0.1)
    with pytest.raises(DriverError, match="did not end within"):
        run_fake(tmp_path, HELLO, end="import signal; signal.signal(15, 1); time.sleep(60)")


def test_lines_are_told_as_they_come(tmp_path: Path) -> None:
    run_fake(tmp_path, HELLO, interval(3), done(scheduled=3, committed=3))
    heard: list[Line] = []
    Driver(tmp_path / "driver").run(TARGET, {"kind": "tpcc"}, LOAD, seed=1, listen=heard.append)
    assert [type(line) is IntervalLine for line in heard] == [False, True, False]

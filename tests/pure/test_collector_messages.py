"""What the log tells of errors, lock waits and temporary files becomes numbers and events."""

from __future__ import annotations

import pytest
from log_writing import logged

from pgdrag.collectors import Window
from pgdrag.collectors._log import LogReading
from pgdrag.collectors.messages import Messages, Settings
from pgdrag.model import Observation
from pgdrag.model.recordings import Event
from pgdrag.servers.log_formats import LogMessage

WINDOW = Window(elapsed_s=10, committed=4, started_unix_s=100, finished_unix_s=110)
STILL = "process {} still waiting for ShareLock on transaction 745 after {} ms"
ACQUIRED = "process {} acquired ShareLock on transaction 745 after {} ms"
FILE = 'temporary file: path "base/pgsql_tmp/pgsql_tmp77.0", size {}'


def having_read(*lines: LogMessage, settings: Settings | None = None) -> Messages:
    collector = Messages()
    collector.reading = LogReading()
    collector.settings = settings or Settings("warning", True, 2**20, "1s")
    for each in lines:
        collector.take(each)
    return collector


def seen(collector: Messages) -> dict[str, Observation]:
    return {each.name: each for each in collector.observations(WINDOW)}


def error(unix_s: float, sqlstate: str, message: str = "no") -> LogMessage:
    return logged(unix_s, message, "ERROR", sqlstate)


def test_errors_are_counted_by_sqlstate() -> None:
    collector = having_read(
        error(99, "23505"),
        error(101, "40P01"),
        error(102, "23505"),
        error(103, "23505"),
        error(111, "23505"),
        logged(103, "too many", "FATAL", "53300"),
    )
    found = seen(collector)["errors_per_transaction"]
    assert found.value == 4 / 4
    assert found.detail == "By SQLSTATE: 23505 2, 40P01 1, 53300 1."


def test_an_error_is_an_event_and_a_deadlock_a_kind_of_its_own() -> None:
    collector = having_read(
        error(101, "40P01", "deadlock detected"), error(102, "23505", "duplicate\nkey")
    )
    assert collector.recordings(WINDOW).events == (
        Event("deadlock", 1),
        Event("error", 2, text="23505: duplicate"),
    )


def test_a_flood_of_equal_errors_is_told_in_groups() -> None:
    lines = [error(100 + n / 1000, "22012", "division by zero") for n in range(5000)]
    found = having_read(*lines).recordings(WINDOW).events
    assert len(found) <= 101
    assert sum(event.count for event in found) == 5000
    assert {event.text for event in found} == {"22012: division by zero"}


def test_a_wait_that_ended_is_one_event_from_its_beginning() -> None:
    collector = having_read(
        logged(103, STILL.format(7, "1000.250")),
        logged(104, STILL.format(8, "1000.000")),
        logged(105, ACQUIRED.format(7, "3000.250")),
    )
    assert collector.recordings(WINDOW).events == (
        Event("lock wait", pytest.approx(1.99975), pytest.approx(5.0), "ShareLock on transaction"),
        Event("lock wait", 3.0, None, "ShareLock on transaction"),
    )
    found = seen(collector)["long_lock_waits_per_transaction"]
    assert found.value == 2 / 4
    assert found.detail == "2 lasted longer than 1s; the longest that ended took 3 s."


def test_a_wait_that_was_told_before_the_mark_ends_in_the_window() -> None:
    collector = having_read(logged(102, ACQUIRED.format(7, "5000.000")))
    assert [event.start_s for event in collector.recordings(WINDOW).events] == [-3.0]


@pytest.mark.parametrize(
    ("lock", "told"),
    [
        ("AccessShareLock on relation 16384 of database 5", "AccessShareLock on relation"),
        (
            "ExclusiveLock on tuple (0,1) of relation 16384 of database 5",
            "ExclusiveLock on tuple of relation",
        ),
        ("ExclusiveLock on advisory lock [5,0,7,1]", "ExclusiveLock on advisory lock [5,0,7,1]"),
    ],
)
def test_a_wait_tells_the_kind_of_lock_and_not_which(lock: str, told: str) -> None:
    collector = having_read(logged(103, f"process 7 still waiting for {lock} after 1000.000 ms"))
    assert [event.text for event in collector.recordings(WINDOW).events] == [told]


@pytest.mark.parametrize(
    "message",
    [
        "process 7 detected deadlock while waiting for ShareLock on transaction 7 after 10.1 ms",
        "process 7 avoided deadlock for ShareLock on transaction 7 by rearranging queue order after 10.1 ms",
    ],
)
def test_a_wait_in_a_deadlock_is_a_wait(message: str) -> None:
    [event] = having_read(logged(103, message)).recordings(WINDOW).events
    assert (event.kind, event.text) == ("lock wait", "ShareLock on transaction")


def test_large_temporary_files_are_counted_with_their_bytes() -> None:
    collector = having_read(
        logged(101, FILE.format(3 * 2**20)),
        logged(102, FILE.format(2**20)),
        logged(99, FILE.format(2**20)),
    )
    found = seen(collector)
    assert found["large_temp_files_per_transaction"].value == 2 / 4
    assert found["large_temp_file_bytes_per_transaction"].value == 2**20
    assert found["large_temp_files_per_transaction"].detail == "2 files of 1 MB or more."
    texts = [(event.kind, event.text) for event in collector.recordings(WINDOW).events]
    assert texts == [("temporary file", "3 MB"), ("temporary file", "1 MB")]


@pytest.mark.parametrize(
    ("settings", "name", "reason"),
    [
        (
            Settings("log", True, 0, "1s"),
            "errors_per_transaction",
            "log_min_messages is log, which hides errors",
        ),
        (
            Settings("warning", False, 0, "1s"),
            "long_lock_waits_per_transaction",
            "log_lock_waits is off",
        ),
        (
            Settings("warning", True, -1, "1s"),
            "large_temp_files_per_transaction",
            "log_temp_files is -1, which logs none",
        ),
    ],
)
def test_what_the_server_does_not_tell_is_missing_and_not_zero(
    settings: Settings, name: str, reason: str
) -> None:
    found = seen(having_read(settings=settings))
    assert [each.name for each in found.values() if each.missing == reason and each.name == name]
    assert found["errors_per_transaction"].missing or found["errors_per_transaction"].value == 0

"""Log lines of the supported versions are read for what they say."""

from __future__ import annotations

from typing import Any

import pytest
from log_writing import logged

from pgdrag.collectors import Window
from pgdrag.collectors._log import LogCollector, LogReading
from pgdrag.collectors._vacuum_log import Work, parse_work
from pgdrag.collectors.autovacuum import Autovacuum
from pgdrag.collectors.checkpoints import Checkpoints, parse_completed
from pgdrag.model.recordings import Event

# As the servers wrote them, shortened at the end.
VACUUM_14 = """automatic vacuum of table "pgdrag.public.rows": index scans: 1
pages: 0 removed, 286 remain, 1 skipped due to pins, 5 skipped frozen
tuples: 1000 removed, 19000 remain, 7 are dead but not yet removable, oldest xmin: 741
buffer usage: 676 hits, 3 misses, 4 dirtied
avg read rate: 3.906 MB/s, avg write rate: 5.208 MB/s
system usage: CPU: user: 0.00 s, system: 0.00 s, elapsed: 0.01 s
WAL usage: 561 records, 2 full page images, 53218 bytes"""
VACUUM_15 = """automatic vacuum of table "postgres.public.pgbench_accounts": index scans: 1
pages: 0 removed, 1663 remain, 1663 scanned (100.00% of total)
tuples: 5660 removed, 95001 remain, 12 are dead but not yet removable
removable cutoff: 7444, which was 0 XIDs old when operation ended
avg read rate: 525.366 MB/s, avg write rate: 326.868 MB/s
buffer usage: 1881 hits, 2210 misses, 1375 dirtied
WAL usage: 2376 records, 805 full page images, 6474401 bytes
system usage: CPU: user: 0.00 s, system: 0.01 s, elapsed: 0.03 s"""
# What 16 and 17 write.
VACUUM_16 = """automatic vacuum of table "postgres.public.pgbench_history": index scans: 0
pages: 0 removed, 640 remain, 640 scanned (100.00% of total)
tuples: 7 removed, 100166 remain, 0 are dead but not yet removable
tuples missed: 2 dead from 1 pages not removed due to cleanup lock contention
removable cutoff: 7444, which was 0 XIDs old when operation ended
new relfrozenxid: 7444, which is 700 XIDs ahead of previous value
frozen: 638 pages from table (99.69% of total) had 100166 tuples frozen
index scan not needed: 0 pages from table (0.00% of total) had 0 dead item identifiers removed
I/O timings: read: 0.020 ms, write: 0.000 ms
avg read rate: 0.031 MB/s, avg write rate: 20.094 MB/s
buffer usage: 1310 hits, 1 misses, 643 dirtied
WAL usage: 1 records, 1 full page images, 4817 bytes
system usage: CPU: user: 0.04 s, system: 0.02 s, elapsed: 0.25 s"""
VACUUM_18 = """automatic vacuum of table "postgres.pg_catalog.pg_statistic": index scans: 0
pages: 0 removed, 25 remain, 25 scanned (100.00% of total), 0 eagerly scanned
tuples: 3 removed, 429 remain, 0 are dead but not yet removable
frozen: 24 pages from table (96.00% of total) had 400 tuples frozen
visibility map: 25 pages set all-visible, 24 pages set all-frozen (0 were all-visible)
buffer usage: 36 hits, 26 reads, 0 dirtied
system usage: CPU: user: 0.00 s, system: 0.00 s, elapsed: 1.50 s"""
ANALYZE_18 = """automatic analyze of table "postgres.public.pgbench_tellers"
avg read rate: 0.000 MB/s, avg write rate: 0.000 MB/s"""
START = "checkpoint starting: {}"
# As 14 and 15 write it, and, with places in the WAL, 16 and 17.
END_15 = (
    "checkpoint complete: wrote 20 buffers (15.6%); 0 WAL file(s) added, 0 removed, 1 recycled;"
    " write=0.005 s, sync=0.004 s, total=0.021 s; sync files=5, longest=0.003 s, average=0.001 s;"
    " distance=16384 kB, estimate=16384 kB"
)
END_17 = f"{END_15}; lsn=0/3000060, redo lsn=0/3000028"
END_18 = (
    "checkpoint complete: wrote 49 buffers (38.3%), wrote 4 SLRU buffers; 2 WAL file(s) added, 3 removed,"
    " 33 recycled; write=1.500 s, sync=0.250 s, total=1.800 s; sync files=40, longest=0.120 s,"
    " average=0.007 s; distance=540671 kB, estimate=550000 kB; lsn=0/3000060, redo lsn=0/3000028"
)

TEN_SECONDS = Window(elapsed_s=10, committed=5, started_unix_s=100, finished_unix_s=110)


VACUUM, MB = "vacuum", 2**20


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            VACUUM_14,
            Work(
                *(VACUUM, "public.rows", 0.01, 280, 1000, 7, None, 3, 4, 53218),
                read_bytes_per_s=3.906 * MB,
                write_bytes_per_s=5.208 * MB,
            ),
        ),
        (
            VACUUM_15,
            Work(
                *(VACUUM, "public.pgbench_accounts", 0.03, 1663, 5660, 12, 0, 2210, 1375, 6474401),
                system_cpu_s=0.01,
                read_bytes_per_s=525.366 * MB,
                write_bytes_per_s=326.868 * MB,
            ),
        ),
        (
            VACUUM_16,
            Work(
                *(VACUUM, "public.pgbench_history", 0.25, 640, 7, 0, 0, 1, 643, 4817),
                *(0.04, 0.02, 0.031 * MB, 20.094 * MB, 638, 100166),
            ),
        ),
        (
            VACUUM_18,
            Work(
                *(VACUUM, "pg_catalog.pg_statistic", 1.5, 25, 3, 0, None, 26, 0),
                pages_frozen=24,
                tuples_frozen=400,
                pages_set_all_visible=25,
                pages_set_all_frozen=24,
            ),
        ),
        (
            ANALYZE_18,
            Work("analyze", "public.pgbench_tellers", read_bytes_per_s=0, write_bytes_per_s=0),
        ),
        ('automatic analyze of table "db.s.a"b.c"\navg', Work("analyze", 's.a"b.c')),
        ("automatic vacuuming is disabled", None),
    ],
)
def test_a_vacuum_and_an_analyze_are_read(message: str, expected: Work | None) -> None:
    assert parse_work(message) == expected


@pytest.mark.parametrize(
    "kind",
    [
        "automatic aggressive vacuum of table",
        "automatic vacuum to prevent wraparound of table",
        "automatic aggressive vacuum to prevent wraparound of table",
    ],
)
def test_vacuums_against_wraparound_are_vacuums(kind: str) -> None:
    message = VACUUM_15.replace("automatic vacuum of table", kind)
    assert parse_work(message) == parse_work(VACUUM_15)


@pytest.mark.parametrize(
    ("flags", "cause"),
    [
        ("wal", "WAL volume"),
        ("time", "time"),
        ("immediate force wait", "request"),
        ("fast force wait", "request"),
        ("shutdown immediate", "request"),
    ],
)
def test_a_checkpoint_says_its_cause_and_what_it_wrote(flags: str, cause: str) -> None:
    of_15 = (
        "20 buffers written in 5 ms; 0 WAL files added, 0 removed, 1 recycled;"
        " 5 files synced in 4 ms, the slowest in 3 ms; distance 16 MB, estimate 16 MB"
    )
    of_18 = (
        "49 buffers written in 1.5 s; 2 WAL files added, 3 removed, 33 recycled;"
        " 40 files synced in 250 ms, the slowest in 120 ms; distance 528 MB, estimate 537 MB"
    )
    for end, words in ((END_15, of_15), (END_17, of_15), (END_18, of_18)):
        [event] = events(Checkpoints(), (101, START.format(flags)), (102, end))
        assert event.text == f"by {cause}: {words}"


def test_what_checkpoints_did_is_the_mean_of_those_that_ended_in_the_window() -> None:
    start = START.format("wal")
    seen = checkpoints(
        *((95, start), (99, END_18), (100, start), (101, END_15), (101, start), (102, END_17)),
        *((107, start), (108, END_18), (109, start), (111, END_18)),
    )
    means = {
        "buffers_per_checkpoint": (20 + 20 + 49) / 3,
        "wal_files_added_per_checkpoint": 2 / 3,
        "wal_files_removed_per_checkpoint": 3 / 3,
        "wal_files_recycled_per_checkpoint": (1 + 1 + 33) / 3,
        "checkpoint_write_s": (0.005 + 0.005 + 1.5) / 3,
        "checkpoint_sync_s": (0.004 + 0.004 + 0.25) / 3,
        "files_synced_per_checkpoint": (5 + 5 + 40) / 3,
        "checkpoint_distance_bytes": (16384 + 16384 + 540671) * 1024 / 3,
        "checkpoint_estimate_bytes": (16384 + 16384 + 550000) * 1024 / 3,
    }
    assert {name: seen[name].value for name in means} == pytest.approx(means)
    assert seen["checkpoint_longest_sync_s"].value == 0.12
    assert seen["wal_files_recycled_per_checkpoint"].detail == "35 in 3."
    assert seen["checkpoint_estimate_bytes"].detail == "537 MB at the last of 3."


def test_without_the_end_of_a_checkpoint_nothing_is_said_of_what_it_did() -> None:
    torn = END_18[: END_18.index("distance")]
    for lines in ([(109, START.format("wal"))], [(105, START.format("wal")), (106, torn)]):
        seen = checkpoints(*lines)
        for name in ("checkpoint_sync_s", "checkpoint_longest_sync_s", "buffers_per_checkpoint"):
            assert seen[name].missing == "no checkpoint ended in the window"


def having_read(collector: LogCollector, *lines: tuple[float, str]) -> LogCollector:
    collector.reading = LogReading()
    for line in lines:
        collector.take(logged(*line))
    return collector


def checkpoints(*lines: tuple[float, str]) -> dict[str, Any]:
    collector = having_read(Checkpoints(), *lines)
    return {each.name: each for each in collector.observations(TEN_SECONDS)}


def events(collector: LogCollector, *lines: tuple[float, str]) -> list[Event]:
    return list(having_read(collector, *lines).recordings(TEN_SECONDS).events)


def test_two_checkpoints_four_seconds_apart_that_ran_three_of_ten_seconds() -> None:
    seen = checkpoints(
        (102, START.format("wal")), (103, END_18), (106, START.format("time")), (108, END_18)
    )
    assert seen["checkpoints_per_s"].value == 0.2
    assert seen["seconds_between_checkpoints"].value == 4
    assert seen["checkpoint_time_share"].value == pytest.approx(0.3)
    assert seen["checkpoints_per_s"].detail == "2 began: 1 by WAL volume, 1 by time."


def test_a_checkpoint_counts_for_the_part_of_it_that_lies_in_the_window() -> None:
    from_before = checkpoints((90, START.format("wal")), (101, END_18))
    end_only = checkpoints((101, END_18))
    to_after = checkpoints((109, START.format("wal")), (115, END_18))
    unended = checkpoints((109, START.format("wal")))
    shares = [each["checkpoint_time_share"].value for each in (from_before, end_only)]
    assert shares == pytest.approx([0.1, 0.1])
    shares = [each["checkpoint_time_share"].value for each in (to_after, unended)]
    assert shares == pytest.approx([0.1, 0.1])
    assert from_before["checkpoints_per_s"].value == 0


def test_a_checkpoint_writes_so_many_buffers() -> None:
    seen = checkpoints(
        (102, START.format("wal")), (103, END_15), (106, START.format("wal")), (108, END_18)
    )
    assert seen["buffers_per_checkpoint"].value == (20 + 49) / 2
    none = checkpoints((102, START.format("wal")))["buffers_per_checkpoint"]
    assert none.missing == "no checkpoint ended in the window"


def test_one_checkpoint_has_no_distance() -> None:
    found = checkpoints((102, START.format("wal")))["seconds_between_checkpoints"]
    assert found.missing == "1 began in the 10.0 s of the window; it takes two"


def test_a_checkpoint_is_an_event_from_its_start_to_its_end() -> None:
    assert events(
        Checkpoints(),
        (95, START.format("wal")),
        (96, END_18),
        (99, START.format("time")),
        (103, END_18),
        (109, START.format("wal")),
    ) == [
        Event("checkpoint", -1, 3, f"by time: {parse_completed(END_18).words}"),
        Event("checkpoint", 9, None, "by WAL volume"),
    ]


def test_lines_outside_the_window_do_not_count() -> None:
    lines = [
        (99, VACUUM_15),
        (100, VACUUM_15),
        (105, VACUUM_18),
        (105, ANALYZE_18),
        (111, ANALYZE_18),
    ]
    seen = vacuums(*lines)
    assert (seen["vacuums_per_s"].value, seen["analyzes_per_s"].value) == (0.2, 0.1)
    assert seen["tuples_removed_per_vacuum"].value == (5660 + 3) / 2
    assert seen["dead_tuples_kept_per_vacuum"].value == 6
    assert seen["vacuum_pages_scanned_per_s"].value == (1663 + 25) / 10
    assert seen["futile_vacuum_share"].value == 0


# Of a table of 1,000 rows whose horizon somebody held, while other transactions rolled back.
HELD_18 = """automatic vacuum of table "pgdrag.public.g": index scans: 1
pages: 0 removed, 137 remain, 137 scanned (100.00% of total), 0 eagerly scanned
tuples: 437 removed, 24000 remain, 23000 are dead but not yet removable
removable cutoff: 755, which was 60 XIDs old when operation ended
new relfrozenxid: 754, which is 1 XIDs ahead of previous value
frozen: 0 pages from table (0.00% of total) had 0 tuples frozen
visibility map: 0 pages set all-visible, 0 pages set all-frozen (0 were all-visible)
index scan needed: 29 pages from table (21.17% of total) had 437 dead item identifiers removed
index "g_pkey": pages: 33 in total, 0 newly deleted, 0 currently deleted, 0 reusable
buffer usage: 388 hits, 0 reads, 3 dirtied
WAL usage: 63 records, 3 full page images, 29887 bytes, 0 buffers full
system usage: CPU: user: 0.00 s, system: 0.00 s, elapsed: 0.02 s"""
HELD_15 = """automatic vacuum of table "pgdrag.public.g": index scans: 1
pages: 0 removed, 168 remain, 168 scanned (100.00% of total)
tuples: 57 removed, 31001 remain, 30001 are dead but not yet removable
removable cutoff: 727, which was 67 XIDs old when operation ended
buffer usage: 432 hits, 0 misses, 0 dirtied
WAL usage: 10 records, 0 full page images, 1144 bytes
system usage: CPU: user: 0.00 s, system: 0.00 s, elapsed: 0.30 s"""
# The form of before 15: format strings of vacuumlazy.c.
HELD_14 = """automatic vacuum of table "pgdrag.public.g": index scans: 0
pages: 0 removed, 100 remain, 0 skipped due to pins, 0 skipped frozen
tuples: 0 removed, 21000 remain, 20000 are dead but not yet removable, oldest xmin: 741
index scan bypassed: 2 pages from table (2.00% of total) have 3 dead item identifiers
buffer usage: 676 hits, 3 misses, 4 dirtied
system usage: CPU: user: 0.00 s, system: 0.00 s, elapsed: 0.10 s"""


def test_vacuums_that_a_horizon_held_back_are_counted_with_their_cost() -> None:
    lines = [(101, HELD_18), (102, HELD_15), (103, HELD_14), (104, VACUUM_15)]
    seen = vacuums(*lines)
    assert seen["futile_vacuums"].value == 3
    assert seen["futile_vacuum_s"].value == pytest.approx(0.42)
    assert seen["futile_vacuum_pages"].value == 137 + 168 + 100
    assert seen["futile_vacuums"].detail == (
        "At most 30,001 dead tuples were left by one; the oldest cutoff was 67 transactions old;"
        " most often public.g 3."
    )
    assert seen["futile_vacuum_share"].value == 3 / 4


@pytest.mark.parametrize(
    ("removed", "kept", "futile", "held_back"),
    [(0, 0, True, False), (0, 1, True, True), (5, 95, True, True), (6, 94, False, False)],
)
def test_a_vacuum_is_futile_that_leaves_nearly_all_it_found(
    removed: int, kept: int, futile: bool, held_back: bool
) -> None:
    vacuum = Work(VACUUM, "t", removed=removed, kept=kept)
    assert (vacuum.is_futile, vacuum.is_held_back) == (futile, held_back)


def test_a_vacuum_that_removed_nothing_was_futile() -> None:
    futile = VACUUM_18.replace("3 removed", "0 removed")
    collector = having_read(Autovacuum(), (101, futile), (102, VACUUM_18), (103, futile))
    seen = {each.name: each for each in collector.observations(TEN_SECONDS)}
    assert seen["futile_vacuum_share"].value == 2 / 3


def test_a_vacuum_is_an_event_that_ends_when_it_is_told() -> None:
    found = events(Autovacuum(), (101, VACUUM_18), (102, ANALYZE_18), (99, VACUUM_15))
    text = (
        "pg_catalog.pg_statistic: 25 pages scanned; 3 tuples removed, 0 dead but not removable;"
        " 400 tuples frozen in 24 pages; 25 pages set all-visible, 24 all-frozen; 26 blocks read, 0 dirtied"
    )
    assert found == [
        Event("vacuum", -0.5, 1, text),
        Event("analyze", 2, 2, "public.pgbench_tellers: read at 0 B/s, dirtied at 0 B/s"),
    ]


def test_the_words_of_a_vacuum_have_its_cutoff_and_its_wal() -> None:
    found = parse_work(VACUUM_15)
    assert found is not None
    assert found.words == (
        "public.pgbench_accounts: 1,663 pages scanned; 5,660 tuples removed, 12 dead but not"
        " removable, cutoff 0 transactions old; 2,210 blocks read, 1,375 dirtied;"
        " read at 525 MB/s, dirtied at 327 MB/s; 6.17 MB of WAL; 10 ms on CPU"
    )


def vacuums(*lines: tuple[float, str]) -> dict[str, Any]:
    collector = having_read(Autovacuum(), *lines)
    return {each.name: each for each in collector.observations(TEN_SECONDS)}


def test_what_vacuums_froze_and_marked_is_counted_by_the_second() -> None:
    seen = vacuums((99, VACUUM_18), (101, VACUUM_18), (102, VACUUM_18))
    assert seen["vacuum_pages_frozen_per_s"].value == 2 * 24 / 10
    assert seen["vacuum_pages_frozen_per_s"].detail == "800 tuples in 48 pages."
    assert seen["vacuum_pages_set_all_visible_per_s"].value == 2 * 25 / 10
    assert seen["vacuum_pages_set_all_frozen_per_s"].value == 2 * 24 / 10


@pytest.mark.parametrize(
    ("message", "missing"),
    [(VACUUM_15, {"frozen", "set_all_visible"}), (VACUUM_16, {"set_all_visible"})],
)
def test_what_an_older_server_does_not_log_has_a_reason(message: str, missing: set[str]) -> None:
    since = {"frozen": 16, "set_all_visible": 18}
    seen = vacuums((101, message))
    reasons = {x: seen[f"vacuum_pages_{x}_per_s"].missing for x in since}
    assert reasons == {
        x: f"PostgreSQL before {version} does not log it" if x in missing else ""
        for x, version in since.items()
    }


def test_the_rates_of_vacuums_are_a_mean_over_their_time_and_their_processor_time_a_sum() -> None:
    seen = vacuums((101, VACUUM_15), (102, VACUUM_16))
    # The hundredths of the log are cut off: 0.03 s are 0.035 s in the mean.
    read = (525.366 * 0.035 + 0.031 * 0.255) / (0.035 + 0.255)
    assert seen["vacuum_read_bytes_per_s"].value == pytest.approx(read * MB)
    written = (326.868 * 0.035 + 20.094 * 0.255) / (0.035 + 0.255)
    assert seen["vacuum_write_bytes_per_s"].value == pytest.approx(written * MB)
    assert seen["vacuum_cpu_s"].value == pytest.approx(0.01 + 0.06)
    assert seen["vacuum_cpu_s"].resolution == 2 * 2 * 0.01
    assert seen["vacuum_cpu_s"].detail.startswith("0.04 s in user mode and 0.03 s in the kernel")


def test_without_a_vacuum_there_is_no_rate_and_nothing_was_frozen() -> None:
    seen = vacuums()
    assert seen["vacuum_read_bytes_per_s"].missing == "no automatic vacuum ended in the window"
    assert seen["vacuum_pages_frozen_per_s"].value == 0
    assert seen["vacuum_cpu_s"].value == 0

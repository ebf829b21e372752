"""The doctor names a mechanism where its numbers reach their thresholds, says what they are, and else nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pgdrag.findings.doctor import Symptom, all_symptoms, diagnose
from pgdrag.findings.doctor.words import diagnosed, doctor_lines
from pgdrag.model import Observation, Recordings
from pgdrag.model.live import Blocker, CopyOut, LiveWindow, ServerSetting, TableUse
from pgdrag.model.recordings import Recording, WaitTime
from pgdrag.units import format_number

LENGTH_S = 10.0
# What every server shows: nothing of anything.
WELL: Mapping[str, float] = {
    **dict.fromkeys(
        (
            *("deadlocks_per_s", "rollback_share", "rollbacks_per_s", "temp_bytes_per_s"),
            *("temp_files_per_s", "new_sessions_per_s", "sessions_per_transaction"),
            *("requested_checkpoints_per_s", "wal_bytes_per_s", "full_page_images_per_s"),
            *("server_blocks_read_per_s", "connections_used_share", "connections_active"),
            *("connections_idle_in_transaction", "idle_in_transaction_s", "slot_wal_bytes"),
            *("horizon_age_transactions", "horizon_held_s", "dead_rows", "archive_behind_s"),
            *("frozen_age_transactions", "frozen_age_share", "log_bytes_per_transaction"),
            *("wal_syncs_per_transaction", "cpu_throttled_share", "jit_s_per_transaction"),
            *("disk_read_wait_s", "disk_busy_share", "disk_reads_per_s"),
        ),
        0.0,
    ),
    "server_buffer_hit_ratio": 1.0,
    "live_rows": 1e6,
    "max_wal_bytes": 1e9,
    "disk_used_share": 0.5,
    "disk_free_bytes": 50e9,
    "processors": 4.0,
    "execution_s_per_transaction": 0.001,
}
SETTINGS = (
    ServerSetting("shared_buffers", "16384", "8kB", "16384", "Memory"),
    ServerSetting("deadlock_timeout", "1000", "ms", "1000", "Locks"),
    ServerSetting("commit_delay", "0", "", "0", "Write-Ahead Log / Settings"),
    ServerSetting("work_mem", "4096", "kB", "4096", "Memory"),
)
BUSY = {"": 10.0}  # one session on a processor
TABLE = TableUse("public.items", 0, 0, 1000, 0, 0, 0, 0, 0, 0, 200_000, 0, 0, 200_000.0, 10**8, True, 1)  # fmt: skip


def window(
    values: Mapping[str, float] | None = None,
    *,
    waits: Mapping[str, float] = BUSY,
    recordings: Iterable[Recording] = (),
    settings: Iterable[ServerSetting] = SETTINGS,
    missing: Mapping[str, str] | None = None,
    hidden: Iterable[str] = (),
) -> LiveWindow:
    seen = {**WELL, **(values or {})}
    observations = [
        Observation(name, name, None, "count", 1.0, "it is hidden")
        if name in hidden
        else Observation(name, name, value, "count", 1.0)
        for name, value in seen.items()
    ]
    times = [WaitTime("client backend", wait, time_s) for wait, time_s in waits.items()]
    return LiveWindow(
        "database", "18.6", 0.0, LENGTH_S, 1000, tuple(observations),
        Recordings((*times, *recordings, *settings), missing), 90, 0.1,
    )  # fmt: skip


def names(found: LiveWindow) -> list[str]:
    return [one.name for one in diagnose(found).found]


def test_a_server_that_is_well_has_nothing() -> None:
    found = window(recordings=[TABLE])
    assert diagnose(found).found == ()
    assert diagnose(found).unseen == {}
    lines = list(doctor_lines(found, diagnose(found)))
    assert any(line.startswith("Nothing stands out: none of ") for line in lines)


def test_a_single_deadlock_in_a_short_window_may_be_chance() -> None:
    assert names(window({"deadlocks_per_s": 1.2 / LENGTH_S})) == []
    assert names(window({"deadlocks_per_s": 2.4 / LENGTH_S})) == ["deadlocks"]


@pytest.mark.parametrize(
    ("copied", "times_as_many_rows", "found"),
    [
        ("shop.orders", 1, []),
        ("", 1, []),  # of a query
        ("another", 1, ["missing-index"]),
        ("shop.orders", 4, ["missing-index"]),  # COPY has sent a part of them
    ],
)
def test_a_table_lacks_no_index_for_rows_that_are_copied(
    copied: str, times_as_many_rows: int, found: list[str]
) -> None:
    rows = times_as_many_rows * SCANNED.seq_rows
    scanned = replace(SCANNED, table="shop.orders", seq_rows=rows)
    assert names(window(recordings=[scanned, CopyOut(copied, 9.0, 2e6)])) == found


def test_a_table_that_is_copied_hides_none_that_lacks_an_index() -> None:
    copied = replace(SCANNED, table="shop.orders", seq_rows=2 * SCANNED.seq_rows)
    [one] = diagnose(window(recordings=[copied, SCANNED, CopyOut("shop.orders", 9.0, 4e6)])).found
    assert one.headline.startswith("table public.items ")


def test_a_server_on_which_nothing_happens_has_nothing() -> None:
    found = window(waits={})
    assert diagnose(found).found == ()
    assert "0.0 sessions at work" in next(doctor_lines(found, diagnose(found)))


BLOCKER = Blocker(4711, "app, ann", "idle in transaction", 40.0, 6, 120.0, "UPDATE", ("relation",))
SCANNED = replace(TABLE, seq_scans=100, seq_rows=20_000_000)
SICK: Mapping[str, LiveWindow] = {
    "lock-queue": window(waits={"": 10, "Lock:relation": 40}, recordings=[BLOCKER]),
    "hot-rows": window(waits={"": 10, "Lock:transactionid": 20, "Lock:tuple": 20}),
    "advisory-locks": window(waits={"": 10, "Lock:advisory": 20}),
    "deadlocks": window({"deadlocks_per_s": 0.5}),
    "idle-in-transaction": window({"idle_in_transaction_s": 60}),
    "rollbacks": window({"rollback_share": 0.5, "rollbacks_per_s": 50}),
    "missing-index": window(recordings=[SCANNED]),
    "planner-settings": window(
        recordings=[SCANNED],
        settings=[*SETTINGS, ServerSetting("enable_indexscan", "off", "", "on", "Query Tuning")],
    ),
    "missing-statistics": window(recordings=[replace(TABLE, has_statistics=False)]),
    "temp-spill": window({"temp_bytes_per_s": 1e8, "temp_files_per_s": 10}),
    "jit": window({"jit_s_per_transaction": 0.0008}),
    "held-horizon": window({"horizon_age_transactions": 50_000, "horizon_held_s": 60}),
    "futile-vacuum": window(recordings=[replace(TABLE, vacuums=4, dead=100_000, updated=1000)]),
    "vacuum-storm": window(recordings=[replace(TABLE, vacuums=4, updated=1000)]),
    "dead-rows": window(recordings=[replace(TABLE, dead=200_000)]),
    "wraparound": window({"frozen_age_share": 0.7}),
    "checkpoint-storm": window({"requested_checkpoints_per_s": 0.3}),
    "tiny-cache": window(
        {"server_blocks_read_per_s": 20_000, "server_buffer_hit_ratio": 0.7},
        settings=[*SETTINGS[1:], ServerSetting("shared_buffers", "128", "8kB", "16384", "Memory")],
    ),
    "disk-reads": window(
        {"disk_read_wait_s": 0.01, "disk_busy_share": 0.95}, waits={"": 10, "IO:DataFileRead": 10}
    ),
    "slow-wal-sync": window(
        {"wal_syncs_per_transaction": 0.2}, waits={"": 10, "IO:WalSync": 8, "LWLock:WALWrite": 20}
    ),
    "standby-wait": window(waits={"": 1, "IPC:SyncRep": 30}),
    "commit-delay": window(
        {"wal_syncs_per_transaction": 0.1},
        waits={"": 10, "LWLock:WALWrite": 20},
        settings=[*SETTINGS[1:], ServerSetting("commit_delay", "50000", "", "0", "WAL")],
    ),
    "log-flood": window({"log_bytes_per_transaction": 5000}),
    "full-disk": window({"disk_used_share": 0.97, "disk_free_bytes": 1e9}),
    "slot-wal": window({"slot_wal_bytes": 5e9}),
    "archive-failing": window({"archive_behind_s": 600}),
    "connection-churn": window({"new_sessions_per_s": 100, "sessions_per_transaction": 1}),
    "connection-limit": window({"connections_used_share": 0.95}),
    "cpu-saturated": window(waits={"": 500}),
    "cpu-throttled": window({"cpu_throttled_share": 0.5}),
    "lwlocks": window(waits={"": 10, "LWLock:LockManager": 30}),
}


@pytest.mark.parametrize("name", SICK)
def test_a_server_with_one_symptom_has_that_alone(name: str) -> None:
    found = diagnose(SICK[name])
    assert [one.name for one in found.found] == [name]
    [diagnosis] = found.found
    for text in (diagnosis.headline, diagnosis.evidence, diagnosis.step):
        assert "{" not in text
    assert any(character.isdigit() for character in diagnosis.headline + diagnosis.evidence)
    assert 0 <= diagnosis.severity <= 2


def test_each_symptom_is_tested() -> None:
    assert set(SICK) == set(all_symptoms())


def test_the_worst_comes_first() -> None:
    found = window(
        {"rollback_share": 0.25, "rollbacks_per_s": 50},
        waits={"": 10, "Lock:relation": 40},
        recordings=[BLOCKER],
    )
    assert names(found) == ["lock-queue", "rollbacks"]


def test_what_another_symptom_explains_is_not_named_beside_it() -> None:
    found = window(
        {"idle_in_transaction_s": 120}, waits={"": 10, "Lock:relation": 40}, recordings=[BLOCKER]
    )
    assert names(found) == ["lock-queue"]


def test_what_cannot_be_seen_is_said_with_its_reason() -> None:
    found = window(missing={"waits": "this role may not see the sessions of others"}, waits={}, hidden=["disk_used_share"])  # fmt: skip
    unseen = diagnose(found).unseen
    assert unseen["hot-rows"] == "this role may not see the sessions of others"
    assert unseen["full-disk"] == "it is hidden"
    lines = list(doctor_lines(found, diagnose(found)))
    assert any(x.startswith("Not seen: ") and x.endswith("(it is hidden)") for x in lines)


def test_only_the_first_are_told_in_full_and_there_are_about_ten_lines() -> None:
    found = window(
        {
            "frozen_age_share": 0.7, "slot_wal_bytes": 5e9, "archive_behind_s": 600, "deadlocks_per_s": 1,
            "idle_in_transaction_s": 60,
        }
    )  # fmt: skip
    lines = list(doctor_lines(found, diagnose(found)))
    assert sum(line.startswith("   Next: ") for line in lines) == 3
    assert len(lines) == 1 + 3 * 3 + 2 + 1


def test_json_has_the_numbers_and_the_reasons_for_thresholds() -> None:
    found = SICK["lock-queue"]
    told = diagnosed(found, diagnose(found))
    [one] = told.diagnoses
    assert one.share == 0.8
    assert one.numbers["sessions"] == 4.0
    assert one.why
    assert not told.is_healthy


def test_the_documentation_has_every_condition_and_its_reason() -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "doctor.md"
    head = ("| finding | named from | why there |", "|---|---|---|")
    rows = [f"| `{x}` | {condition(one)} | {one.why} |" for x, one in all_symptoms().items()]
    assert "\n".join((*head, *sorted(rows))) in page.read_text(encoding="utf-8")


def condition(symptom: Symptom) -> str:
    least = [f"{name} ≥ {format_number(x)}" for name, x in symptom.at_least.items()]
    most = [f"{name} ≤ {format_number(x)}" for name, x in symptom.at_most.items()]
    return ", ".join((*least, *most))

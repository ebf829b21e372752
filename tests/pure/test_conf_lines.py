"""What a configuration's lines mean, what is wrong with them, and in what two configurations differ."""

from dataclasses import replace
from pathlib import Path

import pytest
from test_search_space import catalog

from pgdrag.experiment.applicable import applicable, renamed_words
from pgdrag.experiment.conf_diff import Side, Why, conf_diff
from pgdrag.experiment.conf_lines import ConfLine, Severity, conf_lines
from pgdrag.experiment.formats import Source, read_source
from pgdrag.host.allowance import Allowance
from pgdrag.servers.former_settings import translated
from pgdrag.servers.settings import SettingsCatalog


def lines_of(text: str) -> tuple[ConfLine, ...]:
    configuration = read_source(Source(Path("my.conf"), text))
    return conf_lines(configuration, catalog(), Allowance(8 << 30, 4.0))


def remarks_of(text: str) -> list[tuple[int, str, str]]:
    return [(x.line, str(r.severity), r.message) for x in lines_of(text) for r in x.remarks]


def test_a_line_is_explained_in_the_servers_words():
    [line] = lines_of("shared_buffers = 1024MB\n")
    assert (line.name, line.value, line.means) == ("shared_buffers", "1024MB", "1 GB")
    assert (line.default, line.takes_effect) == ("128 MB", "restart")
    assert line.category == "Resource Usage / Memory"
    assert not line.remarks
    assert not line.laboratory


@pytest.mark.parametrize(
    ("text", "severity", "words"),
    [
        ("wrok_mem = 1GB", "mistake", 'has no setting "wrok_mem"'),
        ("checkpoint_segments = 8", "mistake", 'has no setting "checkpoint_segments"'),
        ("jit = maybe", "mistake", "requires a Boolean"),
        ("max_connections = 0", "mistake", "0 is outside the valid range"),
        ("fsync = off", "warning", "may corrupt the database"),
        ("commit_siblings = 9", "warning", "does nothing while commit_delay = 0"),
        ("shared_buffers = 9GB", "warning", "allows 8 GB"),
        ("work_mem = 4096kB", "note", "the server's own default"),
        ("sort_mem = 8MB", "note", "a former name of work_mem"),
        ("effective_cache_size = 9GB", "warning", "allows 8 GB"),
    ],
)
def test_what_is_wrong_is_said(text, severity, words):
    [(line, found, message)] = remarks_of(text)
    assert (line, found) == (1, severity)
    assert words in message


def test_of_lines_that_set_the_same_the_last_counts_also_by_a_former_name():
    found = remarks_of("work_mem = 8MB\nwork_mem = 16MB\nsort_mem = 32MB\n")
    words = "line 3 sets it again, to 32MB, and counts"
    assert [x for x in found if x[1] == "warning"] == [
        (1, "warning", words),
        (2, "warning", words),
    ]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("wrok_mem = 1GB", 'The nearest name it knows is "work_mem".'),
        ("checkpoint_segments = 32", "write max_wal_size = 1536MB, about the same."),
        ("wal_keep_segments = 64", "Removed in PostgreSQL 13: write wal_keep_size = 1GB."),
        ("force_parallel_mode = on", "Removed in PostgreSQL 16: write debug_parallel_query = on."),
        ("io_max_workers = 5", "Renamed: write io_workers = 5."),
        ("replacement_sort_tuples = 9", "Removed in PostgreSQL 11: remove the line."),
        ("stats_temp_directory = '/run'", "Statistics are in shared memory since."),
        ("promote_trigger_file = '/x'", "Promote a standby with pg_ctl promote or pg_promote()."),
        ("old_snapshot_threshold = 1", "see idle_in_transaction_session_timeout"),
        ("vacuum_defer_cleanup_age = 9", "use hot_standby_feedback or a replication slot"),
        ("max_wal_size = 4g", "Write 4GB."),
        ("statement_timeout = 30sec", "Write 30s."),
        ("random_page_cost = '1,1'", "Write 1.1."),
        ("max_connections = '1,000'", "Write 1000."),
    ],
)
def test_what_to_write_instead_is_said(text, hint):
    [line] = lines_of(text)
    [remark] = line.remarks
    assert remark.severity is Severity.MISTAKE
    assert hint in remark.hint


def test_a_name_that_a_newer_server_has_is_told_from_a_typo():
    newest = catalog()
    older = replace(newest, server_version_num=150018, settings={**newest.settings})
    older.settings.pop("transaction_timeout")
    given = read_source(Source(Path("my.conf"), "transaction_timeout = 1h\n"))
    [line] = conf_lines(given, older, Allowance(8 << 30, 4.0), newest)
    assert line.remarks[0].hint.startswith("PostgreSQL 18 has it")


def test_a_value_that_the_server_never_reads_is_no_mistake_but_an_unknown_name_is():
    found = remarks_of("jit = nope\njit = off\n")
    assert [(line, severity) for line, severity, _ in found] == [(1, "warning"), (1, "warning")]
    found = remarks_of("wrok_mem = 1MB\nwrok_mem = 2MB\n")
    assert [line for line, severity, _ in found if severity == "mistake"] == [1, 2]


def test_a_line_said_twice_alike_is_told_from_one_that_is_overruled():
    [(line, _, words)] = remarks_of("work_mem = 64MB\nwork_mem = 65536\n")
    assert (line, words) == (1, "line 2 sets it again, to the same")


def test_the_laboratory_applies_a_renamed_setting_by_its_name_here():
    given = read_source(
        Source(Path("my.conf"), "force_parallel_mode = on\nwal_keep_segments = 4\n")
    )
    kept, skipped = applicable(given, catalog())
    assert not skipped
    assert [(x.name, x.value) for x in kept] == [
        ("debug_parallel_query", "on"),
        ("wal_keep_size", "64MB"),
    ]
    assert renamed_words(given, catalog()) == [
        "my.conf, line 1: force_parallel_mode is debug_parallel_query = on to PostgreSQL 18.6",
        "my.conf, line 2: wal_keep_segments is wal_keep_size = 64MB to PostgreSQL 18.6",
    ]


def test_of_a_setting_by_both_its_names_only_the_servers_own_is_applied():
    given = read_source(Source(Path("my.conf"), "wal_keep_size = 1GB\nwal_keep_segments = 4\n"))
    kept, [skipped] = applicable(given, catalog())
    assert [x.value for x in kept] == ["1GB"]
    assert (skipped.name, skipped.why) == ("wal_keep_segments", "wal_keep_size is set, too")


def test_a_condition_that_another_line_meets_is_no_remark():
    assert not remarks_of("commit_siblings = 9\ncommit_delay = 100\n")


def test_what_the_laboratory_does_not_apply_is_said():
    [line] = lines_of("archive_command = 'cp %p /x'")
    assert "nothing is archived" in line.laboratory
    assert all(x.severity is not Severity.MISTAKE for x in line.remarks)


def side(label: str, known: SettingsCatalog | None = None, **values: str) -> Side:
    return Side(label, values, known or catalog())


def test_what_is_written_differently_and_means_the_same_is_no_difference():
    found = conf_diff(
        side("a", shared_buffers="1GB", work_mem="4MB", jit="off"),
        side("b", shared_buffers="1024MB", jit="no"),
    )
    assert not found.differences
    assert found.same == ("jit", "shared_buffers", "work_mem")


def test_a_difference_names_both_values_and_who_does_not_set_it():
    [one] = conf_diff(side("a", work_mem="64MB"), side("b")).differences
    assert (one.name, one.before, one.after, one.note) == (
        "work_mem",
        "64 MB",
        "4 MB",
        "",
    )
    assert (one.why, one.is_default_before, one.is_default_after) == (Why.SET, False, True)


def test_of_two_versions_settings_of_one_alone_differ():
    newer = catalog()
    older = SettingsCatalog(
        150018,
        {name: one for name, one in newer.settings.items() if name != "io_workers"},
    )
    [one] = conf_diff(side("15", older), side("18", newer)).differences
    assert (one.name, one.before, one.note) == ("io_workers", None, "not in 15.18")
    assert one.why is Why.ADDED
    assert one.after == newer.settings["io_workers"].boot_value


def test_a_former_name_is_the_same_setting():
    found = conf_diff(side("a", sort_mem="64MB"), side("b", work_mem="64MB"))
    assert not found.differences


def test_a_value_that_a_server_refuses_is_told():
    [one] = conf_diff(side("a", jit="maybe"), side("b", jit="off")).differences
    assert (one.before, one.after) == ("maybe", "off")
    assert "requires a Boolean" in one.note


def of_version(version_num: int, **boot_values: str) -> SettingsCatalog:
    """Return 18's settings as those of another version, with some defaults otherwise."""
    known = catalog().settings
    other = {name: replace(known[name], boot_value=value) for name, value in boot_values.items()}
    return SettingsCatalog(version_num, {**known, **other})


def test_a_default_that_changed_is_told_from_a_setting_that_somebody_made():
    older = of_version(150018, effective_io_concurrency="1", unix_socket_directories="/run")
    found = conf_diff(side("15", older, work_mem="8MB"), side("18"))
    assert {x.name: x.why for x in found.differences} == {
        "effective_io_concurrency": Why.DEFAULT,
        "unix_socket_directories": Why.BUILD,
        "work_mem": Why.SET,
    }


def test_a_renamed_setting_is_one_setting_in_both_versions():
    newer = catalog()
    settings = {name: x for name, x in newer.settings.items() if name != "debug_parallel_query"}
    former = replace(newer.settings["debug_parallel_query"], name="force_parallel_mode")
    older = SettingsCatalog(150018, {**settings, "force_parallel_mode": former})
    assert not conf_diff(side("15", older), side("18")).differences
    [one] = conf_diff(side("15", older, force_parallel_mode="on"), side("18")).differences
    assert (one.name, one.before, one.after) == ("debug_parallel_query", "on", "off")
    assert one.note == "force_parallel_mode in 15.18"


def test_the_list_of_what_to_log_is_empty_where_it_was_off():
    older = of_version(170000, log_connections="off")
    assert not conf_diff(side("17", older), side("18")).differences


@pytest.mark.parametrize(
    ("version_num", "written", "meant"),
    [
        (180006, ("force_parallel_mode", "on"), ("debug_parallel_query", "on")),
        (150018, ("debug_parallel_query", "on"), ("force_parallel_mode", "on")),
        (160000, ("wal_keep_segments", "8"), ("wal_keep_size", "128MB")),
        (160000, ("wal_keep_segments", "0"), ("wal_keep_size", "0")),
        (160000, ("wal_keep_segments", "few"), ("wal_keep_segments", "few")),
        (190000, ("io_workers", "3"), ("io_max_workers", "3")),
        (180006, ("io_workers", "3"), ("io_workers", "3")),
        (180006, ("checkpoint_segments", "3"), ("checkpoint_segments", "3")),
        (180006, ("work_mem", "8MB"), ("work_mem", "8MB")),
    ],
)
def test_a_setting_is_known_by_the_name_of_the_version(version_num, written, meant):
    assert translated(version_num, *written) == meant

"""What a configuration's lines mean, what is wrong with them, and in what two configurations differ."""

from pathlib import Path

import pytest
from test_search_space import catalog

from pgdrag.experiment.conf_diff import Side, conf_diff
from pgdrag.experiment.conf_lines import ConfLine, Severity, conf_lines
from pgdrag.experiment.formats import Source, read_source
from pgdrag.host.allowance import Allowance
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
        "not set in b",
    )


def test_of_two_versions_defaults_and_settings_of_one_alone_differ():
    newer = catalog()
    older = SettingsCatalog(
        150018,
        {name: one for name, one in newer.settings.items() if name != "io_workers"},
    )
    [one] = conf_diff(side("15", older), side("18", newer)).differences
    assert (one.name, one.before, one.note) == ("io_workers", None, "not in 15.18")
    assert one.after == newer.settings["io_workers"].boot_value


def test_a_former_name_is_the_same_setting():
    found = conf_diff(side("a", sort_mem="64MB"), side("b", work_mem="64MB"))
    assert not found.differences


def test_a_value_that_a_server_refuses_is_told():
    [one] = conf_diff(side("a", jit="maybe"), side("b", jit="off")).differences
    assert (one.before, one.after) == ("maybe", "off")
    assert "requires a Boolean" in one.note

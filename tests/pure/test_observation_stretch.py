"""A stretch of observations: which moments people mean, what every format shows, and what tables bring back."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from observed import BEGAN, QUANTITIES, hasty, sample
from pgdrag.errors import ObservationsError, UsageError
from pgdrag.model.observed import (
    GAP,
    RESTARTED,
    ObservedServer,
    Sample,
    Setting,
    Spread,
    Statement,
    StatementTotals,
    Stretch,
    Wait,
)
from pgdrag.model.recordings import Event
from pgdrag.observations.export import TABLES, export_tables
from pgdrag.observations.store import LEAST_BYTES, ObservationReader, ObservationWriter
from pgdrag.observations.stretch import moment, read_stretch
from pgdrag.report.document import TimeSeries
from pgdrag.report.series_script import series_json, series_of
from pgdrag.report.stretch.blocks import stretch_parts
from pgdrag.report.stretch.formats import (
    render_stretch_html,
    render_stretch_json,
    render_stretch_markdown,
    stretch_terminal_text,
)
from pgdrag.report.stretch.text import render_stretch_text
from table_reading import read_tables

SAMPLES = 120
GAP_AT = 60  # the sample that is missing


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with 20 minutes of samples but one, a gap and a restart."""
    path = tmp_path_factory.mktemp("stretch") / "shop.obs"
    writer = hasty(ObservationWriter.create(path, began_unix_s=BEGAN, most_bytes=50 << 20))
    writer.append_server(BEGAN, ObservedServer('database "shop" on db1, port 5432', "18.6", "7"))
    writer.append_settings(
        BEGAN,
        [
            Setting("work_mem", "65536kB", "4096kB"),
            Setting("fsync", "on", "on"),
            Setting("archive_command", "***", ""),
        ],
    )
    for x in range(SAMPLES):
        if x != GAP_AT:
            writer.append_sample(sample(x), QUANTITIES)
    writer.append_event(Event(GAP, BEGAN + 600, BEGAN + 610, "the server did not answer"))
    writer.append_event(Event(RESTARTED, BEGAN + 610, None, "PostgreSQL 18.6"))
    writer.close()
    return path


@pytest.fixture(scope="module")
def stretch(path: Path) -> Stretch:
    return read_stretch(path)


# --- which moments


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("begin", BEGAN),
        ("END", BEGAN + 1200),
        ("10min", BEGAN + 600),
        ("-10 min ago", BEGAN + 600),
        ("2025-11-24T16:10:00+00:00", BEGAN + 600),
        ("2025-11-24 17:10+01:00", BEGAN + 600),
    ],
)
def test_a_moment_is_a_date_or_a_time_before_the_end(text: str, expected: float) -> None:
    assert moment(text, "--from", began_unix_s=BEGAN, ended_unix_s=BEGAN + 1200) == expected


def test_a_time_of_day_is_of_the_last_day() -> None:
    found = moment("00:30:10", "--to", began_unix_s=BEGAN, ended_unix_s=BEGAN + 1200)
    day = datetime.fromtimestamp(BEGAN + 1200).astimezone()
    assert datetime.fromtimestamp(found).astimezone() == day.replace(hour=0, minute=30, second=10)


@pytest.mark.parametrize(
    "text", ["soon", "25:00", "12:61", "", "2026-13-01", "3 parsecs", "9" * 40]
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--from"):
        moment(text, "--from", began_unix_s=BEGAN, ended_unix_s=BEGAN + 1200)


def test_a_stretch_has_the_samples_of_its_time(path: Path) -> None:
    part = read_stretch(path, "10min", "5min")
    assert (part.began_unix_s, part.ended_unix_s) == (BEGAN + 610, BEGAN + 900)
    assert part.samples == 29
    with pytest.raises(UsageError, match="is not before"):
        read_stretch(path, "5min", "10min")
    with pytest.raises(ObservationsError, match="no sample from"):
        read_stretch(path, "2020-01-01", "2020-01-02")


# --- what is shown


def test_every_format_has_server_load_waits_statements_and_events(stretch: Stretch) -> None:
    for text in (
        render_stretch_html(stretch).replace("&#34;", '"'),
        render_stretch_markdown(stretch),
        stretch_terminal_text(stretch),
        render_stretch_text(stretch),
    ):
        for words in (
            "database",
            "shop",
            "18.6",
            "DataFileRead",
            "FROM t",
            "restart",
            "did not answer",
        ):
            assert words in text, text


def test_waits_of_no_process_are_none_in_every_format(tmp_path: Path) -> None:
    path = tmp_path / "idle.obs"
    with_waits = sample(0)
    idle = replace(with_waits, waits=dict.fromkeys(with_waits.waits, 0.0))
    writer = hasty(ObservationWriter.create(path, began_unix_s=BEGAN, most_bytes=LEAST_BYTES))
    writer.append_sample(idle, QUANTITIES)
    writer.close()
    stretch = read_stretch(path)
    for render in (render_stretch_html, render_stretch_markdown, stretch_terminal_text, render_stretch_text):  # fmt: skip
        assert "DataFileRead" not in render(stretch)


def test_the_json_has_all_of_it(stretch: Stretch) -> None:
    found = json.loads(render_stretch_json(stretch))
    assert found["server"]["version"] == "18.6"
    assert len(found["series"][-1]["mean"]) == SAMPLES - 1
    assert found["observed_s"] == 1190
    assert {x["kind"] for x in found["events"]} == {GAP, RESTARTED}


def test_a_gap_is_a_gap_in_every_line_and_the_axis_has_the_time_of_day(stretch: Stretch) -> None:
    blocks = [block for part in stretch_parts(stretch) for block in part.blocks]
    (figure,) = series_of(blocks)
    assert isinstance(figure, TimeSeries)
    assert figure.recording.began_unix_s == BEGAN
    for panel in figure.recording.panels:
        for trace in panel.traces:
            assert trace.begin_s == 0
            assert [at for at, x in zip(trace.times_s, trace.values, strict=True) if x is None] == [
                610
            ]
    assert json.loads(series_json([figure]))["recordings"][0]["began"] == BEGAN


def test_only_settings_that_were_changed_are_shown(stretch: Stretch) -> None:
    text = render_stretch_text(stretch)
    assert "work_mem = 65536kB" in text
    assert "archive_command = ***" in text
    assert "fsync" not in text


def test_the_compact_text_is_compact_whatever_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "large.obs"
    writer = hasty(ObservationWriter.create(path, began_unix_s=BEGAN, most_bytes=50 << 20))
    writer.append_server(BEGAN, ObservedServer("db", "18.6"))
    writer.append_settings(BEGAN, [Setting(f"s{x}", "9" * 500, "") for x in range(300)])
    for x in range(50):
        writer.append_sample(sample(x, text_bytes=1900, statements=40), QUANTITIES)
        writer.append_event(Event(GAP, BEGAN + x, BEGAN + x + 1, "words " * 90))
    writer.close()
    assert len(render_stretch_text(read_stretch(path))) < 20_000


def test_what_was_thinned_and_dropped_is_said(tmp_path: Path) -> None:
    path = tmp_path / "thin.obs"
    writer = hasty(ObservationWriter.create(path, began_unix_s=BEGAN, most_bytes=LEAST_BYTES))
    for x in range(900):
        writer.append_sample(sample(x, length_s=30, statements=25), QUANTITIES)
    writer.close()
    found = read_stretch(path)
    text = render_stretch_text(found)
    assert "thinned to means over" in text
    assert ("were dropped" in text) == (found.dropped_until_unix_s is not None)


# --- tables


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_tables_have_every_sample(
    path: Path, tmp_path: Path, form: Literal["csv", "parquet"]
) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow")
    directory = tmp_path / "tables"
    paths = export_tables(path, BEGAN, BEGAN + 1200, directory, form)
    assert {x.stat().st_mode & 0o777 for x in paths} == {0o600}
    tables = read_tables(TABLES, directory, form)
    assert {name: len(rows) for name, rows in tables.items()} == {
        "samples": 119, "values": 119 * 6, "waits": 119 * 3, "statements": 119 * 8, "events": 2, "settings": 3,
    }  # fmt: skip
    with ObservationReader(path) as reader:
        written = list(reader.samples(BEGAN, BEGAN + 1200))
    assert [x["mean"] for x in tables["values"]] == [
        x.mean for one in written for x in one.values.values()
    ]
    assert [(x["statement"], x["exec_s"]) for x in tables["statements"]] == [
        (x.text, totals.exec_s) for one in written for x, totals in one.statements.items()
    ]
    assert [x["ended"].timestamp() for x in tables["samples"]] == [x.ended_unix_s for x in written]  # type: ignore[union-attr]
    with pytest.raises(UsageError, match="exists already"):
        export_tables(path, BEGAN, BEGAN + 1200, directory, form)


ANY_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)
ANY_NUMBER = st.floats(0, 1e100)


@settings(max_examples=25)
@given(ANY_TEXT, ANY_TEXT, ANY_NUMBER, st.integers(0, 10**17), st.sampled_from(["csv", "parquet"]))
def test_any_values_survive_a_table(
    tmp_path_factory: pytest.TempPathFactory,
    database: str,
    text: str,
    number: float,
    calls: int,
    form: Literal["csv", "parquet"],
) -> None:
    if form == "parquet":
        pytest.importorskip("pyarrow")
    directory = tmp_path_factory.mktemp("any")
    path = directory / "x.obs"
    writer = hasty(ObservationWriter.create(path, began_unix_s=BEGAN, most_bytes=LEAST_BYTES))
    uses = {Statement(database, text): StatementTotals(calls, 0, number, 0, 0, 0, 0, 0, 0)}
    spread = Spread(number, 0.0, number, 10.0)
    writer.append_sample(
        Sample(
            BEGAN,
            BEGAN + 10,
            10.0,
            BEGAN,
            {QUANTITIES[0].name: spread},
            {Wait(text, database): number},
            uses,
        ),
        QUANTITIES,
    )
    writer.append_event(Event("x", BEGAN, None, text))
    writer.close()
    export_tables(path, BEGAN, BEGAN + 10, directory / "tables", form)
    tables = read_tables(TABLES, directory / "tables", form)
    ((use,), (value,), (wait,), (event,)) = (
        tables[x] for x in ("statements", "values", "waits", "events")
    )
    assert (use["database"], use["statement"], use["calls"], use["exec_s"]) == (
        database,
        text,
        calls,
        number,
    )
    assert (value["mean"], value["low"], value["known_s"]) == (number, 0.0, 10.0)
    assert (wait["backend_type"], wait["wait"], wait["processes"]) == (text, database, number)
    assert (event["ended"], event["text"]) == (None, text)


def test_parquet_without_its_package_names_the_extra(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match="pyarrow, which is not installed") as raised:
        export_tables(path, BEGAN, BEGAN + 1200, tmp_path / "x", "parquet")
    assert "pgdrag[parquet]" in (raised.value.hint or "")
    assert not (tmp_path / "x").exists()


# --- long stretches


def test_a_long_stretch_is_condensed_and_keeps_sums(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read_stretch(path)
    monkeypatch.setattr("pgdrag.observations.stretch.MOST_INTERVALS", 10)
    short = read_stretch(path)
    assert (whole.condensed, short.condensed) == (1, 12)
    assert short.samples == whole.samples
    for one, other in zip(whole.series, short.series, strict=True):
        assert len(other.spreads) <= 11
        assert other.whole.mean == pytest.approx(one.whole.mean)
        assert (other.whole.low, other.whole.high) == (one.whole.low, one.whole.high)
    assert "Each interval shown is of 12 samples" in render_stretch_text(short)

"""The section on row versions shows what the collectors sampled, from first to last."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.model import Observation, Outcome
from pgdrag.model.recordings import (
    ChainLink,
    HotChain,
    PageStrip,
    Recordings,
    Series,
    UpdateSample,
)
from pgdrag.report.document import Block, Details, Figure, Items, Lines, Paragraph, Table
from pgdrag.report.html import render_html
from pgdrag.report.sections.row_versions import RowVersionsSection
from pgdrag.report.trial_series import recording_of
from pgdrag.testing.conformance_sections import STUDY, findings_of
from pgdrag.testing.simulated import Truth

PLAN = {"Node Type": "ModifyTable", "Operation": "Update", "Plans": [{"Node Type": "Seq Scan"}]}


def strips(name: str, columns: int = 3, moments: int = 2) -> tuple[PageStrip, ...]:
    def noise(salt: int) -> tuple[float, ...]:
        return tuple(float((at * 7919 + salt) % 97) for at in range(columns))

    return tuple(
        PageStrip(name, float(at), columns, columns, 8192, *map(noise, range(5)), (9,) * columns)
        for at in range(moments)
    )


def update(at_s: float, buffers: int, way: str, *, has_plan: bool) -> UpdateSample:
    plan = PLAN if has_plan else None
    return UpdateSample("count", "UPDATE counters", at_s, buffers, 2, 1.0, 1e-4, way, plan)


def series(name: str, first: float, last: float) -> Series:
    return Series(name, name, "count", (0.0, 9.0), (first, last))


def futile(count: float, took_s: float, pages: float) -> tuple[Observation, ...]:
    return (
        Observation("futile_vacuums", "f", count, "count", 1),
        Observation("futile_vacuum_s", "f", took_s, "s", 1),
        Observation("futile_vacuum_pages", "f", pages, "count", 1),
    )


SEEN = Recordings(
    (
        series("dead_versions_per_row", 0.0, 2990.2),
        series("hot_chain_length", 1.0, 1.9),
        series("hot_chain_length_max", 1.0, 12.0),
        series("buffers_per_update", 4, 77),
        *strips("public.counters"),
        update(0.0, 4, "sequential scan of counters", has_plan=True),
        update(5.0, 60, "index scan of counters", has_plan=False),
        update(9.0, 75, "index scan of counters", has_plan=True),
    )
)


@cache
def plain_findings() -> Findings:
    return findings_of(STUDY, Truth())


def with_rung(recordings: Recordings, evidence: tuple[Observation, ...] = ()) -> Findings:
    findings = plain_findings()
    [first, *_] = findings.rungs
    rung = replace(first, recordings=recordings, evidence=evidence)
    return replace(findings, rungs=(rung,))


def blocks(findings: Findings) -> list[Block]:
    return list(RowVersionsSection().blocks(findings))


def name_of(findings: Findings) -> str:
    return findings.rungs[0].rung.name


def test_the_table_has_the_first_and_the_last_value() -> None:
    findings = with_rung(SEEN, futile(5, 0.05, 856))
    [_, table, *_] = blocks(findings)
    assert isinstance(table, Table)
    assert [column.title for column in table.columns] == [
        "Rung",
        "Old versions per row",
        "HOT chain, mean",
        "Buffers per update",
        "Futile vacuums",
    ]
    [row] = table.rows
    assert [cell.text for cell in row[1:]] == ["0 → 2,990", "1 → 1.9", "4 → 77", "5"]
    assert (row[2].note, row[4].note) == ("longest 12", "50 ms, 856 pages")


def test_the_largest_indexes_are_named_with_their_sizes() -> None:
    sizes = {"g1_pkey": 13 << 20, "g1_expr": 3 << 20}
    each = tuple(
        Series(f"index_bytes_of_{name}", f"size: {name}", "bytes", (0.0, 9.0), (0.0, float(size)))
        for name, size in sizes.items()
    )
    whole = Series("index_bytes", "size", "bytes", (0.0, 9.0), (8192.0, float(16 << 20)))
    findings = with_rung(Recordings((whole, *each)))
    [_, table, *_] = blocks(findings)
    assert isinstance(table, Table)
    cell = table.rows[0][1]
    assert (cell.text, cell.note) == ("8 kB → 16 MB", "g1_pkey 13 MB, g1_expr 3 MB")
    panels = recording_of(findings.rungs[0], 10).panels
    [both] = [panel for panel in panels if panel.title == "Size, each"]
    assert [trace.label for trace in both.traces] == ["g1_pkey", "g1_expr"]


def test_the_terminal_has_a_sentence_a_rung() -> None:
    findings = with_rung(SEEN)
    [_, items] = RowVersionsSection().brief(findings)
    name = name_of(findings)
    assert items == Items((f"{name}: old versions per row 0 → 2,990; buffers per update 4 → 77.",))


def test_an_update_has_its_samples_and_its_first_and_last_plan() -> None:
    findings = with_rung(SEEN)
    [*_, told] = blocks(findings)
    assert isinstance(told, Details)
    assert told.summary == f"Update on {name_of(findings)}: UPDATE counters"
    table, *plans = told.blocks
    assert isinstance(table, Table)
    assert [row[-1].text for row in table.rows] == [
        *("sequential scan of counters", "index scan of counters", "the same")
    ]
    assert [cell.text for cell in table.rows[-1][:-1]] == ["9 s", "77", "2", "1", "100 µs"]
    assert [each.text for each in plans if isinstance(each, Paragraph)] == ["At 0 s:", "At 9 s:"]


def test_plans_are_cut_where_there_are_many_updates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgdrag.report.sections.row_versions._ALL_PLANS_BYTES", 120)
    [*_, told] = blocks(with_rung(SEEN))
    assert isinstance(told, Details)
    [last] = [each for each in told.blocks if isinstance(each, Lines)]
    assert last.text.startswith("Update")
    assert told.blocks[-1] == replace(told.blocks[-1], text="1 more plan in the JSON report.")  # type: ignore[call-overload]


def test_the_section_says_why_nothing_was_sampled() -> None:
    reason = {"row_versions": "extension pageinspect cannot be had", "slru": "is another's"}
    findings = with_rung(Recordings(missing=reason))
    assert RowVersionsSection().applies(findings)
    text = f"{name_of(findings)}: no row versions: extension pageinspect cannot be had."
    assert blocks(findings) == [Items((text,))]
    assert not RowVersionsSection().applies(with_rung(Recordings()))


def test_a_rung_with_wrong_results_is_marked() -> None:
    findings = with_rung(SEEN)
    [rung] = findings.rungs
    first = next(x for x in findings.run.results if x.trial.treatment == rung.rung.treatment)
    wrong = replace(first, outcome=Outcome.INVALID, violations=("lost",), recordings=SEEN)
    bare = replace(rung, recordings=Recordings())
    findings = replace(findings, rungs=(bare,), run=replace(findings.run, results=(wrong,)))
    [_, table, *_] = blocks(findings)
    assert isinstance(table, Table)
    assert table.rows[0][0].note == "results were wrong"
    [_, items] = RowVersionsSection().brief(findings)
    assert isinstance(items, Items)
    assert items.texts[0].startswith(f"{name_of(findings)} (results were wrong): old versions")
    sound = replace(findings.run, results=(replace(wrong, violations=()),))
    assert not RowVersionsSection().applies(replace(findings, run=sound))


def test_the_pictures_of_many_rungs_share_their_room() -> None:
    findings = with_rung(
        Recordings((*SEEN.series, *strips("public.counters", columns=200, moments=6)))
    )
    rungs: tuple[TreatmentFinding, ...] = findings.rungs * 30
    found = [
        figure.svg
        for one in blocks(replace(findings, rungs=rungs))
        if isinstance(one, Details)
        for figure in one.blocks
        if isinstance(figure, Figure)
    ]
    assert len(found) == 30
    assert sum(map(len, found)) < 150_000


def chains(moments: int) -> tuple[HotChain, ...]:
    link = ChainLink(1, "live", 0, 1, 55)
    return tuple(HotChain("public.counters", float(at), 0, 1, (link,)) for at in range(moments))


def test_the_first_and_the_last_chain_are_drawn_beside_the_pages() -> None:
    findings = with_rung(Recordings((*SEEN.series, *strips("public.counters"), *chains(4))))
    [pages] = [one for one in blocks(findings) if isinstance(one, Details)]
    _, figure = pages.blocks
    assert isinstance(figure, Figure)
    assert figure.text.splitlines() == [
        "at 0 s, page 0: 1 version",
        "  lp 1  xmin 55  xmax 0  ctid (0,1)  live",
        "at 3 s, page 0: 1 version",
        "  lp 1  xmin 55  xmax 0  ctid (0,1)  live",
    ]


def test_of_many_rungs_the_last_chain_alone_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pgdrag.report.sections.row_versions._ALL_CHAINS_BYTES", 1)
    findings = with_rung(Recordings((*SEEN.series, *strips("public.counters"), *chains(4))))
    [pages] = [one for one in blocks(findings) if isinstance(one, Details)]
    _, figure = pages.blocks
    assert isinstance(figure, Figure)
    assert figure.text.startswith("at 3 s")


def test_a_tables_name_is_escaped() -> None:
    page = render_html(with_rung(Recordings((*SEEN.series, *strips('public."<b>&"')))))
    assert "The pages of public.&#34;&lt;b&gt;&amp;&#34; on" in page
    assert "<b>" not in page

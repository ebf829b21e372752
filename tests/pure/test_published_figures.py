"""Is each figure that the studies published in a claim of the catalogue? The list is theirs, and not the catalogue's."""

from __future__ import annotations

import pytest

from pgdrag.experiment import shipped_experiments
from pgdrag.findings.values import Answer
from pgdrag.report.claims_page import ClaimedStudy

# By experiment: words of the claim that holds each figure, as the article, its log, or the talk has it.
FIGURES = {
    "slow-42k": {
        "42,000 times slower": "the title",
        "442,625×": "7082/0.016 TPS",
        "11 transactions completed in 120 s": "A6's count",
        "at least one transaction": "the rule of the game",
        "1,052/s, 6.73× slower than A0": "A1: 1/7",
        "485/s, 14.6× slower than A0": "A2",
        "485/s, 2.17× slower than A1": "A2, the step",
        "293/s, 24.2× slower than A0": "A3: 1/20",
        "98/s, 72.3× slower than A0": "A4: 1/70",
        "0.87/s, 8,140× slower than A0": "A5: over 7000×",
        "0.016/s, 54.4× slower than A5": "A6, the step",
        "99.90 % of the blocks": "hit ratio of A0",
        "from 99.90 % to 70.52 %": "hit ratio of A1",
        "300 times as many read system calls": "about 300, nearly 300, over 300",
        "vacuumed every second": "A3's log",
        "analysed every second": "A3's log",
        "almost nothing is removed": "A3's log",
        "every 487 ms": "A4's log",
        "19 or 18 buffers": "A4's log",
        "too frequently": "A4's log",
        "indexes are no longer used": "A5",
        "about 12 times slower": "a re-run with pgbench",
    },
    "smallest-cache": {"about 2MB is the least": "A2", "128kB fails": "A2"},
    "slow-42k-beliefs": {
        "open_datasync is the slowest": "A4",
        "no autovacuum costs less": "A3",
        "sequential scans fail at 2MB": "A5",
        "8MB instead of 2MB hardly matters": "A5",
    },
    "os-io": {"1.65× faster than B1": "+65.09 %", "read_ahead_kb and noatime": "most of it"},
    "global-counters": {
        "7,228, 6,591, 6,011, 5,503, 4,575 and 4,361/s": "C2",
        "about 1000 TPS after an hour": "C2",
        "5,340.2, 4,592.3, 3,873.7, 3,540.9, 3,227.5 and 2,376.6/s": "C3",
        "C3 is worse than C2": "C3",
        "1,176.4, 1,182.8, 1,117.8, 1,117.4, 1,034.8 and 994.2/s": "C4",
        "steady: 5,763.7/s": "C5: 5649.4, 5749.6, 5892.2",
        "steady at 6400 s": "C5",
        "about 1040 TPS inside one advisory lock": "C6",
        "about 3594 TPS with one lock a row": "C7",
        "5,360, 4,379, 3,832 and 3,403/s": "C8",
        "1527.2 TPS in the seconds from 115 to 120": "C8",
        "10 buffers": "C5",
        "13 buffers": "C8",
        "13 MB and 3064 kB": "C8",
        "C9 is slower than C2": "C9",
        "falls with the length of the hold": "all",
        "length of the hold that decides, and not bloat": "all",
        "not fall linearly": "all",
        "27.74 s for 516,654 pages": "the log",
        "latencies": "what pgbench prints",
        "steady at about 5000 TPS, and about 1000": "the talk",
    },
    "counters-in-production": {
        "steady: 5,000/s": "the talk, nobody holds",
        "about 1000 TPS after an hour": "the talk, held",
        "steady for an hour": "the talk, nobody holds",
    },
    "hot-table-readers": {
        "so do queries": "readers",
        "27.74 s for 516,654 pages": "the log",
        "bloat the catalogs": "the log",
    },
}


@pytest.mark.parametrize("name", FIGURES)
def test_each_published_figure_has_one_claim_that_a_scale_answers_or_a_reason_why_none_does(
    name: str,
) -> None:
    experiment = shipped_experiments()[name]
    rows = ClaimedStudy.of([*map(experiment.study, experiment.scales)], []).claims
    for words in FIGURES[name]:
        found = [row for row in rows if words in row.claim.text]
        assert found, words
        for row in found:
            assert row.command or (row.claim.answer is Answer.UNTESTABLE and row.claim.why), words


def test_every_experiment_that_claims_anything_has_its_figures_here() -> None:
    """A figure that is entered into the catalogue alone has nobody who holds it against the text."""
    for name, experiment in shipped_experiments().items():
        rows = ClaimedStudy.of([*map(experiment.study, experiment.scales)], []).claims
        words = FIGURES.get(name, {})
        # Trends, and changes within a series, follow from the rates, which are here.
        loose = [
            row.claim.text
            for row in rows
            if row.claim.kind not in ("course", "slowdown", "order")
            and not any(one in row.claim.text for one in words)
        ]
        assert loose == [], name

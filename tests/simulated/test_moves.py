"""What does a treatment move? In a comparison as in an ablation: counted per transaction, and tested."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from test_one_interval import findings

from pgdrag.designs._moves import MoveFinding
from pgdrag.designs._moves_section import move_words
from pgdrag.designs.ablate.findings import AblateFinding
from pgdrag.designs.compare.findings import CompareFinding
from pgdrag.findings.values import Interval
from pgdrag.report.document import Shade, Table
from pgdrag.report.html import render_html
from pgdrag.report.markdown import render_markdown
from pgdrag.report.sections import sections_for
from pgdrag.testing.simulated import Truth

READ = "blocks_read_per_transaction"


def test_a_comparison_says_what_the_treatment_moves(tmp_path: Path) -> None:
    """All that makes the simulated server slow is that it reads more blocks."""
    truth = Truth(slowdowns={"a": 1.5}, noise=0.03, is_observed=True)
    found = findings(tmp_path, "compare", truth, "a", replicates=1)
    assert isinstance(found.found, CompareFinding)
    moved = {one.quantity: one for one in found.found.moves}
    assert READ in moved
    assert moved[READ].ratio.low > 1.5
    assert "wal_syncs_per_transaction" not in moved
    text = render_markdown(found)
    assert re.search(r"\| \*\*blocks read\*\* \| ▲ [\d.]+× \(", text), text


def test_a_comparison_of_a_treatment_with_itself_moves_hardly_anything(tmp_path: Path) -> None:
    moved = 0
    for at in range(10):
        (directory := tmp_path / str(at)).mkdir()
        truth = Truth(base_tps=900 + at, noise=0.03, is_observed=True)
        found = findings(directory, "compare", truth, "a", replicates=1, max_pairs=8).found
        assert isinstance(found, CompareFinding)
        moved += len(found.moves)
    assert moved <= 1


def test_an_ablation_shows_changes_and_quantities_as_a_grid(tmp_path: Path) -> None:
    truth = Truth(slowdowns={"b": 2.0}, noise=0.02, is_observed=True)
    found = findings(tmp_path, "ablate", truth, "a", "b", "c", "d")
    assert isinstance(found.found, AblateFinding)
    (grid,) = (
        block
        for section in sections_for(found)
        for block in section.blocks(found)
        if isinstance(block, Table) and block.caption.startswith("What each change moves")
    )
    assert [row[0].text for row in grid.rows] == ["all together", "b"]
    (at,) = (at for at, column in enumerate(grid.columns) if column.title == "blocks read")
    for row, moves in zip(
        grid.rows,
        (found.found.moves, next(x.moves for x in found.found.changes if x.name == "b")),
        strict=True,
    ):
        (read,) = (one for one in moves if one.quantity == READ)
        assert row[at].text.startswith("▲ ")
        assert float(row[at].text[2:-1]) == pytest.approx(read.ratio.center, rel=0.01)
        assert row[at].shade is (Shade.MUCH_MORE if read.ratio.center >= 2 else Shade.MORE)
        assert math.isfinite(read.false_rate)
    # The sign stands in words, so that it needs no colour.
    assert re.search(r'<td class="more( large)?">▲ ', render_html(found))


def test_of_a_quantity_per_transaction_only_the_amount_is_named() -> None:
    ratio = Interval.of_logs(0.6, math.log(2), 0.8, 0.95, "t interval")
    label = "sessions' time on a processor, or waiting for one, per transaction"
    found = MoveFinding("on_processor", label, ratio, 0.001)
    assert move_words(found) == "sessions' time on a processor, or waiting for one 2×"

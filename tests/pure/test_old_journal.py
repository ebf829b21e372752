"""A journal that pgdrag wrote before its modules and values were rearranged still reports.

See the fixture `old_home`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from in_process import pgdrag

# Numbers and names that b74b73b itself printed of each run.
FOUND = {
    "old-ladder": ("572×", "1.05×", "193", "0.835"),
    "compare": ("65.5×", "40.2", "107", "slower"),
    "ablate": ("56.7×", "46", "69.8", "enable_indexscan", "enable_bitmapscan"),
    "bisect": ("57.6×", "72.1×", "enable_indexscan", "enable_bitmapscan"),
    "boundary": ("1MB", "64MB", "shared_buffers"),
}

Report = Callable[..., str]


@pytest.fixture
def report(old_home: Path) -> Report:
    """Runs `pgdrag report` on the old journal."""

    def run(name: str, form: str) -> str:
        status, out, err = pgdrag("report", name, "--format", form, PGDRAG_HOME=str(old_home))
        assert status == 0, err
        return out

    return run


@pytest.mark.parametrize("name", FOUND)
def test_each_run_reports_the_numbers_that_it_reported_when_it_was_made(
    report: Report, name: str
) -> None:
    text = report(name, "terminal")
    assert [each for each in FOUND[name] if each not in text] == []


def test_its_json_report_has_all_trials(report: Report) -> None:
    assert len(json.loads(report("ablate", "json"))["trials"]) == 46

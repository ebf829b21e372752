"""The picture of a verdict: of the size that links show, from any run, the same each time."""

from __future__ import annotations

import lzma
import struct
import sys
import zlib
from pathlib import Path

import pytest

from analysis_runs import result, run_of, rung, three_of
from in_process import pgdrag
from pgdrag.errors import UsageError
from pgdrag.findings.find import find
from pgdrag.report.share_picture import render_png
from pgdrag.testing.conformance_sections import every_state

OLD = Path(__file__).parent / "journals" / "b74b73b.sqlite.xz"
RUNGS = [rung("A0"), rung("A1", 600.0), rung("A2")]
TRIALS = [*three_of("A0", 60_000), *three_of("A1", 6_000), result("A2", 0, number=7)]


def rows_of_pixels(png: bytes) -> list[bytes]:
    """The filtered rows of a PNG, to tell a blank one from a drawn one."""
    at, data = 8, b""
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += length + 12
    raw = zlib.decompress(data)
    return [raw[start : start + 1 + 4 * 1200] for start in range(0, len(raw), 1 + 4 * 1200)]


def test_a_picture_has_the_size_that_links_show_and_something_on_it():
    png = render_png(find(run_of(RUNGS, TRIALS)))
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", png[16:24]) == (1200, 630)
    drawn = [len(set(row)) > 8 for row in rows_of_pixels(png)]
    assert sum(drawn) > 100
    bare = find(run_of(RUNGS[:1], []))
    assert sum(len(set(row)) > 8 for row in rows_of_pixels(render_png(bare))) < sum(drawn)


def test_the_same_findings_give_the_same_picture():
    assert render_png(find(run_of(RUNGS, TRIALS))) == render_png(find(run_of(RUNGS, TRIALS)))


def test_every_design_in_every_state_has_a_picture():
    for findings in every_state():
        assert render_png(findings)[:4] == b"\x89PNG"


def test_without_the_library_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match="needs the package matplotlib") as error:
        render_png(find(run_of(RUNGS, TRIALS)))
    assert "pgdrag[png]" in str(error.value.hint)


def test_the_command_writes_it_beside_the_report_and_rm_removes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "journal.sqlite").write_bytes(lzma.decompress(OLD.read_bytes()))
    monkeypatch.setenv("PGDRAG_HOME", str(tmp_path))
    status, out, err = pgdrag("report", "compare", "--format", "png")
    assert (status, err) == (0, "")
    written = Path(out.strip())
    assert (written.parent, written.suffix) == (tmp_path / "reports", ".png")
    assert written.read_bytes()[:4] == b"\x89PNG"
    status, out, _ = pgdrag("rm", "compare", "--yes")
    assert status == 0
    assert "and its report" in out
    assert not written.exists()

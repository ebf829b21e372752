"""What cannot be meant by the horizon's commands is told in a line or two, before any server is asked."""

from __future__ import annotations

import sys

import pytest

from pgdrag.cli import run_command
from pgdrag.cli.ending import status_of

pytestmark = pytest.mark.usefixtures("no_libpq_environment")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("horizon", "hold", "--for", "ten"), '--for: "ten" is not a duration'),
        (("horizon", "hold", "--for", "2d"), '--for "2d" is out of range'),
        (("horizon", "hold", "--for", "10m"), "no server was named"),
        (("horizon", "hold", "--kind", "slot"), 'cannot hold the horizon by "slot"'),
        (("horizon", "show"), "no server was named"),
        (("horizon", "show", "host=/nowhere dbname=x"), "could not connect"),
        (("capture", "horizon"), "no server was named"),
        (("capture", "horizon", "--for", "1s", "--every", "1s"), "two samples"),
        (("capture", "horizon", "--for", "1s", "--every", "0"), "out of range"),
        (("capture", "horizon", "--output", "/"), "is a directory"),
        (("capture", "horizon", "--output", "/nowhere/f.toml"), "no such directory"),
        (("horizon", "show", "host=\udcff"), "the connection string is not UTF-8"),
        (("capture", "horizon", "postgresql://me:hush%zz@db1/x"), "percent-encoding"),
    ],
)
def test_misuse_is_told_without_a_traceback(
    arguments: tuple[str, ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["pgdrag", *arguments])
    status = status_of(run_command)
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert words in " ".join(err.split())
    assert "hush" not in err

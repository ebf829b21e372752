"""What may change is named by one option or several, with commas or without."""

from __future__ import annotations

from pathlib import Path

from pgdrag.cli.options import _names


def test_names_are_separated_by_commas_or_the_option_is_repeated() -> None:
    assert _names(["settings, restart", "os,/dev/vda,"]) == [
        "settings",
        "restart",
        "os",
        "/dev/vda",
    ]
    assert _names(None) is None


def test_a_path_with_a_comma_is_one_name(tmp_path: Path) -> None:
    mounted = tmp_path / "a,b"
    mounted.mkdir()
    assert _names([str(mounted)]) == [str(mounted)]

"""A tree of files that is not what was stored is found out, at next to no cost."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import pgdrag.servers.manifest as module
from pgdrag.servers.manifest import FileMark, Manifest, tree_damage, write_manifest

DAY_S = 24 * 3600


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    tree = tmp_path / "tree"
    (tree / "base" / "5").mkdir(parents=True)
    (tree / "pg_notify").mkdir()
    (tree / "PG_VERSION").write_text("18\n")
    (tree / "base" / "5" / "16401").write_bytes(b"rows" * 2048)
    (tree / "base" / "5" / "16402").touch()
    (tree / "link").symlink_to("PG_VERSION")
    return tree


@pytest.fixture
def note(tree: Path) -> Path:
    note = tree.with_name("tree.json")
    write_manifest(tree, note)
    return note


def rot(file: Path) -> None:
    """As a bad disk does it: neither size nor time tells."""
    found = file.stat()
    file.write_bytes(b"\xff" * found.st_size)
    os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns))


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (Path.unlink, 'file "base/5/16401" is missing'),
        (
            lambda file: file.write_bytes(b"rows"),
            'file "base/5/16401" has 4 bytes and not 8,192',
        ),
        (
            lambda file: file.write_bytes(bytes(8192)),
            'file "base/5/16401" has another content',
        ),
        (
            lambda file: (file.parent / "2").touch(),
            'file "base/5/2" was not stored with it',
        ),
        (
            lambda file: (file.parents[2] / "pg_notify").rmdir(),
            'directory "pg_notify" is missing',
        ),
        (
            lambda file: (file.unlink(), (file.parent / "16402").unlink()),
            'file "base/5/16401" is missing, and 1 other file too',
        ),
    ],
)
def test_what_a_cleaner_or_a_power_failure_does_is_seen_at_the_next_use(
    tree: Path, note: Path, harm: Callable[[Path], object], words: str
) -> None:
    assert tree_damage(tree, note) == ""
    harm(tree / "base" / "5" / "16401")
    assert tree_damage(tree, note) == words


def test_a_copy_by_another_tool_with_new_times_is_still_the_same(tree: Path, note: Path) -> None:
    for each in tree.rglob("*"):
        os.utime(each, (1, 1), follow_symlinks=False)
    assert tree_damage(tree, note) == ""


def test_contents_are_compared_once_a_day(
    tree: Path, note: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Path] = []
    checksum = module._checksum
    monkeypatch.setattr(module, "_checksum", lambda path: (read.append(path), checksum(path))[1])
    assert (tree_damage(tree, note), read) == ("", [])
    for long_ago_s in (-DAY_S - 60, DAY_S + 3600):  # also by a clock that was wrong
        os.utime(note, (note.stat().st_mtime + long_ago_s,) * 2)
        for _ in range(3):
            assert tree_damage(tree, note) == ""
        assert len(read) == 3
        read.clear()
    rot(tree / "base" / "5" / "16401")
    assert tree_damage(tree, note) == ""
    os.utime(note, (0, 0))
    for _ in range(2):  # and again, until somebody mends it
        assert tree_damage(tree, note) == 'file "base/5/16401" has another content'


@pytest.mark.parametrize("content", ["", "{", "[]", "3", '{"a": "b"}', '{"a": [1, 2, 3, 4]}'])
def test_a_list_of_files_that_is_none_is_damage(tree: Path, note: Path, content: str) -> None:
    note.write_text(content)
    assert tree_damage(tree, note).startswith("its list of files cannot be used: ")
    note.unlink()
    assert tree_damage(tree, note).startswith("its list of files cannot be used: ")


def test_a_manifest_comes_back_from_json_as_it_was(tree: Path) -> None:
    manifest = Manifest.of(tree)
    assert manifest.files.keys() == {
        *("PG_VERSION", "base/5/16401", "base/5/16402"),
        *("base/", "base/5/", "pg_notify/"),
    }
    assert Manifest.from_json(json.loads(json.dumps(manifest.to_json()))) == manifest
    assert Manifest.from_json({"old": 3}).files == {"old": FileMark(3)}

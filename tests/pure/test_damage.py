"""Errors about missing or torn files are recognised, no others are; copies are compared with what was stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdrag.errors import DatasetDamaged
from pgdrag.servers.copying import Copied
from pgdrag.servers.manifest import FileMark, Manifest
from pgdrag.servers.server_log import damage
from pgdrag.servers.snapshot import Snapshot


@pytest.mark.parametrize(
    ("text", "sqlstate"),
    [
        ('could not open file "base/5/16401": No such file or directory', "58P01"),
        (
            'could not open file "base/5/16401.1" (target block 131072): No such file or directory',
            None,
        ),
        ('could not open file "pg_xact/0000": No such file or directory', None),
        ('FATAL:  could not open directory "pg_notify": No such file or directory', None),
        ('could not read block 0 in file "base/5/1": read only 0 of 8192 bytes', None),
        ('could not read blocks 0..15 in file "base/5/1": read only 512 of 131072 bytes', None),
        ('invalid page in block 7 of relation "base/5/16401"', None),
        ('2 invalid pages among blocks 0..15 of relation "base/5/16401"', None),
        ("missing chunk number 0 for toast value 16409 in pg_toast_16403", "XX001"),
        ("FATAL:  incorrect checksum in control file", None),
        ("first line\n2026-11-23 [7] PANIC:  could not locate a valid checkpoint record", None),
    ],
)
def test_missing_and_torn_files_are_damage(text: str, sqlstate: str | None) -> None:
    words = damage([("canceling statement due to user request", "57014"), (text, sqlstate)])
    assert words
    assert words in text


@pytest.mark.parametrize(
    ("text", "sqlstate"),
    [
        ('could not access file "nosuch": No such file or directory', "58P01"),
        ('could not open file "base/pgsql_tmp/pgsql_tmp9.0": No such file or directory', "58P01"),
        ('could not open file "base/5/16401": Too many open files', "53000"),
        ('could not open directory "/usr/share/extension": No such file or directory', None),
        ('could not open directory "pg_notify": Too many open files', None),
        ('could not open file "base/5/16401": Permission denied', None),
        ('could not read blocks 0..0 in file "base/5/1": Input/output error', "58030"),
        ("deadlock detected", "40P01"),
        ("no unpinned buffers available", "53000"),
        ("", None),
    ],
)
def test_what_a_treatment_or_a_device_can_bring_about_is_not(
    text: str, sqlstate: str | None
) -> None:
    assert damage([(text, sqlstate)]) == ""


def marks(sizes: dict[str, int]) -> dict[str, FileMark]:
    return {name: FileMark(size) for name, size in sizes.items()}


STORED = {"PG_VERSION": 3, "base/5/16401": 16_384}


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"PG_VERSION": 3}, 'file "base/5/16401" is missing'),
        ({**STORED, "base/5/16401": 8_192}, 'file "base/5/16401" has 8,192 bytes and not 16,384'),
        ({**STORED, "base/5/9": 1}, 'file "base/5/9" was not stored with it'),
        ({}, 'file "PG_VERSION" is missing, and 1 other file too'),
    ],
)
def test_a_copy_with_other_files_than_were_stored_is_refused(
    found: dict[str, int], words: str
) -> None:
    manifest = Manifest(marks(STORED))
    snapshot = Snapshot("key", Path("there"), 18, 0, {}, manifest=manifest)
    with pytest.raises(DatasetDamaged) as caught:
        snapshot.refuse_damaged(Copied(marks(found), "copy"))
    assert caught.value.message == f"the snapshot of the dataset is damaged: {words}"
    assert caught.value.key == "key"


def test_a_whole_copy_and_one_of_an_older_snapshot_are_taken() -> None:
    # An older pgdrag noted sizes of files, but no directories, and a still older one nothing.
    for stored in (STORED, {}):
        manifest = Manifest.from_json(stored)
        Snapshot("key", Path("there"), 18, 0, {}, manifest=manifest).refuse_damaged(
            Copied(marks({**STORED, "base/": 0, "pg_notify/": 0}), "copy")
        )

"""What a treatment asks of its storage: understood, or told as what it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from pgdrag.errors import UsageError
from pgdrag.servers.storage_spec import StorageSpec


def test_no_levels_are_no_device():
    assert StorageSpec.of({}) is None


def test_a_size_is_enough_and_the_rest_has_defaults():
    spec = StorageSpec.of({"size": "1GB"})
    assert spec == StorageSpec(2**30, "ext4", (), None, direct_io=True, overwrite=False)
    assert (spec.words, spec.place) == ("1 GB of ext4 on a loop device", "ext4 on a loop device")


def test_every_level_is_read():
    levels = {
        "device": "/dev/sdb",
        "file_system": "xfs",
        "mkfs_options": "-b size=4096 -L 'two words'",
        "direct_io": "off",
        "overwrite": "yes",
    }
    spec = StorageSpec.of(levels)
    options = ("-b", "size=4096", "-L", "two words")
    assert spec == StorageSpec(0, "xfs", options, Path("/dev/sdb"), direct_io=False, overwrite=True)
    assert spec.words == "xfs on /dev/sdb"


def test_a_device_has_whole_pages():
    spec = StorageSpec.of({"size": f"{2**30 + 4097}"})
    assert spec is not None
    assert spec.size_bytes == 2**30 + 4096


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ({"size": "large"}, '"large" is not a size'),
        ({"size": "10MB"}, 'storage "size" cannot be 10MB: a cluster alone needs 128 MB'),
        ({"file_system": "ext4"}, "a scratch device needs a size"),
        ({"size": "1GB", "file_system": "zfs"}, 'storage "file_system" cannot be "zfs"'),
        ({"size": "1GB", "direct_io": "perhaps"}, 'storage "direct_io" cannot be "perhaps"'),
        ({"size": "1GB", "mkfs_options": "-L 'a"}, "cannot be read as words of a command"),
        ({"device": "sdb"}, 'storage "device" cannot be "sdb"'),
        ({"device": "/dev/sdb", "size": "1GB"}, "cannot have a size"),
        ({"sise": "1GB"}, 'storage has no "sise"'),
    ],
)
def test_what_cannot_be_understood_is_told(levels, words):
    with pytest.raises(UsageError, match=words):
        StorageSpec.of(levels)

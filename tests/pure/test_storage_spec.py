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
        "mkfs_options": "-bsize=4096 -L 'two words'",
        "direct_io": "off",
        "overwrite": "yes",
    }
    spec = StorageSpec.of(levels)
    options = ("-b", "size=4096", "-L", "two words")
    assert spec == StorageSpec(0, "xfs", options, Path("/dev/sdb"), direct_io=False, overwrite=True)
    assert spec.words == "xfs on /dev/sdb"


@pytest.mark.parametrize(
    ("file_system", "options"),
    [
        # Each names something else of this machine: another device to format, or files to copy.
        ("btrfs", "/dev/sdb"),
        ("btrfs", "-L scratch /dev/sdb"),
        ("btrfs", "-- /dev/sdb"),
        ("btrfs", "--rootdir /root"),
        ("btrfs", "-r/root"),
        ("xfs", "-l logdev=/dev/sdb"),
        ("xfs", "-llogdev=/dev/sdb,size=64m"),
        ("xfs", "-l size=64m,name=/dev/sdb"),
        ("xfs", "-d file,name=/root/a,size=1g"),
        ("xfs", "-d size=/dev/sdb"),
        ("xfs", "-r rtdev=/dev/sdb"),
        ("xfs", "-p /etc/shadow"),
        ("xfs", "-c options=/root/a"),
        ("ext4", "-d /root"),
        ("ext4", "-J device=/dev/sdb"),
        ("ext4", "-J size=64,device=/dev/sdb"),
        ("ext4", "-l /root/blocks"),
        ("ext4", "-z /root/undo"),
        ("ext4", "-e panic"),
        ("ext4", "-qF"),
        ("ext4", "-E nonsense"),
        ("ext4", "-b 4096 /dev/sdb"),
        ("ext4", "-L /dev/sdb"),
        ("ext4", "-b"),
    ],
)
def test_options_of_mkfs_that_are_not_known_are_refused(file_system, options):
    levels = {"size": "1GB", "file_system": file_system, "mkfs_options": options}
    with pytest.raises(UsageError, match=f"cannot be used for {file_system}: ") as refused:
        StorageSpec.of(levels)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("file_system", "options", "words"),
    [
        ("ext4", "-E stride=16,nodiscard -b 1024 -m 0", "-E stride=16,nodiscard -b 1024 -m 0"),
        ("ext4", "-O ^has_journal,bigalloc -i16384", "-O ^has_journal,bigalloc -i 16384"),
        ("xfs", "-m reflink=0 -d agcount=8,su=64k,sw=4", "-m reflink=0 -d agcount=8,su=64k,sw=4"),
        ("btrfs", "--nodesize=16k --csum xxhash", "--nodesize 16k --csum xxhash"),
    ],
)
def test_options_that_shape_the_file_system_are_taken(file_system, options, words):
    spec = StorageSpec.of({"size": "1GB", "file_system": file_system, "mkfs_options": options})
    assert spec is not None
    assert spec.mkfs_options == tuple(words.split())


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

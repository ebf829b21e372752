"""Which options of mkfs may a treatment have? Those that shape the file system and name nothing else.

Others name further devices to format (`logdev=`, `-J device=`), files of this machine to copy in (`-d`, `-p`,
`--rootdir`), or what the kernel does after an error (`-e panic`).
"""

from __future__ import annotations

import getopt
import re
import shlex
from collections.abc import Collection, Mapping

from pgdrag.errors import UsageError

_NUMBER = re.compile(r"\d+(\.\d+)?[kKmMgGtTsb]?")
_WORDS = re.compile(r"\^?[a-z0-9_-]+(,\^?[a-z0-9_-]+)*")
_LABEL = re.compile(r"[^-/\x00-\x1f\x7f][^/\x00-\x1f\x7f]*")
_SUBOPTION_VALUE = re.compile(r"[A-Za-z0-9_.]*")
# The value of an option: of this form, or sub-options such as "stride=16,nodiscard" with these names.
Value = re.Pattern[str] | frozenset[str]


def _named(names: str) -> frozenset[str]:
    return frozenset(names.split())


_XFS_EXTENT = "cowextsize extszinherit rtinherit projinherit"
_XFS_STRIPE = "sunit su swidth sw noalign"
KNOWN: Mapping[str, Mapping[str, Value]] = {
    "ext4": {
        "-b": _NUMBER,
        "-C": _NUMBER,
        "-E": _named(
            "stride stripe_width stripe-width lazy_itable_init lazy_journal_init nodiscard discard resize "
            "packed_meta_blocks num_backup_sb orphan_file_size assume_storage_prezeroed no_copy_xattrs"
        ),
        "-G": _NUMBER,
        "-g": _NUMBER,
        "-I": _NUMBER,
        "-i": _NUMBER,
        "-J": _named("size fast_commit_size"),
        "-L": _LABEL,
        "-m": _NUMBER,
        "-N": _NUMBER,
        "-O": _WORDS,
        "-T": _WORDS,
    },
    "xfs": {
        "-b": _named("size"),
        "-d": _named(f"agcount agsize concurrency {_XFS_STRIPE} {_XFS_EXTENT}"),
        "-i": _named("size perblock maxpct align attr projid32bit sparse nrext64 exchange"),
        "-L": _LABEL,
        "-l": _named("internal agnum size version sunit su lazy-count concurrency"),
        "-m": _named("crc finobt inobtcount bigtime reflink rmapbt"),
        "-n": _named("size version ftype"),
        "-s": _named("size"),
    },
    "btrfs": {
        "--checksum": _WORDS,
        "--csum": _WORDS,
        "--data": _WORDS,
        "--features": _WORDS,
        "--label": _LABEL,
        "--metadata": _WORDS,
        "--nodesize": _NUMBER,
        "--sectorsize": _NUMBER,
        "-d": _WORDS,
        "-L": _LABEL,
        "-m": _WORDS,
        "-n": _NUMBER,
        "-O": _WORDS,
        "-s": _NUMBER,
    },
}


def words_of(text: str) -> tuple[str, ...]:
    """Return options as a shell would split them, without checking which they are.

    Raises:
        UsageError: a quote is not closed.
    """
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(
            f'storage "mkfs_options" cannot be read as words of a command: {error}',
            hint='Write them as for a shell: mkfs_options = "-b 4096".',
        ) from None


def known_options(words: Collection[str], file_system: str) -> tuple[str, ...]:
    """Return the options of a file system's mkfs, each followed by its value, if all of them are known.

    Raises:
        UsageError: one is not in `KNOWN`, or its value names more than a size, a feature or a label.
    """
    known = KNOWN[file_system]
    short = "".join(f"{x[1:]}:" for x in known if not x.startswith("--"))
    long = [f"{x[2:]}=" for x in known if x.startswith("--")]
    try:
        options, rest = getopt.gnu_getopt(list(words), short, long)
    except getopt.GetoptError as error:
        raise _refused(file_system, error.msg) from None
    if rest:
        raise _refused(file_system, f'"{rest[0]}" belongs to no option')
    for option, value in options:
        _refuse_value(option, value, known[option], file_system)
    return tuple(word for pair in options for word in pair)


def _refuse_value(option: str, value: str, form: Value, file_system: str) -> None:
    if isinstance(form, re.Pattern):
        if not form.fullmatch(value):
            raise _refused(file_system, f'option {option} cannot be "{value}"')
        return
    for part in value.split(","):
        name, _, given = part.partition("=")
        if name not in form:
            raise _refused(file_system, f'option {option} has no "{name}"')
        if not _SUBOPTION_VALUE.fullmatch(given):
            raise _refused(file_system, f'"{name}" of option {option} cannot be "{given}"')


def _refused(file_system: str, why: str) -> UsageError:
    known = ", ".join(
        f"{option} ({', '.join(sorted(form))})" if isinstance(form, frozenset) else option
        for option, form in KNOWN[file_system].items()
    )
    return UsageError(
        f'storage "mkfs_options" cannot be used for {file_system}: {why}',
        detail="Options of mkfs that name other devices or files are refused.",
        hint=f"pgdrag knows {known}.",
    )

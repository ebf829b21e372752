"""Which pgbench scripts does a person mean? Built-in ones by name, others by file, with weights.

What the driver is told is the text: it reads no files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from pgdrag.english import did_you_mean
from pgdrag.errors import UsageError
from pgdrag.host.foreign_files import as_text, read_named
from pgdrag.host.nearest_file import nearest_file
from pgdrag.paths import is_file

LARGEST_SCRIPT_BYTES = 1_000_000
LARGEST_WEIGHT = 2**31 - 1


_WRITES = re.compile(r"\b(?:insert|update|delete|merge|truncate|copy)\b", re.IGNORECASE)
_BEGINS = re.compile(r"(?:^|;)\s*(?:begin|start\s+transaction)\b", re.IGNORECASE | re.MULTILINE)
# Prose has no line like this; a server may know more statements, which may stand beside one of these.
_BEGINNING = re.compile(
    r"(?:^|;|\*/)\s*(?:\\[a-z]|[(:]|(?:abort|alter|analyze|begin|call|checkpoint|close|cluster|comment|commit|copy|create|deallocate"
    r"|declare|delete|discard|do|drop|end|execute|explain|fetch|grant|import|insert|listen|load|lock|merge|move|notify|prepare"
    r"|reassign|refresh|reindex|release|repack|reset|revoke|rollback|savepoint|security|select|set|show|start|table|truncate"
    r"|unlisten|update|vacuum|values|wait|with)\b)",
    re.IGNORECASE | re.MULTILINE,
)


class Builtin(NamedTuple):
    """A script that pgbench has, too, and under the same name."""

    title: str
    text: str


class Script(BaseModel):
    """A script: its text, a name to count its transactions under, and how often it is drawn."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    name: Annotated[str, Field(min_length=1, max_length=200)] = Field(
        description="Its transactions are counted under this name"
    )
    text: str = Field(description="The script, as in a file of pgbench's")
    weight: Annotated[int, Field(ge=0, le=LARGEST_WEIGHT)] = Field(
        default=1, description="How often it is drawn, as a share of all weights"
    )

    @property
    def is_builtin(self) -> bool:
        """Whether it is one of pgbench's own, which wants pgbench's tables."""
        return self.text in (x.text for x in BUILTINS.values())

    @property
    def writes(self) -> bool:
        """Whether a word of it changes rows; in a function's or a view's name it does, too."""
        return _WRITES.search(self.text) is not None

    @property
    def has_block(self) -> bool:
        """Whether a transaction of several statements begins in it."""
        return _BEGINS.search(self.text) is not None


_ACCOUNT = "\\set aid random(1, 100000 * :scale)\n"
_DRAWN = (
    f"{_ACCOUNT}"
    "\\set bid random(1, 1 * :scale)\n"
    "\\set tid random(1, 10 * :scale)\n"
    "\\set delta random(-5000, 5000)\n"
)
_READ_BALANCE = "SELECT abalance FROM pgbench_accounts WHERE aid = :aid;\n"
_ADD = "UPDATE pgbench_{0} SET {1} = {1} + :delta WHERE {2} = :{2};\n"
_NOTE = (
    "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) "
    "VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);\n"
)
_ADD_TO_ACCOUNT = _ADD.format("accounts", "abalance", "aid")
_ADD_TO_TELLER = _ADD.format("tellers", "tbalance", "tid")
_ADD_TO_BRANCH = _ADD.format("branches", "bbalance", "bid")

BUILTINS = {
    "tpcb-like": Builtin(
        "TPC-B (sort of): three updates, a read and an insert",
        f"{_DRAWN}BEGIN;\n{_ADD_TO_ACCOUNT}{_READ_BALANCE}{_ADD_TO_TELLER}{_ADD_TO_BRANCH}{_NOTE}END;\n",
    ),
    "simple-update": Builtin(
        "the same without tellers and branches, whose rows are contended",
        f"{_DRAWN}BEGIN;\n{_ADD_TO_ACCOUNT}{_READ_BALANCE}{_NOTE}END;\n",
    ),
    "select-only": Builtin("one read by primary key", f"{_ACCOUNT}{_READ_BALANCE}"),
}


def split_weight(option: str) -> tuple[str, int]:
    """Return `script@3` as ("script", 3); without a weight it is 1.

    Raises:
        UsageError: what follows the last "@" is no weight.
    """
    name, at, digits = option.rpartition("@")
    if not at:
        return option, 1
    if not name:
        raise UsageError(f'"{option}" has a weight, but no name before the "@"')
    if not digits.isascii() or not digits.isdigit() or int(digits) > LARGEST_WEIGHT:
        raise UsageError(
            f'weight "{digits}" of script "{name}" is not a whole number from 0 to {LARGEST_WEIGHT:,}',
            hint='A file whose own name has an "@" needs a weight after it: name@2.sql@1.',
        )
    return name, int(digits)


def builtin_script(option: str) -> Script:
    """Return the built-in script that a name, or the start of one, means, with its weight.

    Raises:
        UsageError: there is none such, or more than one.
    """
    name, weight = split_weight(option)
    found = [x for x in BUILTINS if x.startswith(name)] if name else []
    if len(found) == 1:
        return Script(name=found[0], text=BUILTINS[found[0]].text, weight=weight)
    if found:
        raise UsageError(f'"{name}" is the start of several built-in scripts: {", ".join(found)}')
    nearest = did_you_mean(name, BUILTINS)
    raise UsageError(
        f'no built-in script is named "{name}"',
        hint=f"{nearest} There are {', '.join(BUILTINS)}; a file is named by -f, or by its path.".lstrip(),
    )


def file_script(option: str, directory: Path = Path()) -> Script:
    """Return the script in a file, `FILE` or `FILE@WEIGHT`, relative to `directory`.

    Raises:
        UsageError: it cannot be read.
    """
    name, weight = split_weight(option)
    path = directory / name
    try:
        content = read_named(path, LARGEST_SCRIPT_BYTES + 1)
        if len(content) > LARGEST_SCRIPT_BYTES:
            raise UsageError(f'script file "{path}" is larger than any script, 1 MB')
        text = as_text(content)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = "Name a file in it." if path.is_dir() else nearest_file(path)
        raise UsageError(
            f'could not read script file "{path}": {reason}', hint=hint or None
        ) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UsageError(
            f"{path}:{line}: the text is not UTF-8",
            hint="Name a file with SQL statements, as for pgbench -f.",
        ) from None
    if _BEGINNING.search(text) is None:
        raise UsageError(
            f"{path}:1: this is not a script: no line begins with a statement or a meta-command",
            hint="Name a file with SQL statements, as for pgbench -f.",
        )
    return Script(name=path.name, text=text, weight=weight)


def any_script(option: str, directory: Path) -> Script:
    """Return what an experiment file's word means: a file if it looks like one or is there.

    Raises:
        UsageError: it is neither a file nor a built-in script.
    """
    name, _ = split_weight(option)
    if "/" in name or "." in name or is_file(directory / name):
        return file_script(option, directory)
    return builtin_script(option)


def with_own_names(scripts: Sequence[Script]) -> tuple[Script, ...]:
    """Return the scripts with distinct names: `a.sql`, `a.sql (2)`; transactions are named after them.

    Raises:
        UsageError: no script has a weight over 0.
    """
    if scripts and not any(script.weight for script in scripts):
        raise UsageError("all scripts have the weight 0: none would ever run")
    taken: dict[str, int] = {}
    named = []
    for script in scripts:
        taken[script.name] = number = taken.get(script.name, 0) + 1
        own = script.name if number == 1 else f"{script.name} ({number})"
        named.append(script.model_copy(update={"name": own}))
    return tuple(named)

"""A value written into a file of /proc/sys or /sys."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pgdrag.host.undo import Change, PutBack

# "always [madvise] never": the one in force.
_CHOSEN = re.compile(r"(?<!\S)\[(\S+)\](?!\S)")
# Huge pages go one by one as the processes that had them end.
SETTLING_S = 3.0
_POLL_S = 0.05


@dataclass(frozen=True)
class WrittenValue(Change):
    """A one-line file of the kernel's.

    Attributes:
        path: in /proc/sys or /sys.
        before: what `shown_value` returned before.
        after: what it returned when the new value was in force; None: that was not seen, because the
            process died before, so whatever stands there is taken for ours.
    """

    name: ClassVar[str] = "written_value"

    path: str
    before: str
    after: str | None = None

    def words(self) -> str:
        """Return the file and its values."""
        changed = "changed" if self.after is None else f"set to {self.after}"
        return f"{self.path}, {changed} from {self.before}"

    def put_back(self, *, overwrite: bool) -> PutBack:
        """Write the value of before, where the file still shows what was written."""
        return put_values_back((self,), overwrite=overwrite)


def put_values_back(values: tuple[WrittenValue, ...], *, overwrite: bool) -> PutBack:
    """Put back files that belong together, in this order: all of them, or none where one is another's."""
    shown = {value.path: _shown_or_none(value) for value in values}
    if shown[values[0].path] is None:
        return PutBack("gone", f"{values[0].path} is not there any more.")
    if all(shown[x.path] == x.before for x in values):
        was = ", ".join(f"{x.path} was {x.before} already" for x in values)
        return PutBack("was so", f"{was}.")
    others = [x for x in values if _is_anothers(x, shown[x.path])]
    if others and not overwrite:
        return PutBack("changed by others", _others_sentence(others[0], shown[others[0].path]))
    for value in values:
        # Writing one may have put back another already, and some values cannot be written.
        if _shown_or_none(value) != value.before:
            try:
                write_value(Path(value.path), value.before)
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                return PutBack(
                    "failed", f"{value.path} could not be set back to {value.before}: {reason}."
                )
    wrong = _still_wrong(values)
    if wrong is not None:
        now = _shown_or_none(wrong)
        return PutBack("failed", f"{wrong.path} was set back to {wrong.before} and is {now}.")
    changed = [x for x in values if shown[x.path] != x.before]
    was = ", ".join(f"{x.path} was put back from {shown[x.path]} to {x.before}" for x in changed)
    return PutBack("restored", f"{was}.")


def shown_value(path: Path) -> str:
    """Return what a file of the kernel's says: blanks are one blank, of a choice the one in force.

    Raises:
        OSError: it cannot be read.
    """
    text = " ".join(path.read_text(encoding="utf-8", errors="replace").split())
    chosen = _CHOSEN.findall(text)
    return chosen[0] if len(chosen) == 1 else text


def write_value(path: Path, value: str) -> None:
    """Write a value as `echo` does, in one call, since the kernel reads each call by itself.

    Raises:
        OSError: the kernel refuses it.
    """
    with path.open("wb", buffering=0) as file:
        file.write(value.encode() + b"\n")


def _shown_or_none(value: WrittenValue) -> str | None:
    try:
        return shown_value(Path(value.path))
    except OSError:
        return None


def _is_anothers(value: WrittenValue, shown: str | None) -> bool:
    # What is not there comes back as another value is put back, or is nobody's.
    ours = (None, value.before, shown if value.after is None else value.after)
    return shown not in ours


def _still_wrong(values: tuple[WrittenValue, ...]) -> WrittenValue | None:
    deadline = time.monotonic() + SETTLING_S
    while True:
        wrong = next((x for x in values if _shown_or_none(x) != x.before), None)
        if wrong is None or time.monotonic() >= deadline:
            return wrong
        time.sleep(_POLL_S)


def _others_sentence(value: WrittenValue, shown: str | None) -> str:
    return (
        f"{value.path} is {shown}: somebody else changed it after pgdrag had set it from "
        f'{value.before} to {value.after}, so it is left. "pgdrag restore --overwrite" puts it back.'
    )

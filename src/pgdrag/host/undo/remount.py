"""Options of a mount that were changed by remounting it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pgdrag.host.mounts import Mount, choice_of, mount_at, remount
from pgdrag.host.undo import Change, RestoreResult


@dataclass(frozen=True)
class Remount(Change):
    """Options of a mount, each of a choice of its own; options that are not named stay as they are.

    Attributes:
        mount_point: without links, as the kernel names it.
        source: what is mounted there.
        before: by choice, the option that was in force.
        after: by choice, the option that was read back after the change; None if the process died before it
            was read, so that any value counts as pgdrag's.
    """

    name: ClassVar[str] = "remount"

    mount_point: str
    source: str
    before: Mapping[str, str]
    after: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        for choice, option in {**(self.after or {}), **self.before}.items():
            # One option each: a comma would add others.
            if choice_of(option) != choice or "," in option:
                raise ValueError(f'"{option}" is not a mount option of choice "{choice}"')

    def is_kernel_wide(self) -> bool:
        """Whether it may be a disk, which containers share; it always may."""
        return True

    def words(self) -> str:
        """Return the mount and its options."""
        changed = "changed" if self.after is None else f"set to {_listed(self.after)}"
        return f'mount options of "{self.mount_point}", {changed} from {_listed(self.before)}'

    def restore(self, *, overwrite: bool) -> RestoreResult:
        """Remount with the options of before, where what was set is still in force."""
        place = f'"{self.mount_point}"'
        found = self._found()
        if found is None:
            return RestoreResult("gone", f"{self.source} is no longer mounted at {place}.")
        now = self._now(found)
        if now == self.before:
            return RestoreResult(
                "already restored", f"{place} was mounted with {_listed(self.before)} already."
            )
        ours = now if self.after is None else self.after
        others = [x for x in now if now[x] not in (self.before[x], ours.get(x))]
        if others and not overwrite:
            return RestoreResult(
                "changed since",
                f"{place} is mounted with {now[others[0]]}: someone else has changed it since pgdrag "
                f"changed {_listed(self.before)}, so it was left alone. To restore it, run "
                '"pgdrag restore --overwrite".',
            )
        answer = remount(found, [self.before[x] for x in now if now[x] != self.before[x]])
        found = self._found()
        if answer.is_accepted and found is not None and self._now(found) == self.before:
            return RestoreResult(
                "restored", f"{place} was remounted from {_listed(now)} to {_listed(self.before)}."
            )
        why = answer.message or "the kernel accepted the options but did not apply them"
        return RestoreResult(
            "failed", f"{place} could not be remounted with {_listed(self.before)}: {why}."
        )

    def _found(self) -> Mount | None:
        found = mount_at(Path(self.mount_point))
        return found if found is not None and found.source == self.source else None

    def _now(self, found: Mount) -> dict[str, str]:
        in_force = found.in_force
        # A flag that is not shown has its default, which its plain name means.
        return {choice: in_force.get(choice, choice) for choice in self.before}


def _listed(options: Mapping[str, str]) -> str:
    return ",".join(options.values())

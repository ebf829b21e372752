"""In what do two arms differ on this server: what can be tested here, what cannot, and why?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pgdrag.errors import SettingError
from pgdrag.experiment.arms import Arm, is_inert
from pgdrag.factors import Phase, Problem, is_of, kind_of
from pgdrag.findings.durability import loss_of
from pgdrag.model import Level
from pgdrag.model.changes import Change, changes_between
from pgdrag.servers.channel import channel_settings, merge_channel
from pgdrag.servers.settings import Setting, SettingsCatalog

SAME = "the same to the server"


@dataclass(frozen=True)
class Difference:
    """One factor that two arms have differently.

    Attributes:
        kind, name: of the factor.
        before, after: its levels as the server shows them; where an arm has none, the server's default.
        why_not: why it is not tested here, or "".
        loss: what may be lost with the level after and not with that before, or "".
    """

    kind: str
    name: str
    before: str
    after: str
    why_not: str = ""
    loss: str = ""

    @property
    def is_tested(self) -> bool:
        """It is in force on one side of the comparison, and not on the other."""
        return not self.why_not


def differences(
    reference: Arm, target: Arm, settings: SettingsCatalog, problems: Sequence[Problem]
) -> tuple[Difference, ...]:
    """Return every factor that the two arms set differently, in the target's order.

    Args:
        settings: what the server says of its settings.
        problems: why levels of the two arms cannot be had here.
    """
    lacking = {problem.level: problem.message for problem in problems if not problem.is_mistake}
    channel = channel_settings(Path("log"), settings.server_version_num)
    found = []
    for change in changes_between(reference.treatment, target.treatment):
        kind, name = change.factor
        is_setting = is_of(Phase.SETTINGS, kind)
        why = next((lacking[x] for x in (change.after, change.before) if x in lacking), "")
        if not why and is_setting and settings.is_throw_away:
            why = _why_fixed(change, channel)
        if not why and is_inert(change, settings):
            why = SAME
        before, after = (
            _shown(settings, name, level) if is_setting else _written(level)
            for level in (change.before, change.after)
        )
        losses = [loss_of(name, x) for x in (before, after)]
        loss = losses[1] if losses[1] is not losses[0] and not why else None
        found.append(Difference(kind, name, before, after, why, loss or ""))
    return tuple(found)


def tried_values(setting: Setting, values: Sequence[str], base: Arm) -> Difference:
    """Return what a search over a setting's values changes."""
    own = next((x for x in base.levels if x.name == setting.name), None)
    before = setting.readable(setting.boot_value or "") if own is None else own.shown
    return Difference(kind_of(Phase.SETTINGS), setting.name, before, ", ".join(values))


def left_out_words(found: Iterable[Difference]) -> str:
    """Return a sentence on what is not tested, by the reason; "" where all is."""
    by_reason: dict[str, list[str]] = {}
    for one in found:
        if one.why_not:
            by_reason.setdefault(one.why_not, []).append(one.name)
    reasons = "; ".join(f"{', '.join(names)}: {why}" for why, names in by_reason.items())
    return f"Not tried here: {reasons}." if reasons else ""


def _why_fixed(change: Change, channel: Mapping[str, str]) -> str:
    """Return why a setting is the instrument's own on both sides, or ""."""
    sides = [{} if x is None else {x.name: x.value} for x in (change.before, change.after)]
    (before, _), (after, notes) = (merge_channel(side, channel) for side in sides)
    name = change.name.lower()
    if name in channel and before[name] == after[name]:
        return notes[0].why if notes else "pgdrag's own log sets it on both sides"
    return next((note.why for note in notes), "")


def _shown(settings: SettingsCatalog, name: str, level: Level | None) -> str:
    """Return a setting's value as people read it; of one that is not set the server's default."""
    try:
        setting = settings.find(name)
        if level is None:
            return setting.readable(setting.boot_value or "")
        return setting.readable(settings.canonical(name, level.value))
    except SettingError:  # a problem, and told as such
        return _written(level)


def _written(level: Level | None) -> str:
    return "default" if level is None else level.shown

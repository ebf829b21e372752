"""Which defaults differ between the servers of two arms? Often that is the whole effect of an upgrade."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from pgdrag.english import counted
from pgdrag.experiment.applicable import has_its_place_elsewhere
from pgdrag.experiment.arms import Arm
from pgdrag.experiment.conf_diff import BY_INITDB, ConfDifference, Side, Why, conf_diff
from pgdrag.experiment.differences import Difference
from pgdrag.factors import Phase, kind_of
from pgdrag.model import Level
from pgdrag.servers.channel import channel_settings
from pgdrag.servers.conf import fold
from pgdrag.servers.settings import SettingsCatalog, version_text

KIND = "default"  # of such a difference; no kind of factor


@dataclass(frozen=True)
class DefaultsDiffer:
    """The defaults that differ between the servers of two arms.

    Attributes:
        differences: defaults of settings that both have, and neither arm sets.
        added, removed: how many settings only the second server has, and only the first one.
    """

    differences: tuple[Difference, ...] = ()
    added: int = 0
    removed: int = 0

    @property
    def words(self) -> tuple[str, ...]:
        """Each as "effective_io_concurrency 1 → 16"."""
        return tuple(f"{x.name} {x.before} → {x.after}" for x in self.differences)

    @property
    def note(self) -> str:
        """Sentences on settings that only one of the servers has, and on one that initdb sets; or ""."""
        said = []
        if any(x.name == BY_INITDB for x in self.differences):
            said.append(
                f"{BY_INITDB} differs only as it is built in: initdb writes 128MB for either version. To compare them "
                f"so, add --common {BY_INITDB}=128MB."
            )
        if self.added or self.removed:
            said.append(
                f"B has {counted(self.added, 'setting')} that A lacks, and lacks {self.removed} that A has; these keep "
                'their defaults: see "pgdrag conf diff".'
            )
        return " ".join(said)


def defaults_that_differ(
    first: SettingsCatalog, second: SettingsCatalog, *, set_by_arms: Collection[str] = ()
) -> DefaultsDiffer:
    """Return the defaults that differ between two servers, of the settings that a throw-away server has.

    Args:
        set_by_arms: names that an arm sets itself.
    """
    found = conf_diff(Side("", {}, first), Side("", {}, second)).differences
    asked = set(map(fold, set_by_arms))
    kept = [x for x in _changed(found, second) if fold(x.name) not in asked]
    return DefaultsDiffer(
        tuple(Difference(KIND, x.name, x.before or "''", x.after or "''") for x in kept),
        sum(x.why is Why.ADDED for x in found),
        sum(x.why is Why.REMOVED for x in found),
    )


def with_defaults_of(
    wanted: SettingsCatalog, servers: Collection[SettingsCatalog], label: str
) -> Arm:
    """Return an arm with one version's defaults of all settings whose default is another on one of some servers."""
    values: dict[str, str] = {}
    for other in servers:
        for one in _changed(
            conf_diff(Side("", {}, other), Side("", {}, wanted)).differences, wanted
        ):
            setting = wanted.settings[fold(one.name)]
            values[setting.name] = setting.boot_value or ""
    kind = kind_of(Phase.SETTINGS)
    levels = tuple(Level(kind, name, value) for name, value in sorted(values.items()))
    shown = (f"{x.name} = {wanted.find(x.name).readable(x.value)}" for x in levels)
    pairs = ", ".join(shown) or "none differs"
    version = version_text(wanted.server_version_num)
    return Arm(
        label, levels, mends=(f"Both arms have the defaults of PostgreSQL {version}: {pairs}.",)
    )


def _changed(
    found: Collection[ConfDifference], catalog: SettingsCatalog
) -> Iterator[ConfDifference]:
    """Yield changed defaults, but for those of the instrument and of a server's place."""
    channel = channel_settings(Path("log"), catalog.server_version_num)
    for one in found:
        name = fold(one.name)
        is_kept = name not in channel and not has_its_place_elsewhere(name)
        if one.why is Why.DEFAULT and is_kept and name in catalog.settings:
            yield one

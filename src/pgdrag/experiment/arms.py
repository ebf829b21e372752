"""Which treatment does an argument of `compare`, `ablate` or `bisect` mean?

An arm is written as what a person has at hand: a file of settings in any of the formats of
`pgdrag.experiment.formats`, `name=value` pairs, a rung of an experiment, a server version, or `default`
for a server as it comes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pgdrag.english import cut, printable
from pgdrag.errors import ConfError, ExperimentError, SettingError, UsageError
from pgdrag.experiment import Experiment, load_experiment, shipped_files
from pgdrag.experiment.applicable import applicable, renamed_words, skipped_words
from pgdrag.experiment.formats import Given, Place, Skipped, read_configuration
from pgdrag.experiment.missing import HOW_TO_WRITE, unknown_arm
from pgdrag.experiment.mistakes import error_of_places
from pgdrag.experiment.pasted import effective
from pgdrag.factors import Phase, Problem, is_of, kind_of
from pgdrag.model import Level, Rung, Study, Treatment
from pgdrag.model.changes import Change
from pgdrag.paths import is_file
from pgdrag.servers.binaries import is_server_directory
from pgdrag.servers.conf import fold, is_name
from pgdrag.servers.settings import SettingsCatalog

DEFAULT = "default"
LONGEST_LABEL = 40  # more would not fit into the names of treatments made of it

_VERSION = re.compile(r"\d+(\.\d+)?")
PAIR = re.compile(r"(?:^|,)\s*(?=[A-Za-z_][A-Za-z0-9_.$]*\s*=)")


@dataclass(frozen=True)
class Arm:
    """What one argument means.

    Attributes:
        label: what reports call it.
        levels: by the server's own names; what is not named keeps the server's default.
        mends: what had to be mended in pasted text.
        experiment: where it is a rung's: the experiment, whose workload goes with it.
        skipped: lines of a file that no throw-away server can have, or that are not settings.
        places: where a file gives the levels, by name; empty where there is no file.
    """

    label: str
    levels: tuple[Level, ...]
    mends: tuple[str, ...] = ()
    experiment: Experiment | None = None
    skipped: tuple[Skipped, ...] = ()
    places: Mapping[str, Place] = field(default_factory=dict, compare=False)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was mended and what was skipped, each on a line."""
        return (*self.mends, *skipped_words(self.skipped))

    @property
    def treatment(self) -> Treatment:
        """The arm as a treatment."""
        return Treatment(self.label, self.levels)

    def over(self, shared: Arm) -> Arm:
        """Return this arm with the levels of another below its own, which count more."""
        return replace(
            self,
            levels=shared.treatment.with_levels("", self.levels).levels,
            mends=tuple(dict.fromkeys((*shared.mends, *self.mends))),
            skipped=tuple(dict.fromkeys((*shared.skipped, *self.skipped))),
            places={**shared.places, **self.places},
        )

    def refuse_mistakes(self, problems: Iterable[Problem]) -> None:
        """Refuse levels that cannot run anywhere, with their line numbers if they are from a file.

        Raises:
            ExperimentError: of all such levels of a file.
            UsageError: for the first one, if there is no file.
        """
        mistakes = [x for x in problems if x.is_mistake and x.level in self.levels]
        if not mistakes:
            return
        if not self.places:
            raise UsageError(f'in "{self.label}": {mistakes[0].message}', hint=mistakes[0].hint)
        placed = sorted((self.places[x.level.name], x.message, x.hint) for x in mistakes)
        raise error_of_places([(at.file, at.line, message, hint) for at, message, hint in placed])


def read_arm(
    text: str,
    settings: SettingsCatalog,
    *,
    scale: str | None = None,
    allowed: frozenset[str] = frozenset(),
) -> Arm:
    """Return the arm that an argument means.

    Args:
        settings: what the server says of its settings: names are spelt as it spells them.
        scale: of an experiment; by default its first.
        allowed: settings of a file that are applied whatever they do: see `applicable`.

    Raises:
        UsageError: it means none.
        ConfError: the file has no settings, or they make no sense.
        ExperimentError: the experiment cannot be read.
    """
    path = Path(text)
    if text == DEFAULT:
        return Arm(DEFAULT, ())
    if is_file(path) and path.suffix != ".toml":
        return _file_arm(path, settings, allowed)
    if text.strip() and (_VERSION.fullmatch(text) or is_server_directory(path)):
        return Arm(
            f"PostgreSQL {text}" if _VERSION.fullmatch(text) else text, (server_level(text),)
        )
    if text != printable(text) and not is_file(path):
        raise UsageError(f'"{text}" is not UTF-8', hint=HOW_TO_WRITE)
    if "=" in text and not is_file(path):
        return _pairs_arm(text, settings)
    return _experiment_arm(text, settings, scale)


def server_level(wanted: str) -> Level:
    """Return the level of the factor that chooses the server: a version, or a directory."""
    return Level(kind_of(Phase.SERVER), "postgres", wanted)


def two_labels(first: Arm, second: Arm) -> tuple[str, str]:
    """Return what two arms are called beside each other, never the same."""
    labels = [cut(one.label, LONGEST_LABEL) for one in (first, second)]
    if labels[0] == labels[1]:
        labels = [
            f"{label[: LONGEST_LABEL - 4]} ({letter})"
            for label, letter in zip(labels, "AB", strict=True)
        ]
    return labels[0], labels[1]


def is_inert(change: Change, settings: SettingsCatalog) -> bool:
    """Tell whether a change leaves a setting as it is: written differently, or the server's default."""
    if not is_of(Phase.SETTINGS, change.factor[0]):
        return False
    try:
        default = settings.find(change.name).boot_value or ""
        before, after = (
            settings.canonical(change.name, default if level is None else level.value)
            for level in (change.before, change.after)
        )
    except SettingError:
        return False  # a problem, and told as such
    return before == after


def categories(changes: Iterable[Change], settings: SettingsCatalog) -> dict[str, str]:
    """Return the group of each changed factor: PostgreSQL's category of a setting, else its kind."""
    found = {}
    for change in changes:
        kind, name = change.factor
        try:
            found[name] = settings.find(name).category if is_of(Phase.SETTINGS, kind) else kind
        except SettingError:
            found[name] = "unknown here"
    return found


def _file_arm(path: Path, settings: SettingsCatalog, allowed: frozenset[str]) -> Arm:
    configuration = read_configuration(path)
    found, skipped = applicable(configuration, settings, allowed=allowed)
    if not found:
        raise ConfError(
            "no line sets anything that applies to a throw-away server",
            path=path,
            detail="\n".join(skipped_words(skipped)) or None,
            hint=f'For a server with default settings, write "{DEFAULT}".',
        )
    for one in found:
        if one.value != printable(one.value):
            where = one.place
            raise ConfError(
                f'the value of "{one.name}" is not UTF-8', path=where.file, line=where.line
            )
    return Arm(
        label=printable(path.name),
        levels=_levels(found, settings),
        mends=(*configuration.mends, *renamed_words(configuration, settings)),
        skipped=skipped,
        places={_spelt(x.name, settings): x.place for x in found},
    )


def _pairs_arm(text: str, settings: SettingsCatalog) -> Arm:
    pairs = [part.strip().rstrip(",") for part in PAIR.split(text) if part.strip()]
    lines = []
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not is_name(name):
            raise UsageError(f'"{pair}" sets nothing', hint=HOW_TO_WRITE)
        lines.append(Given(name, value.strip("'"), Place(Path(), 1)))
    lines = [_by_name_here(line, settings) for line in lines]
    _refuse_repeated(lines)
    return Arm(text, _levels(effective(lines).values(), settings))


def _by_name_here(given: Given, settings: SettingsCatalog) -> Given:
    name, value = settings.same_as(given.name, given.value) or (given.name, given.value)
    return replace(given, name=name, value=value)


def _refuse_repeated(lines: Sequence[Given]) -> None:
    """Refuse pairs that give one setting two values, since only one can be meant."""
    first: dict[str, str] = {}
    for line in lines:
        value = first.setdefault(fold(line.name), line.value)
        if value != line.value:
            raise UsageError(
                f'setting "{line.name}" has two values, "{value}" and "{line.value}"',
                hint="Give one of them; for the other, write another arm.",
            )


def _experiment_arm(text: str, settings: SettingsCatalog, scale: str | None) -> Arm:
    name, colon, rung_name = text.partition(":")
    try:
        experiment = load_experiment(name)
    except ExperimentError as error:
        if Path(name).suffix == ".toml" or name in shipped_files():
            raise
        raise unknown_arm(text, settings, list(shipped_files())) from error
    if colon and not rung_name:
        raise UsageError(f'"{text}" names no rung', hint=f'Write one after the ":", or "{name}" for its last.')  # fmt: skip
    rung = _rung(experiment.study(scale), rung_name)
    return Arm(rung.name, rung.treatment.levels, experiment=experiment)


def _rung(study: Study, name: str) -> Rung:
    if not name:
        return study.rungs[-1]
    for rung in study.rungs:
        if rung.name == name:
            return rung
    names = ", ".join(rung.name for rung in study.rungs)
    raise UsageError(
        f'experiment "{study.name}" has no rung "{name}"', hint=f"Its rungs are: {names}."
    )


def _levels(lines: Iterable[Given], settings: SettingsCatalog) -> tuple[Level, ...]:
    kind = kind_of(Phase.SETTINGS)
    return tuple(Level(kind, _spelt(line.name, settings), line.value) for line in lines)


def _spelt(name: str, settings: SettingsCatalog) -> str:
    try:
        return settings.find(name).name
    except SettingError:
        return fold(name)  # a problem, and told as such


def one_workload(arms: Sequence[Arm]) -> Experiment | None:
    """Return the experiment whose workload the arms bring along; None where they bring none.

    Raises:
        UsageError: they bring two.
    """
    found = {arm.experiment.name: arm.experiment for arm in arms if arm.experiment is not None}
    if len(found) > 1:
        raise UsageError(
            f"the arms are of two experiments, {' and '.join(found)}, with workloads of their own",
            hint="Name the one to use with --experiment.",
        )
    return next(iter(found.values()), None)

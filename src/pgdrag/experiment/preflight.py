"""Would this experiment, or this file of settings, run here, and what would it take? Nothing is started.

Levels are looked at with what a server says of its settings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pgdrag.designs import all_designs
from pgdrag.errors import ExperimentError, SettingError
from pgdrag.experiment import Experiment
from pgdrag.experiment.arms import Arm
from pgdrag.experiment.consent import study_programs
from pgdrag.experiment.formats import Place
from pgdrag.experiment.mistakes import error_of_places
from pgdrag.experiment.search_study import on_this_machine
from pgdrag.factors import Here, Phase, Problem, all_factors, is_of, levels_of
from pgdrag.factors.treated_workload import workload_of
from pgdrag.findings.levels import overrides
from pgdrag.host.allowance import allowance
from pgdrag.model import Level, Study, Treatment, WorkloadSpec
from pgdrag.model.design import make_design
from pgdrag.model.program import Program
from pgdrag.provision import problems_of, storage_of
from pgdrag.servers.channel import channel_settings, merge_channel
from pgdrag.servers.settings import SettingsCatalog
from pgdrag.servers.storage_spec import StorageSpec
from pgdrag.units import format_bytes, parse_bytes

Check = Callable[[Sequence[Level], WorkloadSpec], list[Problem]]


@dataclass(frozen=True)
class CheckedLevel:
    """One level, with what the server at hand says of it; "" where it says nothing.

    Attributes:
        file: where it is written; one of several where a file includes others.
    """

    file: str
    line: int
    kind: str
    name: str
    value: str
    canonical: str
    takes_effect: str
    default: str
    verdict: str


@dataclass(frozen=True)
class CheckedProblem:
    """Why a level cannot be applied here; if it is a mistake, nowhere."""

    file: str
    line: int
    is_mistake: bool
    message: str
    hint: str


@dataclass(frozen=True)
class CheckedSkip:
    """What a file says and no throw-away server has, and why: a clause."""

    file: str
    line: int
    name: str
    why: str


@dataclass(frozen=True)
class CheckedScale:
    """What a scale would take.

    Attributes:
        trials_least, trials_most: as the design foretells them.
        load_s_least: warm-up and measured window of the fewest trials, if no window is extended.
        load_s_most: of the most trials, if every window goes on to its budget.
        disk_bytes: the dataset twice (snapshot and working copy) and the WAL beside it, the latter two
            twice where a holder of the horizon has a standby; with scratch
            devices, all of these, and the dataset once.
    """

    name: str
    trials_least: int
    trials_most: int
    load_s_least: float
    load_s_most: float
    disk_bytes: int


@dataclass(frozen=True)
class Checked:
    """All that is known before anything is run.

    Attributes:
        experiment: its name, or that of a file of settings, which has no scales.
        programs: that it names. None was started: what they do, and whether they work, is not known.
    """

    experiment: str
    title: str
    path: str
    server_version_num: int
    levels: tuple[CheckedLevel, ...]
    problems: tuple[CheckedProblem, ...]
    mends: tuple[str, ...]
    notes: tuple[str, ...]
    scales: tuple[CheckedScale, ...]
    skipped: tuple[CheckedSkip, ...] = ()
    programs: tuple[Program, ...] = ()


def check_arm(arm: Arm, path: Path, here: Here) -> Checked:
    """Return what can be known of the file of an arm: which of its settings a throw-away server would have."""
    problems = sorted(problems_of(arm.levels, here), key=lambda x: arm.levels.index(x.level))
    places = {level: arm.places[level.name] for level in arm.levels}
    version_num = here.settings.server_version_num
    return Checked(
        experiment=arm.label,
        title=arm.label,
        path=str(path),
        server_version_num=version_num,
        levels=tuple(_level(places[x], x, problems, here.settings) for x in arm.levels),
        problems=tuple(_problem(places[x.level], x) for x in problems),
        mends=arm.mends,
        notes=tuple(_channel_notes(arm.levels, version_num)),
        scales=(),
        skipped=tuple(
            CheckedSkip(str(x.place.file), x.place.line, x.name, x.why) for x in arm.skipped
        ),
    )


def check_experiment(
    experiment: Experiment,
    studies: Sequence[Study],
    here: Here,
    *,
    free_bytes: int,
    check: Check | None = None,
) -> Checked:
    """Return what can be known of an experiment before anything is started.

    Args:
        experiment: where the levels are written.
        studies: its scales that are to be checked.
        here: what the server at hand, and the newest, say of their settings.
        free_bytes: what the disk for throw-away clusters has left.
        check: says which levels of one treatment cannot be had; None: as on throw-away clusters.
    """
    is_here = check is None
    written = {level for study in studies for level in study.levels}
    levels = sorted(written, key=lambda level: (experiment.location(level)[1], level))
    problems = sorted(
        _problems(studies, here, check), key=lambda problem: levels.index(problem.level)
    )
    scales = tuple(
        _scale(on_this_machine(study, here.settings, allowance()), here) for study in studies
    )
    return Checked(
        experiment=experiment.name,
        title=experiment.title,
        path=str(experiment.path),
        server_version_num=here.settings.server_version_num,
        levels=tuple(
            _level(Place(*experiment.location(level)), level, problems, here.settings)
            for level in levels
        ),
        problems=tuple(_problem(Place(*experiment.location(x.level)), x) for x in problems),
        mends=tuple(mend.words for mend in experiment.mends),
        notes=(
            *dict.fromkeys(note for study in studies for note in _overrides(study)),
            *(_channel_notes(levels, here.settings.server_version_num) if is_here else ()),
            *(
                f'scale "{x.name}" needs about {format_bytes(x.disk_bytes)} of disk, '
                f"and {format_bytes(free_bytes)} are free"
                for x in scales
                if is_here and x.disk_bytes > free_bytes
            ),
            *(note for study in studies for note in _crowded_storage(study, here)),
        ),
        scales=scales,
        programs=tuple(dict.fromkeys(x for study in studies for x in study_programs(study))),
    )


def _problems(studies: Sequence[Study], here: Here, check: Check | None) -> Iterable[Problem]:
    """Return why levels cannot be had, each once: what one rung's storage allows, another's disk may not."""
    found: dict[Level, Problem] = {}
    for study in studies:
        treatments = {
            tuple(dict.fromkeys((*rung.treatment.levels, *rung.added))) for rung in study.rungs
        }
        reference = study.rungs[0].treatment
        treatments |= {
            reference.with_levels("", [level]).levels for level in make_design(study).levels
        }
        for together in sorted(treatments):
            problems = (
                problems_of(together, replace(here, workload=study.workload))
                if check is None
                else check(together, study.workload)
            )
            for problem in problems:
                found.setdefault(problem.level, problem)
    return found.values()


def first_mistake(checked: Checked) -> ExperimentError | None:
    """Return an error that lists all levels that cannot run anywhere, or None."""
    mistakes = [(x.file, x.line, x.message, x.hint) for x in checked.problems if x.is_mistake]
    return error_of_places(sorted(mistakes)) if mistakes else None


def _problem(place: Place, problem: Problem) -> CheckedProblem:
    return CheckedProblem(
        str(place.file), place.line, problem.is_mistake, problem.message, problem.hint
    )


def _level(
    place: Place, level: Level, problems: Sequence[Problem], catalog: SettingsCatalog
) -> CheckedLevel:
    problem = next((x for x in problems if x.level == level), None)
    canonical = takes_effect = default = ""
    is_default = False
    if is_of(Phase.SETTINGS, level.kind):
        try:
            setting = catalog.find(level.name)
        except SettingError:
            pass  # the problem says so
        else:
            takes_effect = setting.takes_effect
            default = setting.readable(setting.boot_value or "")
            if problem is None:
                shown = catalog.canonical(level.name, level.value)
                canonical = setting.readable(shown)
                is_default = shown == setting.boot_value
    if problem is not None:
        verdict = "mistake" if problem.is_mistake else "untestable here"
    else:
        verdict = "default" if is_default else "ok"
    return CheckedLevel(
        str(place.file),
        place.line,
        level.kind,
        level.name,
        level.shown,
        canonical,
        takes_effect,
        default,
        verdict,
    )


def _scale(study: Study, here: Here) -> CheckedScale:
    trials = make_design(study).trials_left()
    load_s_least, load_s_most = study.load_s(trials)
    return CheckedScale(
        name=study.scale,
        trials_least=trials.fewest,
        trials_most=trials.greatest,
        load_s_least=load_s_least,
        load_s_most=load_s_most,
        disk_bytes=disk_bytes(study, here),
    )


def disk_bytes(study: Study, here: Here) -> int:
    """Return about how much room a study needs in all: see `CheckedScale`."""
    by_storage = _by_storage(study, here)
    devices = [spec.size_bytes for spec in by_storage if spec is not None]
    # Those without a device of their own lie beside the snapshots.
    beside = _room(study, by_storage.get(None, ()), here) if None in by_storage else 0
    snapshots = _snapshots_bytes(study, [x.treatment for x in study.rungs])
    return snapshots + beside + sum(devices)


def _crowded_storage(study: Study, here: Here) -> Iterable[str]:
    """What scratch devices will not hold: the dataset, twice without reflink, and the WAL beside it."""
    for spec, treatments in _by_storage(study, here).items():
        if spec is None or spec.device is not None:
            continue
        needed = _room(study, treatments, here)
        if not spec.can_reflink:
            needed += _snapshots_bytes(study, treatments)
        if needed > spec.size_bytes:
            yield (
                f'scale "{study.scale}" needs about {format_bytes(needed)} on {spec.place}, '
                f"which has {format_bytes(spec.size_bytes)}"
            )


def _by_storage(study: Study, here: Here) -> dict[StorageSpec | None, list[Treatment]]:
    found: dict[StorageSpec | None, list[Treatment]] = {}
    for rung in study.rungs:
        found.setdefault(storage_of(rung.treatment, here), []).append(rung.treatment)
    return found


def _room(study: Study, treatments: Iterable[Treatment], here: Here) -> int:
    """The working copy and the WAL beside it, a standby's too, of the trial that needs most."""
    return max(
        (workload_of(study.workload, x).dataset_bytes() + _wal_bytes(x, here))
        * (1 + sum(kind.more_clusters(x.of_kind(name)) for name, kind in all_factors().items()))
        for x in treatments
    )


def _snapshots_bytes(study: Study, treatments: Iterable[Treatment]) -> int:
    """What the datasets take, each once for each server."""
    found = {}
    for treatment in treatments:
        workload = workload_of(study.workload, treatment)
        server = tuple(levels_of(Phase.SERVER, treatment.levels).values())
        found[repr(workload.dataset()), server] = workload.dataset_bytes()
    return sum(found.values())


def _wal_bytes(treatment: Treatment, here: Here) -> int:
    return _bytes(here.settings, "max_wal_size", levels_of(Phase.SETTINGS, treatment.levels))


def _bytes(catalog: SettingsCatalog, name: str, settings: dict[str, str]) -> int:
    setting = catalog.find(name)
    try:
        number = int(catalog.canonical(name, settings.get(name, setting.boot_value or "")))
    except SettingError:
        return 0  # a mistake, and told as such
    return int(parse_bytes(f"{number}{setting.unit}"))


def _overrides(study: Study) -> Iterable[str]:
    """What rungs do to earlier rungs' levels: a ladder's steps are not what they seem."""
    if not all_designs()[study.design].is_cumulative:
        return ()
    return (sentence for at in range(len(study.rungs)) for sentence in overrides(study.rungs, at))


def _channel_notes(levels: Iterable[Level], server_version_num: int) -> Iterable[str]:
    channel = channel_settings(Path("log"), server_version_num)
    for level in levels:
        if is_of(Phase.SETTINGS, level.kind):
            _, notes = merge_channel({level.name: level.value}, channel)
            for note in notes:
                used = f" is run as {note.used}" if note.used else " is not applied"
                yield f"{note.name} = {note.asked}{used}: {note.why}"

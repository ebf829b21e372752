"""What do the tables of an experiment file mean? One study per scale, or a list of all mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from pgdrag.collectors import observation_names
from pgdrag.designs import DesignParameters, all_designs
from pgdrag.errors import ExperimentError, PgdragError, SettingError, UsageError
from pgdrag.experiment.levels import Written, make_plain
from pgdrag.experiment.mistakes import (
    Mistake,
    experiment_error,
    in_table,
    mistakes_of,
    unknown_name,
)
from pgdrag.experiment.model import (
    FORMAT_VERSION,
    BaselineTable,
    ClaimTable,
    DesignTable,
    ExperimentTable,
    RungTable,
    ScaleTable,
    Table,
    experiment_table,
)
from pgdrag.experiment.profile import load_profile
from pgdrag.experiment.said import Mended
from pgdrag.factors import Phase, all_factors, is_of, kind_of, levels_of
from pgdrag.factors.treated_workload import level_problems, workload_of
from pgdrag.model import Claim, Instrument, Level, Rung, Source, Study, Treatment, WorkloadSpec
from pgdrag.model.claims import StatedClaim, all_claims
from pgdrag.model.load import LoadProfile
from pgdrag.toml_lines import KeyLines, KeyPath
from pgdrag.units import to_base_integer
from pgdrag.workloads import Workload, all_workloads

# Settings that bound the workload's connections, and PostgreSQL's defaults.
_CONNECTIONS = {
    "max_connections": 100,
    "superuser_reserved_connections": 3,
    "reserved_connections": 0,
}
OWN_CONNECTIONS = 2  # the collectors' and one that applies or reads back
_DEFAULT_KINDS = {"design": DesignTable.model_fields["kind"].default}
# What each `kind` of a table takes, by the table's name.
_MODELS: dict[str, Callable[[], Mapping[str, type[BaseModel]]]] = {
    "claims": all_claims,
    "workload": all_workloads,
    "design": lambda: {kind: design.Parameters for kind, design in all_designs().items()},
}

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class ReadExperiment:
    """A file without mistakes.

    Attributes:
        studies: what to run, by scale, in the file's order.
        level_lines: the first line that names each level.
    """

    table: ExperimentTable
    studies: Mapping[str, Study]
    mends: tuple[Mended, ...]
    level_lines: Mapping[Level, int]


def read_document(document: dict[str, Any], lines: KeyLines, path: Path) -> ReadExperiment:
    """Return the experiment that a document describes; short forms in the document are expanded in place.

    Raises:
        ExperimentError: it cannot be run; with every mistake that could be found.
    """
    return _Reader(document, lines, path).read()


class _Reader:
    """Collects what is wrong with a document on the way to its studies."""

    def __init__(self, document: dict[str, Any], lines: KeyLines, path: Path) -> None:
        self._document = document
        self._key_lines = lines
        self._path = path
        self._kinds = list(all_factors())
        self._mistakes: list[Mistake] = []
        self._written = Written()
        self._level_lines: dict[Level, int] = {}

    def read(self) -> ReadExperiment:
        self._check_version()
        self._written = make_plain(self._document, self._kinds, self._key_lines)
        self._mistakes += self._written.mistakes
        table = self._validated(experiment_table(), self._document, ())
        bags = {
            name: (self._bag("workload", name, scale), self._bag("design", name, scale))
            for name, scale in _tables(self._document.get("scales")).items()
        }
        if table is None:
            raise self._error()
        self._check_rungs(table)
        claims = self._claims(table)
        studies = {
            name: replace(self._study(table, name, *bags[name]), claims=claims)
            for name in table.scales
        }
        self._check_alike(table, studies)
        if self._mistakes:
            raise self._error()
        return ReadExperiment(table, studies, tuple(self._written.mends), self._level_lines)

    def _error(self) -> ExperimentError:
        placed = [
            replace(x, line=x.line or self._written.lines.get(x.path)) for x in self._mistakes
        ]
        return experiment_error(placed, self._key_lines, self._path)

    def _check_version(self) -> None:
        version = self._document.get("pgdrag")
        if isinstance(version, int) and version > FORMAT_VERSION:
            # No other complaint would be of use, the keys being those of another format.
            message = f"file format {version} is newer than this pgdrag reads, {FORMAT_VERSION}"
            self._mistakes = [Mistake(("pgdrag",), message, "Install a newer pgdrag.")]
            raise self._error()
        if "pgdrag" not in self._document:
            hint = f"Begin the file with: pgdrag = {FORMAT_VERSION}"
            self._mistakes = [Mistake((), "this is not an experiment file of pgdrag", hint)]
            raise self._error()

    def _check_rungs(self, table: ExperimentTable) -> None:
        names = {table.baseline.name}
        known = observation_names()
        for index, rung in enumerate(table.rungs):
            path: KeyPath = ("rungs", index)
            if rung.name in names:
                message = f'two rungs are named "{rung.name}"'
                self._mistakes.append(Mistake((*path, "name"), message))
            names.add(rung.name)
            is_read = not any(x.path[:2] == path for x in self._mistakes)
            if is_read and not any(rung.levels(kind) for kind in self._kinds):
                hint = f"Give it a table such as {in_table(('rungs', kind_of(Phase.SETTINGS)))}."
                self._mistakes.append(Mistake(path, f'rung "{rung.name}" changes nothing', hint))
            self._mistakes += [
                unknown_name("observation", name, known, (*path, "expects", name))
                for name in rung.expects
                if name not in known
            ]

    def _claims(self, table: ExperimentTable) -> tuple[StatedClaim, ...]:
        found = []
        for index, one in enumerate(table.claims):
            path: KeyPath = ("claims", index)
            model = self._model("claims", one.kind, "kind of claim", path)
            given = {key: x for key, x in self._document["claims"][index].items() if key != "kind"}
            claim = model and self._validated(model, given, path, as_json=True)
            if isinstance(claim, StatedClaim):
                found.append(claim)
                self._check_claim(table, claim, path)
        headlines = [claim for claim in found if claim.headline]
        if len(headlines) > 1:
            message = f"{len(headlines)} claims are headlines: only one can be"
            self._mistakes.append(Mistake(("claims",), message))
        self._check_source(table, table.baseline.claim.source, ("baseline", "claim"))
        for index, rung in enumerate(table.rungs):
            self._check_source(table, rung.claim.source, ("rungs", index, "claim"))
        return tuple(found)

    def _check_claim(self, table: ExperimentTable, claim: StatedClaim, path: KeyPath) -> None:
        rungs = [table.baseline.name, *(rung.name for rung in table.rungs)]
        for what, names, known in (
            ("rung", claim.rungs, rungs),
            ("observation", claim.observations, observation_names()),
        ):
            self._mistakes += [
                unknown_name(what, name, known, path) for name in names if name not in known
            ]
        self._check_source(table, claim.source, path)

    def _check_source(self, table: ExperimentTable, source: str, path: KeyPath) -> None:
        if source and source not in table.sources:
            self._mistakes.append(unknown_name("source", source, table.sources, (*path, "source")))

    def _check_alike(self, table: ExperimentTable, studies: Mapping[str, Study]) -> None:
        """Refuse scales that mix what is never compared, such as statement modes."""
        workload = all_workloads().get(table.workload.kind)
        first, *others = studies
        for key in workload.alike_at_all_scales if workload else ():
            wanted = studies[first].workload.parameters.get(key)
            for name in others:
                found = studies[name].workload.parameters.get(key)
                if found != wanted:
                    message = (
                        f'"{key}" is "{found}" at scale "{name}", but "{wanted}" at scale "{first}"'
                    )
                    hint = "Their numbers are not comparable: write a file for each."
                    path: KeyPath = ("scales", name, "workload", key)
                    self._mistakes.append(Mistake(path, message, hint))

    def _study(
        self,
        table: ExperimentTable,
        scale_name: str,
        workload: BaseModel | None,
        design: BaseModel | None,
    ) -> Study:
        scale = table.scales[scale_name]
        load, mistakes = load_profile(scale.load, ("scales", scale_name, "load"))
        self._mistakes += mistakes
        self._check_workload(workload, load, scale_name)
        kind = all_designs().get(table.design.kind)
        is_cumulative = kind is not None and kind.is_cumulative
        at: KeyPath = ("scales", scale_name)
        rungs = self._rungs(table, scale, at, is_cumulative=is_cumulative)
        self._check_connections(rungs, load, scale_name)
        spec = WorkloadSpec(table.workload.kind, _parameters(workload))
        if workload is not None:
            self._check_workload_levels(rungs, spec, load)
        study = Study(
            name=table.name,
            title=table.title or table.name,
            question=table.question,
            scale=scale_name,
            design=table.design.kind,
            rungs=rungs,
            source=Source(**table.source.model_dump()),
            sources={name: Source(**one.model_dump()) for name, one in table.sources.items()},
            workload=spec,
            load=load,
            replicates=scale.replicates,
            notes=tuple(table.notes),
            # Without parameters there is a mistake, and the study is never seen.
            design_parameters=design
            if isinstance(design, DesignParameters)
            else DesignParameters(),
            is_checked=scale.check,
            instrument=_instrument(table, scale),
        )
        try:
            return study if scale.rungs is None else study.only(scale.rungs)
        except UsageError as error:
            message = f'"rungs" in {in_table(at)}: {error.message}'
            self._mistakes.append(Mistake((*at, "rungs"), message, error.hint or ""))
            return study

    def _check_workload(
        self, workload: BaseModel | None, load: LoadProfile, scale_name: str
    ) -> None:
        found = workload.objection(load) if isinstance(workload, Workload) else None
        if found is not None:
            message = f'"{found.parameter}" in {in_table(("workload",))} {found.message}'
            mistake = Mistake(("workload", found.parameter), message, found.hint)
            self._mistakes.append(self._placed(mistake, ("scales", scale_name, "workload")))

    def _check_workload_levels(
        self, rungs: tuple[Rung, ...], spec: WorkloadSpec, load: LoadProfile
    ) -> None:
        for rung in rungs:
            for problem in level_problems(spec, rung.treatment.levels):
                self._note_level(problem.level, problem.message, problem.hint)
            found = workload_of(spec, rung.treatment).objection(load)
            own = [level for level in rung.treatment.levels if is_of(Phase.WORKLOAD, level.kind)]
            if found is not None and own:
                # Of the parameter itself, unless another level is what it does not go with.
                level = next((x for x in own if x.name == found.parameter), own[0])
                message = f'"{found.parameter}" of rung "{rung.name}" {found.message}'
                self._note_level(level, message, found.hint)

    def _note_level(self, level: Level, message: str, hint: str) -> None:
        self._mistakes.append(Mistake((), message, hint, line=self._level_lines[level]))

    def _bag(self, name: str, scale_name: str, scale: dict[str, Any]) -> BaseModel | None:
        """Return [workload] or [design] at a scale: the file's table with the scale's laid over it.

        It is read from the document, so that its mistakes are reported together with all others.
        """
        own, over = _table(self._document.get(name)), _table(scale.get(name))
        at: KeyPath = ("scales", scale_name, name)
        model = self._model(name, own.get("kind", _DEFAULT_KINDS.get(name)))
        if model is None:
            return None
        if "kind" in over:
            message = f'"kind" in {in_table(at)} cannot be changed by a scale'
            hint = "Write a file of its own for another kind."
            self._mistakes.append(Mistake((*at, "kind"), message, hint))
            return None
        merged = _merged({key: value for key, value in own.items() if key != "kind"}, over)
        before = len(self._mistakes)
        found = self._validated(model, merged, (name,), as_json=True)
        self._mistakes[before:] = [self._placed(x, at) for x in self._mistakes[before:]]
        return found

    def _model(
        self, name: str, kind: object, what: str = "", path: KeyPath = ()
    ) -> type[BaseModel] | None:
        known = _MODELS[name]()
        if not isinstance(kind, str):
            return None  # the model of the file says so
        if kind not in known:
            at = (*(path or (name,)), "kind")
            self._mistakes.append(unknown_name(what or name, kind, known, at))
        return known.get(kind)

    def _placed(self, mistake: Mistake, at: KeyPath) -> Mistake:
        """Return the mistake where it was made: in the scale's table if the key is there."""
        path = (*at, *mistake.path[1:])
        if len(mistake.path) == 1 or path not in self._key_lines:
            return mistake
        own, over = in_table(mistake.path[:-1]), in_table(path[:-1])
        return replace(mistake, path=path, message=mistake.message.replace(own, over))

    def _validated(
        self, model: type[M], table: dict[str, Any], at: KeyPath, *, as_json: bool = False
    ) -> M | None:
        try:
            if as_json:
                # In JSON an array may be a tuple, and strict types are still told apart.
                # A workload's files are named relative to the experiment's.
                return model.model_validate_json(
                    json.dumps(table, default=str),
                    strict=True,
                    context={"directory": str(self._path.parent)},
                )
            return model.model_validate(table)
        except ValidationError as error:
            self._mistakes += mistakes_of(error, _schema_of(model), at)
            return None

    def _rungs(
        self, table: ExperimentTable, scale: ScaleTable, at: KeyPath, *, is_cumulative: bool
    ) -> tuple[Rung, ...]:
        baseline = self._levels(table.baseline, ("baseline",))
        start = Treatment(table.baseline.name).with_levels(table.baseline.name, baseline)
        treatment = start.with_levels(start.name, self._levels(scale, at))
        rungs = [_baseline_rung(table.baseline, treatment)]
        below = treatment
        for index, rung in enumerate(table.rungs):
            added = self._levels(rung, ("rungs", index))
            treatment = below.with_levels(rung.name, added)
            rungs.append(_rung(rung, treatment, added))
            below = treatment if is_cumulative else below
        return tuple(rungs)

    def _levels(self, table: Table, at: KeyPath) -> tuple[Level, ...]:
        found = []
        for kind in self._kinds:
            for name, value in table.levels(kind).items():
                path = (*at, kind, name)
                level = Level(kind, name, self._inlined(kind, name, value, path))
                self._level_lines.setdefault(level, self._written.lines[path])
                found.append(level)
        return tuple(found)

    def _inlined(self, kind: str, name: str, value: str, path: KeyPath) -> str:
        try:
            return all_factors()[kind].inlined(name, value, self._path.parent)
        except PgdragError as error:
            message = f'"{name}" in {in_table(path[:-1])}: {error.message}'
            self._mistakes.append(Mistake(path, message, error.hint or ""))
            return value

    def _check_connections(self, rungs: tuple[Rung, ...], load: LoadProfile, scale: str) -> None:
        for rung in rungs:
            settings = levels_of(Phase.SETTINGS, rung.treatment.levels)
            allowed, *reserved = (_connections(settings, name) for name in _CONNECTIONS)
            kept = max(OWN_CONNECTIONS, sum(reserved))
            wanted = load.connections + kept
            if allowed < wanted:
                path: KeyPath = ("scales", scale, "load", "connections")
                message = (
                    f'{load.connections} connections at scale "{scale}" are more than '
                    f'max_connections of rung "{rung.name}" allows, {allowed}'
                )
                hint = f"Set max_connections to {wanted} or more: {kept} are not for the workload, which is not a superuser."
                self._mistakes.append(Mistake(path, message, hint))
                return


@cache  # it takes longer than reading a file
def _schema_of(model: type[BaseModel]) -> Mapping[str, Any]:
    return model.model_json_schema()


def _connections(settings: Mapping[str, str], name: str) -> int:
    try:
        return to_base_integer(settings[name], None)
    except (KeyError, SettingError):  # a value that no server takes is told when the levels are
        return _CONNECTIONS[name]


def _instrument(table: ExperimentTable, scale: ScaleTable) -> Instrument:
    """Return what observes the trials at a scale, whose own keys come last."""
    found: dict[str, Any] = {}
    for one in (table.baseline.instrument, table.instrument, scale.instrument):
        found |= one.model_dump(exclude_unset=True)
    collectors = found.pop("collectors", "on")
    return Instrument(collectors, tuple(name for name, value in found.items() if value == "on"))


def _parameters(model: BaseModel | None) -> dict[str, object]:
    # Without a model there is a mistake, and the study is never seen.
    return {} if model is None else model.model_dump(mode="json")


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _tables(value: object) -> dict[str, dict[str, Any]]:
    return {name: inner for name, inner in _table(value).items() if isinstance(inner, dict)}


def _merged(own: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(own)
    for key, value in over.items():
        inner = merged.get(key)
        is_table = isinstance(inner, dict) and isinstance(value, dict)
        merged[key] = _merged(inner, value) if is_table else value  # type: ignore[arg-type]
    return merged


def _baseline_rung(table: BaselineTable, treatment: Treatment) -> Rung:
    return Rung(table.name, table.title or "the baseline", treatment, claim=_claim(table.claim))


def _rung(table: RungTable, treatment: Treatment, added: tuple[Level, ...]) -> Rung:
    return Rung(
        name=table.name,
        title=table.title or _named_by_levels(added),
        treatment=treatment,
        added=added,
        claim=_claim(table.claim),
        mechanism=table.mechanism,
        expects=dict(table.expects),
    )


def _named_by_levels(levels: tuple[Level, ...]) -> str:
    first = ", ".join(f"{level.name} = {level.shown}" for level in levels[:2])
    return first if len(levels) <= 2 else f"{first} and {len(levels) - 2} more"


def _claim(table: ClaimTable) -> Claim:
    series = tuple((t_s, per_s) for t_s, per_s in table.series)
    return Claim(table.tps, table.text, table.speedup, table.of, table.trend, series, table.source)

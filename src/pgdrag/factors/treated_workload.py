"""Which workload does a treatment have? The experiment's parameters, with the treatment's levels laid over them.

The workload's own model reads the levels, which are text, and judges them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from pgdrag.english import did_you_mean
from pgdrag.factors import Phase, Problem, is_of
from pgdrag.model import Level, Treatment, WorkloadSpec
from pgdrag.workloads import Workload, all_workloads
from pgdrag.wrong_values import wanted


def workload_of(spec: WorkloadSpec, treatment: Treatment) -> Workload:
    """Return the workload of a treatment: the experiment's, with the treatment's levels laid over it.

    Levels that cannot be had are left out: see `level_problems`.
    """
    refused = {problem.level for problem in level_problems(spec, treatment.levels)}
    return _made(spec, [level for level in treatment.levels if level not in refused])


def level_problems(spec: WorkloadSpec, levels: Iterable[Level]) -> list[Problem]:
    """Return why the workload does not accept levels of one treatment; all are mistakes.

    Levels of other kinds are passed over.
    """
    own = [level for level in levels if is_of(Phase.WORKLOAD, level.kind)]
    found = _refused(spec, own)
    if found:
        refused = {problem.level for problem in found}
        # A level may have been right only beside one that is refused.
        found += level_problems(spec, [level for level in own if level not in refused])
    return found


def _refused(spec: WorkloadSpec, levels: Sequence[Level]) -> list[Problem]:
    kind = all_workloads()[spec.kind]
    found = [x for level in levels if (x := _unknown(level, kind)) is not None]
    if found or not levels:
        return found
    try:
        workload = _made(spec, levels)
    except ValidationError as error:
        return _invalid(error, levels, kind)
    if workload.transactions != _made(spec, ()).transactions:
        return [
            _must_be_alike(level, kind, "changes what transactions there are") for level in levels
        ]
    return []


def _made(spec: WorkloadSpec, levels: Iterable[Level]) -> Workload:
    own = {level.name: level.value for level in levels if is_of(Phase.WORKLOAD, level.kind)}
    return all_workloads()[spec.kind].model_validate(_laid_over(spec.parameters, own))


def _unknown(level: Level, kind: type[Workload]) -> Problem | None:
    name = level.name.partition(".")[0]
    if name in kind.alike_in_all_arms:
        return _must_be_alike(level, kind, "must be the same in all treatments")
    if name in kind.model_fields:
        return None
    message = f'workload "{kind.name}" has no parameter "{level.name}"'
    if name == "kind":
        hint = "Treatments differ in its parameters; write a file of its own for another workload."
        return Problem(level, True, message, hint)
    variable = [x for x in kind.model_fields if x not in kind.alike_in_all_arms]
    hint = did_you_mean(name, variable) or f"It has {', '.join(variable)}."
    return Problem(level, True, message, hint)


def _must_be_alike(level: Level, kind: type[Workload], what: str) -> Problem:
    message = f'"{level.name}" of workload "{kind.name}" {what}'
    hint = "Otherwise a transaction is not the same work in all of them, and their rates are not comparable."
    return Problem(level, True, message, hint)


def _invalid(
    error: ValidationError, levels: Sequence[Level], kind: type[Workload]
) -> list[Problem]:
    """Return one problem for each level that the model finds fault with; for all, if with none."""
    found: dict[Level, Problem] = {}
    for details in error.errors():
        path = tuple(str(part) for part in details["loc"])
        at_fault = [x for x in levels if _is_on_the_way(path, x.name.split("."))]
        for level in at_fault or levels:
            # The fault may lie with the table that a name leads into.
            is_own = len(path) > level.name.count(".")
            what = level.name if is_own else ".".join(path)
            message = f'"{what}" of workload "{kind.name}"{wanted(details)}'
            found.setdefault(level, Problem(level, True, message))
    return list(found.values())


def _is_on_the_way(path: Sequence[str], name: Sequence[str]) -> bool:
    return bool(path) and all(x == y for x, y in zip(path, name, strict=False))


def _laid_over(parameters: Mapping[str, Any], levels: Mapping[str, str]) -> dict[str, Any]:
    merged = dict(parameters)
    for name, value in levels.items():
        at = merged
        *around, last = name.split(".")
        for part in around:
            inner = at.get(part)
            # A copy: what is not a table is refused by the model.
            at[part] = dict(inner) if isinstance(inner, Mapping) else {}
            at = at[part]
        at[last] = value
    return merged

"""What did the trials of a search show?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from pgdrag.designs.search.findings import (
    CourseFinding,
    DimensionFinding,
    LineFinding,
    RivalFinding,
    SearchFinding,
    TrialFinding,
)
from pgdrag.designs.search.objectives import Objective
from pgdrag.designs.search.procedure import LINES_ALONE, Best, Observed, Procedure, Stage
from pgdrag.designs.search.proof import differences, mean_gain, mean_gains
from pgdrag.designs.search.words import answer, configuration, warnings
from pgdrag.findings.values import Interval
from pgdrag.stats.interval import bounded_exp

_CONFIDENCE, _CONFIDENT = 0.95, 1.96
_METHOD = "posterior of the additive model, short trials"
_DOUBTFUL = 0.5  # a value that makes trials fail with this probability or more is named


def find(procedure: Procedure, objective: Objective) -> SearchFinding:
    """Return what is known so far."""
    space, history = procedure.space, procedure.history
    found = procedure.found
    proof = [one for one in history if not one.is_brief]
    of_start = [
        one.value
        for one in history
        if one.is_brief and one.value is not None and one.point == space.start
    ]
    center = median(of_start) if of_start else 0.0
    brief = [one for one in history if one.is_brief]
    gains = differences(proof, found, space.start) if found is not None else []
    made = SearchFinding(
        answer="",
        warnings=(),
        goal=procedure.parameters.goal,
        objective=objective.words,
        is_rate=objective.is_rate,
        stage=procedure.stage,
        trials=len(brief),
        budget=procedure.parameters.max_trials,
        failed=len(procedure.feasible.failed),
        course=tuple(CourseFinding(one.trials, _ratio(one)) for one in procedure.course),
        tried=tuple(
            TrialFinding(number, None if one.value is None else bounded_exp(one.value - center))
            for number, one in enumerate(brief, start=1)
        ),
        dimensions=_dimensions(procedure),
        lines=_lines(procedure),
        winner_changes=len(space.changed(procedure.winner)) if procedure.winner else 0,
        claimed=None if procedure.claim is None else _ratio(procedure.claim),
        proved=mean_gain(gains),
        rivals=_rivals(procedure, proof),
        redeployments=tuple(map(bounded_exp, gains)),
        found=None,
    )
    made = replace(made, answer=answer(made), warnings=tuple(warnings(made)))
    if not made.lines or procedure.stage in (Stage.EXPLORING, Stage.COMPETING, Stage.REDUCING):
        return made
    kinds = {one.name: one.kind for one in space.dimensions}
    return replace(made, found=configuration(made, kinds))


def _rivals(procedure: Procedure, proof: Sequence[Observed]) -> tuple[RivalFinding, ...]:
    if procedure.found is None:
        return ()
    start, found = procedure.space.start, procedure.found
    names = procedure.names()
    made = []
    for point in procedure.proof_points():
        if point in (start, found):
            continue
        own = mean_gain(differences(proof, point, start))
        beaten_by = mean_gain(differences(proof, found, point))
        if own is not None and beaten_by is not None:
            name = point if isinstance(point, str) else names[point]
            made.append(RivalFinding(name, own, beaten_by))
    return tuple(made)


def _ratio(one: Best) -> Interval:
    return Interval.of_logs(one.low, one.gain, one.high, _CONFIDENCE, _METHOD)


def _dimensions(procedure: Procedure) -> tuple[DimensionFinding, ...]:
    """Return what is known of each dimension, those that matter most first."""
    response = procedure.response
    if response is None:
        return ()
    found = []
    risks = procedure.feasible.risks()
    best = procedure.best().point
    for at, (one, (means, sds)) in enumerate(
        zip(procedure.space.dimensions, response.effects(), strict=True)
    ):
        by_value = [
            Interval.of_logs(
                mean - _CONFIDENT * sd, mean, mean + _CONFIDENT * sd, _CONFIDENCE, _METHOD
            )
            for mean, sd in zip(means.tolist(), sds.tolist(), strict=True)
        ]
        found.append(
            DimensionFinding(
                name=one.name,
                group=one.group,
                start=one.start,
                best=one.values[best[at]],
                gain=by_value[best[at]],
                slice=dict(zip(one.values, by_value, strict=True)),
                failing=tuple(
                    value
                    for value, risk in zip(one.values, risks[at], strict=True)
                    if risk >= _DOUBTFUL
                ),
            )
        )
    return tuple(sorted(found, key=lambda one: -one.gain.center))


def _lines(procedure: Procedure) -> tuple[LineFinding, ...]:
    point, space = procedure.found, procedure.space
    if point is None:
        return ()
    brief = [one for one in procedure.history if one.is_brief]
    changed = space.changed(point)
    alone = {
        at: differences(brief, point, procedure.without(point, at))
        for at in changed
        if len(changed) > 1
    }
    brings = mean_gains(alone) if procedure.stage in (Stage.WEIGHING, Stage.DONE) else {}
    in_order = procedure.lines() + tuple(procedure.by_gain(point)[LINES_ALONE:])
    lines = [
        LineFinding(
            name=space.dimensions[at].name,
            value=space.dimensions[at].values[point[at]],
            start=space.dimensions[at].start,
            brings=brings.get(at),
        )
        for at in in_order
    ]
    return tuple(sorted(lines, key=lambda x: -x.brings.center if x.brings else 0.0))

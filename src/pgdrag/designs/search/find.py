"""What did the trials of a search show?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from pgdrag.designs.search.aims import Aim, Best
from pgdrag.designs.search.findings import (
    CourseFinding,
    DimensionFinding,
    FewestFinding,
    FrontFinding,
    LimitFinding,
    LineFinding,
    RivalFinding,
    SearchFinding,
    TrialFinding,
)
from pgdrag.designs.search.objectives import Objective
from pgdrag.designs.search.parameters import Goal
from pgdrag.designs.search.procedure import Procedure, Stage
from pgdrag.designs.search.proof import differences, mean_gain, mean_gains
from pgdrag.designs.search.response import Response
from pgdrag.designs.search.space import Point
from pgdrag.designs.search.trials import Observed
from pgdrag.designs.search.words import answer, configuration, warnings
from pgdrag.english import listed
from pgdrag.findings.values import Interval
from pgdrag.stats.interval import bounded_exp

_CONFIDENCE, _CONFIDENT = 0.95, 1.96
_METHOD = "posterior of the additive model, short trials"
_CONFIRMED_METHOD = "normal interval, short trials after what was found was chosen"
_DOUBTFUL = 0.5  # a value that makes trials fail with this probability or more is named


def directions(objectives: Sequence[Objective], goal: Goal) -> tuple[str, str]:
    """Return what a configuration is that gains, and what one is that loses, such as "faster" and "slower"."""
    one = objectives[0]
    better, worse = (one.better, one.worse) if len(objectives) == 1 else ("better", "worse")
    return (better, worse) if goal == "maximize" else (worse, better)


def find(
    procedure: Procedure,
    objectives: Sequence[Objective],
    times_s: Sequence[float],
    limits: Sequence[LimitFinding],
    *,
    proof_unit: str,
) -> SearchFinding:
    """Return what is known so far.

    Args:
        times_s: by trial, the seconds from the begin of the run to its end.
        limits: what the found configuration needed on fresh clusters.
        proof_unit: what each trial of the proof is: "fresh cluster".
    """
    space, history, main = procedure.space, procedure.history, procedure.main
    goal = procedure.parameters.goal
    proof = [one for one in history if not one.is_brief]
    brief = [one for one in history if one.is_brief]
    gains = [] if main.found is None else differences(proof, main.found, space.start, main.aim)
    better, worse = directions(objectives, goal)
    made = SearchFinding(
        answer="",
        warnings=(),
        goal=goal,
        objective=listed([one.words for one in objectives]),
        better=better,
        worse=worse,
        proof_unit=proof_unit,
        stage=procedure.stage,
        trials=len(brief),
        budget=procedure.parameters.max_trials,
        failed=len(procedure.feasible.failed),
        course=tuple(
            CourseFinding(one.trials, times_s[one.trials - 1], _ratio(one)) for one in main.course
        ),
        tried=_tried(procedure, brief),
        dimensions=_dimensions(procedure),
        lines=_lines(procedure),
        winner_changes=len(space.changed(main.winner)) if main.winner else 0,
        claimed=None if main.claim is None else _ratio(main.claim),
        proved=mean_gain(gains),
        rivals=_rivals(procedure, proof),
        fewest=_fewest(procedure, proof),
        front=_front(procedure, objectives, proof),
        redeployments=tuple(map(bounded_exp, gains)),
        limits=tuple(limits),
        found=None,
    )
    made = replace(made, answer=answer(made), warnings=tuple(warnings(made)))
    if procedure.stage in (Stage.EXPLORING, Stage.COMPETING, Stage.REDUCING):
        return made
    if not made.lines and not made.front:
        return made
    kinds = {one.name: one.kind for one in space.dimensions}
    return replace(made, found=configuration(made, kinds))


def _tried(procedure: Procedure, brief: Sequence[Observed]) -> tuple[TrialFinding, ...]:
    start, aims = procedure.space.start, [one.aim for one in procedure.sought]
    centers = [
        median(x)
        if (x := [aim.value(one.values) for one in brief if one.values and one.point == start])
        else 0.0
        for aim in aims
    ]
    return tuple(
        TrialFinding(
            number,
            tuple(
                bounded_exp(aim.value(one.values) - center)
                for aim, center in zip(aims, centers, strict=True)
            )
            if one.values
            else (),
        )
        for number, one in enumerate(brief, start=1)
    )


def _rivals(procedure: Procedure, proof: Sequence[Observed]) -> tuple[RivalFinding, ...]:
    """Return what else was run on the clusters of the proof, with what was found for the main aim."""
    main = procedure.main
    if main.found is None:
        return ()
    start, rule = procedure.space.start, procedure.space.rule
    fewest = (one for one in procedure.fewest.values() if one != rule)
    of_search = {start, *(one.found for one in procedure.sought), *fewest}
    made = []
    for point in procedure.proof_points():
        if point in of_search:
            continue
        own = mean_gain(differences(proof, point, start, main.aim))
        beaten_by = mean_gain(differences(proof, main.found, point, main.aim))
        if own is not None and beaten_by is not None:
            made.append(RivalFinding(_name_of(procedure, point), own, beaten_by))
    return tuple(made)


def _fewest(procedure: Procedure, proof: Sequence[Observed]) -> tuple[FewestFinding, ...]:
    space, aim = procedure.space, procedure.main.aim
    made = []
    for rival, point in procedure.fewest.items():
        gain = mean_gain(differences(proof, point, space.start, aim))
        over_rival = mean_gain(differences(proof, point, rival, aim))
        if gain is not None and over_rival is not None:
            lines = {level.name: level.value for level in space.levels(point)}
            made.append(FewestFinding(rival, lines, gain, over_rival))
    return tuple(made)


def _front(
    procedure: Procedure, objectives: Sequence[Objective], proof: Sequence[Observed]
) -> tuple[FrontFinding, ...]:
    """Return what each configuration of the proof gains in each objective; nothing of one objective."""
    if len(objectives) == 1 or procedure.main.found is None:
        return ()
    space = procedure.space
    aims = [one.aim for one in procedure.sought[1:]]  # each objective alone
    gains = {
        point: found
        for point in procedure.proof_points()
        if point != space.start
        and len(found := _gains(proof, point, space.start, aims)) == len(aims)
    }
    centers: list[tuple[float, ...]] = [tuple(1.0 for _ in aims)]
    centers += [tuple(one.center for one in of_point) for of_point in gains.values()]
    made = []
    for point, of_point in gains.items():
        own = tuple(one.center for one in of_point)
        levels = {} if isinstance(point, str) else {x.name: x.value for x in space.levels(point)}
        made.append(
            FrontFinding(
                name=_name_of(procedure, point),
                lines=levels,
                gains=dict(zip((aim.name for aim in aims), of_point, strict=True)),
                is_beaten=any(_beats(other, own) for other in centers),
            )
        )
    return tuple(made)


def _gains(
    proof: Sequence[Observed], point: Point | str, start: Point, aims: Sequence[Aim]
) -> list[Interval]:
    found = (mean_gain(differences(proof, point, start, aim)) for aim in aims)
    return [one for one in found if one is not None]


def _beats(one: Sequence[float], other: Sequence[float]) -> bool:
    """Tell whether one is at least as good in every objective, and better in one."""
    pairs = list(zip(one, other, strict=True))
    return all(x >= y for x, y in pairs) and any(x > y for x, y in pairs)


def _name_of(procedure: Procedure, point: Point | str) -> str:
    return point if isinstance(point, str) else procedure.names()[point]


def _ratio(one: Best) -> Interval:
    method = _CONFIRMED_METHOD if one.is_confirmed else _METHOD
    return Interval.of_logs(one.low, one.gain, one.high, _CONFIDENCE, method)


def _dimensions(procedure: Procedure) -> tuple[DimensionFinding, ...]:
    """Return what is known of each dimension, those that matter most first."""
    if not procedure.has_worked:
        return ()
    response = procedure.response(procedure.main.aim)
    found = []
    risks = procedure.feasible.risks()
    best = procedure.best(procedure.main.aim).point
    for at, (one, (means, sds)) in enumerate(
        zip(procedure.space.dimensions, response.effects, strict=True)
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
                seen=_seen(response, at),
                failing=tuple(
                    value
                    for value, risk in zip(one.values, risks[at], strict=True)
                    if risk >= _DOUBTFUL
                ),
            )
        )
    return tuple(sorted(found, key=lambda one: -one.gain.center))


def _seen(response: Response, at: int) -> dict[str, tuple[float, ...]]:
    values = response.kernels.space.dimensions[at].values
    found: dict[str, list[float]] = {}
    for one, alone in zip(response.tried, response.alone(at), strict=True):
        found.setdefault(values[one.point[at]], []).append(bounded_exp(alone))
    return {value: tuple(gains) for value, gains in found.items()}


def _lines(procedure: Procedure) -> tuple[LineFinding, ...]:
    space, (point, aim) = procedure.space, (procedure.main.found, procedure.main.aim)
    if point is None:
        return ()
    brief = [one for one in procedure.history if one.is_brief]
    changed = space.changed(point)
    alone = {
        at: differences(brief, point, procedure.without(point, at), aim)
        for at in changed
        if len(changed) > 1
    }
    brings = mean_gains(alone) if procedure.stage in (Stage.WEIGHING, Stage.DONE) else {}
    in_order = procedure.by_gain(point, aim)
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

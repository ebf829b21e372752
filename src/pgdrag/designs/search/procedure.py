"""Explore, let the best compete, keep the fewest changes, prove what is left."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import groupby, takewhile
from statistics import fmean

import numpy as np

from pgdrag.designs.search.aims import Aim, Best, Sought
from pgdrag.designs.search.feasible import Feasible
from pgdrag.designs.search.parameters import SearchParameters
from pgdrag.designs.search.proof import differences
from pgdrag.designs.search.proposal import best, best_tried, propose
from pgdrag.designs.search.reduction import Reduction, gains_of
from pgdrag.designs.search.response import Kernels, Response, Tried, respond
from pgdrag.designs.search.space import Point, Space
from pgdrag.designs.search.trials import Observed, Request, tells
from pgdrag.stats.hosts import Measured, host_shifts

CANDIDATES = 3  # of a block; its first trial is the baseline or the incumbent
_WIDTHS = (1, 4)  # dimensions nobody expects to matter that one trial changes: fewest and most
_WIDTH = 3  # of the first trials
_CONTENDERS = 3  # points that compete for an aim
_ROUNDS = 2  # short trials of each of these
_CONTENDERS_OF_SEVERAL = 2  # where there is more than one aim
_REDUCTIONS = 8  # at most so many times fewer changes are tried
_CONFIRMING = (2, 6)  # short trials of what is kept of the winner, fewest and most
_PRECISE = 0.03  # standard error of its log gain in these that is small enough
_LINES_ALONE = 8  # lines at most that are left out one by one
_CONFIDENT = 1.96


class Stage(StrEnum):
    """How far a search is."""

    EXPLORING = "exploring"
    COMPETING = "competing"
    REDUCING = "reducing"
    PROVING = "proving"
    WEIGHING = "weighing each line"
    DONE = "done"


Steps = Generator[Request, None, None]


class Procedure:
    """The search; the same results in the same order lead to the same requests.

    Args:
        rivals: by name, treatments that what is found is compared with, as the points nearest to them.
        aims: what is looked for, the main one first.

    Attributes:
        request: the next block; None when the search is over.
        history: every trial, in the order run.
        sought: what is known of each aim.
        fewest: by rival, the fewest changes of what was found for the main aim that are surely better than it by the
            short trials; nothing where it takes all of them, or even these are not.
    """

    def __init__(
        self,
        space: Space,
        parameters: SearchParameters,
        rivals: Mapping[str, Point] | None = None,
        aims: Sequence[Aim] = (Aim(),),
    ) -> None:
        self.space, self.parameters = space, parameters
        self.rivals = rivals or {}
        self.feasible = Feasible(space)
        self.history: list[Observed] = []
        self.sought = tuple(map(Sought, aims))
        self.fewest: dict[str, Point] = {}
        self.stage = Stage.EXPLORING
        self._kernels = Kernels(space, is_far_costly=parameters.goal == "maximize")
        self._responses: dict[Aim, Response] = {}
        self._confirmed_from = 0
        self._steps = self._run()
        self.request = next(self._steps, None)

    @property
    def main(self) -> Sought:
        """What is known of the main aim."""
        return self.sought[0]

    def tell(self, observed: Sequence[Observed]) -> None:
        """Take all trials of the block asked for last."""
        self.adopt(observed)
        self._note_course(observed)
        self.request = next(self._steps, None)

    def follow(self, observed: Sequence[Observed], named: Mapping[str, Point]) -> None:
        """Take all that is left of a run whose later trials another pgdrag or another processor chose.

        Args:
            named: the points of its proof, by the names that they had.
        """
        for _, block in groupby(observed, key=lambda one: one.block):
            trials = list(block)
            self.adopt(trials)
            self._note_course(trials)
        if not named or not self.has_worked:
            return
        for one in self.sought:
            one.found = named.get(_name_of_found(one.aim), self.space.start)
        self._confirmed_from = self._begin_of_confirming()
        for one in self.sought:
            assert one.found is not None
            one.claim = self._claimed(one.found, one.aim)
        fewest = {rival: _name_of_fewest(rival) for rival in self.rivals}
        self.fewest = {rival: named[name] for rival, name in fewest.items() if name in named}
        # Short trials after the proof are those without a line of what was found.
        self.stage = Stage.WEIGHING if observed[-1].is_brief else Stage.PROVING

    def _begin_of_confirming(self) -> int:
        """Return where the last short trials before the proof begin, which are only of the found point and the baseline."""
        proof = next((at for at, one in enumerate(self.history) if not one.is_brief), 0)
        points = {self.space.start, *(one.found for one in self.sought)}
        before = takewhile(lambda one: one.point in points, reversed(self.history[:proof]))
        return proof - len(list(before))

    def _note_course(self, observed: Sequence[Observed]) -> None:
        if self.has_worked and any(one.is_brief for one in observed):
            for one in self.sought:
                point = best_tried(self.response(one.aim), self.feasible)
                one.course.append(self._judged(point, one.aim))

    def adopt(self, observed: Sequence[Observed]) -> None:
        """Take trials of a block that is not complete: they count, and decide nothing."""
        for one in observed:
            self.history.append(one)
            if isinstance(one.point, str):
                continue
            if one.values is not None:
                self.feasible.worked.append(one.point)
            elif one.is_failure:
                self.feasible.failed.append(one.point)

    @property
    def has_worked(self) -> bool:
        """Whether any short trial did: without one nothing is known."""
        return any(tells(one) for one in self.history)

    def response(self, aim: Aim) -> Response:
        """Return what the short trials say of the space."""
        tried = self._tried(aim)
        assert tried, "nothing worked yet"
        before = self._responses.get(aim)
        if before is None or len(before.tried) != len(tried):
            self._responses[aim] = respond(self._kernels, tried, before)
        return self._responses[aim]

    def best(self, aim: Aim) -> Best:
        """Return the best point by what is known."""
        return self._judged(best(self.response(aim), self.feasible), aim)

    def trials_left(self) -> tuple[int, int, int]:
        """Return how many short trials are still to come, at least and at most, and how many full ones at most."""
        if self.request is None:
            return 0, 0, 0
        run = sum(one.is_brief for one in self.history)
        aims = len(self.sought)
        competing = (3 + (self._contenders_each + 1) * aims) * _ROUNDS
        reducing = (1 + aims) * (_REDUCTIONS + max(_CONFIRMING))
        lines = (_LINES_ALONE + 1) * self.parameters.line_trials
        most = self.parameters.max_trials + competing + reducing + lines
        brief = max(most - run, len(self.request.points))
        exploring = self.parameters.max_trials - run if self.stage is Stage.EXPLORING else 0
        least = max(exploring - CANDIDATES, len(self.request.points))
        whole = sum(not one.is_brief for one in self.history)
        arms = len(self.proof_points()) if self.main.found else 2 + 2 * len(self.rivals) + aims
        return least, max(brief, least), max(arms * self.parameters.redeployments - whole, 0)

    def proof_points(self) -> tuple[Point | str, ...]:
        """Return what is compared on fresh clusters: the baseline, what was found, all rivals and the rules of thumb."""
        found = [one.found for one in self.sought if one.found is not None]
        assert found, "nothing was found yet"
        arms: list[Point | str] = [self.space.start, *found, *self.fewest.values(), *self.rivals]
        if self._rule not in self.feasible.failed:
            arms.append(self._rule)
        return tuple(dict.fromkeys(arms))

    def lines(self) -> tuple[int, ...]:
        """Return the dimensions that are left out one by one of what was found for the main aim, those that bring most first."""
        assert self.main.found is not None, "nothing was found yet"
        return self.by_gain(self.main.found, self.main.aim)[:_LINES_ALONE]

    @property
    def _rule(self) -> Point:
        """What the rules of thumb say; they want to be fast."""
        return self.space.rule if self.parameters.goal == "maximize" else self.space.start

    @property
    def _contenders_each(self) -> int:
        return _CONTENDERS if len(self.sought) == 1 else _CONTENDERS_OF_SEVERAL

    def names(self) -> dict[Point, str]:
        """Return the points that have a name of their own."""
        names = {point: _name_of_fewest(rival) for rival, point in self.fewest.items()}
        names[self.space.rule] = "rules of thumb"
        for one in reversed(self.sought):
            if one.winner is not None:
                names[one.winner] = f"winner{_of_aim(one.aim)}"
        if self.main.found is not None:
            for at in self.lines() if self.stage is Stage.WEIGHING else ():
                name = self.space.dimensions[at].name
                names[self.without(self.main.found, at)] = f"found without {name}"
        for one in reversed(self.sought):
            if one.found is not None:
                names[one.found] = _name_of_found(one.aim)
        return names

    def without(self, point: Point, at: int) -> Point:
        """Return a point with the baseline's value in one dimension."""
        return self.space.only(point, {*self.space.changed(point)} - {at})

    # --- the stages ----------------------------------------------------------------------------

    def _run(self) -> Steps:
        if not self.space.dimensions:
            self._end()
            return
        yield from self._explore()
        if not self.has_worked or not self._changed(self.best(x.aim).point for x in self.sought):
            self._end()
            return
        self.stage = Stage.COMPETING
        yield from self._compete()
        self.stage = Stage.REDUCING
        yield from self._reduce()
        if not self._changed(one.found for one in self.sought):
            self._end()
            return
        for one in self.sought:
            assert one.found is not None
            one.claim = self._claimed(one.found, one.aim)
        self.fewest = self._fewest_that_beat()
        self.stage = Stage.PROVING
        for more in reversed(range(self.parameters.redeployments)):
            yield Request(self.proof_points(), is_brief=False, more=more)
        self.stage = Stage.WEIGHING
        assert self.main.found is not None
        lines = self.lines()
        if len(self.space.changed(self.main.found)) > 1:
            without = [self.without(self.main.found, at) for at in lines]
            for more in reversed(range(self.parameters.line_trials)):
                yield Request((self.main.found, *without), more=more)
        self._end()

    def _end(self) -> None:
        self.stage = Stage.DONE

    def _changed(self, points: Iterable[Point | None]) -> list[Point]:
        """Return those that are not the baseline."""
        return [one for one in points if one is not None and self.space.changed(one)]

    def _explore(self) -> Steps:
        start, rng = self.space.start, np.random.default_rng(self.parameters.seed)
        yield Request((*dict.fromkeys((start, self._rule, *self.rivals.values())), start))
        width = _WIDTH
        for turn in range(self.parameters.max_trials):
            left = self.parameters.max_trials - len(self.history)
            if left < 1 + CANDIDATES:
                return
            failed = len(self.feasible.failed)
            # Each candidate is for the next aim.
            turns = range(turn * CANDIDATES, (turn + 1) * CANDIDATES)
            aims = [self.sought[x % len(self.sought)].aim for x in turns]
            if not self.has_worked:
                yield Request((start,) * (1 + CANDIDATES))
            else:
                known = {aim: self.best(aim).point for aim in dict.fromkeys(aims)}
                candidates = [
                    propose(self.response(aim), self.feasible, known[aim], width=width, rng=rng)
                    for aim in aims
                ]
                anchor = start if turn % 2 else known[aims[0]]
                yield Request((anchor, *candidates))
            more = len(self.feasible.failed) - failed
            least, most = _WIDTHS
            width = max(width // 2, least) if more > 1 else min(width + (not more), most)

    def _compete(self) -> Steps:
        for _ in range(_ROUNDS):
            contenders = (x for one in self.sought for x in self._contenders(one.aim))
            rule = () if self._rule in self.feasible.failed else (self._rule,)
            yield Request(tuple(dict.fromkeys((self.space.start, *rule, *contenders))))
        for _ in range(_ROUNDS):
            for one in self.sought:
                one.winner = self.best(one.aim).point
            untried = self._changed(x.winner for x in self.sought if not self._was_tried(x.winner))
            if not untried:
                return
            yield Request(tuple(dict.fromkeys((self.space.start, *untried))))
        # What effects add up to has not been borne out twice.
        for one in self.sought:
            known = self.best(one.aim).point
            tried = best_tried(self.response(one.aim), self.feasible)
            one.winner = known if self._was_tried(known) else tried

    def _was_tried(self, point: Point | None) -> bool:
        return any(one.point == point for one in self.history)

    def _contenders(self, aim: Aim) -> tuple[Point, ...]:
        """Return the best point by what is known, and of those tried the best that differ from it."""
        response = self.response(aim)
        worked = {one.point: response.gain(one.point)[0] for one in response.tried}
        ranked = sorted(worked, key=lambda point: -worked[point])
        points = dict.fromkeys((self.best(aim).point, *ranked))
        points.pop(self.space.start, None)
        return tuple(points)[: self._contenders_each]

    def _reduce(self) -> Steps:
        keep = self.parameters.keep
        winners = {one.aim: _known(one.winner) for one in self.sought}
        reductions = {aim: Reduction(whole=one, kept=one) for aim, one in winners.items()}
        for _ in range(_REDUCTIONS):
            fewer = {
                aim: one.candidate(self.response(aim), keep) for aim, one in reductions.items()
            }
            if all(fewer[aim] == one.kept for aim, one in reductions.items()):
                break
            points = dict.fromkeys((self.space.start, *fewer.values()))
            yield Request(tuple(points))
            for aim, one in reductions.items():
                one.judge(fewer[aim], self.response(aim), self.feasible, keep)
        kept = {aim: one.kept for aim, one in reductions.items()}
        yield from self._confirm(tuple(kept.values()))
        for sought in self.sought:
            response, point = self.response(sought.aim), kept[sought.aim]
            if point in self.feasible.failed:
                point = best_tried(response, self.feasible)
            sought.found = point if response.gain(point)[0] > 0 else self.space.start

    def _confirm(self, points: tuple[Point, ...]) -> Steps:
        """Try what is kept beside the baseline: it was kept because of its trials so far, which may have been lucky."""
        self._confirmed_from = len(self.history)
        least, most = _CONFIRMING
        for rounds in range(most):
            noise = max(self.response(one.aim).trials.noise for one in self.sought)
            if rounds >= least and noise * math.sqrt(2 / rounds) <= _PRECISE:
                return
            yield Request(tuple(dict.fromkeys((self.space.start, *points))))

    def _claimed(self, found: Point, aim: Aim) -> Best:
        """Return the gain of what was found by the trials after it was chosen; by all where none of these is left."""
        trials = [one for one in self.history[self._confirmed_from :] if one.is_brief]
        gains = differences(trials, found, self.space.start, aim)
        if found == self.space.start or not gains:
            return self._judged(found, aim)
        within = {
            point: fmean(aim.variance(one.variances) for one in trials if one.point == point)
            for point in (found, self.space.start)
        }
        variance = 2 * self.response(aim).trials.noise ** 2 + sum(within.values())
        gain, half = fmean(gains), _CONFIDENT * math.sqrt(variance / len(gains))
        return Best(len(self.history), found, gain, gain - half, gain + half, is_confirmed=True)

    def _fewest_that_beat(self) -> dict[str, Point]:
        main, found = self.main, {}
        assert main.found is not None
        changes = self.by_gain(main.found, main.aim)
        for rival, point in self.rivals.items():
            for count in range(1, len(changes)):
                few = self.space.only(main.found, changes[:count])
                gain, sd = self.response(main.aim).gain(few, point)
                if gain > _CONFIDENT * sd:
                    found[rival] = few
                    break
        return found

    def by_gain(self, point: Point, aim: Aim) -> tuple[int, ...]:
        """Return the dimensions in which a point differs from the baseline, those that bring most first."""
        gains = gains_of(point, self.response(aim))
        return tuple(sorted(gains, key=lambda at: -gains[at]))

    def _judged(self, point: Point, aim: Aim) -> Best:
        gain, sd = self.response(aim).gain(point)
        half = _CONFIDENT * sd
        return Best(len(self.history), point, gain, gain - half, gain + half)

    def _tried(self, aim: Aim) -> list[Tried]:
        brief = [one for one in self.history if tells(one)]
        values = [aim.value(one.values or ()) for one in brief]
        shifts = host_shifts(
            [Measured(x.point, x.host, y) for x, y in zip(brief, values, strict=True)]
        )
        values = [value + shift for value, shift in zip(values, shifts, strict=True)]
        of_start = [
            value for one, value in zip(brief, values, strict=True) if one.point == self.space.start
        ]
        center = float(np.median(of_start)) if of_start else 0.0
        return [
            Tried.of(one.point, value, aim.variance(one.variances), one.block, center)
            for one, value in zip(brief, values, strict=True)
            if not isinstance(one.point, str)
        ]


def _of_aim(aim: Aim) -> str:
    return f" for {aim.name}" if aim.name else ""


def _name_of_found(aim: Aim) -> str:
    return f"found{_of_aim(aim)}"


def _name_of_fewest(rival: str) -> str:
    return f"fewest that beat {rival}"


def _known(point: Point | None) -> Point:
    assert point is not None, "exploring is not over"
    return point

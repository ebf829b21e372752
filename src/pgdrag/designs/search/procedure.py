"""Explore, let the best compete, keep the fewest changes, prove what is left."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from pgdrag.designs.search.feasible import Feasible
from pgdrag.designs.search.parameters import SearchParameters
from pgdrag.designs.search.proposal import best, propose
from pgdrag.designs.search.response import Kernels, Response, Tried, respond
from pgdrag.designs.search.space import Point, Space

CANDIDATES = 3  # of a block; its first trial is the baseline or the incumbent
_WIDTHS = (1, 4)  # dimensions nobody expects to matter that one trial changes: fewest and most
_WIDTH = 3  # of the first trials
_SQUASHED = 0.7  # a log loss beyond this is as bad as any: the model need not know how bad
_CONTENDERS, _ROUNDS = 3, 2  # points that compete, and short trials of each
_REDUCTIONS = 3  # at most so many times the fewest changes are chosen anew
LINES_ALONE = 8  # lines at most that are left out one by one
_CONFIDENT = 1.96


class Stage(StrEnum):
    """How far a search is."""

    EXPLORING = "exploring"
    COMPETING = "competing"
    REDUCING = "reducing"
    PROVING = "proving"
    WEIGHING = "weighing each line"
    DONE = "done"


@dataclass(frozen=True)
class Request:
    """One block of trials; a point may occur repeatedly, and a rival is named."""

    points: tuple[Point | str, ...]
    is_brief: bool = True


@dataclass(frozen=True)
class Observed:
    """One finished trial.

    Attributes:
        point: what was tried; of a rival its name.
        value: the logarithm of the objective, where more is what is searched for; None: nothing was committed,
            or the server did not run.
        is_failure: the configuration is to blame for that.
    """

    point: Point | str
    value: float | None
    variance: float
    block: int
    is_brief: bool
    is_failure: bool


@dataclass(frozen=True)
class Best:
    """The best point known after some trials, and its log gain over the baseline.

    Attributes:
        low, high: 95 % interval of the gain.
    """

    trials: int
    point: Point
    gain: float
    low: float
    high: float


Steps = Generator[Request, None, None]


class Procedure:
    """The search; the same results in the same order lead to the same requests.

    Args:
        rivals: by name, treatments that what is found is compared with, as the points nearest to them.

    Attributes:
        request: the next block; None when the search is over.
        history: every trial, in the order run.
        course: the best after each block of short trials.
        winner: the best point once exploring and competing are over.
        found: the winner with the fewest changes that keep its gain.
        claim: what the short trials say of the found point, before it is proved.
    """

    def __init__(
        self,
        space: Space,
        parameters: SearchParameters,
        rivals: Mapping[str, Point] | None = None,
    ) -> None:
        self.space, self.parameters = space, parameters
        self.rivals = rivals or {}
        self.feasible = Feasible(space)
        self.history: list[Observed] = []
        self.course: list[Best] = []
        self.stage = Stage.EXPLORING
        self.winner: Point | None = None
        self.found: Point | None = None
        self.claim: Best | None = None
        self._kernels = Kernels(space)
        self._response: tuple[int, Response] | None = None
        self._steps = self._run()
        self.request = next(self._steps, None)

    def tell(self, observed: Sequence[Observed]) -> None:
        """Take all trials of the block asked for last."""
        self.adopt(observed)
        if self.response is not None and any(one.is_brief for one in observed):
            self.course.append(self.best())
        self.request = next(self._steps, None)

    def adopt(self, observed: Sequence[Observed]) -> None:
        """Take trials of a block that is not complete: they count, and decide nothing."""
        for one in observed:
            self.history.append(one)
            if isinstance(one.point, str):
                continue
            if one.value is not None:
                self.feasible.worked.append(one.point)
            elif one.is_failure:
                self.feasible.failed.append(one.point)

    @property
    def response(self) -> Response | None:
        """What the short trials say of the space; None before the first that worked."""
        tried = self._tried()
        if not tried:
            return None
        if self._response is None or self._response[0] != len(tried):
            before = None if self._response is None else self._response[1]
            self._response = len(tried), respond(self._kernels, tried, before)
        return self._response[1]

    def best(self) -> Best:
        """Return the best point by what is known."""
        assert self.response is not None, "nothing worked yet"
        return self._judged(best(self.response, self.feasible))

    def trials_left(self) -> tuple[int, int, int]:
        """Return how many short trials are still to come, at least and at most, and how many full ones at most."""
        if self.request is None:
            return 0, 0, 0
        run = sum(one.is_brief for one in self.history)
        of_winner = _CONTENDERS * _ROUNDS + 3 * _REDUCTIONS
        lines = (LINES_ALONE + 1) * self.parameters.line_trials
        brief = max(self.parameters.max_trials + of_winner + lines - run, len(self.request.points))
        exploring = self.parameters.max_trials - run if self.stage is Stage.EXPLORING else 0
        least = max(exploring - CANDIDATES, len(self.request.points))
        whole = sum(not one.is_brief for one in self.history)
        arms = len(self.proof_points()) if self.found else 3
        return least, max(brief, least), max(arms * self.parameters.redeployments - whole, 0)

    def proof_points(self) -> tuple[Point | str, ...]:
        """Return what is compared on fresh clusters: the baseline, what was found, the rules of thumb and all rivals."""
        assert self.found is not None, "nothing was found yet"
        arms: list[Point | str] = [self.space.start, self.found, *self.rivals]
        if self._rule not in self.feasible.failed:
            arms.append(self._rule)
        return tuple(dict.fromkeys(arms))

    def lines(self) -> tuple[int, ...]:
        """Return the dimensions of the found point that are left out one by one, those that bring most first."""
        assert self.found is not None, "nothing was found yet"
        return self.by_gain(self.found)[:LINES_ALONE]

    @property
    def _rule(self) -> Point:
        """What the rules of thumb say; they want to be fast."""
        return self.space.rule if self.parameters.goal == "maximize" else self.space.start

    def names(self) -> dict[Point, str]:
        """Return the points that have a name of their own."""
        names = {self.space.rule: "rules of thumb"}
        if self.winner is not None:
            names[self.winner] = "winner"
        if self.found is not None:
            for at in self.lines() if self.stage is Stage.WEIGHING else ():
                name = self.space.dimensions[at].name
                names[self.without(self.found, at)] = f"found without {name}"
            names[self.found] = "found"
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
        if self.response is None or not self.space.changed(self.best().point):
            self._end()
            return
        self.stage = Stage.COMPETING
        yield from self._compete()
        self.stage = Stage.REDUCING
        yield from self._reduce()
        if self.found is None or not self.space.changed(self.found):
            self._end()
            return
        self.claim = self._judged(self.found)
        self.stage = Stage.PROVING
        for _ in range(self.parameters.redeployments):
            yield Request(self.proof_points(), is_brief=False)
        self.stage = Stage.WEIGHING
        lines = self.lines()
        if len(self.space.changed(self.found)) > 1:
            without = [self.without(self.found, at) for at in lines]
            for _ in range(self.parameters.line_trials):
                yield Request((self.found, *without))
        self._end()

    def _end(self) -> None:
        self.stage = Stage.DONE

    def _explore(self) -> Steps:
        start, rng = self.space.start, np.random.default_rng(self.parameters.seed)
        yield Request((*dict.fromkeys((start, self._rule, *self.rivals.values())), start))
        width = _WIDTH
        for turn in range(self.parameters.max_trials):
            left = self.parameters.max_trials - len(self.history)
            if left < 1 + CANDIDATES:
                return
            response = self.response
            incumbent = start if response is None else self.best().point
            failed = len(self.feasible.failed)
            anchor = start if turn % 2 else incumbent
            if response is None:
                candidates = [start] * CANDIDATES
            else:
                candidates = [
                    propose(response, self.feasible, incumbent, width=width, rng=rng)
                    for _ in range(CANDIDATES)
                ]
            yield Request((anchor, *candidates))
            more = len(self.feasible.failed) - failed
            least, most = _WIDTHS
            width = max(width // 2, least) if more > 1 else min(width + (not more), most)

    def _compete(self) -> Steps:
        for _ in range(_ROUNDS):
            yield Request((self.space.start, *self._contenders()))
        self.winner = self.best().point

    def _contenders(self) -> tuple[Point, ...]:
        """Return the best point by what is known, and of those tried the best that differ from it."""
        assert self.response is not None
        worked = {one.point: self.response.gain(one.point)[0] for one in self._tried()}
        ranked = sorted(worked, key=lambda point: -worked[point])
        points = dict.fromkeys((self.best().point, *ranked))
        points.pop(self.space.start, None)
        return tuple(points)[:_CONTENDERS]

    def _reduce(self) -> Steps:
        assert self.winner is not None
        seen: set[Point] = set()
        for _ in range(_REDUCTIONS):
            self.found = self._fewest(self.winner)
            if self.found in seen or not self.space.changed(self.found):
                return
            seen.add(self.found)
            yield Request(tuple(dict.fromkeys((self.space.start, self.winner, self.found))))

    def _fewest(self, point: Point) -> Point:
        """Return a point without the changes that together bring less than may be lost of its gain."""
        assert self.response is not None
        gain, _ = self.response.gain(point)
        if gain <= 0:
            return self.space.start
        kept = list(self.by_gain(point))
        while kept:
            fewer = self.space.only(point, kept[:-1])
            if self.response.gain(fewer)[0] < self.parameters.keep * gain:
                break
            kept.pop()
        return self.space.only(point, kept)

    def by_gain(self, point: Point) -> tuple[int, ...]:
        """Return the dimensions in which a point differs from the baseline, those that bring most first."""
        assert self.response is not None
        effects = self.response.effects()
        return tuple(sorted(self.space.changed(point), key=lambda x: -effects[x][0][point[x]]))

    def _judged(self, point: Point) -> Best:
        assert self.response is not None
        gain, sd = self.response.gain(point)
        half = _CONFIDENT * sd
        return Best(len(self.history), point, gain, gain - half, gain + half)

    def _tried(self) -> list[Tried]:
        brief = [one for one in self.history if one.is_brief and one.value is not None]
        of_start = [
            one.value for one in brief if one.value is not None and one.point == self.space.start
        ]
        center = float(np.median(of_start)) if of_start else 0.0
        return [
            Tried(one.point, center + squashed(one.value - center), one.variance, one.block)
            for one in brief
            if one.value is not None and not isinstance(one.point, str)
        ]


def squashed(gain: float) -> float:
    """Return a log gain; of a large loss its size is taken with a logarithm, so that one disaster is not all one sees."""
    if gain >= -_SQUASHED:
        return gain
    return -_SQUASHED - _SQUASHED * math.log1p((-gain - _SQUASHED) / _SQUASHED)

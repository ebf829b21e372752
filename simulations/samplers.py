"""Which configurations do samplers try, and what do they hold for the best? Our own search, and those of others.

With Optuna or scikit-learn installed, samplers of theirs are among them; Optuna's Gaussian process needs PyTorch, too.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from pgdrag.designs.search.parameters import SearchParameters
from pgdrag.designs.search.procedure import Procedure, Stage
from pgdrag.designs.search.space import Point, Space
from simulations.surfaces import Machine, Surface


@dataclass(frozen=True)
class Course:
    """What one of them came to.

    Attributes:
        held: by trial, the true log gain of what it holds for the best after it.
        greatest: that of the best that it tried in as many trials as all have.
    """

    held: tuple[float, ...]
    greatest: float

    def trials_to(self, gain: float) -> float:
        """Return after how many trials it held one with such a log gain; infinite: never."""
        return next(
            (count for count, held in enumerate(self.held, start=1) if held >= gain), math.inf
        )


def own_course(of: Surface, noise: float, seed: int, trials: int) -> Course:
    """Return how our search explores a surface: what it holds for the best is what its model says."""
    machine = Machine(of, noise, seed)
    parameters = SearchParameters(
        goal=of.goal, dimensions=of.space.dimensions, max_trials=trials, seed=seed
    )
    procedure = Procedure(of.space, parameters)
    held: list[float] = []
    while procedure.request is not None and procedure.stage is Stage.EXPLORING:
        before = held[-1] if held else 0.0
        held += [before] * (len(procedure.request.points) - 1)
        machine.answer(procedure, procedure.request)
        course = procedure.main.course
        held.append(of.gain(course[-1].point) if course else before)
    tried = {one.point for one in procedure.history if not isinstance(one.point, str)}
    return Course(tuple(held), max(of.gain(point) for point in tried if of.runs(point)))


def course_of(
    sampler: Sampler, of: Surface, noise: float, seed: int, trials: int, *, longer: int
) -> Course:
    """Return how a sampler explores a surface: what it holds for the best has the best number seen.

    It goes on for as many trials as `longer` says, so that it is known how late it finds what others found in `trials`.
    """
    machine, highest = Machine(of, noise, seed), -math.inf
    held, greatest = [0.0], 0.0
    for number in range(longer):
        point = sampler.ask()
        [seen] = machine.run([point])
        value = None if seen.values is None else seen.values[0]
        sampler.tell(value)
        now = held[-1]
        if value is not None:
            if number < trials:
                greatest = max(greatest, of.gain(point))
            if value > highest:
                highest, now = value, of.gain(point)
        held.append(now)
    return Course(tuple(held[1:]), greatest)


class Sampler(Protocol):
    """Chooses what is tried, one trial at a time."""

    def ask(self) -> Point:
        """Return what to try next."""

    def tell(self, value: float | None) -> None:
        """Take what came of it; None: it failed."""


class _Random:
    def __init__(self, space: Space, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 2])
        self._sizes = [len(one.values) for one in space.dimensions]

    def ask(self) -> Point:
        return tuple(int(self._rng.integers(size)) for size in self._sizes)

    def tell(self, value: float | None) -> None:
        """Nothing is learnt."""


class _Optuna:
    """A sampler of Optuna's, which begins with the baseline and the rules of thumb."""

    def __init__(self, name: str, space: Space, seed: int) -> None:
        import optuna  # type: ignore[import-not-found, unused-ignore]

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        sampler = getattr(optuna.samplers, name)(seed=seed)
        self._study = optuna.create_study(direction="maximize", sampler=sampler)
        self._dimensions = space.dimensions
        for point in (space.start, space.rule):
            names = (one.name for one in space.dimensions)
            self._study.enqueue_trial(dict(zip(names, point, strict=True)))
        self._trial: Any = None

    def ask(self) -> Point:
        self._trial = self._study.ask()
        return tuple(
            self._trial.suggest_int(one.name, 0, len(one.values) - 1) for one in self._dimensions
        )

    def tell(self, value: float | None) -> None:
        import optuna

        failed = optuna.trial.TrialState.FAIL
        self._study.tell(self._trial, value, state=failed if value is None else None)


class _Forest:
    """A random forest; what it draws most hope from is tried: its mean and spread over the trees."""

    _FIRST = 10  # random trials
    _CANDIDATES = 400
    _CHANGES = 4  # of the best, in half of the candidates
    _TREES = 30

    def __init__(self, space: Space, seed: int) -> None:
        self._rng = np.random.default_rng([seed, 4])
        self._space, self._random = space, _Random(space, seed)
        self._points: list[Point] = []
        self._values: list[float] = []

    def ask(self) -> Point:
        begin = (self._space.start, self._space.rule)
        if len(self._points) < len(begin) + self._FIRST:
            number = len(self._points)
            self._points.append(begin[number] if number < len(begin) else self._random.ask())
            return self._points[-1]
        from sklearn.ensemble import RandomForestRegressor  # type: ignore[import-not-found, import-untyped, unused-ignore]

        forest = RandomForestRegressor(
            self._TREES, random_state=len(self._points), min_samples_leaf=2
        )
        forest.fit(self._points, self._values)
        best = self._points[int(np.argmax(self._values))]
        half = self._CANDIDATES // 2
        candidates = [self._random.ask() for _ in range(half)]
        candidates += [self._near(best) for _ in range(half)]
        by_tree = np.array([tree.predict(candidates) for tree in forest.estimators_])
        self._points.append(candidates[int(np.argmax(by_tree.mean(axis=0) + by_tree.std(axis=0)))])
        return self._points[-1]

    def _near(self, point: Point) -> Point:
        found = list(point)
        for at in self._rng.choice(len(point), size=self._CHANGES, replace=False):
            found[at] = int(self._rng.integers(len(self._space.dimensions[at].values)))
        return tuple(found)

    def tell(self, value: float | None) -> None:
        worst = min(self._values, default=0.0)
        self._values.append(worst - 1 if value is None else value)


def samplers() -> Mapping[str, Callable[[Space, int], Sampler]]:
    """Return those that are installed, each by what makes one from a space and a seed."""
    found: dict[str, Callable[[Space, int], Sampler]] = {"random search": _Random}
    if importlib.util.find_spec("optuna"):
        found["Optuna's TPE"] = partial(_Optuna, "TPESampler")
        if importlib.util.find_spec("torch"):
            found["Optuna's Gaussian process"] = partial(_Optuna, "GPSampler")
    if importlib.util.find_spec("sklearn"):
        found["a random forest"] = _Forest
    return found

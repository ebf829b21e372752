"""Which load does `[scales.NAME.load]` ask for, and which of its keys exclude each other?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from pgdrag.experiment.load import Course, LoadTable
from pgdrag.experiment.mistakes import Mistake, in_table
from pgdrag.model.load import BenchBaseRate, Closed, LoadProfile, Open, Pacing, Step
from pgdrag.toml_lines import KeyPath

BUDGET_FACTOR = 5  # of measure_s, where the file names no budget
DEFAULT_CONNECTIONS = 8
DEFAULT_MEASURE_S = 30.0

V = TypeVar("V")

# Which pacing each key belongs to.
_BELONGS = {
    "rate_per_s": ("open", "benchbase"),
    "arrivals": ("open",),
    "backlog_limit": ("open",),
    "queue_limit": ("benchbase",),
}


def load_profile(load: LoadTable, at: KeyPath) -> tuple[LoadProfile, list[Mistake]]:
    """Return the profile that a table describes, and what is wrong with it.

    Args:
        at: where the table stands in the file.
    """
    measure_s = _measure_s(load)
    budget_s = BUDGET_FACTOR * measure_s if load.budget_s is None else load.budget_s
    connections = load.connections or _most_sessions(load) or DEFAULT_CONNECTIONS
    profile = LoadProfile(
        connections=connections,
        warm_up_s=load.warm_up_s,
        measure_s=measure_s,
        budget_s=budget_s,
        pacing=_pacing(load),
        min_commits=load.min_commits,
        threads=load.threads,
        latency_limit_us=None
        if load.latency_limit_ms is None
        else round(load.latency_limit_ms * 1000),
        steps=_steps(load, connections),
        generators=("",) * load.generators if load.generators > 1 else (),
    )
    found = [
        *_pacing_mistakes(load, at),
        *_window_mistakes(load, profile, at),
        *_session_mistakes(load, profile, at),
    ]
    return profile, found


def _measure_s(load: LoadTable) -> float:
    """Return the window's length: as named, else as long as a ramp takes."""
    if load.measure_s is not None:
        return load.measure_s
    return max((x.length_s for x in _courses(load) if x.length_s), default=DEFAULT_MEASURE_S)


def _courses(load: LoadTable) -> list[Course]:
    return [x for x in (load.sessions, load.rate_per_s) if isinstance(x, Course)]


def _most_sessions(load: LoadTable) -> int:
    return int(max(value for _, value in load.sessions.pairs)) if load.sessions else 0


def _pacing_kind(load: LoadTable) -> str:
    return load.pacing or ("closed" if load.rate_per_s is None else "open")


def _pacing(load: LoadTable) -> Pacing:
    rate = load.rate_per_s
    # Where it is missing there is a mistake, and the profile is never used.
    per_s = 1.0 if rate is None else rate.pairs[0][1] if isinstance(rate, Course) else rate
    match _pacing_kind(load):
        case "open":
            plain = Open(per_s)
            return Open(
                per_s, load.arrivals or plain.arrivals, load.backlog_limit or plain.backlog_limit
            )
        case "benchbase":
            return BenchBaseRate(per_s, load.queue_limit or BenchBaseRate(per_s).queue_limit)
        case _:
            return Closed()


def _steps(load: LoadTable, connections: int) -> tuple[Step, ...]:
    """Lay the courses of sessions and rate over each other."""
    courses = _courses(load)
    if not courses:
        return ()
    times = sorted({at_s for course in courses for at_s, _ in course.pairs})
    sessions = load.sessions.pairs if load.sessions else ((0.0, connections),)
    rate = load.rate_per_s
    rates = rate.pairs if isinstance(rate, Course) else ((0.0, rate),)
    return tuple(Step(at_s, int(_at(sessions, at_s)), _at(rates, at_s)) for at_s in times)


def _at(pairs: Sequence[tuple[float, V]], at_s: float) -> V:
    return [value for begin_s, value in pairs if begin_s <= at_s][-1]


def _pacing_mistakes(load: LoadTable, at: KeyPath) -> list[Mistake]:
    kind = _pacing_kind(load)
    found = []
    for key, kinds in _BELONGS.items():
        if getattr(load, key) is not None and kind not in kinds:
            wanted = " or ".join(f'pacing = "{x}"' for x in kinds)
            message = f'"{key}" in {in_table(at)} has no effect with pacing = "{kind}"'
            found.append(Mistake((*at, key), message, f"It belongs to {wanted}."))
    if kind != "closed" and load.rate_per_s is None:
        message = f'"pacing" in {in_table(at)} is "{kind}", which needs "rate_per_s"'
        hint = "Say how many transactions per second are offered."
        found.append(Mistake((*at, "pacing"), message, hint))
    return found


def _window_mistakes(load: LoadTable, profile: LoadProfile, at: KeyPath) -> list[Mistake]:
    found = []
    if profile.budget_s < profile.measure_s:
        message = (
            f'"budget_s" in {in_table(at)} must be at least measure_s, {profile.measure_s:g}, '
            f"not {profile.budget_s:g}"
        )
        found.append(Mistake((*at, "budget_s"), message))
    last_s = profile.steps[-1].at_s if profile.steps else 0.0
    if last_s >= profile.measure_s:
        message = (
            f"the window of {in_table(at)} ends after {profile.measure_s:g} s, before its step at "
            f"{last_s:g} s begins"
        )
        key = "measure_s" if load.measure_s is not None else "sessions"
        hint = f"Set measure_s to more than {last_s:g}."
        found.append(Mistake((*at, key), message, hint))
    return found


def _session_mistakes(load: LoadTable, profile: LoadProfile, at: KeyPath) -> list[Mistake]:
    found = []
    most = _most_sessions(load)
    if most > profile.connections:
        message = (
            f'"sessions" in {in_table(at)} go up to {most}, but there are only '
            f"{profile.connections} connections"
        )
        hint = f'Set connections to {most} or more, or leave "connections" out.'
        found.append(Mistake((*at, "sessions"), message, hint))
    for key in ("threads", "generators"):
        if (value := getattr(load, key) or 1) > profile.connections:
            message = (
                f'"{key}" in {in_table(at)} must be at most the connections, '
                f"{profile.connections}, not {value}"
            )
            found.append(Mistake((*at, key), message))
    return found

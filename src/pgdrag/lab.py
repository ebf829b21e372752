"""The laboratory's loop: ask the design, run trials, record, tell the design; read this first.

A design says which treatments it wants next. The laboratory makes trials of them (replicates in
randomised blocks, from one seed), has each run on a bench, writes what came of it to the journal
before the next begins, and tells the design. A run that was cut off goes on from the journal: the
same seed gives the same trials, and those with a valid result are not run again.

Two parts do that. An `Agenda` knows which trial comes next and keeps the journal; a `Station` runs trials on one
bench. Here both are in one process; a fleet has one agenda and a station on each host. The design sees results in the
order of the trials, whoever ran them and in whatever order they ended: its decisions are the same.
"""

from __future__ import annotations

import random
from bisect import insort
from collections import Counter, deque
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from pgdrag.duration import PREPARE, Budget, Experience
from pgdrag.errors import Interrupted, StorageError
from pgdrag.factors import Problem
from pgdrag.host.clock import CLOCK
from pgdrag.journal import Journal
from pgdrag.model import (
    Applied,
    Block,
    Forecast,
    Level,
    Outcome,
    Result,
    RunRecord,
    Study,
    Treatment,
    Trial,
    WorkloadSpec,
)
from pgdrag.model.design import make_design
from pgdrag.model.events import (
    BlockPlanned,
    BudgetSpent,
    Listener,
    RunStarted,
    TrialFinished,
    TrialStarted,
    ignore,
)

# A trial whose host was lost so often is itself the reason, as far as anybody can tell.
MOST_LOSSES = 3
# What a design knows so far is told of no more results of a block: it looks at all of them each time.
MOST_SO_FAR = 200


class TrialRunner(Protocol):
    """Where trials are run: on real servers (`pgdrag.trial`) or simulated (`pgdrag.testing`)."""

    def now_s(self) -> float:
        """Return the time there, in seconds since some moment; only differences mean anything."""
        ...

    def check(self, levels: Sequence[Level], workload: WorkloadSpec) -> list[Problem]:
        """Return which levels of one treatment cannot be applied here under a workload, and why."""
        ...

    def prepare(self, study: Study, listen: Listener) -> None:
        """Make ready what all trials share (the dataset); again is cheap."""
        ...

    def run(self, trial: Trial, listen: Listener) -> Result:
        """Run one trial; whatever the treatment does to the server is an outcome, not an error."""
        ...

    def close(self) -> None:
        """Give up what one trial left for the next; again is fine."""
        ...


def run_experiment(
    run_id: str, bench: TrialRunner, journal: Journal, listen: Listener = ignore
) -> RunRecord:
    """Run, or continue, a run that the journal knows, and return it with all its results.

    Raises:
        Interrupted: Ctrl-C or SIGTERM; what was measured is in the journal.
        PgdragError: something that stops all trials; what was measured is in the journal.
    """
    with running(run_id, journal):
        try:
            agenda = Agenda(journal.run(run_id), journal, listen)
            station = Station(agenda.run.study, bench, listen)
            while not agenda.is_over:
                turn = agenda.next(since_s=station.since_s)
                if turn is None:
                    for host in agenda.hosts_with_work:  # of a fleet that is not there any more
                        agenda.release(host)
                    continue
                try:
                    result = station.run(turn.trial, listen)
                except StorageError as error:
                    # No other trial would fare better; recorded, and run again when the run is resumed.
                    agenda.lost(turn, error.message)
                    raise
                agenda.record(turn, result)
        finally:
            bench.close()
    return journal.run(run_id)


@contextmanager
def running(run_id: str, journal: Journal) -> Iterator[None]:
    """Note in the journal that a run goes on within the block, and how it ended.

    Raises:
        Interrupted: Ctrl-C or SIGTERM came in the block.
    """
    status = "failed"
    try:
        journal.set_status(run_id, "running")
        yield
        status = "done"
    except KeyboardInterrupt:
        status = "interrupted"
        raise Interrupted(
            f"run {run_id} was interrupted",
            detail="Every finished trial is in the journal.",
            hint=f'Run "pgdrag resume {run_id}" to go on.',
        ) from None
    finally:
        journal.set_status(run_id, status)  # type: ignore[arg-type]


def expand(
    block: Block, study: Study, *, seed: int, block_number: int, first_number: int
) -> list[Trial]:
    """Return the trials of one block that a design asked for.

    Each replicate is a complete block of its own in random order, so that slow drift of the machine
    cannot favour a treatment; all its trials share one seed, so that all treatments are offered the
    same transactions. Short trials spend no time on the dataset's consistency: those of the whole
    length do.
    """
    load = study.load.shortened() if block.is_brief else study.load
    if not block.is_patient:
        load = replace(load, budget_s=load.measure_s)
    trials: list[Trial] = []
    for replicate in range(1, block.times(study.replicates) + 1):
        rng = random.Random(f"{seed}/{block_number}/{replicate}")
        trial_seed = rng.getrandbits(63)
        for treatment in rng.sample(block.treatments, k=len(block.treatments)):
            trials.append(
                Trial(
                    number=first_number + len(trials),
                    block=(block_number - 1) * study.replicates + replicate,
                    replicate=replicate,
                    treatment=treatment,
                    workload=study.workload,
                    load=load,
                    seed=trial_seed,
                    is_checked=study.is_checked and not block.is_brief,
                    is_brief=block.is_brief,
                    instrument=study.instrument,
                )
            )
    return trials


@dataclass(frozen=True)
class Turn:
    """A trial that is to be run now, and which attempt at it this is, from 1.

    The attempt is its fencing number: the journal takes one result of the newest attempt, and no other.
    """

    trial: Trial
    attempt: int
    host: str = ""


@dataclass(eq=False)
class _Series:
    """The trials of one replicate of a block: one host runs all of them, one after the other.

    Attributes:
        todo: those without a result, in order.
        host: that has begun it; None: nobody has.
        turn: under way.
    """

    todo: list[Trial]
    host: str | None = None
    turn: Turn | None = None


@dataclass
class _Asked:
    """A block that the design asked for, or is expected to ask for next.

    Attributes:
        series: those that have trials without a result.
        results: in the order of the trials.
    """

    block: Block
    trials: list[Trial]
    series: list[_Series]
    results: list[Result] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return len(self.results) == len(self.trials)

    def add(self, series: _Series, result: Result) -> None:
        series.todo = [x for x in series.todo if x.number != result.trial.number]
        if not series.todo:
            self.series.remove(series)
        insort(self.results, result, key=lambda one: one.trial.number)


class Agenda:
    """Which trial of a run comes next, on which host; keeps its journal, and tells its design.

    A host runs one trial at a time. It has all trials of a block's replicate, so that what is compared ran on one
    machine; when it is lost, another host begins that replicate again.

    Args:
        hosts: how many trials may be under way at once. More than the design has asked for are begun where it says
            what it would ask for next; what it then does not ask for is forgotten.
    """

    def __init__(
        self, run: RunRecord, journal: Journal, listen: Listener = ignore, *, hosts: int = 1
    ) -> None:
        self.run, self.hosts = run, hosts
        self._journal, self._listen = journal, listen
        self._kept = journal.valid_results(run.run_id)
        listen(RunStarted(run.run_id, run.study, len(self._kept)))
        self._design = make_design(run.study)
        self._budget = Budget(
            run.study.budget_s, Experience.of(journal.newest_results(run.study.workload, run.host))
        )
        self._queue: deque[_Asked] = deque()  # the design has asked for the first one
        self._told = 0  # blocks
        self._next_number = 1
        self._forecast = Forecast(0, 0)  # before the block that the design asked for
        self._losses: Counter[int] = Counter()
        self._hosts_before: dict[int, str] = {}  # by replicate: who began one last
        self._is_ended = False

    @property
    def is_over(self) -> bool:
        """Whether no trial will be begun any more; some are still under way where a budget ended the run."""
        self._ask(0.0)
        return self._is_ended

    @property
    def under_way(self) -> list[Turn]:
        """The trials that hosts have."""
        return [one.turn for one in self._series() if one.turn is not None]

    @property
    def hosts_with_work(self) -> set[str]:
        """The hosts that have begun a block, and not ended it."""
        return {one.host for one in self._series() if one.host is not None}

    @property
    def left(self) -> Forecast:
        """How many trials are still to come."""
        if not self._queue:
            return Forecast(0, 0)
        asked = self._queue[0]
        return self._forecast.without(len(asked.results), is_brief=asked.block.is_brief)

    def next(
        self, host: str = "", *, since_s: float = 0.0, is_its_own: bool = False
    ) -> Turn | None:
        """Return what a host without a trial is to run; None: nothing, for now or for good (see `is_over`).

        Args:
            since_s: what the host has spent beside trials since its last one.
            is_its_own: only what the host has begun, or what follows a block that it has run: where several are
                free, each replicate stays on one host from block to block.
        """
        self._ask(since_s)
        if self._is_ended:
            return None
        series = self._series_for(host, is_its_own=is_its_own)
        if series is None:
            return None
        trial = series.todo[0]
        fitted = self._budget.fitted(trial, since_s, host)
        if fitted is None:
            self._listen(BudgetSpent(self._budget.spent_s + since_s, trial))
            self._is_ended = True
            return None
        attempt = self._journal.begin_attempt(self.run.run_id, trial.number, host)
        series.host, series.turn = host, Turn(fitted, attempt, host)
        self._hosts_before[trial.replicate] = host
        self._listen(TrialStarted(trial, host))
        return series.turn

    def record(self, turn: Turn, result: Result) -> bool:
        """Write what came of a trial to the journal, and return whether it counts.

        When this returns it is on disk. It does not count where that attempt is over: another one has begun, it has a
        result already, or the design did not ask for the trial after all.
        """
        is_under_way = any(one.turn == turn for one in self._series())
        if not is_under_way or not self._journal.end_attempt(self.run.run_id, turn.attempt, result):
            return False
        self._finish(turn, result)
        return True

    def lost(self, turn: Turn, reason: str) -> None:
        """Note that nothing will come of a trial's attempt; the trial is run again, but not for ever."""
        spoilt = Result(turn.trial, Outcome.INVALID, CLOCK.unix_s(), reason=reason, host=turn.host)
        series = next((one for one in self._series() if one.turn == turn), None)
        if series is None:
            return  # the design did not ask for it after all
        self._losses[turn.trial.number] += 1
        if self._losses[turn.trial.number] >= MOST_LOSSES:
            self.record(turn, spoilt)
        else:
            self._journal.end_attempt(self.run.run_id, turn.attempt, spoilt)
            series.turn = None

    def release(self, host: str) -> None:
        """Let others begin anew what a host has begun, so that each block is of one host; it has nothing under way.

        What it has measured stands where a budget has ended the run.
        """
        if self._is_ended:
            return
        for asked in self._queue:
            for series in asked.series:
                if series.host != host:
                    continue
                assert series.turn is None, "its trial is under way"
                block = series.todo[0].block
                # What is invalid has no number that another host's could be compared with.
                void = {
                    one.trial.number
                    for one in asked.results
                    if one.trial.block == block and one.outcome is not Outcome.INVALID
                }
                reason = f"its block began again, as {host or 'this machine'} was lost"
                self._journal.void_results(self.run.run_id, void, reason)
                asked.results = [one for one in asked.results if one.trial.number not in void]
                done = {one.trial.number for one in asked.results}
                series.todo = [x for x in asked.trials if x.block == block and x.number not in done]
                series.host = None

    # --- what the design asks for --------------------------------------------------------------

    def _ask(self, since_s: float) -> None:
        """Tell the design of every block that is complete, and plan what it asks for then."""
        while not self._is_ended and (not self._queue or self._queue[0].is_complete):
            if self._queue:
                self._design.tell(self._queue.popleft().results)
                self._told += 1
            block = self._design.ask()
            if self._queue and self._queue[0].block != block:
                self._forget_ahead()
            if not block.treatments:
                self._forget_ahead()
                self._is_ended = True
                return
            if self._queue:
                self._journal.plan_trials(self.run.run_id, self._queue[0].trials)
            else:
                self._plan(block, is_ahead=False)
            asked = self._queue[0]
            self._forecast = self._design.trials_left()
            self._listen(self._budget.time_left(self.run.study, self._forecast, since_s))
            self._listen(BlockPlanned(tuple(asked.trials), len(asked.results), self._forecast))
        self._ask_ahead()

    def _ask_ahead(self) -> None:
        """Plan what the design will probably ask for, so that no host is idle."""
        if self._is_ended or self.hosts == 1:
            return
        for block in self._design.ask_ahead(self.hosts)[len(self._queue) - 1 :]:
            if sum(len(asked.series) for asked in self._queue) >= self.hosts:
                return
            if not self._plan(block, is_ahead=True):
                return

    def _plan(self, block: Block, *, is_ahead: bool) -> bool:
        """Add a block to the queue; False where the journal knows that the design will ask for another one."""
        trials = expand(
            block,
            self.run.study,
            seed=self.run.seed,
            block_number=self._told + len(self._queue) + 1,
            first_number=self._next_number,
        )
        if not self._journal.plan_trials(self.run.run_id, trials, is_ahead=is_ahead):
            return False
        self._next_number += len(trials)
        by_replicate: dict[int, list[Trial]] = {}
        for trial in trials:
            by_replicate.setdefault(trial.block, []).append(trial)
        asked = _Asked(block, trials, [_Series(x) for x in by_replicate.values()])
        for series in list(asked.series):
            for trial in series.todo:
                kept = self._kept.pop(trial.number, None)
                # What the journal has of another plan of this number, made ahead, is not of this trial.
                if kept is not None and _is_of(kept.trial, trial):
                    asked.add(series, kept)
                    series.host = kept.host
                    self._budget.spend(kept)
        self._queue.append(asked)
        return True

    def _forget_ahead(self) -> None:
        """Forget what was planned ahead: the design asks for something else, or for nothing more."""
        self._journal.forget_ahead(self.run.run_id)
        if self._queue:
            self._next_number = self._queue[0].trials[0].number
        self._queue.clear()

    def _finish(self, turn: Turn, result: Result) -> None:
        asked, series = next(
            (asked, one) for asked in self._queue for one in asked.series if one.turn == turn
        )
        series.turn = None
        asked.add(series, result)
        self._budget.spend(result)
        self._listen(self._budget.time_left(self.run.study, self.left))
        is_asked = asked is self._queue[0] and len(asked.results) <= MOST_SO_FAR
        self._listen(TrialFinished(result, self._design.so_far(asked.results) if is_asked else ""))

    def _series_for(self, host: str, *, is_its_own: bool) -> _Series | None:
        """Return what a host has begun, else what it may begin; the oldest first."""
        free = [one for one in self._series() if one.turn is None]
        for one in free:
            if one.host == host:
                return one
        for one in free:
            before = self._hosts_before.get(one.todo[0].replicate, host)
            if one.host is None and (before == host or not is_its_own):
                return one
        return None

    def _series(self) -> Iterator[_Series]:
        return (one for asked in self._queue for one in asked.series)


def _is_of(kept: Trial, planned: Trial) -> bool:
    """Tell whether a trial that was run is one that is planned; a budget may have cut its window."""
    return replace(kept, load=planned.load) == planned


class Station:
    """One bench at work on a study: runs its trials one after the other, and says how long each took.

    Raises:
        PgdragError: what all trials share cannot be made ready there.
    """

    def __init__(self, study: Study, bench: TrialRunner, listen: Listener) -> None:
        self._bench = bench
        self._untestable = _Untestable(study, bench, make_design(study).levels)
        self._ended_s = bench.now_s()
        bench.prepare(study, listen)
        self._prepared_s = self.since_s

    @property
    def since_s(self) -> float:
        """Seconds since the trial before ended, or since the station began."""
        return self._bench.now_s() - self._ended_s

    def run(self, trial: Trial, listen: Listener) -> Result:
        """Run one trial; the first of them counts what all trials share, too.

        Raises:
            StorageError: the disk is full or cannot be written.
        """
        if problems := self._untestable.problems(trial.treatment):
            result = _untestable_result(trial, problems)
        else:
            result = self._untestable.without_number(self._bench.run(trial, listen))
        took_s, self._ended_s = self.since_s, self._bench.now_s()
        prepared_s, self._prepared_s = self._prepared_s, 0.0
        phases_s = {PREPARE: round(prepared_s, 3)} if prepared_s else {}
        return replace(result, took_s=round(took_s, 3), phases_s={**phases_s, **result.phases_s})


class _Untestable:
    """Which treatments cannot be had here, because nothing is left of what they change.

    Args:
        chosen: the levels that the design itself tries.
    """

    def __init__(self, study: Study, bench: TrialRunner, chosen: Iterable[Level]) -> None:
        self._lacking: dict[Level, Problem] = {}
        self._of_rung: dict[str, dict[Level, Problem]] = {}
        self._bench, self._study = bench, study
        self._baseline = set(study.rungs[0].treatment.levels)
        self._added = {rung.treatment.name: rung.added for rung in study.rungs}
        self._own = set(chosen).difference(*self._added.values())
        for rung in study.rungs:
            problems = bench.check(rung.treatment.levels, study.workload)
            lacking = {problem.level: problem for problem in problems}
            self._lacking |= lacking
            self._of_rung[rung.treatment.name] = lacking

    def problems(self, treatment: Treatment) -> list[Problem]:
        """Return why nothing of a treatment can be applied; empty if any level can.

        A level that the design itself chose is what the trial is for: without it there is no number.
        """
        if self._own.intersection(self._changed(treatment)):
            problems = self._bench.check(treatment.levels, self._study.workload)
            if own := [problem for problem in problems if problem.level in self._own]:
                return own
        lacking = self._of_rung.get(treatment.name, self._lacking)
        return [lacking[level] for level in self._all_if_in(treatment, lacking)]

    def without_number(self, result: Result) -> Result:
        """Return a result; untestable if nothing of its treatment could be set, or not what the design itself chose."""
        if result.measurement is None:
            return result
        lacking = {x.level: x for x in result.applied if x.effective is None}
        own = [level for level in lacking if level in self._own]
        missing = own or self._all_if_in(result.trial.treatment, lacking)
        if not missing:
            return result
        first = missing[0]
        reason = f"{first.name} = {first.shown} is not in force: {lacking[first].note}"
        return replace(result, outcome=Outcome.UNTESTABLE, reason=reason, measurement=None)

    def _changed(self, treatment: Treatment) -> Sequence[Level]:
        """Return what a rung adds; of a treatment that the design made, all that the baseline has not."""
        if treatment.name in self._added:
            return self._added[treatment.name]
        return [level for level in treatment.levels if level not in self._baseline]

    def _all_if_in(self, treatment: Treatment, lacking: Container[Level]) -> Sequence[Level]:
        """Return all that a treatment changes if all of it is lacking, else nothing."""
        changed = self._changed(treatment)
        return changed if all(level in lacking for level in changed) else ()


def _untestable_result(trial: Trial, problems: Sequence[Problem]) -> Result:
    return Result(
        trial,
        Outcome.UNTESTABLE,
        CLOCK.unix_s(),
        reason="; ".join(problem.message for problem in problems),
        applied=tuple(Applied(problem.level, None, problem.message) for problem in problems),
    )

"""Which trial of a run comes next, and what does the design make of those that have ended?"""

from __future__ import annotations

import random
from bisect import insort
from collections import Counter, deque
from dataclasses import dataclass, field, replace
from itertools import chain, groupby

from pgdrag.duration import Budget, Experience
from pgdrag.errors import UsageError
from pgdrag.host.clock import CLOCK
from pgdrag.journal import Journal
from pgdrag.model import (
    Block,
    Forecast,
    Outcome,
    Result,
    RunRecord,
    Study,
    Trial,
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
from pgdrag.model.threads import ChosenThreads

# A trial whose host was lost this often is probably the reason itself.
MOST_LOSSES = 3
# A design is not asked what it knows after more results of a block than this: it reads all of them each time.
MOST_SO_FAR = 200
_WRONG = "42"  # class of SQLSTATEs: syntax, names that are not there, missing rights


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


@dataclass(frozen=True, eq=False)
class Turn:
    """A trial to run now and the number of this attempt, from 1; no two turns are equal.

    The attempt is its fencing number: the journal takes one result of the newest attempt, and no other.
    """

    trial: Trial
    attempt: int
    host: str = ""


@dataclass(eq=False)
class _Series:
    """The trials of one replicate of a block: one host runs all of them, one after the other.

    Attributes:
        todo: those without a result, in order; at least one.
        host: that has begun it, if one has.
        turn: under way.
    """

    asked: _Asked
    todo: list[Trial]
    host: str = ""
    turn: Turn | None = None


@dataclass
class _Asked:
    """A block that the design asked for, or is expected to ask for next.

    Attributes:
        results: in the order of the trials.
    """

    block: Block
    trials: list[Trial]
    results: list[Result] = field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        return len(self.results) == len(self.trials)


class Agenda:
    """Which trial of a run comes next, on which host; keeps its journal, and tells its design.

    A host runs one trial at a time. It has all trials of a block's replicate, so that what is compared ran on one
    machine; when it is lost, another host begins that replicate again.

    Args:
        hosts: how many trials may be under way at once. More than the design has asked for are begun where it says
            what it would ask for next; what it then does not ask for is forgotten.

    Raises:
        UsageError: it was found before that the workload's statements are wrong.
    """

    def __init__(
        self, run: RunRecord, journal: Journal, listen: Listener = ignore, *, hosts: int = 1
    ) -> None:
        self.run, self.hosts = run, hosts
        self._journal, self._listen = journal, listen
        self._kept = journal.valid_results(run.run_id)
        for result in self._kept.values():
            _refuse_unrunnable(result, run.study)
        listen(RunStarted(run.run_id, run.study, len(self._kept)))
        self._design = make_design(run.study)
        self._budget = Budget(
            run.study.budget_s, Experience.of(journal.newest_results(run.study.workload, run.host))
        )
        self._queue: deque[_Asked] = deque()  # the design has asked for the first one
        # Replicates of the queue's blocks that lack results: first those not begun, oldest first, then others.
        self._waiting: list[_Series] = []
        self._begun: list[_Series] = []
        self._told = 0  # blocks
        self._next_number = 1
        self._forecast = Forecast(0, 0)  # before the block that the design asked for
        self._losses: Counter[int] = Counter()
        self._hosts_before: dict[int, str] = {}  # by replicate: who began one last
        self._threads: dict[str, int] = {}  # of the load driver, as hosts have chosen them
        self._is_ended = False

    @property
    def is_over(self) -> bool:
        """Whether no trial will be begun any more; some are still under way where a budget ended the run."""
        self._ask(0.0)
        return self._is_ended

    @property
    def under_way(self) -> list[Turn]:
        """The trials that hosts have."""
        return [one.turn for one in self._begun if one.turn is not None]

    @property
    def hosts_with_work(self) -> set[str]:
        """The hosts that have begun a block, and not ended it."""
        return {one.host for one in self._begun}

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
        if fitted.load.threads is None and (threads := self._threads.get(host)) is not None:
            fitted = replace(fitted, load=replace(fitted.load, threads=threads))
        attempt = self._journal.begin_attempt(self.run.run_id, trial.number, host)
        if series not in self._begun:
            self._waiting.remove(series)
            self._begun.append(series)
        series.host, series.turn = host, Turn(fitted, attempt, host)
        self._hosts_before[trial.replicate] = host
        self._listen(TrialStarted(trial, host))
        return series.turn

    def record(self, turn: Turn, result: Result) -> bool:
        """Write what came of a trial to the journal, and return whether it counts.

        When this returns it is on disk. It does not count where that attempt is over: another one has begun, it has a
        result already, or the design did not ask for the trial after all.

        Raises:
            UsageError: the workload's statements are wrong; the result is on disk.
        """
        series = self._found(turn)
        if series is None or not self._journal.end_attempt(self.run.run_id, turn.attempt, result):
            return False
        self._finish(series, result)
        _refuse_unrunnable(result, self.run.study)
        return True

    def lost(self, turn: Turn, reason: str) -> None:
        """Note that nothing will come of a trial's attempt; the trial is run again, but not for ever."""
        spoilt = Result(turn.trial, Outcome.INVALID, CLOCK.unix_s(), reason=reason, host=turn.host)
        series = self._found(turn)
        if series is None:
            return  # the design did not ask for it after all
        self._losses[turn.trial.number] += 1
        if self._losses[turn.trial.number] >= MOST_LOSSES:
            self.record(turn, spoilt)
        else:
            self._journal.end_attempt(self.run.run_id, turn.attempt, spoilt)
            series.turn = None

    def release(self, host: str) -> None:
        """Release the block that an idle host has begun, so that another host can run all of it.

        What it has measured stands where a budget has ended the run.
        """
        if self._is_ended:
            return
        for series in [one for one in self._begun if one.host == host]:
            assert series.turn is None, "its trial is under way"
            asked, block = series.asked, series.todo[0].block
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
            self._begun.remove(series)
            insort(self._waiting, series, key=lambda one: one.todo[0].number)

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
        if self._is_ended or self.hosts == 1 or self._is_enough_for_hosts:
            return
        for block in self._design.ask_ahead(self.hosts)[len(self._queue) - 1 :]:
            if not self._plan(block, is_ahead=True) or self._is_enough_for_hosts:
                return

    @property
    def _is_enough_for_hosts(self) -> bool:
        return len(self._waiting) + len(self._begun) >= self.hosts

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
        asked = _Asked(block, trials)
        for _, each in groupby(trials, key=lambda trial: trial.block):
            todo, host, is_begun = [], "", False
            for trial in each:
                kept = self._kept.pop(trial.number, None)
                # What the journal has of another plan of this number, made ahead, is not of this trial.
                if kept is None or not _is_of(kept.trial, trial):
                    todo.append(trial)
                    continue
                asked.results.append(kept)
                self._take_in(kept)
                host, is_begun = kept.host, True
            if todo:
                (self._begun if is_begun else self._waiting).append(_Series(asked, todo, host))
        self._queue.append(asked)
        return True

    def _forget_ahead(self) -> None:
        """Forget what was planned ahead: the design asks for something else, or for nothing more."""
        self._journal.forget_ahead(self.run.run_id)
        if self._queue:
            self._next_number = self._queue[0].trials[0].number
        for each in (self._queue, self._waiting, self._begun):
            each.clear()

    def _finish(self, series: _Series, result: Result) -> None:
        asked, series.turn = series.asked, None
        series.todo = [x for x in series.todo if x.number != result.trial.number]
        if not series.todo:
            self._begun.remove(series)
        insort(asked.results, result, key=lambda one: one.trial.number)
        self._take_in(result)
        self._listen(self._budget.time_left(self.run.study, self.left))
        is_asked = asked is self._queue[0] and len(asked.results) <= MOST_SO_FAR
        self._listen(TrialFinished(result, self._design.so_far(asked.results) if is_asked else ""))

    def _take_in(self, result: Result) -> None:
        """Count what a trial took, and remember how many threads its load driver had: the next ones have as many."""
        self._budget.spend(result)
        chosen = result.recordings.of(ChosenThreads)
        threads = chosen[0].threads if chosen else result.trial.load.threads
        if threads is not None:
            self._threads[result.host] = threads

    def _found(self, turn: Turn) -> _Series | None:
        """Return the owner of a turn under way; None if that attempt is over or was never asked for."""
        return next((one for one in self._begun if one.turn is turn), None)

    def _series_for(self, host: str, *, is_its_own: bool) -> _Series | None:
        """Return what a host has begun, else what it may begin; the oldest first."""
        begun = (one for one in self._begun if one.host == host and one.turn is None)
        before = self._hosts_before
        free = (
            one
            for one in self._waiting
            if not is_its_own or before.get(one.todo[0].replicate, host) == host
        )
        return next(chain(begun, free), None)


def _refuse_unrunnable(result: Result, study: Study) -> None:
    """Stop where the server refuses what the workload sends as it is written: in no other trial would it run.

    Raises:
        UsageError: the baseline has committed nothing, as all its statements are wrong.
    """
    errors = result.measurement.errors if result.measurement else ()
    is_baseline = result.trial.treatment.identity == study.rungs[0].treatment.identity
    is_wrong = bool(errors) and all(sqlstate.startswith(_WRONG) for _, sqlstate, _, _ in errors)
    if result.outcome is Outcome.STALLED and is_baseline and is_wrong:
        _, sqlstate, said, _ = errors[0]
        raise UsageError(
            f"the workload cannot run: {said} (SQLSTATE {sqlstate})",
            detail="Without any treatment, the server refuses all of its transactions.",
            hint="Mend its script, or give it the tables that it needs, and start again.",
        )


def _is_of(kept: Trial, planned: Trial) -> bool:
    """Tell whether a trial that was run is one that is planned; a budget may have cut its window."""
    return replace(kept, load=planned.load) == planned

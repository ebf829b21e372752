"""Which of the changes from a reference to a target make the difference, alone and together?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pgdrag.designs import DesignParameters
from pgdrag.designs._moves import move_findings
from pgdrag.designs._subsets import Observed, Request, SubsetDesign
from pgdrag.designs.ablate.findings import (
    AblateFinding,
    ChangeFinding,
    CheckFinding,
    PairFinding,
    ShareFinding,
)
from pgdrag.designs.ablate.history import REFERENCE, History
from pgdrag.designs.ablate.labels import Call, Label, effect
from pgdrag.designs.ablate.long_trials import END_TRIALS, LongTrials
from pgdrag.designs.ablate.parameters import AblateParameters
from pgdrag.designs.ablate.screening import Screening
from pgdrag.designs.ablate.section import answer, warnings
from pgdrag.designs.ablate.shapley import Share, Shares
from pgdrag.errors import UsageError
from pgdrag.findings.values import Interval
from pgdrag.model import Forecast, Result, Rung, RunRecord
from pgdrag.stats.effects import CONFIDENCE, Effect
from pgdrag.stats.interval import ratio_of_log

_CLEARED = (Label.UNDECIDED, Label.INERT, Label.UNTESTABLE)


def default_max_trials(changes: int) -> int:
    """Return a budget that is enough for most searches among this many changes."""
    return 4 * changes + 88


def smallest_max_trials(changes: int) -> int:
    """Return the smallest budget that compares every change twice, and measures the whole."""
    screening = Screening(changes, History(changes, 0), AblateParameters())
    return screening.planned_trials() + 2 * END_TRIALS


class Procedure:
    """The search among numbered changes; the same results in the same order lead to the same requests.

    It says which sets of them to run next, takes the results, and knows at any time what is found so far.

    Attributes:
        request: the next block; None when the search is over.
        screening: labels and survivors.
        long_trials: shares and pairs; None until the survivors are known.
    """

    def __init__(self, changes: int, parameters: AblateParameters) -> None:
        self.parameters = parameters
        limit = parameters.max_trials
        self.history = History(
            changes,
            default_max_trials(changes) if limit is None else limit,
            is_per_replicate=limit is None,
        )
        self.screening = Screening(changes, self.history, parameters)
        self.long_trials: LongTrials | None = None
        self._requests = self._run()
        self.request = next(self._requests, None)

    def tell(self, observed: Sequence[Observed]) -> None:
        """Take all trials of the block asked for last."""
        self.history.add(observed)
        self.request = next(self._requests, None)

    def adopt(self, observed: Sequence[Observed]) -> None:
        """Take trials of blocks that are not complete, or that an older pgdrag asked for in another order."""
        if not observed:
            return
        self.history.add(observed)
        for _ in observed:
            if self.request is not None and self.history.has_all(self.request):
                self.request = next(self._requests, None)

    @property
    def stage(self) -> str:
        """How far the search is: "screening", "checking", "shares", "pairs" or "done"."""
        if self.request is None:
            return "done"
        if self.long_trials is None:
            return "checking" if self.screening.is_labelled else "screening"
        return "pairs" if self.long_trials.has_shares else "shares"

    def forecast(self) -> Forecast:
        """Return how many trials remain: of the screening exactly, of the rest a range."""
        if self.request is None:
            return Forecast(0, 0)
        asked, left = len(self.request.sets), self.history.left
        if self.long_trials is not None:
            return Forecast(min(max(self.long_trials.least_trials(), asked), left), left)
        is_brief, history = self.parameters.has_brief_screening, self.history
        run = history.brief_trials if is_brief else history.trials
        screening = min(max(self.screening.planned_trials() - run, asked), left)
        rest = min(2 * END_TRIALS, left - screening)
        if not is_brief:
            return Forecast(screening + rest, left)
        # Repeats and group searches take from the budget of the shares: both maxima exclude each other.
        return Forecast(rest, left - screening, screening, left - rest, most_in_all=left)

    def _run(self) -> Iterator[Request]:
        screening = self.screening
        yield from screening.run()
        if screening.problem or not screening.whole or screening.is_without_effect:
            return
        found = screening.screened()
        self.long_trials = LongTrials(
            {
                at: (found[at].alone.effect, found[at].with_others.effect)
                for at in screening.survivors
            },
            screening.whole.difference(screening.survivors),
            self.history,
            self.parameters,
            screening.known_pairs(),
        )
        yield from self.long_trials.run()


class Ablate(SubsetDesign):
    """Each change alone and with the others by short trials, then shares and pairs of the survivors."""

    name = "ablate"
    summary = "which of many changes matter, their shares of the whole, and pairs that interact"
    Parameters = AblateParameters
    parameters: AblateParameters
    procedure: Procedure

    def __init__(self, rungs: Sequence[Rung], parameters: DesignParameters) -> None:
        super().__init__(rungs, parameters)
        count, most = len(self.changes), self.parameters.max_trials
        least = smallest_max_trials(count)
        if most is not None and most < least:
            raise UsageError(
                f"max_trials is {most}, but an ablation of {count} changes needs at least {least}",
                hint='Allow more trials, or use "pgdrag bisect" to find a small set of changes.',
            )
        self.procedure = Procedure(count, self.parameters)

    def tell(self, results: Sequence[Result]) -> None:
        self.procedure.tell(self.observed(results))

    def so_far(self, results: Sequence[Result]) -> str:
        """Return the stage, and which changes seem to have an effect by all blocks that are complete."""
        suspects = [
            at
            for at, one in self.procedure.screening.screened().items()
            if Call.SUSPECT in one.calls or one.label not in _CLEARED
        ]
        return self.suspects_so_far(self.procedure.stage, suspects)

    def forecast(self) -> Forecast:
        return self.procedure.forecast()

    # --- what was found ------------------------------------------------------------------------

    def find(self, run: RunRecord) -> AblateFinding:
        """Return what is known so far; changes without a trial are undecided."""
        procedure, screening = self.procedure, self.procedure.screening
        history = procedure.history
        # Results of a block that is not complete count, but decide nothing.
        in_order = sorted(run.results, key=lambda result: result.trial.number)
        procedure.adopt(self.observed(in_order[history.trials :]))
        long = procedure.long_trials
        shares = long.shares() if long else None
        method = _method(shares)
        target = screening.trials.value(screening.whole)
        end = {"reference": REFERENCE, "target": screening.whole}.get(screening.problem)
        failure = screening.trials.failure(end) if end is not None else None
        alone, with_others = screening.detectable()
        of_players = {}
        if long and shares:
            of_players = {
                player: _share(share, shares.whole, method)
                for player, share in zip(long.players, shares.players, strict=True)
            }
        labels = {one.name: one.label for x in run.results for one in x.evidence}
        rest = long.players[-1] if long and long.has_others else frozenset[int]()
        draws = shares.draws if shares else 0
        found = AblateFinding(
            answer="",
            warnings=(),
            reference=self.reference.name,
            target=self.target.name,
            stage=procedure.stage,
            problem=screening.problem,
            failure=failure.value if failure is not None else "",
            whole=self._whole(),
            is_bounded=shares is not None and shares.is_bounded,
            is_target_bounded=target is not None and target.is_bound,
            moves=move_findings(screening.fingerprint(), labels),
            changes=self._changes({x: y for x, y in of_players.items() if x != rest}, labels),
            others=of_players.get(rest),
            others_count=len(rest),
            left_out=self.names(screening.left_out),
            merged=self.names(long.merged) if long else (),
            pairs=self._pairs(),
            checks=tuple(
                CheckFinding(one.of_others, _if_known(one.found, "t interval"), one.is_passed)
                for one in screening.checks
            ),
            is_diffuse=screening.is_diffuse,
            margin=1 + self.parameters.threshold,
            detectable_alone=ratio_of_log(alone),
            detectable_with_others=ratio_of_log(with_others),
            method=method,
            draws=draws,
            draws_left_out=len(long.draws) - draws if long else 0,
            is_precise=long is not None and long.is_precise,
            share_precision=self.parameters.share_precision,
            brief_trials=history.brief_trials,
            full_trials=history.trials - history.brief_trials,
            max_trials=history.limit,
            is_budget_spent=not history.left,
        )
        return replace(found, answer=answer(found), warnings=tuple(warnings(found)))

    def _whole(self) -> Interval | None:
        history = self.procedure.history
        for trials, noun in ((history.full, "trials"), (history.brief, "short trials")):
            before, after = map(trials.value, (REFERENCE, self.procedure.screening.whole))
            found = effect(before, after)
            if found is not None and before is not None and after is not None:
                count = before.trials + after.trials
                return _interval(found, f"t interval, {count} {noun} of both ends")
        return None

    def _changes(
        self, shares: dict[frozenset[int], ShareFinding], labels: Mapping[str, str]
    ) -> tuple[ChangeFinding, ...]:
        """Return all changes: those with a share first, the largest before the others."""
        survivors = self.procedure.screening.survivors
        moves = self.procedure.screening.moves()
        found = [
            ChangeFinding(
                name=change.name,
                before=change.before.value if change.before else None,
                after=change.after.value if change.after else None,
                label=one.label,
                alone=_if_known(one.alone.effect, "reference with it against reference"),
                with_others=_if_known(one.with_others.effect, "target against target without it"),
                alone_of=len(one.alone.group),
                with_others_of=len(one.with_others.group),
                moves=move_findings(moves.get(at, ()), labels),
                share=shares.get(frozenset({at})) if at in survivors else None,
                is_survivor=at in survivors,
                is_hidden=one.is_hidden,
            )
            for (at, one), change in zip(
                self.procedure.screening.screened().items(), self.changes, strict=True
            )
        ]

        def rank(one: ChangeFinding) -> tuple[float, bool]:
            if one.share is None:
                return 0.0, not one.is_survivor
            return -abs(math.log(one.share.slowdown.center)) - 1, False

        return tuple(sorted(found, key=rank))

    def _pairs(self) -> tuple[PairFinding, ...]:
        long, method = self.procedure.long_trials, "t interval, two-by-two factorial"
        return tuple(
            PairFinding(
                names=(self.changes[pair[0]].name, self.changes[pair[1]].name),
                together=one.together,
                alone=(_interval(one.first, method), _interval(one.second, method)),
                both=_interval(one.both, method),
                interaction=_interval(one.interaction, method),
                is_bounded=one.is_bounded,
            )
            for pair, one in (long.crossed() if long else {}).items()
        )


def _method(shares: Shares | None) -> str:
    if shares is None:
        return "no shares yet"
    if shares.is_exact:
        return "Shapley share over all orders"
    return f"Shapley share over {2 * shares.draws} orders drawn with their reverses"


def _share(share: Share, whole: Share, method: str) -> ShareFinding:
    slowdown = _interval(share, method)
    if whole.low <= 0 <= whole.high:
        return ShareFinding(slowdown, None, None, None)
    low, high = sorted((share.low / whole.center, share.high / whole.center))
    return ShareFinding(slowdown, share.center / whole.center, low, high)


def _interval(found: Effect | Share, method: str) -> Interval:
    return Interval.of_logs(found.low, found.center, found.high, CONFIDENCE, method)


def _if_known(found: Effect | None, method: str) -> Interval | None:
    return None if found is None else _interval(found, method)

"""What is the answer to each claim that the experiment states?"""

from __future__ import annotations

from dataclasses import dataclass

from pgdrag.english import listed
from pgdrag.findings.analysis import RunAnalysis
from pgdrag.findings.compared import Treatments
from pgdrag.findings.values import Answer
from pgdrag.model.claims import Answered, StatedClaim
from pgdrag.units import format_duration

_REACHED = 0.9  # of the moment: a window of 30 s ends a little earlier or later


@dataclass(frozen=True)
class AnsweredClaim:
    """One claim with its answer.

    Attributes:
        key: the same in all runs of its study.
        kind: its kind.
        text: what was published.
        rungs: which it is about.
        source: which of the study's further sources published it; "" is the main one.
        is_headline: it is what the study is known for.
        found: what was found, in words; "" where nothing was.
        why: the reason of the answer, in words that finish a sentence.
    """

    key: str
    kind: str
    text: str
    rungs: tuple[str, ...]
    source: str
    is_headline: bool
    answer: Answer
    found: str
    why: str


@dataclass(frozen=True)
class StatedClaims:
    """The claims that the experiment states, each with its answer."""

    claims: tuple[AnsweredClaim, ...]

    @property
    def headline(self) -> AnsweredClaim | None:
        """The one that the study is known for; None without one."""
        return next((one for one in self.claims if one.is_headline), None)


def answer_claims(treatments: Treatments) -> StatedClaims | None:
    """Answer each claim that the run's study states; None where it states none."""
    stated = treatments.run.study.claims
    found = tuple(_answered(claim, _answer(claim, treatments)) for claim in stated)
    return StatedClaims(found) if found else None


def _answer(claim: StatedClaim, treatments: Treatments) -> Answered:
    if claim.after_s is not None:
        reached_s = _window_s(claim, treatments)
        if reached_s < claim.after_s * _REACHED:
            moment, window = format_duration(claim.after_s), format_duration(round(reached_s))
            why = f"published for {moment} of load, and a window here takes {window}"
            return Answered(Answer.UNTESTABLE, why)
    found = claim.answer(treatments)
    missing = _not_run(claim, treatments)
    if found.answer is Answer.UNTESTABLE and claim.is_answerable and missing:
        return Answered(Answer.NOT_RUN, missing)
    return found


def _not_run(claim: StatedClaim, treatments: Treatments) -> str:
    """Return which of a claim's rungs were not run, in words; "" where all were."""
    unrun = [one for one in map(treatments.get, claim.rungs) if one and not one.trials.results]
    if unrun:
        return f"{listed([one.name for one in unrun])}: {unrun[0].trials.missing}"
    return "" if claim.rungs or treatments.run.results else "no trial was run"


def _window_s(claim: StatedClaim, treatments: Treatments) -> float:
    """Return how long the windows of its rungs took; before they were run, how long they will."""
    windows = [
        measured.elapsed_s
        for one in treatments.all
        if not claim.rungs or one.name in claim.rungs
        for _, measured in one.trials.numbered
    ]
    return min(windows, default=treatments.run.study.load.measure_s)


def _answered(claim: StatedClaim, found: Answered) -> AnsweredClaim:
    return AnsweredClaim(
        key=claim.text,
        kind=claim.name,
        text=claim.text,
        rungs=claim.rungs,
        source=claim.source,
        is_headline=claim.headline,
        answer=found.answer,
        found=found.found,
        why=found.why,
    )


STATED_CLAIMS = RunAnalysis("stated_claims", StatedClaims, answer_claims)

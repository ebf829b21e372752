"""Which figures did the studies publish, and what is the answer to each, over all runs of their experiments?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import chain, islice
from shlex import quote

from pgdrag.english import as_sentence, listed
from pgdrag.findings.claim_kinds.analysis import AnsweredClaim
from pgdrag.findings.every_claim import counted_answers, every_claim
from pgdrag.findings.find import find
from pgdrag.findings.values import Answer
from pgdrag.model import Host, RunRecord, Study
from pgdrag.report.cells import answer_tone, answer_words, found_cell
from pgdrag.report.document import Block, Cell, Heading, Paragraph, Tone, table_of

TITLE = "Published figures and their answers"
_MOST_RUNS = 10  # of an experiment are read, the newest first
_NO_HOST = Host("", 0, 0, "", "")


@dataclass(frozen=True)
class ClaimByRun:
    """One claim with its answer, and where that is from.

    Attributes:
        run_id, scale, server_version: of the run that answered; "" where none did.
        command: what answers it, where it was not run yet; else "".
    """

    claim: AnsweredClaim
    run_id: str = ""
    scale: str = ""
    server_version: str = ""
    command: str = ""


class _Rank(IntEnum):
    """Which of several answers to one claim is taken: the lowest, of equal ones the first."""

    ANSWERED = 0
    UNTESTABLE = 1  # by a run that could have answered it
    NOT_RUN = 2  # at a scale that can answer it
    NO_SCALE = 3


@dataclass(frozen=True)
class ClaimedStudy:
    """A study with each published figure, answered by the newest run that can."""

    study: Study
    claims: tuple[ClaimByRun, ...]

    @classmethod
    def of(
        cls, scales: Sequence[Study], runs: Iterable[RunRecord], *, named: str = ""
    ) -> ClaimedStudy:
        """Answer a study's claims as they are now.

        Args:
            scales: the study at each of its scales, the default first.
            runs: of its experiment, at any scales, newest first; those not done are left out, as their steps are not
                those of the whole. They stored the claims as these were then.
            named: how a command names the experiment (default: by its name).
        """
        study, *_ = scales
        best: dict[str, tuple[_Rank, ClaimByRun]] = {}
        for rank, claim in chain(_of_runs(study, runs), _of_scales(scales, named or study.name)):
            if claim.claim.key not in best or rank < best[claim.claim.key][0]:
                best[claim.claim.key] = rank, claim
        order = [claim.key for claim in _before_any_run(study)]
        keys = dict.fromkeys((*order, *best))
        return cls(study, tuple(best[key][1] for key in keys))


def _of_runs(study: Study, runs: Iterable[RunRecord]) -> Iterator[tuple[_Rank, ClaimByRun]]:
    done = (run for run in runs if run.status == "done")
    for run in islice(done, _MOST_RUNS):
        claimed = _claimed(run.study, study)
        can_answer = {x.key for x in _before_any_run(claimed) if x.answer is Answer.NOT_RUN}
        for claim in every_claim(find(replace(run, study=claimed))):
            by_run = ClaimByRun(claim, run.run_id, run.study.scale, run.server_version)
            if claim.answer not in (Answer.UNTESTABLE, Answer.NOT_RUN):
                yield _Rank.ANSWERED, by_run
            elif claim.answer is Answer.UNTESTABLE and claim.key in can_answer:
                yield _Rank.UNTESTABLE, by_run


def _of_scales(scales: Sequence[Study], named: str) -> Iterator[tuple[_Rank, ClaimByRun]]:
    for at, study in enumerate(scales):
        command = f"pgdrag run {quote(named)}" + (f" --scale {study.scale}" if at else "")
        for claim in _before_any_run(study):
            if claim.answer is Answer.NOT_RUN:
                yield _Rank.NOT_RUN, ClaimByRun(claim, command=command)
            else:
                yield _Rank.NO_SCALE, ClaimByRun(claim)


def _before_any_run(study: Study) -> Sequence[AnsweredClaim]:
    return every_claim(find(RunRecord("", study, _NO_HOST, "", "", 0, 0.0, None, "running", ())))


def claims_page(studies: Sequence[ClaimedStudy]) -> Iterator[Block]:
    """Yield a table per study: each figure, what was found, and the answer or the reason why there is none."""
    yield Paragraph(
        "Each figure is answered by the newest run of its experiment on one machine that can answer it; docs/method.md "
        "says how. A figure that is not run yet has the command that answers it. Written by: pgdrag claims.",
        Tone.MUTED,
    )
    for one in studies:
        study, source = one.study, one.study.source
        yield Heading(study.name, study.title)
        if not one.claims:
            yield Paragraph("It claims nothing: its file has no [[claims]].")
            continue
        words = f"Source: {source.words}" + (f", {source.url}" if source.url else "")
        further = [
            f"{name}: {x.words}" + (f", {x.url}" if x.url else "")
            for name, x in study.sources.items()
        ]
        yield Paragraph(as_sentence("; ".join((words, *further))), Tone.MUTED)
        yield Paragraph(as_sentence(counted_answers([x.claim for x in one.claims])))
        yield _table(one)


def _table(one: ClaimedStudy) -> Block:
    columns: dict[str, Callable[[ClaimByRun], Cell | str]] = {
        "Of": lambda x: listed(x.claim.rungs),
        "Published": lambda x: Cell(x.claim.text, is_strong=x.claim.is_headline),
        "Found": lambda x: Cell(x.command) if x.command else found_cell(x.claim),
        "Answer": lambda x: Cell(answer_words(x.claim.answer), tone=answer_tone(x.claim.answer)),
        "By": lambda x: f"{x.scale}, {x.server_version}" if x.run_id else "–",
    }
    if one.study.sources:
        columns["Source"] = lambda x: x.claim.source or "article"
    return table_of(f"Published figures of {one.study.name}", one.claims, columns)


def _claimed(then: Study, now: Study) -> Study:
    """Return a study with the claims of another one, by the names of its rungs."""
    rungs = {rung.name: rung.claim for rung in now.rungs}
    return replace(
        then,
        claims=now.claims,
        source=now.source,
        sources=now.sources,
        rungs=tuple(replace(x, claim=rungs.get(x.name, x.claim)) for x in then.rungs),
    )

"""Which figures did the studies publish, and what is the answer to each, over all runs of their experiments?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

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
        run_id, scale, server_version: of the run that answered; "" where none was made.
    """

    claim: AnsweredClaim
    run_id: str = ""
    scale: str = ""
    server_version: str = ""


@dataclass(frozen=True)
class ClaimedStudy:
    """A study with each published figure, answered by the newest run that can."""

    study: Study
    claims: tuple[ClaimByRun, ...]

    @classmethod
    def of(cls, study: Study, runs: Iterable[RunRecord]) -> ClaimedStudy:
        """Answer a study's claims as they are now.

        Args:
            runs: of its experiment, at any scales, newest first; those not done are left out, as their steps are not
                those of the whole. They stored the claims as these were then.
        """
        done = (run for run in runs if run.status == "done")
        best: dict[tuple[str, str, tuple[str, ...]], ClaimByRun] = {}
        for run in (*islice(done, _MOST_RUNS), _not_run(study)):
            for claim in every_claim(find(replace(run, study=_claimed(run.study, study)))):
                key = (claim.kind, claim.text, claim.rungs)
                is_answered = key in best and best[key].claim.answer is not Answer.UNTESTABLE
                if key not in best or not (is_answered or claim.answer is Answer.UNTESTABLE):
                    best[key] = ClaimByRun(claim, run.run_id, run.study.scale, run.server_version)
        order = {claim.text: at for at, claim in enumerate(study.claims)}
        return cls(study, tuple(sorted(best.values(), key=lambda x: order.get(x.claim.text, 999))))


def claims_page(studies: Sequence[ClaimedStudy]) -> Iterator[Block]:
    """Yield a table a study: each figure, what was found, and the answer or the reason why there is none."""
    yield Paragraph(
        "Each figure is answered by the newest run of its experiment on one machine that can answer it; docs/method.md "
        "says how. Written by: pgdrag claims.",
        Tone.MUTED,
    )
    for one in studies:
        study, source = one.study, one.study.source
        yield Heading(study.name, study.title)
        words = f"Source: {source.words}" + (f", {source.url}" if source.url else "")
        further = [
            f"{name}: {x.words}" + (f", {x.url}" if x.url else "")
            for name, x in study.sources.items()
        ]
        yield Paragraph(as_sentence("; ".join((words, *further))), Tone.MUTED)
        if one.claims:
            yield Paragraph(as_sentence(counted_answers([x.claim for x in one.claims])))
            yield _table(one)


def _table(one: ClaimedStudy) -> Block:
    columns: dict[str, Callable[[ClaimByRun], Cell | str]] = {
        "Of": lambda x: listed(x.claim.rungs),
        "Published": lambda x: Cell(x.claim.text, is_strong=x.claim.is_headline),
        "Found": lambda x: found_cell(x.claim),
        "Answer": lambda x: Cell(answer_words(x.claim.answer), tone=answer_tone(x.claim.answer)),
        "By": lambda x: f"{x.scale}, {x.server_version}" if x.run_id else "no run",
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


def _not_run(study: Study) -> RunRecord:
    return RunRecord("", study, _NO_HOST, "", "", 0, 0.0, None, "running", ())

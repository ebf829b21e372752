"""What did the server do for each transaction: which statements and plans, which processes' I/O, which waits?"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from pgdrag.english import capital, counted, cut, percent_words
from pgdrag.findings.plan_diff import PlanChanges
from pgdrag.findings.plan_nodes import misestimate
from pgdrag.findings.statement_diff import StatementChange, StatementShare, statement_changes
from pgdrag.findings.values import Findings, TreatmentFinding
from pgdrag.model.recordings import ProcessIoUse, Recording, StatementPlan, StatementUse, WaitTime
from pgdrag.report.cells import NOTHING, committed_in_middle
from pgdrag.report.document import (
    Block,
    Cell,
    Details,
    Heading,
    Items,
    Lines,
    Paragraph,
    Tone,
    table_of,
)
from pgdrag.report.plan_text import plan_text
from pgdrag.report.sections import Section
from pgdrag.units import format_bytes, format_duration, format_number, format_ratio

MOST_PLANS = 2  # statements of a rung with both plans
MOST_CHANGED = 4  # statements of a rung that are named
MOST_MISESTIMATES = 5
TELLING_FACTOR = 10.0
_STATEMENT_LENGTH = 160
MOST_STATEMENTS = 10
_LEAST_SHARE = 0.02  # of all that a type of process did, for a line of its own
_MOST_LINES = 8


class PlansSection(Section):
    name = "plans"
    summary = "statements whose plan changed, and wrong row estimates"
    title = "Plans"
    order = 44

    def applies(self, findings: Findings) -> bool:
        return any(rung.recordings.of(StatementPlan) for rung in findings.rungs)

    def blocks(self, findings: Findings) -> Sequence[Block]:
        """Return the rungs with other plans, then estimates, then what could not be explained."""
        by_name = {rung.rung.name: rung for rung in findings.rungs}
        changed = [rung for rung in findings.rungs if rung.get(PlanChanges)]
        body = [x for rung in changed for x in _changed_plans(rung, by_name[rung.previous])]
        if not changed:
            body.append(Paragraph(f"No plan changed on any {findings.noun}."))
        intro = Paragraph(
            "Each statement was explained after the window of the trial of median throughput, under that trial's "
            "settings. A different cost alone is not a different plan.",
            Tone.MUTED,
        )
        return (intro, *body, *_estimates(findings), *_unexplained(findings))


def statement_words(query: str) -> str:
    """Return a statement on one line, cut where it is long."""
    line = " ".join(query.split())
    return cut(line, _STATEMENT_LENGTH)


def _changed_plans(rung: TreatmentFinding, previous: TreatmentFinding) -> Iterator[Block]:
    changes = (rung.get(PlanChanges) or PlanChanges()).changes
    yield Heading(rung.rung.heading, f"against {rung.previous}")
    yield table_of(
        f"Statements with another plan than on {rung.previous}",
        changes[:MOST_CHANGED],
        {
            "Statement": lambda x: Cell(statement_words(x.query), x.transaction),
            "Plan": lambda x: x.kind,
            "Change": lambda x: x.words,
        },
    )
    for change in changes[:MOST_PLANS]:
        # A statement's plans on both rungs, as they ran where they were run.
        blocks: list[Block] = []
        for side in (previous, rung):
            plan = next(x for x in side.recordings.of(StatementPlan) if x.query == change.query)
            shown = plan.generic if change.kind == "generic" else plan.analyzed or plan.custom
            if shown is not None:
                blocks += [Paragraph(f"On {side.rung.name}:"), Lines(plan_text(shown))]
        yield Details(f"Both plans of: {statement_words(change.query)}", tuple(blocks))
    if (rest := len(changes) - MOST_PLANS) > 0:
        text = f"{counted(rest, 'more plan')} changed: the JSON report has all of them."
        yield Paragraph(text, Tone.MUTED)


def _estimates(findings: Findings) -> tuple[Block, ...]:
    """Return where far more or fewer rows came than the server expected, the worst first."""
    found = [
        (worst, rung.rung.name, plan)
        for rung in findings.rungs
        for plan in rung.recordings.of(StatementPlan)
        if plan.analyzed is not None
        and (worst := misestimate(plan.analyzed)) is not None
        and worst.factor >= TELLING_FACTOR
    ]
    if not found:
        return ()
    table = table_of(
        "Estimated and actual rows",
        sorted(found, key=lambda each: -each[0].factor)[:MOST_MISESTIMATES],
        {
            findings.noun_heading: lambda x: Cell(x[1], is_strong=True),
            "Statement": lambda x: Cell(statement_words(x[2].query), x[2].transaction),
            "Where": lambda x: x[0].node,
            ">Estimated": lambda x: f"{x[0].estimated:,.0f}",
            ">Actual": lambda x: f"{x[0].actual:,.0f}",
            ">Factor": lambda x: format_ratio(x[0].factor),
        },
    )
    return (Heading("Wrong estimates"), table)


def _unexplained(findings: Findings) -> tuple[Block, ...]:
    reasons = set()
    for rung in findings.rungs:
        name = rung.rung.name
        for plan in rung.recordings.of(StatementPlan):
            if plan.missing:
                reasons.add(f"{name}: {statement_words(plan.query)}: {plan.missing}")
        if why := rung.recordings.missing.get("plans"):
            reasons.add(f"{name}: {why}")
    if not reasons:
        return ()
    return (Details("What could not be explained", (Items(tuple(sorted(reasons))),)),)


# Recordings of one kind, and how many transactions committed meanwhile.
Account = tuple[Sequence[Any], int]


class _PerTransactionSection(Section):
    """A base: a table a rung, of recordings of one kind, for each committed transaction.

    Class attributes:
        kind: of the recordings.
        reading: how to read the tables.
    """

    kind: ClassVar[type[Recording]]
    reading: ClassVar[str]

    @abstractmethod
    def of_rung(self, rung: TreatmentFinding, before: Account, after: Account) -> Iterator[Block]:
        """Yield a rung's table; before is empty where the rung before has no such recordings."""

    def applies(self, findings: Findings) -> bool:
        return bool(self._accounts(findings))

    def blocks(self, findings: Findings) -> Sequence[Block]:
        accounts = self._accounts(findings)
        blocks: list[Block] = [Paragraph(self.reading, Tone.MUTED)]
        for rung in findings.rungs:
            if after := accounts.get(rung.rung.name):
                before = accounts.get(rung.previous, ((), 0))
                against = f"against {rung.previous}" if before[1] else ""
                blocks += [Heading(rung.rung.heading, against), *self.of_rung(rung, before, after)]
        return blocks

    def _accounts(self, findings: Findings) -> dict[str, Account]:
        found = {
            rung.rung.name: (rung.recordings.of(self.kind), committed_in_middle(findings, rung))
            for rung in findings.rungs
        }
        return {name: one for name, one in found.items() if all(one)}


class StatementsSection(_PerTransactionSection):
    name = "statements"
    summary = "time, blocks and WAL of each statement per transaction, against before"
    title = "Statements"
    order = 46
    kind = StatementUse
    reading = (
        "Per committed transaction, in the trial of median throughput; before → after where it ran before, "
        "too. Time is execution time, plus planning time where that is tracked."
    )

    def of_rung(self, rung: TreatmentFinding, before: Account, after: Account) -> Iterator[Block]:
        changes = statement_changes(*before, *after)
        has_before = before[1] > 0

        def both(form: Callable[[StatementShare], str]) -> Callable[[StatementChange], str]:
            def cell(change: StatementChange) -> str:
                sides = (change.before, change.after) if has_before else (change.after,)
                return " → ".join("–" if share is None else form(share) for share in sides)

            return cell

        def added(change: StatementChange) -> Cell | str:
            sign = "−" if change.added_s < 0 else "+"
            return f"{sign}{format_duration(abs(change.added_s))}" if has_before else NOTHING

        yield table_of(
            f"Statements on {rung.rung.name}, per transaction",
            changes[:MOST_STATEMENTS],
            {
                "Statement": lambda change: statement_words(change.query),
                ">Time": both(lambda share: format_duration(share.time_s)),
                ">Added": added,
                ">Calls": both(lambda share: format_number(share.calls)),
                ">Blocks": both(lambda share: format_number(share.blocks)),
                ">Blocks read": both(lambda share: format_number(share.blocks_read)),
                ">WAL": both(lambda share: format_bytes(share.wal_bytes)),
            },
        )
        if (more := len(changes) - MOST_STATEMENTS) > 0:
            verb = "added" if has_before else "took"
            yield Paragraph(f"{more} more statements {verb} less.", Tone.MUTED)


class ProcessIoSection(_PerTransactionSection):
    name = "process-io"
    summary = "read and write calls and bytes of each kind of process, against before"
    title = "Reads and writes by process"
    order = 47
    kind = ProcessIoUse
    reading = (
        "System calls and bytes per committed transaction, in the trial of median throughput; before → after "
        "where there were some before. The kernel's page cache answers most reads. The last quarter of a "
        "second of each process is not attributed."
    )

    def of_rung(self, rung: TreatmentFinding, before: Account, after: Account) -> Iterator[Block]:
        sides = [
            ({use.kind: use for use in uses}, committed)
            for uses, committed in (before, after)
            if committed
        ]

        def each(field: str, form: Callable[[float], str]) -> Callable[[str], str]:
            # A kind that did nothing is not in the account.
            return lambda kind: " → ".join(
                form(getattr(uses.get(kind), field, 0) / committed) for uses, committed in sides
            )

        # The kinds that did any part of the whole that is worth a line.
        worth = {
            kind
            for uses, _ in sides
            for kind, use in uses.items()
            if any(
                getattr(use, field) > _LEAST_SHARE * sum(getattr(x, field) for x in uses.values())
                for field in ("read_calls", "write_calls", "read_bytes", "written_bytes")
            )
        }
        kinds = dict.fromkeys(kind for uses, _ in reversed(sides) for kind in uses)
        yield table_of(
            f"Reads and writes on {rung.rung.name}, per transaction",
            [kind for kind in kinds if kind in worth],
            {
                "Processes": capital,
                ">Read calls": each("read_calls", format_number),
                ">Read": each("read_bytes", format_bytes),
                ">Write calls": each("write_calls", format_number),
                ">Written": each("written_bytes", format_bytes),
            },
        )


class WaitsSection(_PerTransactionSection):
    name = "waits"
    summary = "wait events of each treatment by type of process, per transaction"
    title = "Wait events"
    order = 52
    kind = WaitTime
    reading = (
        "In the trial of median throughput, sampled 20 times a second: seconds per committed transaction, over all "
        "processes of a type. “On CPU” includes waiting for a CPU. Background processes waiting for work are left out."
    )

    def applies(self, findings: Findings) -> bool:
        return findings.has_rungs and super().applies(findings)

    def of_rung(self, rung: TreatmentFinding, before: Account, after: Account) -> Iterator[Block]:
        was, now = (
            {(one.backend_type, one.wait): one.time_s / committed for one in waits}
            for waits, committed in (before, after)
        )
        whole: Counter[str] = Counter()
        for (backend, _), time_s in now.items():
            whole[backend] += time_s
        named = [key for key, time_s in now.items() if time_s >= _LEAST_SHARE * whole[key[0]]]
        yield table_of(
            f"Wait events on {rung.rung.name}",
            sorted(named, key=lambda key: -now[key])[:_MOST_LINES],
            {
                "Process": lambda key: key[0],
                "Wait": lambda key: key[1] or "on CPU",
                f">{rung.previous or 'before'}": lambda key: (
                    format_duration(was[key]) if key in was else NOTHING
                ),
                f">{rung.rung.name}": lambda key: format_duration(now[key]),
                ">Of its type's time": lambda key: percent_words(now[key] / whole[key[0]]),
            },
        )

"""How is a plan printed: before a run, and instead of one (`--dry-run`)?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pgdrag.cli.consent import program_words
from pgdrag.cli.place import plain_table, stdout
from pgdrag.cli.plain_output import print_json
from pgdrag.cli.progress import count_words
from pgdrag.experiment.differences import Difference, left_out_words
from pgdrag.experiment.plan import Plan, PlannedTreatment, time_words
from pgdrag.experiment.version_defaults import KIND as DEFAULT_KIND
from pgdrag.units import format_bytes

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

NOTHING_RUN = "Nothing was run, because of --dry-run."
_MOST_NAMED = 8  # differences, before a run


def print_plan(plan: Plan, *, json: bool) -> None:
    """Print all of a plan, for people or for programs."""
    if json:
        print_json(plan)
        return
    out = stdout()
    out.print(plan.title, style="bold")
    out.print(plan.question)
    out.print(f"Workload: {plan.workload}")
    tested = [one for one in plan.differences if one.is_tested]
    left_out = [one for one in plan.differences if not one.is_tested]
    if tested:
        out.print(f"\nDiffers ({len(tested)}):", style="bold")
        out.print(_changes(tested))
    if left_out:
        out.print(f"\nNot tested ({len(left_out)}):", style="bold")
        out.print(_reasons(left_out))
    added = [one for one in plan.treatments if one.levels]
    if added and not plan.differences:
        out.print(f"\nTreatments ({len(plan.treatments)}):", style="bold")
        out.print(_treatments(plan.treatments))
    _print_list(out, "Starts, by consent:", [program_words(x) for x in plan.programs])
    _print_list(out, "Set on the server, and undone afterwards:", plan.changes)
    out.print()
    for line in summary(plan):
        out.print(line)
    told = left_out_words(plan.differences)
    for note in (note for note in plan.notes if note != told):
        out.print(f"Note: {note}")
    if plan.refusal:
        out.print(f"This run would be refused: {plan.refusal}", soft_wrap=True)
    out.print(NOTHING_RUN)


def _print_list(out: Console, title: str, lines: Sequence[str]) -> None:
    if lines:
        out.print(f"\n{title}", style="bold")
    for line in lines:
        out.print(f"  {line}", soft_wrap=True)


def trials_words(plan: Plan) -> str:
    """Return how many trials there are and how long they take: "8 trials: about 3 min"."""
    done = f" more ({plan.trials_done} done)" if plan.trials_done else ""
    return f"{count_words(plan.trials_least, plan.trials_most)}{done} trials: {time_words(plan)}"


def summary(plan: Plan) -> Iterator[str]:
    """Return how many trials there are, how long they take, their order and what room they need, a line each."""
    yield trials_words(plan)
    if plan.order:
        yield plan.order
    yield f"Estimated from {plan.basis}."
    if plan.free_bytes is not None:
        yield (
            f"Disk: about {format_bytes(plan.disk_bytes)} in all, snapshots included; "
            f"{format_bytes(plan.free_bytes)} free."
        )
    elif plan.disk_bytes:
        yield f"Disk: about {format_bytes(plan.disk_bytes)} on the server."


def difference_lines(differences: Sequence[Difference]) -> Iterator[str]:
    """Return what is tested, a line for each of the first few differences."""
    tested = [one for one in differences if one.is_tested]
    for one in tested[:_MOST_NAMED]:
        loss = f" ({one.loss})" if one.loss else ""
        yield f"  {_named(one)}: {one.before} -> {one.after}{loss}"
    if len(tested) > _MOST_NAMED:
        yield f"  and {len(tested) - _MOST_NAMED} more; --dry-run shows all"


def _named(one: Difference) -> str:
    """Return what differs; a default that the servers do not share is kept apart from a level of the arms."""
    return f"{one.name} (default)" if one.kind == DEFAULT_KIND else one.name


def _changes(differences: Sequence[Difference]) -> Table:
    rows = [(_named(one), one.before, one.after, one.loss) for one in differences]
    return _table(("factor", "from", "to", "what may be lost"), rows)


def _reasons(differences: Sequence[Difference]) -> Table:
    rows = [(one.name, one.before, one.after, one.why_not) for one in differences]
    return _table(("factor", "from", "to", "why"), rows)


def _treatments(treatments: Sequence[PlannedTreatment]) -> Table:
    rows = []
    for one in treatments:
        levels = [f"{x.name} = {x.value}" for x in one.levels] or [one.title or "nothing"]
        losses = dict.fromkeys(x.loss for x in one.levels if x.loss)
        rows.append((one.name, "\n".join(levels), "\n".join(losses)))
    return _table(("name", "adds", "what may be lost"), rows)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return an indented table without a last column that is empty throughout."""
    count = len(columns) if any(row[-1] for row in rows) else len(columns) - 1
    table = plain_table(f"  {columns[0]}", *columns[1:count])
    for name, *others in rows:
        table.add_row(f"  {name}", *others[: count - 1])
    return table

"""How far is a data twin like its original? What each statement's calls take there, against what was captured.

Both sides are twins: the original as captured, and the twin's own server, captured in the same way while its load runs.
Pure.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from pgdrag.english import as_sentence, cut, listed, listed_some, percent_words
from pgdrag.findings.plan_diff import plan_diff
from pgdrag.literals import sql_tokens
from pgdrag.model.recordings import Plan
from pgdrag.twins.mending import with_calls_of_now
from pgdrag.twins.model import Relation, Statement, Twin
from pgdrag.twins.workload import long_waiting
from pgdrag.units import format_number

WITHIN = 0.15  # of the original's amount per call
MIX_WITHIN = 0.02  # of all calls
FAITHFUL_SHARE = 0.9  # of the time, by statements within the bounds
LEAST_SHARE = 0.5
_BLOCK_BYTES = 8192
_PRUNED = 0.001  # of the bytes in the blocks of a query: so much WAL it may write for the changes of others
_CHANGING = frozenset({"insert", "update", "delete", "merge"})
_SMALLEST_TABLE_BYTES = 1_000_000  # what smaller ones differ by nobody notices
_WAITING = 3.0  # times the usual time for each block
_OTHER_WAIT = 1.5  # times as long
_LOCKING = re.compile(r"\bfor (?:no key )?(?:update|share)\b|\bfor key share\b")
_NAMED = 3
_STATEMENT_WIDTH = 80
# The type that a parameter is cast to: `? : : character varying ( ? ) [ ]`.
_CAST = re.compile(
    r"\? : :(?: [\w\"]+ \.)? [\w\"]+(?: (?:varying|precision|with|without|time|zone)\b)*(?: \( \? \))?(?: \[ \])*"
)
# Where the grammar wants a constant behind its type, or a word, a program sends the parameter otherwise.
_TYPED = re.compile(r"\b(?:interval|date|time|timestamp|timestamptz) \?")
_EXTRACT = re.compile(r"\bextract \( \? from ")
# What means the same.
_CONTROL = {
    **dict.fromkeys(("end", "end transaction", "end work", "commit transaction", "commit work"), "commit"),
    **dict.fromkeys(("abort", "rollback transaction", "rollback work"), "rollback"),
    **dict.fromkeys(("begin transaction", "begin work", "start transaction"), "begin"),
}  # fmt: skip
# Statements of the data twin's own: what its load reads before it begins.
_OWN_WORDS = ("pgdrag_twin",)


class Verdict(StrEnum):
    """How far findings on a twin hold for the original."""

    FAITHFUL = "faithful"
    EXCEPT = "faithful except"
    NOT = "not faithful"


@dataclass(frozen=True)
class Amount:
    """What a call takes, on both sides.

    Attributes:
        name: "rows", "blocks", "blocks read", "WAL bytes", "temporary bytes", "ms".
        is_within: the twin's differs by no more than `WITHIN`, or by too little to matter.
        is_bound: it must be within for the statement to be like the original's; others depend on the machine and its caches.
    """

    name: str
    original: float
    twin: float
    is_within: bool
    is_bound: bool = True

    @property
    def ratio(self) -> float | None:
        """Twin / original; None if the original is 0."""
        return self.twin / self.original if self.original else None

    @property
    def words(self) -> str:
        """The name and how it differs."""
        if self.ratio is None:
            return f"{self.name} {format_number(self.twin)} instead of none"
        return f"{self.name} {format_number(self.ratio, significant=2)}×"


@dataclass(frozen=True)
class StatementFidelity:
    """A statement of the original, and the same one on the twin.

    Attributes:
        number: of the original's file.
        share, twin_share: of the time of all statements.
        calls_share, twin_calls_share: of the calls of statements that have a plan.
        plan: how the twin plans it in another way than the original's statistics do; "" where it does not.
        is_planned: both sides have a plan.
        waits: it takes far longer than its blocks explain, where sessions wait for locks, on either side.
    """

    number: int
    text: str
    share: float
    twin_share: float
    calls_share: float
    twin_calls_share: float
    amounts: tuple[Amount, ...] = ()
    plan: str = ""
    is_planned: bool = False
    waits: bool = False

    @property
    def runs(self) -> bool:
        """Whether it ran on the twin."""
        return self.twin_calls_share > 0

    @property
    def is_mix_within(self) -> bool:
        """Whether its share of the calls is as in the original."""
        return self.runs and abs(self.twin_calls_share - self.calls_share) <= MIX_WITHIN

    @property
    def off(self) -> tuple[str, ...]:
        """What is not like the original, in words; empty: all is."""
        if not self.runs:
            return ("it does not run",)
        found = [x.words for x in self.amounts if x.is_bound and not x.is_within]
        if not self.is_mix_within:
            was, now = percent_words(self.calls_share), percent_words(self.twin_calls_share)
            found.append(f"{now} of the calls instead of {was}")
        if self.plan:
            found.append("another plan")
        return tuple(found)

    @property
    def words(self) -> str:
        """The statement, its share of the load, and how it differs from the original."""
        text = cut(" ".join(self.text.split()), _STATEMENT_WIDTH)
        why = f" ({self.why})" if self.why else ""
        return f"statement {self.number} ({text}; {percent_words(self.share)} of the time): {listed(self.off)}{why}"

    @property
    def why(self) -> str:
        """Why other sessions make it read more or fewer blocks than in the original, in a clause; "" where they do not."""
        amounts = {x.name: x for x in self.amounts}
        blocks, ms = amounts.get("blocks"), amounts.get("ms")
        if not self.waits or not blocks or not ms or blocks.is_within or not (blocks.ratio and ms.ratio):  # fmt: skip
            return ""
        if max(ms.ratio, 1 / ms.ratio) < _OTHER_WAIT or (ms.ratio > 1) != (blocks.ratio > 1):
            return ""
        was, now = (format_number(x, significant=2) for x in (ms.original, ms.twin))
        return f"a call waits for rows that others change, {was} ms in the original and {now} ms here, and reads them again after each wait"


@dataclass(frozen=True)
class RelationFidelity:
    """A table or an index whose size is not as expected at the twin's scale."""

    name: str
    expected_bytes: float
    twin_bytes: float

    @property
    def ratio(self) -> float:
        """Twin / expected."""
        return self.twin_bytes / self.expected_bytes


@dataclass(frozen=True)
class Fidelity:
    """How far a data twin is like its original.

    Attributes:
        statements: of the original, those first that take most of its time.
        mix_distance: share of the calls that would have to be of another statement for the mix to be the same.
        invented: texts of statements that only the twin runs, each with its share of the calls.
        relations: those whose size is off; `relations_compared`, of how many.
        columns: what ANALYZE finds otherwise than in the original, in clauses; `columns_compared`, of how many columns.
    """

    statements: tuple[StatementFidelity, ...]
    mix_distance: float
    invented: tuple[tuple[str, float], ...] = ()
    relations: tuple[RelationFidelity, ...] = ()
    relations_compared: int = 0
    columns: tuple[str, ...] = ()
    columns_compared: int = 0

    @property
    def off(self) -> tuple[StatementFidelity, ...]:
        """The statements that are not like the original, the longest first."""
        return tuple(x for x in self.statements if x.off)

    @property
    def faithful_share(self) -> float:
        """Share of the original's time by statements that are like the original."""
        return sum(x.share for x in self.statements if not x.off)

    @property
    def verdict(self) -> Verdict:
        """The verdict, by the share of the time."""
        if self.faithful_share >= FAITHFUL_SHARE and self.mix_distance <= MIX_WITHIN:
            return Verdict.FAITHFUL
        return Verdict.EXCEPT if self.faithful_share >= LEAST_SHARE else Verdict.NOT

    @property
    def sentence(self) -> str:
        """The verdict in a sentence."""
        share = percent_words(self.faithful_share)
        why = f"statements that take {share} of the original's time do as much per call there, within {WITHIN:.0%}"
        mix = f"the mix of calls differs by {percent_words(self.mix_distance, 2)}"
        if self.verdict is Verdict.FAITHFUL:
            return as_sentence(f"The twin is faithful: {why}; {mix}")
        if self.verdict is Verdict.NOT:
            return as_sentence(f"The twin is not faithful: only {why}; {mix}")
        named = listed_some([f"statement {x.number}" for x in self.off], _NAMED)
        return as_sentence(f"The twin is faithful except for {named or 'the mix'}: {why}; {mix}")

    @property
    def warnings(self) -> tuple[str, ...]:
        """What findings on this twin have to say, in clauses; none where it is faithful."""
        if self.verdict is Verdict.FAITHFUL:
            return ()
        most = [x for x in self.off if x.share >= MIX_WITHIN] or list(self.off)
        found = [x.words for x in most[:_NAMED]]
        more = len(self.off) - len(found)
        tail = [f"and {more} more"] if more > 0 else []
        head = (
            "the twin is not faithful"
            if self.verdict is Verdict.NOT
            else "the twin differs from its original"
        )
        if not found:
            return (f"{head}: the mix of calls differs by {percent_words(self.mix_distance, 2)}",)
        return (f"{head}; what rests on these may not hold for it: {'; '.join(found + tail)}",)


@dataclass(frozen=True)
class TwinCheck:
    """A check of one twin.

    Attributes:
        twin: its file's name.
        server_version: of the server that had the twin's data.
        for_s: how long its load was watched.
        notes: what the twin's server has not of the original, in clauses.
        hurried: for what there was too little time, as the server was too slow, in clauses.
    """

    twin: str
    captured_on: str
    source_version: str
    server_version: str
    scale: float
    for_s: float
    fidelity: Fidelity
    notes: tuple[str, ...] = ()
    hurried: tuple[str, ...] = ()


@dataclass
class _Totals:
    """The totals of all calls of one statement, by all roles."""

    first: Statement | None = None
    time_s: float = 0.0
    calls: int = 0
    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, one: Statement) -> None:
        self.first = self.first or one
        self.time_s += one.time_s
        self.calls += one.calls
        for name, amount, _ in _AMOUNTS:
            self.sums[name] += amount(one)
        self.sums["WAL records"] += one.wal_records
        self.sums["WAL images"] += one.wal_full_pages

    @property
    def is_plannable(self) -> bool:
        return self.first is not None and self.first.is_plannable

    def per_call(self, name: str) -> float:
        return self.sums[name] / self.calls if self.calls else 0.0


# What a call takes, and by how much it may differ in any case: less than anybody sees in a run.
_AMOUNTS: tuple[tuple[str, Callable[[Statement], float], float], ...] = (
    ("rows", lambda x: x.rows, 0.05),
    ("blocks", lambda x: x.shared_hit + x.shared_read, 0.5),
    ("blocks read", lambda x: x.shared_read, 0.1),
    ("WAL bytes", lambda x: x.wal_bytes, 16),
    ("temporary bytes", lambda x: (x.temp_read + x.temp_written) * _BLOCK_BYTES, _BLOCK_BYTES),
    ("ms", lambda x: 1000 * x.exec_s, 0.0),
)
_OF_MACHINE = frozenset({"blocks read", "ms"})


def fidelity(
    original: Twin,
    twin: Twin,
    *,
    table_scale: Callable[[Relation], float] = lambda _: 1.0,
    plans: Mapping[int, tuple[Plan | None, Plan | None]] | None = None,
    columns: tuple[Sequence[str], int] = ((), 0),
) -> Fidelity:
    """Compare a twin's server with the original.

    Args:
        original: as captured.
        twin: the data twin's server, captured while its load runs.
        table_scale: what share of a table's rows the data twin is to have.
        plans: of the original's statements by number: as the original's statistics have it, and on the data twin.
        columns: what ANALYZE finds otherwise in the data twin, and in how many columns that was looked for.
    """
    was, now = _totals(original), _totals(twin)
    waiting = {*_waiting(original), *_waiting(twin)}
    all_time_s = sum(x.time_s for x in was.values()) + original.workload.other_exec_s
    twin_time_s = sum(x.time_s for x in now.values())
    all_calls, twin_calls = (_calls(each.values()) for each in (was, now))
    statements = []
    for key, one in sorted(was.items(), key=lambda each: -each[1].time_s):
        other = now.get(key, _Totals())
        assert one.first is not None, "it ran"
        before, after = (plans or {}).get(one.first.number, (None, None))
        statements.append(
            StatementFidelity(
                number=one.first.number,
                text=one.first.text,
                share=_share(one.time_s, all_time_s),
                twin_share=_share(other.time_s, twin_time_s),
                calls_share=_share(one.calls, all_calls),
                twin_calls_share=_share(other.calls, twin_calls),
                amounts=tuple(_amounts(one, other)) if other.calls else (),
                plan=plan_diff(before, after),
                is_planned=before is not None and after is not None,
                waits=key in waiting,
            )
        )
    nothing = _Totals()
    distance = sum(
        abs(
            _share(was.get(x, nothing).calls, all_calls)
            - _share(now.get(x, nothing).calls, twin_calls)
        )
        for x in {*was, *now}
        if (was.get(x) or now[x]).is_plannable
    )
    invented = sorted(
        ((_share(x.calls, twin_calls), x.first.text) for key, x in now.items() if key not in was and x.first),
        reverse=True,
    )  # fmt: skip
    relations = [*_relations(original, twin, table_scale)]
    return Fidelity(
        statements=tuple(statements),
        mix_distance=distance / 2,
        invented=tuple((text, share) for share, text in invented),
        relations=tuple(
            sorted((x for x in relations if not _is_within(x.expected_bytes, x.twin_bytes, 0)),
                   key=lambda x: -abs(x.twin_bytes - x.expected_bytes))
        ),
        relations_compared=len(relations),
        columns=tuple(columns[0]),
        columns_compared=columns[1],
    )  # fmt: skip


def statement_key(text: str) -> str:
    """Return what is the same of a statement on both sides: words and signs, with `?` for constants and parameters.

    A program may number parameters in another order, say of which type they are, and send a list as an array.
    """
    pieces: list[str] = []
    for token in sql_tokens(with_calls_of_now(text)):
        if token.kind in ("parameter", "string", "number"):
            pieces.append("?")
        elif token.kind not in ("blank", "comment"):
            pieces.append(token.text.lower() if token.kind == "word" else token.text)
    key = _CAST.sub("?", _TYPED.sub("?", " ".join(pieces))).rstrip("; ")
    key = _EXTRACT.sub("date_part ( ? , ", key)
    key = (
        key.replace("array [ ? ]", "?")
        .replace("= any ( ? )", "in ( ? )")
        .replace("< > all ( ? )", "not in ( ? )")
    )
    return _CONTROL.get(key, key)


def _totals(twin: Twin) -> dict[tuple[str, bool], _Totals]:
    found: dict[tuple[str, bool], _Totals] = defaultdict(_Totals)
    for one in twin.workload.statements:
        if one.calls and not any(words in one.text for words in _OWN_WORDS):
            found[statement_key(one.text), one.is_toplevel].add(one)
    return dict(found)


def _waiting(twin: Twin) -> Iterator[tuple[str, bool]]:
    """Yield statements that lock rows and took far longer than their blocks explain, where sessions were seen waiting for locks."""
    known = [x for x in twin.workload.statements if x.calls and x.is_plannable]
    for one in long_waiting(known, twin.activity, times=_WAITING):
        key = statement_key(one.text)
        if not _is_query(one.text) or _LOCKING.search(key):
            yield key, one.is_toplevel


def _calls(every: Iterable[_Totals]) -> int:
    """Return the calls that shares are of: of statements with a plan; how often BEGIN comes with them is a share of them, too."""
    totals = list(every)
    return sum(x.calls for x in totals if x.is_plannable) or sum(x.calls for x in totals)


def _amounts(was: _Totals, now: _Totals) -> Iterator[Amount]:
    for name, _, free in _AMOUNTS:
        before, after = was.per_call(name), now.per_call(name)
        if name == "blocks read":  # whichever is in a cache is read again
            free = max(free, WITHIN * was.per_call("blocks"))
        if name == "WAL bytes":
            free = max(free, _of_images(was, now, before), _of_pruning(was))
        is_bound = name not in _OF_MACHINE
        yield Amount(name, before, after, _is_within(before, after, free), is_bound)


def _of_images(was: _Totals, now: _Totals, before: float) -> float:
    """Return how many bytes of WAL a call may differ by, since pages are logged whole at their first change after a checkpoint.

    How many those are tells how long ago it was, not what the statement does; that its number of records tells.
    """
    records = was.per_call("WAL records"), now.per_call("WAL records")
    if not _is_within(*records, 0.05):
        return 0.0
    images = was.per_call("WAL images"), now.per_call("WAL images")
    # The rest may differ as ever.
    return abs(images[1] - images[0]) * _BLOCK_BYTES + WITHIN * before


def _of_pruning(was: _Totals) -> float:
    """Return how many bytes of WAL a query may differ by: it prunes pages that others changed, whoever comes first."""
    is_query = was.first is not None and _is_query(was.first.text)
    return _PRUNED * _BLOCK_BYTES * was.per_call("blocks") if is_query else 0.0


def _is_query(text: str) -> bool:
    """Whether a statement changes nothing, also not in a part of its WITH."""
    words = [x.text.lower() for x in sql_tokens(text) if x.kind == "word"]
    return words[:1] == ["select"] or (words[:1] == ["with"] and not _CHANGING & {*words})


def _is_within(original: float, twin: float, free: float) -> bool:
    return abs(twin - original) <= max(WITHIN * original, free)


def _relations(
    original: Twin, twin: Twin, table_scale: Callable[[Relation], float]
) -> Iterator[RelationFidelity]:
    there = {(x.schema, x.name): x for x in twin.relations}
    tables = {(x.schema, x.name): x for x in original.relations if not x.table}
    for one in original.relations:
        other = there.get((one.schema, one.name))
        table = tables.get((one.schema, one.table or one.name))
        if other is None or table is None or one.bytes is None or other.bytes is None:
            continue
        expected = table_scale(table) * one.bytes
        if max(expected, other.bytes) >= _SMALLEST_TABLE_BYTES and expected:
            yield RelationFidelity(f"{one.kind} {one.schema}.{one.name}", expected, other.bytes)


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0

"""Which parameters of one transaction have the same value, and which rows of values belong together?

A log tells which parameters are equal. What a query or an INSERT returned it does not tell, nor does pg_stat_statements
tell anything of it, so that the rest follows from the schema: a statement that has a row's key means the row that was
looked at before; a foreign key means the row that it refers to; what a query returned is that row's.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pgdrag.data_twin.load.conditions import BEHIND, columns_of
from pgdrag.data_twin.load.kinds import Link, Part, TransactionType
from pgdrag.data_twin.load.parameters import RANGES
from pgdrag.data_twin.load.statements import Analysed, Root
from pgdrag.twins.model import Twin
from pgdrag.twins.transactions import equal_places

Column = tuple[str, str]  # a table and its column
Place = tuple[int, int]  # a step, from 0, and the number of its parameter
_VARIABLE = re.compile(r"\w+")  # what the driver's language takes for a name
_LEAST_RETURNED, _MOST_RETURNED = (
    0.5,
    100,
)  # rows a call, so that the next statement may be about one of them
_MOST_ANCESTORS = 8
_MOSTLY = 0.5  # of the calls


@dataclass(frozen=True)
class Foreign:
    """A foreign key of the schema."""

    table: str
    columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]


@dataclass(frozen=True)
class Source:
    """Where a value was first: a step's parameter, or a column of what it returned."""

    step: int
    parameter: int = 0
    returned: str = ""


@dataclass
class Row:
    """A row of a table that a transaction has to do with, as far as its columns are known."""

    table: str
    values: dict[str, Source] = field(default_factory=dict)


def linked(
    kind: TransactionType, statements: Mapping[int, Analysed], twin: Twin
) -> TransactionType:
    """Return a transaction with its links: those that a log told, else guessed ones."""
    walk = _Walk(kind, statements, foreign_keys(twin, statements.values()))
    return replace(kind, links=tuple(walk.links()))


def foreign_keys(twin: Twin, statements: Iterable[Analysed]) -> tuple[Foreign, ...]:
    """Return the foreign keys of a twin's schema, and those that it does not declare: what statements join with a unique key, or a log has equal to one."""
    declared = [
        Foreign(x.table, tuple(x.columns), x.references[1], tuple(x.references[2]))
        for x in twin.schema.constraints
        if x.kind == "f" and x.references is not None
    ]
    known = {(x.table, x.columns) for x in declared}
    told = [*statements]
    concluded = (*(x for one in told for x in _joined_keys(one)), *_logged_keys(told, twin))
    return (*declared, *dict.fromkeys(x for x in concluded if (x.table, x.columns) not in known))


def _joined_keys(one: Analysed) -> Iterator[Foreign]:
    """Yield what a statement joins with a unique key of another table; of two unique keys that with fewer rows refers to the other."""
    pairs: dict[tuple[str, str], dict[str, str]] = {}
    for sides in one.conditions.joins:
        [(alias, column)], [(other, its)] = map(columns_of, sides)
        pairs.setdefault((alias, other), {})[its] = column
        pairs.setdefault((other, alias), {})[column] = its
    for (alias, other), columns in pairs.items():
        own, parent = one.roots.get(alias), one.roots.get(other)
        if own is not None and parent is not None:
            yield from _referring(own, parent, columns)


def _referring(own: Root, parent: Root, columns: Mapping[str, str]) -> Iterator[Foreign]:
    """Yield foreign keys to another table, of which these columns have the values of those of the first."""
    if own.name == parent.name:
        return
    for key in (x for x in parent.unique if {*x} <= columns.keys()):
        referring = tuple(columns[x] for x in key)
        is_unique = any({*x} <= {*referring} for x in own.unique)
        if not is_unique or own.rows < parent.rows:
            yield Foreign(own.name, referring, parent.name, key)


def _logged_keys(statements: Sequence[Analysed], twin: Twin) -> Iterator[Foreign]:
    """Yield what programs sent that was always equal to a unique key of another table."""
    if twin.transactions is None:
        return
    known = {x.number: x for x in statements}
    distinct = {(x.number, p.number): p.distinct for x in twin.transactions.statements for p in x.parameters}  # fmt: skip
    pairs: dict[tuple[int, int, int, int, str, str], tuple[Root, Root, dict[str, str]]] = {}
    for pair in equal_places(twin.transactions.shapes, lambda *x: distinct.get(x, 0)):
        one, other = pair
        ends = [_column_of(known[x.statement], x.parameter) for x in pair if x.statement in known]
        for (own, column), (parent, its) in itertools.permutations([x for x in ends if x], 2):
            place = one.shape, one.step, other.shape, other.step, own.name, parent.name
            pairs.setdefault(place, (own, parent, {}))[2][its] = column
    for own, parent, columns in pairs.values():
        yield from _referring(own, parent, columns)


def _column_of(one: Analysed, parameter: int) -> tuple[Root, str] | None:
    """Return the column that a parameter is equal to, and its table."""
    columns = ((table, column) for (table, column), x in {**_inserted(one), **_equalities(one)}.items() if x == parameter)  # fmt: skip
    table, column = next(columns, ("", ""))
    return next(((x, column) for x in one.roots.values() if x.name == table), None)


def columns_by_parameter(statements: Mapping[int, Analysed], twin: Twin) -> dict[tuple[int, int], Column]:  # fmt: skip
    """Return the column that a statement's parameter is equal to; foreign keys connect columns, and one stands for all."""
    classes = _classes(foreign_keys(twin, statements.values()))
    return {
        (number, parameter): classes.get(column, column)
        for number, one in statements.items()
        for column, parameter in {**_inserted(one), **_equalities(one)}.items()
    }


def key_parameters(one: Analysed, table: str) -> dict[str, int]:
    """Return the parameters that a unique key of a table is equal to, in the order of its columns; {} where none is whole."""
    equal = _equalities(one)
    keys = [key for root in one.roots.values() if root.name == table for key in root.unique]
    for key in keys:
        if all((table, column) in equal for column in key):
            return {column: equal[table, column] for column in key}
    return {}


def origin(links: Mapping[Place, Link], place: Place) -> Place | None:
    """Return where a parameter's value was first; None where it is made of another one, or returned."""
    while (link := links.get(place)) is not None:
        if link.returned or link.differences or link.is_of_round or link.is_in_step:
            return None
        place = link.from_step, link.from_parameter
    return place


def most_absent(
    kinds: Iterable[TransactionType], statements: Mapping[int, Analysed]
) -> dict[int, float]:
    """Return for which share of a statement's calls, at most, no row may have their key: what a later one of the transaction finds by the same key is there."""
    calls, absent = defaultdict[int, float](float), defaultdict[int, float](float)
    for kind in kinds:
        most = _most_absent(kind, statements)
        for at, step in enumerate(kind.steps):
            calls[step.statement] += kind.weight * step.share
            absent[step.statement] += kind.weight * step.share * most.get(at, 1.0)
    return {number: absent[number] / count for number, count in calls.items() if count}


def alike_in_a_call(kinds: Iterable[TransactionType], number: int) -> dict[int, int]:
    """Return parameters of a statement that are always equal to an earlier one of the same call, as a log told: rows of one INSERT."""
    return {
        x.parameter: x.from_parameter
        for kind in kinds
        for x in kind.links
        if x.step == x.from_step and kind.steps[x.step].statement == number and x.from_parameter < x.parameter
        if x.is_exact and not (x.differences or x.is_of_round or x.is_in_step or x.returned)
    }  # fmt: skip


def agreeing(kinds: Iterable[TransactionType]) -> frozenset[int]:
    """Return the statements whose values mostly have to agree with those of an earlier one of the transaction."""
    calls, led = defaultdict[int, float](float), defaultdict[int, float](float)
    for kind in kinds:
        steps = {x.step for x in kind.links if x.from_step < x.step and not (x.returned or x.differences)}  # fmt: skip
        for at, step in enumerate(kind.steps):
            calls[step.statement] += kind.weight * step.share
            led[step.statement] += kind.weight * step.share * (at in steps)
    return frozenset(number for number, count in calls.items() if led[number] > _MOSTLY * count)


def _most_absent(kind: TransactionType, statements: Mapping[int, Analysed]) -> dict[int, float]:
    found: dict[int, float] = {}
    links = {(x.step, x.parameter): x for x in kind.links}
    for at, step in enumerate(kind.steps):
        one = statements.get(step.statement)
        if one is None or one.change.kind == "insert":
            continue
        there = min(one.wanted.rows / max(one.wanted.calls, 1), 1.0) * step.share
        for root in one.roots.values():
            places = [origin(links, (at, x)) for x in key_parameters(one, root.name).values()]
            of = {None if x is None else x[0] for x in places} - {at}
            if len(of) == 1 and (first := of.pop()) is not None:
                found[first] = min(found.get(first, 1.0), 1 - there)
    return found


def belonging(
    one: Analysed, linked_to: Iterable[int], foreign: Sequence[Foreign]
) -> frozenset[int]:
    """Return which linked parameters a statement's other values have to agree with, so that there are rows for all.

    Those of which a table's condition, or of what is inserted a foreign key, or what keeps ranges from overlapping, has another
    parameter that is not linked.

    Args:
        linked_to: parameters that are equal to earlier ones.
    """
    known = set(linked_to)
    together: list[set[int]] = []
    by_alias: dict[str, set[int]] = {}
    for number, x in one.conditions.first().items():
        if x.alias in one.roots:
            by_alias.setdefault(x.alias, set()).add(number)
    together += by_alias.values()
    inserted = {column: parameter for (_, column), parameter in _inserted(one).items()}
    for key in foreign:
        if one.table is not None and key.table == one.table.name:
            together.append({inserted[x] for x in key.columns if x in inserted})
    if one.table is not None and one.change.kind == "insert":
        for column, groups in one.table.without_overlaps.items():
            of = {column, *groups}
            together.append({x.parameter for x in one.change.assignments if x.is_inserted and one.table.column_of(x) in of})  # fmt: skip
    return frozenset(x for some in together if some - known for x in some & known)


class _Walk:
    """The steps of a transaction one after the other, with the rows that they have to do with."""

    def __init__(
        self, kind: TransactionType, statements: Mapping[int, Analysed], foreign: Sequence[Foreign]
    ) -> None:
        self._kind, self._statements, self._foreign = kind, statements, foreign
        self._told = {(x.step, x.parameter): x for x in kind.links}
        self._class = _classes(foreign)
        self._rows: list[Row] = []
        self._found: list[Link] = []

    def links(self) -> list[Link]:
        """Return all links, those that were told among them."""
        for part in self._kind.parts:
            before = len(self._rows)
            for at in range(part.first, part.last + 1):
                step = self._kind.steps[at]
                one = self._statements.get(step.statement)
                if one is not None:
                    if part in self._kind.later:
                        self._next_page(at, one, part)
                    self._step(at, one, is_sure=step.share == 1)
            if not part.is_sure:
                del self._rows[before:]
        return [*self._told.values(), *self._found]

    def _step(self, at: int, one: Analysed, *, is_sure: bool) -> None:
        tables: dict[str, dict[str, int]] = {}
        compared = _equalities(one)
        for (table, column), parameter in {**compared, **_inserted(one)}.items():
            tables.setdefault(table, {})[column] = parameter
        met: list[Row] = []
        for table, columns in tables.items():
            is_new = (
                one.change.kind == "insert" and one.table is not None and table == one.table.name
            )
            sources = self._sources(at, one, table, columns, is_new=is_new)
            found = self._links(at, columns, sources)
            row = Row(table, {c: found.get(n) or Source(at, n) for c, n in columns.items()})
            met.append(row)
            if is_new:
                self._other_rows(at, one, found)
                self._conditions(at, columns, found, compared, table)
        if is_sure and _may_be_about_one(one):
            for table, column, name in _returned(one):
                row = next((x for x in met if x.table == table), None) or Row(table)
                if not any(x is row for x in met):
                    met.append(row)
                row.values.setdefault(column, Source(at, returned=name))
        for row in met:
            self._know(row)

    def _links(
        self, at: int, columns: Mapping[str, int], sources: Mapping[str, Source]
    ) -> dict[int, Source]:
        """Note the links of a step's parameters to their sources; return where each linked one's value was first."""
        found: dict[int, Source] = {}
        for column, parameter in columns.items():
            told = self._told.get((at, parameter))
            source = sources.get(column)
            if told is not None and not self._is_by_chance(told, source):
                if not told.differences and not told.is_of_round and not told.is_in_step:
                    found[parameter] = self._first(Source(told.from_step, told.from_parameter))
            elif source is not None and self._is_to_guess(at, parameter, source):
                found[parameter] = source
                self._found.append(_link(at, parameter, source))
        return found

    def _is_to_guess(self, at: int, parameter: int, source: Source) -> bool:
        """Whether no log tells where a parameter is from; that parameters are equal it would have told."""
        is_told = self._kind.knows_order and not source.returned
        told = self._told.get((at, parameter))
        return not is_told and (told is None or self._is_by_chance(told, source))

    @staticmethod
    def _is_by_chance(told: Link, source: Source | None) -> bool:
        """Whether a log only saw that rounds of a loop mostly have the same value, where each asks for its own before."""
        return told.is_of_round and not told.is_exact and source is not None and bool(source.returned)  # fmt: skip

    def _first(self, source: Source) -> Source:
        """Return where the value of a parameter comes from."""
        link = self._told.get((source.step, source.parameter))
        if link is None or link.differences or link.from_step >= link.step:
            return source
        return self._first(Source(link.from_step, link.from_parameter))

    def _conditions(
        self, at: int, columns: Mapping[str, int], found: Mapping[int, Source], compared: Mapping[Column, int], table: str
    ) -> None:  # fmt: skip
        """Let what an INSERT compares a column with be what it writes there."""
        for column, parameter in columns.items():
            other = compared.get((table, column), parameter)
            if (
                other != parameter
                and parameter in found
                and self._is_to_guess(at, other, found[parameter])
            ):
                self._found.append(_link(at, other, found[parameter]))

    def _other_rows(self, at: int, one: Analysed, found: Mapping[int, Source]) -> None:
        """Let all rows of one INSERT belong to what the first one belongs to."""
        columns = {x.column or x.place: x.parameter for x in one.change.assignments if x.is_inserted and not x.row}  # fmt: skip
        for x in one.change.assignments:
            source = found.get(columns.get(x.column or x.place, 0))
            if source is None or not self._is_to_guess(at, x.parameter, source):
                continue
            if x.is_inserted and x.is_plain and x.row:
                self._found.append(_link(at, x.parameter, source))

    def _next_page(self, at: int, one: Analysed, part: Part) -> None:
        """Let a bound be what the last row was that a query before returned, in a part that always follows it."""
        for number, x in one.conditions.first().items():
            columns = columns_of(x.columns)
            if x.operator.removeprefix(BEHIND) not in RANGES or not x.is_plain or len(columns) != 1 or x.alias not in one.roots:  # fmt: skip
                continue
            row = self._row(one.roots[x.alias].name, [columns[0][1]])
            source = row.values[columns[0][1]] if row else None
            if source is not None and source.returned and source.step < part.first and self._is_to_guess(at, number, source):  # fmt: skip
                self._found.append(replace(_link(at, number, source), is_bound=True))

    # --- sources ---

    def _sources(
        self, at: int, one: Analysed, table: str, columns: Mapping[str, int], *, is_new: bool
    ) -> dict[str, Source]:
        """Return what columns of a table are equal to, of what the transaction has had to do with."""
        found: dict[str, Source] = {}
        apart: set[str] = set()
        if not is_new:
            same = self._row(table, columns)
            if same is not None:
                found.update({x: same.values[x] for x in columns})
        parents: set[tuple[str, tuple[str, ...]]] = set()
        for key in self._foreign:
            if key.table != table or not set(key.columns) <= columns.keys():
                continue
            parent = key.parent, key.parent_columns
            if parent in parents:
                apart |= (
                    set(key.columns) - found.keys()
                )  # somebody else: two users who follow each other
                continue
            row = self._row(key.parent, key.parent_columns)
            if row is None:
                continue
            parents.add(parent)
            values = {a: row.values[b] for a, b in zip(key.columns, key.parent_columns, strict=False)}  # fmt: skip
            if all(found.get(x, source) == source for x, source in values.items()):
                found |= values
            else:
                apart |= (
                    values.keys() - found.keys()
                )  # of another owner than what is linked already
        for column in columns.keys() - found.keys() - apart:
            if (source := self._alike((table, column), is_new=is_new)) is not None:
                found[column] = source
        return found if is_new else self._not_all_rounds_alike(at, one, table, found, columns)

    def _row(self, table: str, columns: Iterable[str]) -> Row | None:
        """Return the latest row of a table of which these columns are known."""
        wanted = set(columns)
        return next((x for x in reversed(self._rows) if x.table == table and wanted <= x.values.keys()), None)  # fmt: skip

    def _alike(self, column: Column, *, is_new: bool) -> Source | None:
        """Return a value of the same column, or of one that foreign keys connect with it."""
        wanted = self._class.get(column, column)
        for row in reversed(self._rows):
            for name, source in row.values.items():
                is_own = is_new and row.table == column[0] and column not in self._class
                if self._class.get((row.table, name), (row.table, name)) == wanted and not is_own:
                    return source
        if not is_new or column in self._class or column[1] == "id":
            return None
        # As the statement before it means the same row: its key has the same name here.
        named = (x.values[column[1]] for x in reversed(self._rows) if column[1] in x.values and x.table != column[0])  # fmt: skip
        return next((x for x in named if not x.returned), None)

    def _not_all_rounds_alike(
        self,
        at: int,
        one: Analysed,
        table: str,
        found: dict[str, Source],
        columns: Mapping[str, int],
    ) -> dict[str, Source]:
        """Return sources so that a loop's rounds do not all mean the same row: the last part of its key is each round's own."""
        loop = next((x for x in self._kind.loops if x.first <= at <= x.last), None)
        if loop is None or found.keys() != columns.keys() or any(x.step >= loop.first for x in found.values()):  # fmt: skip
            return found
        keys = [key for x in one.roots.values() if x.name == table for key in x.unique]
        last = next((key[-1] for key in keys if set(key) <= columns.keys()), [*columns][-1])
        return {x: source for x, source in found.items() if x != last}

    # --- rows ---

    def _know(self, row: Row, depth: int = 0) -> None:
        """Note a row, and those that it refers to."""
        self._rows.append(row)
        for key in self._foreign if depth < _MOST_ANCESTORS else ():
            if key.table == row.table and set(key.columns) <= row.values.keys():
                values = {b: row.values[a] for a, b in zip(key.columns, key.parent_columns, strict=False)}  # fmt: skip
                if not any(x.table == key.parent and values.items() <= x.values.items() for x in self._rows):  # fmt: skip
                    self._know(Row(key.parent, values), depth + 1)


def _may_be_about_one(one: Analysed) -> bool:
    """Whether what comes behind it may be about one of the rows that a statement returned: mostly there were some."""
    return _LEAST_RETURNED <= one.wanted.rows / max(one.wanted.calls, 1) <= _MOST_RETURNED


def _returned(one: Analysed) -> Iterator[tuple[str, str, str]]:
    """Yield table, column and name of what a statement returns; none where the driver could not name one of them."""
    if all(_VARIABLE.fullmatch(x.name) for x in one.results):
        for x in one.results:
            if x.is_not_null:  # the driver takes NULL for an empty text
                yield x.table, x.column, x.name


def _link(at: int, parameter: int, source: Source) -> Link:
    return Link(at, parameter, source.step, source.parameter, returned=source.returned)


def _equalities(one: Analysed) -> dict[Column, int]:
    found: dict[Column, int] = {}
    for number, x in one.conditions.first().items():
        columns = columns_of(x.columns)
        if x.operator == "=" and x.is_plain and len(columns) == 1 and x.alias in one.roots:
            found.setdefault((one.roots[x.alias].name, columns[0][1]), number)
    return found


def _inserted(one: Analysed) -> dict[Column, int]:
    if one.table is None:
        return {}
    return {
        (one.table.name, column): x.parameter
        for x in one.change.assignments
        if x.is_inserted and x.is_plain and not x.row and (column := one.table.column_of(x))
    }


def _classes(foreign: Iterable[Foreign]) -> dict[Column, Column]:
    """Return for columns of foreign keys what stands for all that are connected with them."""
    above: dict[Column, Column] = {}

    def top(column: Column) -> Column:
        while (up := above.get(column, column)) != column:
            column = up
        return column

    for key in foreign:
        for own, other in zip(key.columns, key.parent_columns, strict=False):
            one, another = top((key.table, own)), top((key.parent, other))
            above.setdefault(one, one)
            above[one] = above.setdefault(another, another)
    return {column: top(column) for column in above}

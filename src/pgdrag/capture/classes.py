"""Which columns have the same tokens for the same values, and which tokens? Classes of columns that are compared.

Values are taken first, all of them; then the tokens of each class are made.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from decimal import Decimal, localcontext
from functools import partial

from pgdrag.capture.names import ColumnNames, Key
from pgdrag.capture.schema import FoundColumn, FoundSchema, FoundType
from pgdrag.english import printable
from pgdrag.twins import constants as sql
from pgdrag.twins.array_text import array_elements, array_text
from pgdrag.twins.json_tokens import JsonTokens, leaves
from pgdrag.twins.model import Schema
from pgdrag.twins.range_text import RangeText, bounds_of, read_range
from pgdrag.twins.tokens import (
    EXACT,
    address_tokens,
    bytea_tokens,
    finite,
    has_moment,
    is_small,
    length_tokens,
    mac_form,
    moment_of,
    number_tokens,
    spread_tokens,
    text_tokens,
    time_tokens,
    uuid_form,
)

Sort = Callable[[Sequence[str], str], Sequence[str]]

_KINDS = {
    **dict.fromkeys(("int2", "int4", "int8", "numeric", "float4", "float8", "oid"), "number"),
    **dict.fromkeys(("date", "timestamp", "timestamptz"), "time"),
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "citext"), "text"),
    **dict.fromkeys(("inet", "cidr"), "address"),
    **dict.fromkeys(("macaddr",), "mac"),
    **dict.fromkeys(("json", "jsonb"), "json"),
    "uuid": "uuid",
    "bytea": "bytea",
    "bool": "boolean",
    "tsvector": "lexeme",
    "char": "boolean",
}
_LIMITS = {
    "int2": Decimal(2**15 - 1),
    "int4": Decimal(2**31 - 1),
    "int8": Decimal(2**63 - 1),
    "oid": Decimal(2**32 - 1),
}
_TEXTUAL = frozenset({"text", "lexeme"})


class ValueClasses:
    """The columns of a database in classes, and the tokens of their values.

    Attributes:
        columns: tables', indexes' and materialized views'.
        names: what finds them.
    """

    def __init__(
        self, found: FoundSchema, *, rng: random.Random, now: datetime, sort: Sort
    ) -> None:
        """Begin with the columns, those of foreign keys, partitions, domains, indexes and views joined.

        Args:
            sort: texts by a collation, as the server does.
        """
        self._found, self._rng, self._now, self._sort = found, rng, now, sort
        self.columns: Mapping[Key, FoundColumn] = {
            (one.schema, one.relation, one.name): one for one in found.columns
        }
        self.names = ColumnNames(self.columns)
        self._parent: dict[Key, Key] = {}
        self._kinds = {key: self._kind(column.type_oid) for key, column in self.columns.items()}
        self._values: dict[Key, dict[str, None]] = defaultdict(dict)
        # No token is made for these, nor is one of them a token.
        self._untold: set[str] = set()
        self._tokens: dict[Key, Mapping[str, str]] = {}
        self._documents: dict[Key, JsonTokens] = {}
        self._lengths: dict[str, str] = {}
        self._enums = {
            f"{one.schema}.{one.name}": one.labels
            for one in found.types.values()
            if one.kind == "e"
        }
        self._join_columns()

    def kind(self, key: Key | None) -> str:
        """Return what a column's values are: "number", "text", "enum shop.status" …; "" where nothing can take their place."""
        return "" if key is None else self._kinds.get(key, "")

    def enum_named(self, type_: str) -> str:
        """Return the kind of an enum by its name as a cast has it; "" where it is none."""
        return next((f"enum {x}" for x in self._enums if type_.endswith(x)), "")

    def anywhere(self, chain: sql.Chain) -> Key | None:
        """Return the column of a name, if all columns of that name have the same values."""
        keys = self.names.named(chain)
        return keys[0] if len({self.root(x) for x in keys}) == 1 else None

    def join(self, one: Key, other: Key) -> None:
        """Put the values of two columns into one class if their types match."""
        left, right = self.root(one), self.root(other)
        if left != right and self._kinds.get(left) == self._kinds.get(right) != "":
            self._parent[right] = left

    def join_compared(self, statement: str) -> None:
        """Have those columns in one class that a statement compares with each other."""
        tables = sql.sources(statement)
        resolve = self.names.among(tables)
        for left, right in sql.comparisons(statement):
            one, other = resolve(left), resolve(right)
            if one is not None and other is not None:
                self.join(one, other)
        for name in sql.joined_by_name(statement):
            keys = [key for key in map(resolve, ((alias, name) for alias in tables)) if key]
            for other in keys[1:]:
                self.join(keys[0], other)

    def join_references(self, equal: Iterable[tuple[Key, Key]]) -> None:
        """Have those columns in one class of which programs sent equal values, where one of them is a key of its table: the other refers to it."""
        left = [x for x in equal if self._kinds.get(x[0]) == self._kinds.get(x[1])]
        unique = {
            (one.schema, one.table, *one.columns)
            for one in self._found.schema.constraints
            if one.kind in "pu" and len(one.columns) == 1
        } | {
            (one.schema, one.table, *one.keys)
            for one in self._found.schema.indexes
            if one.is_key and len(one.keys) == 1
        }
        while True:  # what refers to a key is equal to others that do
            known = {self.root(x) for x in unique}
            found = [x for x in left if known & {*map(self.root, x)}]
            if not found:
                return
            for one, other in found:
                self.join(one, other)
            left = [x for x in left if x not in found]

    def root(self, key: Key) -> Key:
        """Return the column that represents a class."""
        while key in self._parent:
            key = self._parent[key]
        return key

    def originals(self) -> Iterator[str]:
        """Yield all values that have tokens."""
        for values in self._values.values():
            yield from values

    def take_length(self, value: str) -> None:
        """Take the length of a range."""
        self._lengths[value] = ""

    def take(self, key: Key, value: str, *, is_element: bool = False) -> None:
        """Take a value of a column; of an array its elements, of a range its bounds."""
        kind = self._kinds.get(key, "")
        column = self.columns.get(key)
        if kind in ("", "boolean") or kind.startswith("enum"):
            self._untold.add(value)
            return
        if not is_element and self._is_array_of(column, value):
            for inner in elements_of(value):
                self.take(key, inner, is_element=True)
            return
        if not is_element and self._has_bounds(key, value):
            for bound in bounds_of(value):
                self.take(key, bound, is_element=True)
            return
        self._values[self.root(key)][self._normal(column, value)] = None

    def _normal(self, column: FoundColumn | None, value: str) -> str:
        base = self._base(column.type_oid) if column is not None else None
        is_padded = base is not None and base.name in ("bpchar", "_bpchar")
        return value.rstrip(" ") if is_padded else value

    def make_tokens(self, json_keys: Collection[str]) -> None:
        """Make the tokens of all values that were taken.

        Args:
            json_keys: that stay as they are.
        """
        everything = {*self.originals(), *self._untold, *self._lengths}
        for root, values in self._values.items():
            if self._kinds[root] == "json":
                everything.update(*map(leaves, values))
        numbers = {x for x in map(finite, everything) if x is not None and not is_small(x)}
        moments = {x for x in map(moment_of, everything) if x is not None}
        self._lengths = length_tokens(self._lengths, self._rng, avoid=numbers)
        columns: dict[Key, list[FoundColumn]] = defaultdict(list)
        for key, column in self.columns.items():
            columns[self.root(key)].append(column)
        for root, values in self._values.items():
            kind, own = self._kinds[root], columns[root]
            # An unforeseen value loses its own class the tokens, but does not fail the whole capture.
            with suppress(ValueError, ArithmeticError, LookupError):
                if kind == "json":
                    self._documents[root] = JsonTokens(
                        values, self._rng, kept_keys=json_keys, avoid=everything, avoided_numbers=numbers
                    )  # fmt: skip
                elif kind == "number":
                    self._tokens[root] = number_tokens(values, self._rng, largest=self._largest(own), avoid=numbers)  # fmt: skip
                elif kind == "time":
                    known = [value for value in values if has_moment(value)]
                    self._tokens[root] = time_tokens(known, self._rng, now=self._now, avoid=moments)
                elif kind in _TEXTUAL:
                    ascending = self._sort(tuple(values), self._collation(kind, own))
                    self._tokens[root] = text_tokens(
                        ascending, width=partial(_width, most=self._longest(own)), avoid=everything
                    )
                else:
                    self._tokens[root] = self._fixed(kind, sorted(values), everything)

    def _fixed(
        self, kind: str, ascending: Sequence[str], avoid: Collection[str]
    ) -> Mapping[str, str]:
        match kind:
            case "uuid":
                return spread_tokens(ascending, self._rng, uuid_form, 128)
            case "mac":
                return spread_tokens(ascending, self._rng, mac_form, 40)
            case "bytea":
                return bytea_tokens(ascending)
            case _:
                return address_tokens(ascending, self._rng, avoid=avoid)

    def _largest(self, columns: Sequence[FoundColumn]) -> Decimal | None:
        found = []
        for column in columns:
            base = self._base(column.type_oid)
            if base is None:
                continue
            base = self._base(base.bound) or base
            if base.name in _LIMITS:
                found.append(_LIMITS[base.name])
            elif base.name == "numeric" and column.modifier > 0:
                digits, scale = (column.modifier - 4) >> 16 & 0xFFFF, (column.modifier - 4) & 0x7FF
                with localcontext(EXACT):
                    found.append(Decimal(10) ** (digits - scale) - Decimal(10) ** -scale)
        return min(found, default=None)

    def _longest(self, columns: Sequence[FoundColumn]) -> int:
        limits = []
        for column in columns:
            base = self._base(column.type_oid)
            if base is not None and base.name in ("varchar", "bpchar") and column.modifier > 4:
                limits.append(column.modifier - 4)
        return min(limits, default=1 << 30)

    def _collation(self, kind: str, columns: Sequence[FoundColumn]) -> str:
        if kind == "lexeme":
            return 'pg_catalog."C"'
        return next((one.collation for one in columns if one.collation), "")

    def token(self, key: Key, value: str, *, is_element: bool = False) -> str | None:
        """Return the token of a column's value; None where there is none."""
        kind, column = self._kinds.get(key, ""), self.columns.get(key)
        if kind and not is_element and self._has_bounds(key, value):
            return self._range_token(key, value)
        if not is_element and self._is_array_of(column, value):
            return self._array_token(key, value)
        if kind == "boolean":
            return value
        if kind.startswith("enum "):
            return self.label(kind, value)
        root = self.root(key)
        if kind == "json":
            documents = self._documents.get(root)
            return documents.of(value) if documents is not None else None
        normal = self._normal(column, value)
        token = self._tokens.get(root, {}).get(normal)
        return token if token is None else token.ljust(len(token) + len(value) - len(normal))

    def _array_token(self, key: Key, value: str) -> str | None:
        try:
            elements = array_elements(value)
        except ValueError:
            return None
        tokens = [None if x is None else self.token(key, x, is_element=True) for x in elements]
        are_all_told = [x is None for x in tokens] == [x is None for x in elements]
        return array_text(tokens) if are_all_told else None

    def _range_token(self, key: Key, value: str) -> str | None:
        found = read_range(value)
        if found is None:
            return value if value == "empty" else None
        lower, upper = (None if x is None else self.token(key, x, is_element=True) for x in (found.lower, found.upper))  # fmt: skip
        are_told = [lower is None, upper is None] == [found.lower is None, found.upper is None]
        return str(RangeText(lower, upper, found.brackets)) if are_told else None

    def length_token(self, value: str) -> str:
        """Return the token of a range's length."""
        return self._lengths[value]

    def label(self, kind: str, value: str) -> str | None:
        """Return the token of an enum's label; None where it has no such label."""
        labels = self._enums.get(kind.removeprefix("enum "), ())
        return label_token(labels.index(value)) if value in labels else None

    def _join_columns(self) -> None:
        schema = self._found.schema
        for left, right in (*_of_foreign_keys(schema), *_of_children(schema), *self._of_indexes()):
            if left in self.columns and right in self.columns:
                self.join(left, right)
        for key, column in self.columns.items():
            domain = self._found.types.get(column.type_oid)
            if domain is not None and domain.kind == "d":
                named = (domain.schema, "", domain.name)
                self._kinds.setdefault(named, self._kinds[key])
                self.join(named, key)
        for view in schema.views:
            self.join_compared(view.definition)
        for one in schema.constraints:
            if one.kind == "c":
                resolve = self.names.of_table(one.schema, one.table)
                for names in sql.comparisons(one.definition):
                    compared = [key for key in map(resolve, names) if key is not None]
                    if len(compared) == 2:
                        self.join(*compared)

    def _of_indexes(self) -> Iterator[tuple[Key, Key]]:
        """Yield columns of tables with those of indexes that are no expressions."""
        numbered = {(x.schema, x.relation, x.number): x.name for x in self._found.columns}
        for index in self._found.schema.indexes:
            for at, name in enumerate(index.keys, start=1):
                own = numbered.get((index.schema, index.name, at))
                if own is not None:
                    yield (index.schema, index.table, name), (index.schema, index.name, own)

    def _kind(self, oid: int) -> str:
        """Return what the values of a type are; "" where nothing can take their place."""
        found = self._base(oid)
        if found is None:
            return ""
        if found.element or found.bound:
            return self._kind(found.element or found.bound)
        if found.kind == "e":
            return f"enum {found.schema}.{found.name}"
        return _KINDS.get(found.name, "") if found.schema == "pg_catalog" or found.name == "citext" else ""  # fmt: skip

    def _base(self, oid: int) -> FoundType | None:
        found = self._found.types.get(oid)
        while found is not None and found.kind == "d":
            found = self._found.types.get(found.base)
        return found

    def is_of_ranges(self, key: Key) -> bool:
        """Whether a column's values are ranges, or sets of them."""
        column = self.columns.get(key)
        found = None if column is None else self._base(column.type_oid)
        return found is not None and bool(found.bound)

    def _has_bounds(self, key: Key, value: str) -> bool:
        """Whether a value is a range: of a column of ranges, or one that a number or a time is looked for in."""
        is_in_range = self._kinds.get(key) in ("number", "time") and read_range(value) is not None
        return is_in_range or self.is_of_ranges(key)

    def _is_array_of(self, column: FoundColumn | None, value: str) -> bool:
        """Whether a value is a whole array: in ARRAY['a', 'b'] each is an element."""
        found = None if column is None else self._base(column.type_oid)
        return found is not None and bool(found.element) and value[:1] in ("{", "[")


def label_token(at: int) -> str:
    """Return the token of the label at a place, from 0."""
    return f"e{at + 1}"


def _width(value: str, *, most: int) -> int:
    return min(len(printable(value).encode()), most)


def _of_foreign_keys(schema: Schema) -> Iterator[tuple[Key, Key]]:
    for constraint in schema.constraints:
        if constraint.references is not None:
            name, table, columns = constraint.references
            for own, other in zip(constraint.columns, columns, strict=False):
                yield (name, table, other), (constraint.schema, constraint.table, own)


def _of_children(schema: Schema) -> Iterator[tuple[Key, Key]]:
    """Yield columns of partitioned tables and parents with those of their children."""
    for one in schema.tables:
        for parent in (*one.inherits, *([one.partition_of] if one.partition_of else [])):
            for column in one.columns:
                yield (*parent, column.name), (one.schema, one.name, column.name)


def elements_of(text: str | None) -> list[str]:
    """Return the elements of an array but NULLs; none where it has several dimensions."""
    try:
        return [x for x in array_elements(text) if x is not None] if text else []
    except ValueError:
        return []

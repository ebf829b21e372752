"""Which value gets which token? Classes of columns, their values, and texts of the schema without constants.

A first pass over schema and statistics gathers the values of each class; then tokens are made; a second pass writes them.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from functools import partial

from pgdrag.capture.schema import FoundColumn, FoundSchema, FoundType
from pgdrag.capture.statistics import FoundExtended, FoundStatistics
from pgdrag.english import capital, printable
from pgdrag.twins import constants as sql
from pgdrag.twins.array_text import array_elements, array_text
from pgdrag.twins.ddl import quoted
from pgdrag.twins.json_tokens import JsonTokens, is_document, leaves
from pgdrag.twins.masking import is_word_of_the_server, masked, without_comments
from pgdrag.twins.model import (
    Column,
    ColumnStatistics,
    Constraint,
    ExtendedStatistics,
    Function,
    Kept,
    Schema,
    Table,
    TypeObject,
)
from pgdrag.twins.tokens import (
    address_tokens,
    bytea_tokens,
    finite,
    has_moment,
    is_small,
    mac_form,
    moment_of,
    number_tokens,
    spread_tokens,
    text_tokens,
    time_tokens,
    uuid_form,
)

Key = tuple[str, str, str]  # schema, relation and column; of a domain or an enum: schema, "", name
Resolve = Callable[[sql.Chain], Key | None]
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
# A cast to one of these makes a name of a constant.
_NAMES = ("regclass", "regconfig", "regdictionary", "regproc", "regprocedure", "regtype", "regnamespace", "regoper", "regrole", "regcollation")  # fmt: skip
_KEYS = re.compile(r"\w+")


class Privacy:
    """Tokens for the values of one database."""

    def __init__(
        self, found: FoundSchema, *, rng: random.Random, now: datetime, sort: Sort
    ) -> None:
        """Begin with the columns.

        Args:
            sort: texts by a collation, as the server does.
        """
        self.kept: list[Kept] = []
        self.left_out: list[str] = []
        self._found, self._rng, self._now, self._sort = found, rng, now, sort
        self._columns: dict[Key, FoundColumn] = {
            (one.schema, one.relation, one.name): one for one in found.columns
        }
        self._by_name: dict[str, list[Key]] = defaultdict(list)
        self._relations: dict[str, list[tuple[str, str]]] = defaultdict(list)
        for key in self._columns:
            self._by_name[key[2]].append(key)
            if key[:2] not in self._relations[key[1]]:
                self._relations[key[1]].append(key[:2])
        self._parent: dict[Key, Key] = {}
        self._kinds: dict[Key, str] = {}
        self._values: dict[Key, dict[str, None]] = defaultdict(dict)
        self._tokens: dict[Key, Mapping[str, str]] = {}
        self._documents: dict[Key, JsonTokens] = {}
        self._json_keys: set[str] = set()
        self._is_gathering = True
        self._numbers: dict[Key, int] = {}
        self._enums = {
            f"{one.schema}.{one.name}": one.labels
            for one in found.types.values()
            if one.kind == "e"
        }
        self._object_names = self._all_names()
        for key, column in self._columns.items():
            self._kinds[key] = self._kind(column.type_oid)
        self._join_columns()

    # --- classes ----------------------------------------------------------------------------

    def join(self, one: Key, other: Key) -> None:
        """Have two columns' values in one class, if they are of one kind."""
        left, right = self._root(one), self._root(other)
        if left != right and self._kinds.get(left) == self._kinds.get(right) != "":
            self._parent[right] = left

    def join_compared(self, statement: str) -> None:
        """Have those columns in one class that a statement compares with each other."""
        tables = sql.sources(statement)
        resolve = self._resolver(tables)
        for left, right in sql.comparisons(statement):
            one, other = resolve(left), resolve(right)
            if one is not None and other is not None:
                self.join(one, other)
        for name in sql.joined_by_name(statement):
            keys = [key for key in map(resolve, ((alias, name) for alias in tables)) if key]
            for other in keys[1:]:
                self.join(keys[0], other)

    def _join_columns(self) -> None:
        schema = self._found.schema
        for left, right in (*_of_foreign_keys(schema), *_of_children(schema), *self._of_indexes()):
            if left in self._columns and right in self._columns:
                self.join(left, right)
        for key, column in self._columns.items():
            domain = self._found.types.get(column.type_oid)
            if domain is not None and domain.kind == "d":
                named = (domain.schema, "", domain.name)
                self._kinds.setdefault(named, self._kinds[key])
                self.join(named, key)
        for view in schema.views:
            self.join_compared(view.definition)

    def _of_indexes(self) -> Iterator[tuple[Key, Key]]:
        """Yield columns of tables with those of indexes that are no expressions."""
        numbered = {(x.schema, x.relation, x.number): x.name for x in self._found.columns}
        for index in self._found.schema.indexes:
            for at, name in enumerate(index.keys, start=1):
                own = numbered.get((index.schema, index.name, at))
                if own is not None:
                    yield (index.schema, index.table, name), (index.schema, index.name, own)

    def _root(self, key: Key) -> Key:
        while key in self._parent:
            key = self._parent[key]
        return key

    def _kind(self, oid: int) -> str:
        """Return what the values of a type are; "" where nothing can take their place."""
        found = self._base(oid)
        if found is None:
            return ""
        if found.element:
            return self._kind(found.element)
        if found.kind == "e":
            return f"enum {found.schema}.{found.name}"
        return _KINDS.get(found.name, "") if found.schema == "pg_catalog" or found.name == "citext" else ""  # fmt: skip

    def _base(self, oid: int) -> FoundType | None:
        found = self._found.types.get(oid)
        while found is not None and found.kind == "d":
            found = self._found.types.get(found.base)
        return found

    def _is_array_of(self, column: FoundColumn | None, value: str) -> bool:
        """Whether a value is a whole array: in ARRAY['a', 'b'] each is an element."""
        found = None if column is None else self._base(column.type_oid)
        return found is not None and bool(found.element) and value[:1] in ("{", "[")

    # --- values -----------------------------------------------------------------------------

    def gather(self, statistics: Iterable[FoundStatistics], extended: Mapping[tuple[str, str], FoundExtended]) -> None:  # fmt: skip
        """Take all values, and make their tokens."""
        for one in statistics:
            key = (one.schema, one.relation, one.column)
            for text in (one.most_common, one.histogram, one.elements):
                for value in _elements(text):
                    self._take(key, value, is_element=text is one.elements)
        for statistic in self._found.schema.statistics:
            data = extended.get((statistic.schema, statistic.name))
            for combination, _, _ in data.most_common if data else ():
                for name, part in zip(statistic.columns, combination, strict=False):
                    if part is not None:
                        self._take((statistic.table_schema, statistic.table, name), part)
        self.schema(self._found.schema, (function for function, _ in self._found.functions))
        self.kept.clear()
        self.left_out.clear()
        self._make_tokens()
        self._is_gathering = False

    def originals(self) -> Iterator[str]:
        """Yield all values that have tokens."""
        for values in self._values.values():
            yield from values

    def _take(self, key: Key, value: str, *, is_element: bool = False) -> None:
        kind = self._kinds.get(key, "")
        column = self._columns.get(key)
        if kind in ("", "boolean") or kind.startswith("enum"):
            return
        if not is_element and self._is_array_of(column, value):
            for inner in _elements(value):
                self._take(key, inner, is_element=True)
            return
        self._values[self._root(key)][self._normal(column, value)] = None

    def _normal(self, column: FoundColumn | None, value: str) -> str:
        base = self._base(column.type_oid) if column is not None else None
        is_padded = base is not None and base.name in ("bpchar", "_bpchar")
        return value.rstrip(" ") if is_padded else value

    def _make_tokens(self) -> None:
        everything = set(self.originals())
        for root, values in self._values.items():
            if self._kinds[root] == "json":
                everything.update(*map(leaves, values))
        numbers = {x for x in map(finite, everything) if x is not None and not is_small(x)}
        moments = {x for x in map(moment_of, everything) if x is not None}
        columns: dict[Key, list[FoundColumn]] = defaultdict(list)
        for key, column in self._columns.items():
            columns[self._root(key)].append(column)
        for root, values in self._values.items():
            kind, own = self._kinds[root], columns[root]
            if kind == "json":
                self._documents[root] = JsonTokens(
                    values, self._rng, kept_keys=self._json_keys, avoid=everything, avoided_numbers=numbers
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
                self._tokens[root] = self._fixed(kind, sorted(values))

    def _fixed(self, kind: str, ascending: Sequence[str]) -> Mapping[str, str]:
        match kind:
            case "uuid":
                return spread_tokens(ascending, self._rng, uuid_form, 128)
            case "mac":
                return spread_tokens(ascending, self._rng, mac_form, 40)
            case "bytea":
                return bytea_tokens(ascending)
            case _:
                return address_tokens(ascending, self._rng)

    def _largest(self, columns: Sequence[FoundColumn]) -> Decimal | None:
        found = []
        for column in columns:
            base = self._base(column.type_oid)
            if base is None:
                continue
            if base.name in _LIMITS:
                found.append(_LIMITS[base.name])
            elif base.name == "numeric" and column.modifier > 0:
                digits, scale = (column.modifier - 4) >> 16 & 0xFFFF, (column.modifier - 4) & 0x7FF
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
        kind, column = self._kinds.get(key, ""), self._columns.get(key)
        if not is_element and self._is_array_of(column, value):
            return self._array_token(key, value)
        if kind == "boolean":
            return value
        if kind.startswith("enum "):
            return self._label(kind.removeprefix("enum "), value)
        root = self._root(key)
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

    def _label(self, enum: str, value: str) -> str | None:
        labels = self._enums.get(enum, ())
        return _label_token(labels.index(value)) if value in labels else None

    # --- statistics -------------------------------------------------------------------------

    def statistics(self, found: Iterable[FoundStatistics]) -> tuple[ColumnStatistics, ...]:
        """Return statistics with tokens."""
        return tuple(map(self._column_statistics, found))

    def _column_statistics(self, one: FoundStatistics) -> ColumnStatistics:
        key = (one.schema, one.relation, one.column)
        column, kind = self._columns.get(key), self._kinds.get(key, "")
        common = self._all_tokens(key, one.most_common)
        histogram = self._all_tokens(key, one.histogram)
        elements = self._all_tokens(key, one.elements, is_element=True)
        is_told = bool(common or histogram or elements)
        root = self._root(key)
        is_classed = is_told and kind != "boolean" and not kind.startswith("enum")
        return ColumnStatistics(
            one.schema, one.relation, one.column, column.number if column else 0, one.is_inherited,
            column.type if column else "", one.null_share, one.width, one.n_distinct,
            value_class=self._numbers.setdefault(root, len(self._numbers) + 1) if is_classed else None,
            is_kept=kind == "boolean",
            has_hidden_values=None in (common, histogram, elements),
            most_common=common or (),
            most_common_shares=tuple(one.most_common_shares or ()) if common else (),
            histogram=histogram or (),
            correlation=one.correlation,
            elements=elements or (),
            element_shares=tuple(one.element_shares or ()) if elements else (),
            element_counts=tuple(one.element_counts or ()),
        )  # fmt: skip

    def _all_tokens(self, key: Key, text: str | None, *, is_element: bool = False) -> tuple[str, ...] | None:  # fmt: skip
        """Return the tokens of an array of values; None where one has none."""
        if text is None:
            return ()
        values = _elements(text)
        if not values:
            return None
        found: list[str] = []
        for value in values:
            token = self.token(key, value, is_element=is_element)
            if token is None:
                return None
            found.append(token)
        return tuple(found)

    def extended(self, one: ExtendedStatistics, data: FoundExtended | None) -> ExtendedStatistics:
        """Return extended statistics with tokens."""
        if data is None:
            return one
        combinations = []
        for values, share, base in data.most_common:
            if len(values) != len(one.columns):
                continue  # of expressions: there is nothing to take their values from
            keys = [(one.table_schema, one.table, name) for name in one.columns]
            tokens = [None if value is None else self.token(key, value) for key, value in zip(keys, values, strict=True)]  # fmt: skip
            if [x is None for x in tokens] == [x is None for x in values]:
                combinations.append((tuple(tokens), share, base))
        return replace(
            one, n_distinct=data.n_distinct, dependencies=data.dependencies, most_common=tuple(combinations)
        )  # fmt: skip

    # --- the schema -------------------------------------------------------------------------

    def schema(self, schema: Schema, functions: Iterable[Function]) -> Schema:
        """Return the schema with tokens in place of constants; while values are gathered, take those instead."""
        return replace(
            schema,
            types=tuple(map(self._type, schema.types)),
            functions=tuple(map(self._function, functions)),
            tables=tuple(map(self._table, schema.tables)),
            constraints=tuple(x for x in map(self._constraint, schema.constraints) if x is not None),
            indexes=tuple(
                replace(
                    one,
                    definition=self._text(one.definition, self._of_table(one.schema, one.table), f"index {quoted(one.schema, one.name)}"),
                    keys=tuple(self._text(x, self._of_table(one.schema, one.table), "") for x in one.keys),
                )
                for one in schema.indexes
            ),
            views=tuple(
                replace(one, definition=self._text(one.definition, self._resolver(sql.sources(one.definition)), f"view {quoted(one.schema, one.name)}"))
                for one in schema.views
            ),
            triggers=tuple(
                replace(one, definition=self._text(one.definition, self._of_table(one.schema, one.table), f"trigger {quoted(one.name)}"))
                for one in schema.triggers
            ),
            statistics=tuple(
                replace(one, definition=self._text(one.definition, self._of_table(one.table_schema, one.table), f"statistics {quoted(one.name)}"))
                for one in schema.statistics
            ),
        )  # fmt: skip

    def _type(self, one: TypeObject) -> TypeObject:
        if one.kind == "enum":
            labels = tuple(_label_token(at) for at in range(len(one.labels)))
            listed = ", ".join(map(sql.string_constant, labels))
            definition = f"CREATE TYPE {quoted(one.schema, one.name)} AS ENUM ({listed})"
            return replace(one, definition=definition, labels=labels)
        definition, where = one.definition, f"{one.kind} {quoted(one.schema, one.name)}"
        if one.kind == "domain" and _has_pattern(definition):
            self.left_out.append(f"CHECK of {where} is left out: no token fits a pattern.")
            definition = definition.partition(" CHECK ")[0]
        key = (one.schema, "", one.name)
        resolve = self._nowhere if key not in self._kinds else lambda chain: key if chain == ("value",) else None  # fmt: skip
        return replace(one, definition=self._text(definition, resolve, where, key=key))

    def _table(self, one: Table) -> Table:
        resolve = self._of_table(one.schema, one.name)
        bound = one.bound
        if one.partition_of is not None:
            bound = self._bound(bound, one.partition_of, f"partition {quoted(one.schema, one.name)}")  # fmt: skip
        return replace(
            one,
            columns=tuple(self._column(one, column, resolve) for column in one.columns),
            bound=bound,
            partition_key=self._text(one.partition_key, resolve, f"table {quoted(one.schema, one.name)}"),
        )  # fmt: skip

    def _column(self, table: Table, column: Column, resolve: Resolve) -> Column:
        where = f"column {quoted(table.schema, table.name, column.name)}"
        key = None if column.generated else (table.schema, table.name, column.name)
        return replace(column, default=self._text(column.default, resolve, where, key=key))

    def _constraint(self, one: Constraint) -> Constraint | None:
        where = f"constraint {quoted(one.name)} of {quoted(one.schema, one.table)}"
        if one.kind == "c" and _has_pattern(one.definition):
            if not one.is_inherited:
                self.left_out.append(f"{capital(where)} is left out: no token fits a pattern.")
            return None
        return replace(one, definition=self._text(one.definition, self._of_table(one.schema, one.table), where))  # fmt: skip

    def _bound(self, text: str, table: tuple[str, str], where: str) -> str:
        keys = self._found.partition_keys.get(table, ())
        found = []
        for constant in sql.constants(text):
            at = 0 if constant.function == "in" else constant.argument
            if constant.function == "with":
                continue
            name = keys[at] if at < len(keys) else ""
            found.append((constant, self._written(constant, self._key_column(table, name), where)))
        return sql.replaced(text, found)

    def _key_column(self, table: tuple[str, str], name: str) -> Key | None:
        """Return a column of a partition key; of an expression, the first that it names."""
        if name:
            return (*table, name)
        key = next(x.partition_key for x in self._found.schema.tables if (x.schema, x.name) == table)  # fmt: skip
        named = [(*table, x) for x in sql.names(key) if (*table, x) in self._columns]
        return min(named, default=None)

    def _function(self, one: Function) -> Function:
        where = f"function {one.signature}"
        definition = without_comments(one.definition)
        bodies = [x for x in sql.constants(definition) if definition[x.begin] == "$"]
        found = []
        for body in bodies:
            tag = definition[body.begin : definition.index("$", body.begin + 1) + 1]
            text = self._text(without_comments(body.value), self._anywhere, where)
            found.append((body, f"{tag}{text}{tag}"))
        # Before its body there are its arguments, cost and settings.
        begin = bodies[0].begin if bodies else len(definition)
        head = self._text(definition[:begin], self._anywhere, "" if bodies else where)
        return replace(one, definition=head + sql.replaced(definition, found)[begin:])

    def _text(self, text: str, resolve: Resolve, where: str, *, key: Key | None = None) -> str:
        """Return a text of the schema without its constants.

        Args:
            key: whose values constants are that are compared with nothing: a default's column.
        """
        found = []
        for constant in sql.constants(text):
            column = resolve(constant.column) if constant.column else None
            if column is None and constant.column is None and not constant.operator and not constant.function:  # fmt: skip
                column = key
            found.append((constant, self._written(constant, column, where)))
        return sql.replaced(text, found)

    def _written(self, constant: sql.Constant, key: Key | None, where: str) -> str:
        """Return what stands in the place of a constant."""
        value = constant.value
        as_is = value if constant.is_number else sql.string_constant(value)
        if _is_name(constant):
            return as_is
        enum = next((x for x in self._enums if constant.cast.endswith(x)), "")
        kind = f"enum {enum}" if enum else self._kinds.get(key, "") if key is not None else ""
        if kind.startswith("enum "):
            label = self._label(kind.removeprefix("enum "), value)
            return sql.string_constant(label or masked(value))
        if key is not None and _fits(kind, constant):
            if self._is_gathering:
                self._take(key, value)
                return as_is
            token = self.token(key, value)
            if token is not None:
                return token if constant.is_number else sql.string_constant(token)
        if self._is_plain(constant):
            return as_is
        return self._of_no_column(constant, as_is, where)

    def _of_no_column(self, constant: sql.Constant, as_is: str, where: str) -> str:
        why = ""
        if constant.is_number:
            why = "a number in an expression"
        elif constant.operator in sql.JSON_OPERATORS or constant.cast.endswith("jsonpath") or constant.function.startswith("jsonb_path"):  # fmt: skip
            why = "a key of JSON documents"
            self._json_keys.update(_KEYS.findall(constant.value), {constant.value})
        elif constant.cast.endswith("interval"):
            why = "a length of time"
        if why:
            if where:
                self.kept.append(Kept(where, constant.value, why))
            return as_is
        if sql.begins_statement(constant.value):
            return sql.string_constant(self._text(constant.value, self._anywhere, where))
        return sql.string_constant(masked(constant.value))

    def _is_plain(self, constant: sql.Constant) -> bool:
        """Whether a constant of no column tells nothing: a small number, a name of the schema, a word of the server's."""
        if constant.is_number:
            number = finite(constant.value)
            return number is not None and is_small(number)
        value = constant.value
        if constant.column is None and value in self._object_names:
            return True
        return value in ("{}", "[]") or is_word_of_the_server(value, constant.function)

    # --- names ------------------------------------------------------------------------------

    def _all_names(self) -> frozenset[str]:
        schema = self._found.schema
        relations = [
            *((x.schema, x.name) for x in schema.tables),
            *((x.schema, x.name) for x in schema.sequences),
            *((x.schema, x.name) for x in schema.views),
            *((x.schema, x.name) for x in schema.indexes),
        ]
        names = {*schema.schemas, *(name for _, name in relations)}
        names |= {f"{schema}.{name}" for schema, name in relations}
        names |= {function.name for function, _ in self._found.functions}
        return frozenset(names)

    @staticmethod
    def _nowhere(chain: sql.Chain) -> Key | None:
        return None

    def _of_table(self, schema: str, table: str) -> Resolve:
        def resolve(chain: sql.Chain) -> Key | None:
            key = (schema, table, chain[-1])
            return key if key in self._columns else None

        return resolve

    def _anywhere(self, chain: sql.Chain) -> Key | None:
        """Return the column of a name, if all columns of that name have the same values."""
        keys = self._by_name.get(chain[-1], [])
        keys = [x for x in keys if len(chain) < 2 or x[1] == chain[-2]] or keys
        return keys[0] if len({self._root(x) for x in keys}) == 1 else None

    def _resolver(self, tables: Mapping[str, sql.Chain]) -> Resolve:
        known = {alias: self._relation(chain) for alias, chain in tables.items()}

        def resolve(chain: sql.Chain) -> Key | None:
            if len(chain) >= 2:
                relation = known.get(chain[-2]) or self._relation(chain[:-1])
                relations = [relation] if relation is not None else []
            else:
                relations = [x for x in dict.fromkeys(known.values()) if x is not None]
            keys = [(*x, chain[-1]) for x in relations if (*x, chain[-1]) in self._columns]
            return keys[0] if len(keys) == 1 else None

        return resolve

    def _relation(self, chain: sql.Chain) -> tuple[str, str] | None:
        found = self._relations.get(chain[-1], [])
        if len(chain) >= 2:
            found = [x for x in found if x[0] == chain[-2]]
        # Which one an unqualified name means depends on who says it.
        return found[0] if found else None


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


def _is_name(constant: sql.Constant) -> bool:
    """Whether a constant is part of a type, the name of an object, or nothing."""
    if constant.is_number:
        return sql.is_modifier(constant)
    return constant.cast.rpartition(".")[2] in _NAMES or not constant.value.strip()


def _label_token(at: int) -> str:
    return f"e{at + 1}"


def _has_pattern(text: str) -> bool:
    return any(x.operator in sql.PATTERNS for x in sql.constants(text))


def _fits(kind: str, constant: sql.Constant) -> bool:
    """Whether a constant can be a value of a kind."""
    match kind:
        case "":
            return False
        case "number":
            return finite(constant.value) is not None
        case "time":
            return not constant.is_number and has_moment(constant.value)
        case "json":
            return is_document(constant.value) and constant.operator not in sql.JSON_OPERATORS
        case _:
            return not constant.is_number and constant.operator not in sql.PATTERNS


def _elements(text: str | None) -> list[str]:
    """Return the elements of an array but NULLs; none where it has several dimensions."""
    try:
        return [x for x in array_elements(text) if x is not None] if text else []
    except ValueError:
        return []

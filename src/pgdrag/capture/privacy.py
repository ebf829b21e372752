"""How do a schema and statistics read with tokens for all values? And which constants stay, for want of one?

A first pass over schema and statistics gathers the values of each class; then tokens are made; a second pass writes them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from pgdrag.capture.classes import ValueClasses, elements_of, label_token
from pgdrag.capture.names import Key, Resolve, nowhere
from pgdrag.capture.schema import FoundSchema
from pgdrag.capture.statistics import FoundExtended, FoundStatistics
from pgdrag.english import capital
from pgdrag.twins import constants as sql
from pgdrag.twins.array_text import array_text
from pgdrag.twins.ddl import quoted
from pgdrag.twins.json_tokens import is_document
from pgdrag.twins.masking import is_word_of_the_server, masked, masked_path, without_comments
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
from pgdrag.twins.range_text import bounds_of
from pgdrag.twins.tokens import finite, has_moment, is_address, is_small

# A cast to one of these makes a name of a constant.
_NAMES = ("regclass", "regconfig", "regdictionary", "regproc", "regprocedure", "regtype", "regnamespace", "regoper", "regcollation")  # fmt: skip
_KEYS = re.compile(r"\w+")
# In other languages it is not known where a constant or a comment begins.
_READ_LANGUAGES = frozenset({"sql", "plpgsql"})
_BOOLEANS = frozenset({"true", "false", "yes", "no", "on", "off"})


class Privacy:
    """Schema and statistics of one database with tokens.

    Attributes:
        kept: constants that stay as they are.
        left_out: what cannot be told without a value, in sentences.
    """

    def __init__(self, found: FoundSchema, classes: ValueClasses) -> None:
        self.kept: list[Kept] = []
        self.left_out: list[str] = []
        self._found, self._classes = found, classes
        self._json_keys: set[str] = set()
        self._is_gathering = True
        self._numbers: dict[Key, int] = {}
        self._object_names = _names_of(found)

    # --- values -----------------------------------------------------------------------------

    def gather(self, statistics: Iterable[FoundStatistics], extended: Mapping[tuple[str, str], FoundExtended]) -> None:  # fmt: skip
        """Take all values, and make their tokens."""
        for one in statistics:
            key = (one.schema, one.relation, one.column)
            for text in (one.most_common, one.histogram, one.elements, one.range_bounds):
                for value in elements_of(text):
                    self._classes.take(key, value, is_element=text is one.elements)
            for value in elements_of(one.range_lengths):
                self._classes.take_length(value)
        for statistic in self._found.schema.statistics:
            data = extended.get((statistic.schema, statistic.name))
            for combination, _, _ in data.most_common if data else ():
                for name, part in zip(statistic.columns, combination, strict=False):
                    if part is not None:
                        self._classes.take((statistic.table_schema, statistic.table, name), part)
        self.schema(self._found.schema, (function for function, _ in self._found.functions))
        self.kept.clear()
        self.left_out.clear()
        self._classes.make_tokens(self._json_keys)
        self._is_gathering = False

    # --- statistics -------------------------------------------------------------------------

    def statistics(self, found: Iterable[FoundStatistics]) -> tuple[ColumnStatistics, ...]:
        """Return statistics with tokens."""
        return tuple(map(self._column_statistics, found))

    def _column_statistics(self, one: FoundStatistics) -> ColumnStatistics:
        key = (one.schema, one.relation, one.column)
        column, kind = self._classes.columns.get(key), self._classes.kind(key)
        common = self._all_tokens(key, one.most_common)
        histogram = self._all_tokens(key, one.histogram)
        elements = self._all_tokens(key, one.elements, is_element=True)
        bounds = self._all_tokens(key, one.range_bounds)
        has_values = bool(common or histogram or elements or bounds)
        root = self._classes.root(key)
        has_class = has_values and kind != "boolean" and not kind.startswith("enum")
        return ColumnStatistics(
            one.schema, one.relation, one.column, column.number if column else 0, one.is_inherited,
            column.type if column else "", one.null_share, one.width, one.n_distinct,
            value_class=self._numbers.setdefault(root, len(self._numbers) + 1) if has_class else None,
            is_kept=kind == "boolean",
            has_hidden_values=None in (common, histogram, elements, bounds),
            most_common=common or (),
            most_common_shares=tuple(one.most_common_shares or ()) if common else (),
            histogram=histogram or (),
            correlation=one.correlation,
            elements=elements or (),
            element_shares=tuple(one.element_shares or ()) if elements else (),
            element_counts=tuple(one.element_counts or ()),
            range_bounds=bounds or (),
            range_lengths=tuple(map(self._classes.length_token, elements_of(one.range_lengths))) if bounds else (),
            empty_share=one.empty_share,
        )  # fmt: skip

    def _all_tokens(self, key: Key, text: str | None, *, is_element: bool = False) -> tuple[str, ...] | None:  # fmt: skip
        """Return the tokens of an array of values; None if one of them has none."""
        if text is None:
            return ()
        values = elements_of(text)
        if not values:
            return None
        found: list[str] = []
        for value in values:
            token = self._classes.token(key, value, is_element=is_element)
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
            tokens = [None if value is None else self._classes.token(key, value) for key, value in zip(keys, values, strict=True)]  # fmt: skip
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
                    definition=self._text(one.definition, self._classes.names.of_table(one.schema, one.table), f"index {quoted(one.schema, one.name)}", is_of_index=True),
                    keys=tuple(self._text(x, self._classes.names.of_table(one.schema, one.table), "") for x in one.keys),
                )
                for one in schema.indexes
            ),
            views=tuple(
                replace(one, definition=self._text(one.definition, self._classes.names.among(sql.sources(one.definition)), f"view {quoted(one.schema, one.name)}"))
                for one in schema.views
            ),
            triggers=tuple(
                replace(one, definition=self._text(one.definition, self._classes.names.of_table(one.schema, one.table), f"trigger {quoted(one.name)}"))
                for one in schema.triggers
            ),
            statistics=tuple(
                replace(one, definition=self._text(one.definition, self._classes.names.of_table(one.table_schema, one.table), f"statistics {quoted(one.name)}"))
                for one in schema.statistics
            ),
        )  # fmt: skip

    def _type(self, one: TypeObject) -> TypeObject:
        if one.kind == "enum":
            labels = tuple(label_token(at) for at in range(len(one.labels)))
            listed = ", ".join(map(sql.string_constant, labels))
            definition = f"CREATE TYPE {quoted(one.schema, one.name)} AS ENUM ({listed})"
            return replace(one, definition=definition, labels=labels)
        definition, where = one.definition, f"{one.kind} {quoted(one.schema, one.name)}"
        if one.kind == "domain" and _has_pattern(definition):
            self.left_out.append(f"CHECK of {where} is left out: no token fits a pattern.")
            definition = definition.partition(" CHECK ")[0]
        key = (one.schema, "", one.name)
        resolve: Resolve = nowhere
        if self._classes.kind(key):
            resolve = lambda chain: key if chain == ("value",) else None  # noqa: E731
        return replace(one, definition=self._text(definition, resolve, where, key=key))

    def _table(self, one: Table) -> Table:
        resolve = self._classes.names.of_table(one.schema, one.name)
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
        return replace(one, definition=self._text(one.definition, self._classes.names.of_table(one.schema, one.table), where, is_of_index=one.kind in "pux"))  # fmt: skip

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
        named = [(*table, x) for x in sql.names(key) if (*table, x) in self._classes.columns]
        return min(named, default=None)

    def _function(self, one: Function) -> Function:
        where = f"function {one.signature}"
        definition = without_comments(one.definition)
        bodies = [x for x in sql.constants(definition) if definition[x.begin] == "$"]
        found = []
        for body in bodies:
            tag = definition[body.begin : definition.index("$", body.begin + 1) + 1]
            text = ""
            if one.language in _READ_LANGUAGES:
                text = self._text(without_comments(body.value), self._classes.anywhere, where)
            else:
                self.left_out.append(f"The body of {where} is left out: it is written in {one.language}.")  # fmt: skip
            found.append((body, f"{tag}{text}{tag}"))
        # Between its arguments and its body there are its cost and settings, which are not listed as kept.
        begin = bodies[0].begin if bodies else len(definition)
        end = min(sql.arguments_end(definition), begin) if bodies else begin
        head = self._text(definition[:end], self._classes.anywhere, where)
        head += self._text(definition[end:begin], self._classes.anywhere, "")
        return replace(one, definition=head + sql.replaced(definition, found)[begin:])

    def _text(
        self,
        text: str,
        resolve: Resolve,
        where: str,
        *,
        key: Key | None = None,
        is_of_index: bool = False,
    ) -> str:
        """Return a text of the schema without its constants.

        Args:
            key: whose values constants are that are compared with nothing: a default's column.
            is_of_index: storage parameters stay.
        """
        found = []
        for constant in sql.constants(text):
            if is_of_index and sql.is_storage_parameter(constant):
                continue
            column = resolve(constant.column) if constant.column else None
            if column is None and constant.column is None and not constant.operator and not constant.function:  # fmt: skip
                column = key
            found.append((constant, self._written(constant, column, where)))
        return sql.replaced(text, found)

    def _written(self, constant: sql.Constant, key: Key | None, where: str) -> str:
        """Return the replacement of a constant."""
        value = constant.value
        as_is = value if constant.is_number else sql.string_constant(value)
        if _is_name(constant):
            return as_is
        kind = self._classes.enum_named(constant.cast) or self._classes.kind(key)
        if kind.startswith("enum "):
            return sql.string_constant(self._label(kind, value))
        if key is not None and _fits(kind, constant):
            if self._is_gathering:
                self._classes.take(key, value)
                return as_is
            token = self._classes.token(key, value)
            if token is not None:
                return token if constant.is_number else sql.string_constant(token)
        if self._is_plain(constant):
            return as_is
        return self._of_no_column(constant, as_is, where)

    def _label(self, kind: str, value: str) -> str:
        """Return the token of an enum's label, or of an array of them."""
        if value.startswith("{"):
            return array_text(self._label(kind, x) for x in elements_of(value))
        return self._classes.label(kind, value) or masked(value)

    def _of_no_column(self, constant: sql.Constant, as_is: str, where: str) -> str:
        why = ""
        value = constant.value
        if constant.is_number:
            why = "a number in an expression"
        elif _is_path(constant):
            why = "a key of JSON documents"
            value = masked_path(value)
            as_is = sql.string_constant(value)
            self._json_keys.update(_KEYS.findall(value))
        elif constant.operator in sql.JSON_OPERATORS:
            why = "a key of JSON documents"
            self._json_keys.update(_KEYS.findall(value), {value})
        elif constant.cast.endswith("interval"):
            why = "a length of time"
        if why:
            if where:
                self.kept.append(Kept(where, value, why))
            return as_is
        if constant.is_executed:
            statement = without_comments(value)
            return sql.string_constant(self._text(statement, self._classes.anywhere, where))
        return sql.string_constant(masked(value))

    def _is_plain(self, constant: sql.Constant) -> bool:
        """Whether a constant of no column tells nothing: a small number, a name of the schema, a word of the server's."""
        if constant.is_number:
            number = finite(constant.value)
            return number is not None and is_small(number)
        value = constant.value
        if constant.column is None and value in self._object_names:
            return True
        return value in ("{}", "[]") or is_word_of_the_server(value, constant.function)


def _names_of(found: FoundSchema) -> frozenset[str]:
    """Return the names of all objects, with their schema and without."""
    schema = found.schema
    relations = [
        *((x.schema, x.name) for x in schema.tables),
        *((x.schema, x.name) for x in schema.sequences),
        *((x.schema, x.name) for x in schema.views),
        *((x.schema, x.name) for x in schema.indexes),
    ]
    names = {*schema.schemas, *(name for _, name in relations)}
    names |= {f"{schema}.{name}" for schema, name in relations}
    return frozenset(names | {function.name for function, _ in found.functions})


def _is_name(constant: sql.Constant) -> bool:
    """Whether a constant is part of a type, the name of an object, or nothing."""
    if constant.is_number:
        return sql.is_modifier(constant)
    return constant.cast.rpartition(".")[2] in _NAMES or not constant.value.strip()


def _is_path(constant: sql.Constant) -> bool:
    """Whether a constant is a path into a JSON document."""
    is_argument = constant.function.startswith("jsonb_path") and constant.argument == 1
    return is_argument or constant.cast.endswith("jsonpath") or constant.operator == "@?"


def _has_pattern(text: str) -> bool:
    return any(x.operator in sql.PATTERNS for x in sql.constants(text))


def _fits(kind: str, constant: sql.Constant) -> bool:
    """Whether a constant can be a value of a kind."""
    match kind:
        case "":
            return False
        case "number":
            return all(finite(x) is not None for x in _values(constant.value))
        case "time":
            return not constant.is_number and all(map(has_moment, _values(constant.value)))
        case "json":
            return is_document(constant.value) and constant.operator not in sql.JSON_OPERATORS
        case "address":
            return not constant.is_number and all(map(is_address, _values(constant.value)))
        case "boolean":  # and "char": their values are their own tokens
            return all(len(x) <= 1 or x.lower() in _BOOLEANS for x in _values(constant.value))
        case _:
            return not constant.is_number and constant.operator not in sql.PATTERNS


def _values(text: str) -> list[str]:
    """Return the elements of a text that is an array, or the bounds of a range, else the text."""
    return (elements_of(text) if text.startswith("{") else bounds_of(text)) or [text]

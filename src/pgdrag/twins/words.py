"""How is a twin shown? A summary of some lines, and each part in full."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from pgdrag.english import counted, cut
from pgdrag.twins.ddl import after_rows, before_rows, extension_statements, quoted
from pgdrag.twins.model import ColumnStatistics, Relation, Setting, Statement, Twin
from pgdrag.twins.transaction_words import transaction_lines, transactions_summary
from pgdrag.units import format_bytes, format_duration, format_number, format_rate, with_base_unit

_TOP_STATEMENTS = 5
_CUT = 100


def summary_lines(twin: Twin, file_bytes: int) -> Iterator[str]:
    """Yield what a person wants to know first."""
    source, schema, load, activity = twin.source, twin.schema, twin.workload, twin.activity
    yield f"A twin of PostgreSQL {source.version}, {source.encoding}, captured on {twin.captured_on} by {twin.captured_by}; {format_bytes(file_bytes)}."
    size = "" if source.database_bytes is None else f" of {format_bytes(source.database_bytes)}"
    objects = (
        counted(len(schema.tables), "table"),
        f"{len(schema.indexes):,} {'index' if len(schema.indexes) == 1 else 'indexes'}",
        counted(len(schema.views), "view"),
        counted(len(schema.functions), "function"),
        counted(len(twin.statistics), "column") + " with statistics",
    )
    yield f"Database{size}: {', '.join(objects)}."
    options = counted(len(source.options), "set") + " of role or database options"
    yield f"Settings: {len(source.settings)} not at their default; {options}."
    window_s = load.window_s
    if window_s and activity.commits is not None:
        per_s = format_rate(activity.commits / window_s)
        yield f"Window of {format_duration(window_s)}: {per_s} committed, {activity.rollbacks or 0:,} rolled back; {_sessions(twin)}."
    if load.statements:
        total_s = sum(x.time_s for x in load.statements)
        yield f"Statements: {len(load.statements)} with {sum(x.calls for x in load.statements):,} calls; the longest are"
        for one in load.statements[:_TOP_STATEMENTS]:
            share = one.time_s / total_s if total_s else 0.0
            yield f"  {100 * share:3.0f} %  {cut(one.text, _CUT)}"
    if load.other_calls:
        yield f"{load.other_calls:,} calls of other statements have no text here."
    if load.evictions:
        yield f"pg_stat_statements forgot statements {load.evictions:,} times in the window: raise pg_stat_statements.max."
    if load.was_reset:
        yield "pg_stat_statements was reset in the window: up to a minute of it is not counted."
    if twin.transactions is not None:
        yield from transactions_summary(twin)
    yield from twin.not_seen
    kept = counted(len(twin.kept), "constant")
    yield f"Values are tokens. {kept} of the schema {'is' if len(twin.kept) == 1 else 'are'} kept as they were: --part kept."
    yield "All of it: --all, or --json."


def _sessions(twin: Twin) -> str:
    activity = twin.activity
    words = f"{format_number(activity.sessions)} sessions, {format_number(activity.active)} active"
    if activity.statements_per_transaction is not None:
        words += f", {format_number(activity.statements_per_transaction)} statements a transaction"
    if activity.think_s is not None:
        words += f", pauses of {format_duration(activity.think_s)} between transactions"
    return words


def _settings(twin: Twin) -> Iterator[str]:
    yield "Settings that are not at their default:"
    yield from (f"  {_setting(one)}" for one in twin.source.settings)
    for one in twin.source.options:
        who = f"Role {one.role}" if one.role else "All roles"
        where = " in this database" if one.is_of_database else ""
        yield f"{who}{where}: {', '.join(map(_setting, one.settings))}"
    yield "Extensions: " + ", ".join(f"{x.name} {x.version}" for x in twin.source.extensions)


def _setting(one: Setting) -> str:
    value = "(hidden)" if one.value is None else with_base_unit(one.value, one.unit or None)  # fmt: skip
    return f"{one.name} = {value}"


def _schema(twin: Twin) -> Iterator[str]:
    yield "-- Schema:"
    statements = (
        *extension_statements(twin.source),
        *before_rows(twin.schema),
        *after_rows(twin.schema),
    )
    yield from (f"{one.sql};" for one in statements)


def _relations(twin: Twin) -> Iterator[str]:
    yield "Tables and indexes: bytes, pages, tuples, changes in the window"
    yield from map(_relation, twin.relations)


def _relation(one: Relation) -> str:
    is_stored = not one.kind.startswith("partitioned")
    size = "unknown" if one.bytes is None else format_bytes(one.bytes)
    if not is_stored:
        size = "in its partitions"
    moved = ", ".join(f"{name} {count:,}" for name, count in one.moved.items())
    more = f"; {moved}" if moved else ""
    return f"  {one.kind} {quoted(one.schema, one.name)}: {size}, {one.pages:,} pages, {format_number(one.tuples)} tuples{more}"


def _statistics(twin: Twin) -> Iterator[str]:
    yield "Statistics of columns, with tokens for values:"
    for one in twin.statistics:
        yield from _column(one)


def _column(one: ColumnStatistics) -> Iterator[str]:
    inherited = " with its children" if one.is_inherited else ""
    class_ = "" if one.value_class is None else f", class {one.value_class}"
    yield f"  {quoted(one.schema, one.relation, one.column)}{inherited}: {one.type}{class_}, {one.width} bytes, {one.null_share:.3g} null, n_distinct {one.n_distinct:g}, correlation {'unknown' if one.correlation is None else format(one.correlation, '.3g')}"
    if one.has_hidden_values:
        yield "    values are left out"
    if one.most_common:
        pairs = zip(one.most_common, one.most_common_shares, strict=True)
        yield f"    most common: {', '.join(f'{value} ({share:.3g})' for value, share in pairs)}"
    if one.histogram:
        yield f"    histogram: {', '.join(one.histogram)}"
    if one.elements:
        yield f"    elements: {', '.join(one.elements)}"
    if one.empty_share is not None:
        yield f"    of ranges: {one.empty_share:.3g} empty"
    if one.range_bounds:
        yield f"    bounds: {', '.join(one.range_bounds)}"
        yield f"    lengths: {', '.join(one.range_lengths)}"


def _statements(twin: Twin) -> Iterator[str]:
    yield "Statements, those that took most time first:"
    for one in twin.workload.statements:
        yield from _statement(one)


def _statement(one: Statement) -> Iterator[str]:
    who = f"{one.role}{'' if one.is_toplevel else ', within a function'}"
    each = one.time_s / one.calls if one.calls else 0.0
    yield f"  {one.number}. {one.calls:,} calls by {who}, {format_duration(each)} each, {format_number(one.rows / max(one.calls, 1))} rows each; {_blocks(one)}"
    yield f"     {one.text}"
    if one.parameters:
        listed = ", ".join(f"${at} {type_}" for at, type_ in enumerate(one.parameters, start=1))
        yield f"     parameters: {listed}"
    if one.parameters_unknown:
        yield f"     parameters unknown: {one.parameters_unknown}"


def _blocks(one: Statement) -> str:
    counts: Mapping[str, float] = {
        "hit": one.shared_hit,
        "read": one.shared_read,
        "dirtied": one.shared_dirtied,
        "temporary written": one.temp_written,
    }
    words = [f"{format_number(count / max(one.calls, 1))} {name}" for name, count in counts.items() if count]  # fmt: skip
    wal = f"; {format_bytes(one.wal_bytes / max(one.calls, 1))} of WAL" if one.wal_bytes else ""
    return f"blocks each: {', '.join(words) or 'none'}{wal}"


def _activity(twin: Twin) -> Iterator[str]:
    activity = twin.activity
    yield f"Sessions, over {activity.looks:,} looks: {_sessions(twin)}; at most {activity.most_sessions:,}, {activity.most_active:,} active; {format_number(activity.blocked)} waiting for locks; {format_number(activity.other_sessions)} in other databases"
    yield from (f"  {wait or 'no wait'}: {format_number(mean)}" for wait, mean in activity.waits.items())  # fmt: skip
    yield "Counters of the database in the window:"
    yield from (f"  {name}: {format_number(value)}" for name, value in activity.counters.items())
    if twin.horizon is not None:
        yield f"Horizon: {twin.horizon.words}"


def _kept(twin: Twin) -> Iterable[str]:
    yield "Constants of the original that are kept:"
    yield from (f'  "{one.constant}" in {one.where}: {one.why}' for one in twin.kept)


PARTS: Mapping[str, Callable[[Twin], Iterable[str]]] = {
    "settings": _settings,
    "schema": _schema,
    "relations": _relations,
    "statistics": _statistics,
    "statements": _statements,
    "activity": _activity,
    "transactions": transaction_lines,
    "kept": _kept,
}

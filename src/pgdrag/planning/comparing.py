"""Which plans of a twin's statements does a treatment change: by lines of a configuration, by another version, by both?

What the planner reads a session can set, so that each further subset of the changes takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import psycopg

from pgdrag.data_twin import clock
from pgdrag.english import counted
from pgdrag.errors import ServerLost, SettingError, TwinError
from pgdrag.findings.plan_flips import (
    ExplainedStatement,
    PlannedChange,
    Planner,
    Subset,
    TwinPlans,
    find_flips,
)
from pgdrag.model.recordings import Plan
from pgdrag.planning.explaining import PlanningSession
from pgdrag.planning.plan_twin import PlanTwin, running_plan_twin
from pgdrag.servers.binaries import Binaries
from pgdrag.servers.catalog import load_settings_catalog
from pgdrag.servers.scratch import Scratch
from pgdrag.servers.settings import SettingsCatalog
from pgdrag.twins.ddl import quoted
from pgdrag.twins.masking import CUT_LIST
from pgdrag.twins.mending import GENERIC_SINCE
from pgdrag.twins.model import Statement, Twin

SERVER = "server version"  # what the change of it is called
_SEARCH_PATH = "search_path"
# Read when tables are analysed: they show in the next statistics.
_OF_STATISTICS = frozenset({"default_statistics_target"})
_DEFAULT = "default"


@dataclass(frozen=True)
class Line:
    """A setting that a treatment asks for; without a value, the server's default.

    Attributes:
        place: "my.conf:12", or "".
    """

    name: str
    value: str | None
    place: str = ""


@dataclass(frozen=True)
class PlanQuestion:
    """What is compared.

    Attributes:
        before, after: the two servers; they may be the same.
        lines: settings of the second side that differ from the twin's, or may.
        before_label, after_label: what reports call the sides.
    """

    before: Binaries
    after: Binaries
    lines: Sequence[Line]
    before_label: str
    after_label: str


@dataclass(frozen=True)
class _Server:
    """One side's server."""

    session: PlanningSession
    catalog: SettingsCatalog

    def reads(self, name: str) -> bool:
        """Tell whether its planner reads a setting, by this name or by its own."""
        same = self.catalog.same_as(name, "0")
        return (same[0] if same else name.lower()) in self.session.settings

    def settings(self, given: Mapping[str, str]) -> dict[str, str]:
        """Return those that its planner reads, by its own names."""
        own = (self.catalog.same_as(name, value) or (name, value) for name, value in given.items())
        return {name: value for name, value in own if name in self.session.settings}

    def default(self, name: str) -> str:
        """Return a setting's default as the server has it."""
        return self.catalog.find(name).boot_value or ""

    def canonical(self, name: str, value: str | None) -> str:
        """Return a value as pg_settings shows it; that of a missing one is the default."""
        try:
            return self.catalog.canonical(name, self.default(name) if value is None else value)
        except SettingError:
            return value or ""


def compare_plans(
    twin: Twin, name: str, question: PlanQuestion, scratch: Scratch, say: Callable[[str], None]
) -> TwinPlans:
    """Return the statements that are planned in another way, each with what is guilty.

    Args:
        name: of the twin's file.
        say: called with what is being done, a sentence.

    Raises:
        TwinError: none of the twin's statements has a plan.
        ServerError: a server cannot be made or started.
        ServerLost: one ended meanwhile.
    """
    statements = _statements(twin)
    if not statements:
        raise TwinError(
            "the twin has no statement to plan",
            path=name,
            detail=" ".join(x for x in twin.not_seen if "pg_stat_statements" in x) or None,
            hint="Capture it again while statements run, with pg_stat_statements in the database.",
        )
    is_upgrade = question.before.identity != question.after.identity
    binaries = (question.before, question.after) if is_upgrade else (question.before,)
    # In one way on both sides: the plans would differ by it.
    is_generic = all(one.version_num >= GENERIC_SINCE for one in binaries)
    with ExitStack() as stack:
        servers, notes = [], dict[str, None]()
        for one in binaries:
            say(
                f"Restoring the schema, the statistics and the sizes into PostgreSQL {one.version}."
            )
            plan_twin = stack.enter_context(running_plan_twin(twin, one, scratch))
            session = stack.enter_context(plan_twin.session(is_generic=is_generic))
            servers.append(_Server(session, load_settings_catalog(one, scratch)))
            notes.update(dict.fromkeys(_labelled(plan_twin, is_upgrade=is_upgrade)))
        before, after = servers[0], servers[-1]
        base = _captured(twin)
        read = [x for x in question.lines if before.reads(x.name) or after.reads(x.name)]
        former = _other_defaults(before, after, {*base, *(x.name for x in read)})
        base |= former
        read += [Line(name, after.default(name), "default") for name in former]
        changed = [x for x in read if _is_change(x, base, after)]
        changes = [_described(x, base, before, after) for x in changed]
        if is_upgrade:
            version = PlannedChange(SERVER, question.before.version, question.after.version)
            changes.insert(0, version)
        planner = _planner(twin, base, (before, after), changed, is_upgrade=is_upgrade)
        say(f"Planning {len(statements)} statements.")
        try:
            flips = find_flips(statements, changes, planner)
        except psycopg.Error as error:
            raise ServerLost(f"lost the plan twin: {error}") from error
    if len(flips.unplanned) == len(statements) and not flips.lost:
        raise TwinError(
            "no statement of the twin has a plan",
            path=name,
            detail=f"The first one: {flips.unplanned[0].reason}.",
        )
    return TwinPlans(
        twin=name,
        captured_on=twin.captured_on,
        source_version=twin.source.version,
        before=question.before_label,
        after=question.after_label,
        flips=flips,
        same=tuple(x.name for x in read if x not in changed),
        not_read=tuple(x.name for x in question.lines if x not in read),
        utilities=sum(not x.is_plannable for x in twin.workload.statements),
        not_planned_share=1 - sum(x.share for x in statements),
        notes=(*notes, *_notes(twin, question.lines, is_generic=is_generic)),
    )


def _statements(twin: Twin) -> list[ExplainedStatement]:
    total_s = sum(x.exec_s for x in twin.workload.statements) + twin.workload.other_exec_s
    return [
        ExplainedStatement(
            x.number,
            x.text,
            x.calls,
            1000 * x.exec_s / x.calls if x.calls else 0.0,
            x.exec_s / total_s if total_s else 0.0,
        )
        for x in twin.workload.statements
        if x.is_plannable
    ]


def _planner(
    twin: Twin,
    base: Mapping[str, str],
    servers: tuple[_Server, _Server],
    lines: Sequence[Line],
    *,
    is_upgrade: bool,
) -> Planner:
    """Return what plans a statement with some of the changes; the first one is the version's, if that changes."""
    statements = {one.number: one for one in twin.workload.statements}
    before, after = servers
    everywhere = _all_schemas(twin)
    offset = 1 if is_upgrade else 0

    def plan(number: int, subset: Subset) -> Plan | str:
        statement = statements[number]
        server = after if is_upgrade and 0 in subset else before
        chosen = [line for at, line in enumerate(lines, start=offset) if at in subset]
        given = {**base, **{x.name: x.value for x in chosen if x.value is not None}}
        for unset in (x.name for x in chosen if x.value is None):
            given.pop(unset, None)
        # What ALTER ROLE sets counts more than a file.
        settings = server.settings(given | _of_role(twin, statement))
        path = settings.get(_SEARCH_PATH, '"$user", public')
        settings = {**settings, _SEARCH_PATH: f"{clock.PATH}, {path}"}
        found = server.session.plan(statement, settings)
        if isinstance(found, str):
            # Programs may set search_path, which cannot be seen.
            again = server.session.plan(statement, {**settings, _SEARCH_PATH: everywhere})
            found = found if isinstance(again, str) else again
        return found

    return plan


def _captured(twin: Twin) -> dict[str, str]:
    """Return the known settings of the original."""
    return {x.name: x.value for x in twin.source.settings if x.value is not None}


def _all_schemas(twin: Twin) -> str:
    schemas = map(quoted, dict.fromkeys(("public", *twin.schema.schemas)))
    return ", ".join((clock.PATH, *schemas))


def _other_defaults(before: _Server, after: _Server, given: Collection[str]) -> dict[str, str]:
    """Return the older version's defaults that the newer one has changed, as changes like lines."""
    names = (before.session.settings & after.session.settings) - set(given)
    return {
        name: before.default(name)
        for name in sorted(names)
        if before.canonical(name, None) != after.canonical(name, None)
    }


def _of_role(twin: Twin, statement: Statement) -> dict[str, str]:
    """Return what sessions of a statement's role begin with, what is more special last."""
    found: dict[str, str] = {}
    for one in sorted(twin.source.options, key=lambda x: (x.role != "", x.is_of_database)):
        if one.role in ("", statement.role):
            found |= {x.name: x.value for x in one.settings if x.value is not None}
    return found


def _is_change(line: Line, base: Mapping[str, str], server: _Server) -> bool:
    return server.canonical(line.name, line.value) != server.canonical(
        line.name, base.get(line.name)
    )


def _described(
    line: Line, base: Mapping[str, str], before: _Server, after: _Server
) -> PlannedChange:
    return PlannedChange(
        line.name,
        _readable(before.catalog, line.name, base.get(line.name)),
        _readable(after.catalog, line.name, line.value),
        line.place,
    )


def _readable(catalog: SettingsCatalog, name: str, value: str | None) -> str:
    try:
        setting = catalog.find(name)
        shown = setting.readable(setting.canonical(value or setting.boot_value or ""))
    except SettingError:
        return value or _DEFAULT
    return shown if value is not None else f"{shown} ({_DEFAULT})"


def _labelled(plan_twin: PlanTwin, *, is_upgrade: bool) -> Iterator[str]:
    """Yield what the plan twin has not; of two servers with the version."""
    version = f" (PostgreSQL {plan_twin.cluster.binaries.version})" if is_upgrade else ""
    for note in plan_twin.notes:
        yield f"{note}{version}"


def _notes(twin: Twin, lines: Iterable[Line], *, is_generic: bool) -> Iterator[str]:
    yield from twin.not_seen
    cut = sum(CUT_LIST in x.text for x in twin.workload.statements if x.is_plannable)
    if cut:
        yield f"{counted(cut, 'statement')} with a list of unknown length (IN or ANY) planned as if the list had one element"
    if found := sorted(_OF_STATISTICS & {x.name for x in lines}):
        yield f"{', '.join(found)} takes effect when tables are analysed again, which a twin cannot do"
    if not is_generic and any(x.partition_key for x in twin.schema.tables):
        yield (
            "before PostgreSQL 16 a generic plan is shown without the partitions that NULL parameters exclude"
        )

"""Every setting of PostgreSQL 18 is a dimension or excluded, with values that the server takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from pgdrag.designs.search.parameters import Dimension
from pgdrag.errors import SettingError, UsageError
from pgdrag.experiment.rules_of_thumb import rules_of_thumb
from pgdrag.experiment.search_space import Goal, SearchSpace, search_space
from pgdrag.findings.durability import loss_of
from pgdrag.host.allowance import Allowance
from pgdrag.servers.settings import SettingsCatalog
from pgdrag.units import parse_bytes

NULLS = "|NULL|NULL|NULL||"
PG_SETTINGS = Path(__file__).with_name("pg_settings_18.txt")
TINY, SMALL = Allowance(64 << 20, 0.25), Allowance(1 << 30, 1.0)
LARGE = Allowance(64 << 30, 16.0)
GOALS: tuple[Goal, ...] = ("maximize", "minimize")
UNSAFE = {"fsync", "full_page_writes", "synchronous_commit"}
EXAMPLES: list[dict[str, Any]] = [
    {"goal": goal, "allowance": allowance, "is_unsafe_allowed": is_unsafe_allowed}
    for goal in GOALS
    for allowance in (TINY, SMALL, LARGE)
    for is_unsafe_allowed in (False, True)
]


def space(
    goal: Goal = "minimize",
    start: Mapping[str, str] | None = None,
    allowance: Allowance = LARGE,
    **others: Any,
) -> SearchSpace:
    return search_space(catalog(), start or {}, allowance, connections=8, goal=goal, **others)


def dimensions(found: SearchSpace) -> dict[str, Dimension]:
    return {one.name: one for one in found.dimensions}


def reasons(found: SearchSpace) -> dict[str, str]:
    return {one.name: one.reason for one in found.excluded}


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_setting_is_a_dimension_or_excluded_with_a_reason(example: dict[str, Any]) -> None:
    found = space(**example)
    names = [*dimensions(found), *reasons(found)]
    assert sorted(names) == sorted(x.name for x in catalog().settings.values())
    assert all(reasons(found).values())
    assert 100 < len(found.dimensions) < 200


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_server_takes_every_value_and_knows_them_apart(example: dict[str, Any]) -> None:
    for one in space(**example).dimensions:
        shown = [catalog().canonical(one.name, value) for value in one.values]
        assert len(set(shown)) == len(shown) <= 16, one
        if catalog().find(one.name).vartype in ("integer", "real"):
            assert shown == sorted(shown, key=float), one


@pytest.mark.parametrize("goal", GOALS)
def test_no_setting_of_this_version_lacks_a_range(goal: Goal) -> None:
    found = reasons(space(goal))
    assert "no safe range of values is known" not in found.values()
    lacking = [x for x, why in found.items() if why == "no other value is known to work here"]
    assert lacking == ["default_toast_compression"]  # this build has only one


def test_a_number_that_no_table_knows_is_excluded() -> None:
    rows = [("new_memory", "integer", "kB", "0", "9", None, "user", "Resource Usage", "1", "")]
    found = search_space(
        SettingsCatalog.from_rows(300000, rows), {}, LARGE, connections=8, goal="minimize"
    )
    assert reasons(found) == {"new_memory": "no safe range of values is known"}


@pytest.mark.parametrize("goal", GOALS)
def test_a_dimension_starts_at_the_default_unless_the_start_names_it(goal: Goal) -> None:
    start = {
        "Shared_Buffers": "65536",
        "random_page_cost": "1.10",
        "jit": "false",
        "work_mem": "5MB",
    }
    found = dimensions(space(goal, start))
    named = {name: found[name].start for name in ("shared_buffers", "random_page_cost", "jit")}
    assert named == {"shared_buffers": "512MB", "random_page_cost": "1.1", "jit": "off"}
    assert "5MB" in found["work_mem"].values
    for name in found.keys() - {x.lower() for x in start}:
        default = catalog().find(name).boot_value or ""
        assert catalog().canonical(name, found[name].start) == catalog().canonical(name, default)


def test_a_value_that_the_server_refuses_is_an_error() -> None:
    with pytest.raises(SettingError):
        space(start={"work_mem": "1kB"})


@pytest.mark.parametrize("goal", GOALS)
def test_what_loses_data_is_searched_only_if_allowed(goal: Goal) -> None:
    found = space(goal)
    assert not dimensions(found).keys() & UNSAFE
    assert "corrupt" in reasons(found)["fsync"]
    for one in found.dimensions:
        assert not any(loss_of(one.name, value) for value in one.values), one
    allowed = dimensions(space(goal, is_unsafe_allowed=True))
    assert all(sorted(allowed[name].values) == ["off", "on"] for name in UNSAFE)


def test_a_start_that_loses_data_may_become_safe() -> None:
    found = dimensions(space("maximize", {"fsync": "off"}))
    assert (found["fsync"].values, found["fsync"].start) == (("off", "on"), "off")


@pytest.mark.parametrize("goal", GOALS)
@pytest.mark.parametrize("allowance", [SMALL, LARGE])
def test_memory_follows_the_allowance(goal: Goal, allowance: Allowance) -> None:
    found = dimensions(space(goal, allowance=allowance))
    for name, share in (("shared_buffers", 0.6), ("work_mem", 0.25 / 8), ("wal_buffers", 0.01)):
        largest = parse_bytes(found[name].values[-1]) / allowance.memory_bytes
        assert share / 2 < largest <= share, name
    assert found["max_parallel_workers_per_gather"].values[-1] == str(
        max(2, int(2 * allowance.processors))
    )


def test_a_search_for_the_slowest_reaches_further_down() -> None:
    least = {goal: dimensions(space(goal))["shared_buffers"].values[0] for goal in GOALS}
    assert least == {"maximize": "16MB", "minimize": "640kB"}  # 80 kB for each connection


def test_only_a_search_for_the_slowest_changes_what_is_for_developers() -> None:
    assert "debug_io_direct" in reasons(space("maximize"))
    found = dimensions(space("minimize", {"debug_io_direct": "data"}))
    assert found["debug_io_direct"].values == ("", "data", "wal", "data,wal")
    assert found["debug_io_direct"].start == "data"
    assert found["debug_parallel_query"].values == ("off", "on")
    assert {"ignore_system_indexes", "wal_consistency_checking"} <= found.keys()


def test_without_restarts_nothing_that_needs_one_is_searched() -> None:
    found = space(is_reload_only=True)
    assert reasons(found)["shared_buffers"] == "needs a restart"
    assert all(catalog().find(x.name).context != "postmaster" for x in found.dimensions)


def test_only_what_is_named_is_searched() -> None:
    found = space(only=["Work_Mem", "jit"])
    assert list(dimensions(found)) == ["jit", "work_mem"]
    assert reasons(found)["shared_buffers"] == "not among the settings to search"
    assert len(found.dimensions) + len(found.excluded) == len(catalog().settings)


@pytest.mark.parametrize(
    ("name", "others", "message", "hint"),
    [
        ("work_memm", {}, "has no setting", '"work_mem"'),
        ("my.setting", {}, "no loaded extension", "Leave"),
        ("statement_timeout", {}, "cancels work", "Leave"),
        ("fsync", {}, "corrupt", "Allow unsafe"),
        ("zero_damaged_pages", {}, "developers", "Leave"),
        ("shared_buffers", {"is_reload_only": True}, "needs a restart", "Allow restarts"),
        ("log_statement", {"goal": "maximize"}, "only cost time", "Leave"),
        ("autovacuum", {"goal": "maximize"}, "bloat", "Leave"),
        ("log_checkpoints", {}, "observation channel", "Leave"),
    ],
)
def test_a_name_that_cannot_be_searched_is_refused_with_the_reason(
    name: str, others: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        space(only=["jit", name], **others)
    assert refused.value.hint is not None
    assert hint in refused.value.hint


def test_what_only_costs_time_is_searched_for_speed_only_where_it_is_on() -> None:
    found = dimensions(space("maximize"))
    assert found.keys() >= {"track_activities", "update_process_title"}
    assert not found.keys() & {"log_statement", "track_io_timing", "wal_log_hints"}
    started = dimensions(space("maximize", {"track_io_timing": "on"}))
    assert started["track_io_timing"].values == ("off", "on")
    slow = dimensions(space("minimize"))
    assert slow.keys() >= {"log_statement", "track_io_timing", "wal_log_hints", "debug_print_plan"}


def test_values_with_which_a_server_does_not_start_or_hides_its_log_are_left_out() -> None:
    found = dimensions(space("minimize", is_unsafe_allowed=True))
    left = {"huge_pages": "on", "wal_level": "minimal", "log_min_messages": "panic"}
    assert all(value not in found[name].values for name, value in left.items())


def test_switches_and_special_values_come_before_the_scale() -> None:
    found = dimensions(space("maximize"))
    assert found["enable_seqscan"].values == ("off", "on")
    assert found["jit_above_cost"].values[:3] == ("-1", "0", "100")
    assert found["wal_buffers"].values[:2] == ("-1", "256kB")
    assert found["checkpoint_completion_target"].values == ("0", "0.25", "0.5", "0.75", "0.9", "1")
    assert not found["wal_sync_method"].is_ordered
    assert found["work_mem"].is_ordered


@pytest.mark.parametrize(("goal", "least"), [("maximize", 25), ("minimize", 35)])
def test_what_is_expected_to_matter_is_marked(goal: Goal, least: int) -> None:
    found = dimensions(space(goal))
    expected = [name for name, one in found.items() if one.is_expected]
    assert least <= len(expected) <= 40
    assert {"shared_buffers", "max_wal_size", "random_page_cost"} <= set(expected)
    assert found["shared_buffers"].group == "Resource Usage / Memory"


def test_a_rule_of_thumb_is_a_value_that_differs_from_the_start() -> None:
    found = dimensions(space("maximize", {"max_wal_size": "8GB"}))
    assert (found["shared_buffers"].rule, found["random_page_cost"].rule) == ("16GB", "1.1")
    assert found["checkpoint_completion_target"].rule is None  # the default is the same
    assert found["max_wal_size"].rule is None  # the start has it


@pytest.mark.parametrize("allowance", [TINY, SMALL, LARGE])
def test_rules_of_thumb_are_values_that_the_server_takes(allowance: Allowance) -> None:
    for name, value in rules_of_thumb(allowance, 100).items():
        catalog().check(name, value)


def test_rules_of_thumb_for_a_machine_of_8_gb() -> None:
    found = rules_of_thumb(Allowance(8 << 30, 4.0), 100)
    sizes = {
        name: found[name] for name in ("shared_buffers", "effective_cache_size", "wal_buffers")
    }
    assert sizes == {"shared_buffers": "2GB", "effective_cache_size": "6GB", "wal_buffers": "16MB"}
    assert found["maintenance_work_mem"] == "512MB"
    assert found["work_mem"] == "19MB"  # 6 GB / (3 * (100 + 4))
    assert (found["max_worker_processes"], found["max_parallel_workers_per_gather"]) == ("4", "2")


def test_rules_of_thumb_leave_parallel_workers_of_two_processors_alone() -> None:
    assert not any("parallel" in name for name in rules_of_thumb(Allowance(8 << 30, 2.0), 8))


def _rows() -> Iterator[tuple[Any, ...]]:
    category = ""
    _, _, *lines = PG_SETTINGS.read_text(encoding="utf-8").splitlines()
    for line in lines:
        if line.startswith("# "):
            category = line[2:]
            continue
        fields = [None if x == "NULL" else x for x in line.replace("|-|", NULLS).split("|")]
        *kind, words, context, default = fields
        yield (*kind, (words or "").split(",") if words else None, context, category, default, "")


@cache
def catalog() -> SettingsCatalog:
    return SettingsCatalog.from_rows(180006, _rows())


def test_a_setting_that_does_nothing_without_another_needs_it() -> None:
    found = dimensions(space("maximize"))
    siblings, delay = found["commit_siblings"], found["commit_delay"]
    assert siblings.needs == "commit_delay"
    assert set(siblings.needs_values) == set(delay.values) - {"0"}
    workers = found["io_workers"]
    assert (workers.needs, workers.needs_values) == ("io_method", ("worker",))
    for one in found.values():
        if one.needs:
            assert 0 < len(one.needs_values) < len(found[one.needs].values), one.name


def test_what_can_do_nothing_in_the_space_is_left_out_of_it() -> None:
    found = space("maximize", {"jit": "off"}, only=["jit", "jit_above_cost", "work_mem"])
    assert dimensions(found)["jit_above_cost"].needs == "jit"
    with pytest.raises(UsageError, match=r"does nothing while jit = off"):
        space("maximize", {"jit": "off"}, only=["jit_above_cost", "work_mem"])
    assert "jit_above_cost" in dimensions(space("maximize", only=["jit_above_cost", "work_mem"]))


def test_a_search_for_speed_has_sensible_values_only_and_what_the_start_names() -> None:
    fast, slow = dimensions(space("maximize")), dimensions(space("minimize"))
    assert (fast["random_page_cost"].values[0], slow["random_page_cost"].values[0]) == ("0.5", "0")
    assert (fast["random_page_cost"].values[-1], slow["random_page_cost"].values[-1]) == (
        "16",
        "100000",
    )
    assert (fast["commit_delay"].values[-1], slow["commit_delay"].values[-1]) == ("2000", "100000")
    own = dimensions(space("maximize", {"random_page_cost": "400"}))["random_page_cost"]
    assert (own.start, own.values[-1]) == ("400", "400")

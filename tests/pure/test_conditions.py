"""Which workload do the options of a study mean?"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pgdrag.cli.study_command import _workload
from pgdrag.errors import UsageError

NOT_GIVEN = dict.fromkeys(
    ("workload", "warehouses", "pgbench_scale", "twin_scale", "builtin", "file")
)


def workload(**given: object) -> tuple[str, dict[str, object]]:
    options: Any = SimpleNamespace(**(NOT_GIVEN | given))
    return _workload(options)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("tpcc", {"warehouses": 10})),
        ({"warehouses": 3}, ("tpcc", {"warehouses": 3})),
        ({"pgbench_scale": 5}, ("pgbench", {"scale": 5})),
        ({"builtin": ["select-only"]}, ("pgbench", {"scale": 10, "scripts": ["select-only"]})),
        ({"workload": "scenarios", "pgbench_scale": 2}, ("scenarios", {"scale": 2})),
        ({"workload": "counters"}, ("counters", {})),
        ({"workload": "./shop.twin"}, ("twin", {"file": "./shop.twin"})),
        (
            {"workload": "shop.twin", "twin_scale": 0.1},
            ("twin", {"file": "shop.twin", "scale": 0.1}),
        ),
    ],
)
def test_options_name_the_workload_or_imply_the_one_that_takes_them(
    given: dict[str, object], expected: tuple[str, dict[str, object]]
) -> None:
    assert workload(**given) == expected


@pytest.mark.parametrize("given", [{"twin_scale": 0.1}, {"workload": "twin"}])
def test_a_workload_of_a_file_needs_one(given: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="workload twin needs a file"):
        workload(**given)


def test_a_scale_of_another_workload_is_refused() -> None:
    with pytest.raises(UsageError, match="--pgbench-scale does not apply to workload twin"):
        workload(workload="shop.twin", pgbench_scale=2)


def test_an_option_that_the_workload_does_not_take_is_refused() -> None:
    with pytest.raises(UsageError, match="--pgbench-scale does not apply to workload tpcc"):
        workload(workload="tpcc", pgbench_scale=2)

"""Of many samples at an update a few are shown, with a plan where they found their rows in another way."""

from __future__ import annotations

import pytest

from pgdrag.collectors.update_cost import MOST_SHOWN, some_of, way_of
from pgdrag.model.recordings import UpdateSample

SCAN = {"Node Type": "Index Scan", "Relation Name": "g1", "Alias": "g1_1", "Index Name": "by_last"}
BY_CTID = {
    "Node Type": "ModifyTable",
    "Operation": "Update",
    "Plans": [
        {"Node Type": "Limit", "Plans": [{**SCAN, "Scan Direction": "Backward"}]},
        {"Node Type": "Tid Scan", "Relation Name": "g1", "Alias": "g1"},
    ],
}


def samples(ways: str) -> list[UpdateSample]:
    """A sample a letter, each with a plan."""
    return [
        UpdateSample("count", "UPDATE g1", float(at), 4, 1, 1.0, 1e-4, way, BY_CTID)
        for at, way in enumerate(ways)
    ]


def test_an_updates_way_names_each_scan_once() -> None:
    assert way_of(BY_CTID) == "backward index scan of g1 (g1_1) by by_last, TID scan of g1"


def test_plans_are_kept_of_both_ends_and_where_the_way_changed() -> None:
    kept = [one.plan is not None for one in some_of(samples("aabbb"))]
    assert kept == [True, False, True, False, True]


@pytest.mark.parametrize("count", [1, 2, 8, 9, 100])
def test_the_first_and_the_last_look_are_shown(count: int) -> None:
    shown = some_of(samples("a" * count))
    assert len(shown) == min(count, MOST_SHOWN)
    assert (shown[0].at_s, shown[-1].at_s) == (0, count - 1)
    assert shown[0].buffers == 5

"""pg_expecto's own SQL functions found these figures on these samples; ours are the same to rounding.

Its `cluster_stat_median()` (of commits 7947b79 and 6fea5ac, with one result), `report_postgresql_wait_event_type()`,
`quick_significance_check()` and `the_line_of_least_squares()` (of 6fea5ac), and for `passes` its `load_test_…()` (of
7947b79), ran in PostgreSQL 15, on tables in the places of pg_stat_statements and pg_wait_sampling_profile. `load_test`
has samples of the study's protocol that were made up, a value a minute; `trial` those of a trial of os-io's workload,
a value a second, which its functions were given as if one of pgdrag's windows were an hour with both its ends.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pgdrag.findings.expecto.analysis import expecto_finding
from pgdrag.findings.expecto.findings import WAIT_SERIES, ExpectoFinding
from pgdrag.findings.expecto.published import (
    operational_speeds,
)
from pgdrag.model.measurement import Sample
from pgdrag.model.recordings import CALLS, ROWS, Recordings, Series

GOLDEN = Path(__file__).parents[1] / "golden" / "expecto"


@pytest.fixture(params=sorted(path.stem for path in GOLDEN.glob("*.json")))
def golden(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((GOLDEN / f"{request.param}.json").read_text("utf-8"))
    return found


def seen_in(golden: dict[str, Any]) -> tuple[tuple[Sample, ...], Recordings]:
    """The golden's samples as a trial's: rates and sessions, 0 where pg_expecto has no row."""
    every_s = golden["interval_s"]
    ends = tuple(every_s * (at + 1.0) for at in range(len(golden["calls"])))

    def series(name: str, values: list[float], per: float) -> Series:
        return Series(name, name, "1/s", ends, tuple((value or 0) / per for value in values))

    # A count of pg_expecto's is of looks each 10 ms.
    waits = (series(WAIT_SERIES[x], y, 100 * every_s) for x, y in golden["waits"].items())
    counted = (series(CALLS, golden["calls"], every_s), series(ROWS, golden["rows"], every_s))
    samples = tuple(Sample(end, every_s, 7) for end in ends)
    return samples, Recordings((*counted, *waits))


def view(golden: dict[str, Any]) -> ExpectoFinding:
    found = expecto_finding(*seen_in(golden))
    assert found is not None
    return found


def test_operational_speed_is_pg_expectos(golden: dict[str, Any]) -> None:
    samples, recordings = seen_in(golden)
    found = operational_speeds(samples, recordings)
    assert found is not None
    theirs = golden["found"]["op_speed"]
    per_interval = [x / 60 * golden["interval_s"] for x in found.per_min]
    assert per_interval == pytest.approx(theirs)
    assert found.source == "statements"
    assert round(found.window_s / golden["interval_s"]) == golden["window"]
    assert view(golden).speed_per_min == pytest.approx(found.mean_per_min)


def test_its_trends_are_pg_expectos(golden: dict[str, Any]) -> None:
    found, theirs = view(golden), golden["found"]
    assert found.speed_angle_deg == pytest.approx(theirs["speed_trend"]["angle_deg"])
    assert found.speed_r2 == pytest.approx(theirs["speed_trend"]["r2"])
    assert found.waitings_angle_deg == pytest.approx(theirs["waitings_trend"]["angle_deg"])
    assert found.waitings_r2 == pytest.approx(theirs["waitings_trend"]["r2"])


def test_waits_and_their_correlations_are_pg_expectos(golden: dict[str, Any]) -> None:
    found, theirs = view(golden), golden["found"]
    per_session = 100 * golden["interval_s"]
    waitings = theirs["waitings"]
    assert found.waitings * per_session == pytest.approx(sum(waitings) / len(waitings))
    assert found.published is not None
    assert found.published.r == pytest.approx(theirs["speed_waitings"]["r"])
    types = {one.wait_type: one for one in found.wait_types}
    assert set(types) == set(theirs["types"])
    for name, its in theirs["types"].items():
        one = types[name]
        assert (one.published.r if one.published else 0.0) == pytest.approx(its["r"]), name
        # It weighs, and gives a band to, what is above 0 and significant; R² follows from 0.01 on.
        passes = its["is_significant"] and its["r"] > 0
        assert (one.band is not None) is passes, name
        if passes:
            assert (one.weighted, one.band) == (its["score"], its["band"]), name
        if its["r2"] is not None:
            assert one.r2 == its["r2"], name


def test_the_goldens_come_to_each_of_pg_expectos_decisions() -> None:
    """Else the tests above could not fail where it decides otherwise."""
    types = [
        one
        for path in GOLDEN.glob("*.json")
        for one in json.loads(path.read_text("utf-8"))["found"]["types"].values()
    ]
    assert {one.get("band") for one in types} >= {None, "negligible", "high", "critical"}
    assert any(one["r"] < 0 for one in types)
    assert any(one["r"] > 0 and not one["is_significant"] for one in types)

"""Small runs for the tests of the analysis: a study of rungs, and results made from a few numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pgdrag.model import (
    Applied,
    Claim,
    Host,
    Level,
    Observation,
    Outcome,
    Result,
    Rung,
    RunRecord,
    Source,
    Study,
    Treatment,
    Trial,
    WorkloadSpec,
)
from pgdrag.model.load import LoadProfile
from pgdrag.model.measurement import Counts, DriverCost, Measurement, Sample

LOAD = LoadProfile(connections=8, warm_up_s=5, measure_s=60, budget_s=120)
WORKLOAD = WorkloadSpec("tpcc", {"warehouses": 1})
IDLE = DriverCost(
    user_cpu_s=1.0,
    system_cpu_s=1.0,
    busiest_thread_cpu_s=2.0,
    send_lag_us_p99=100,
    stall_us_max=900,
)


def setting(name: str, value: str) -> Level:
    return Level("setting", name, value)


def rung(
    name: str,
    tps: float | None = None,
    *,
    added: Sequence[Level] = (),
    levels: Sequence[Level] = (),
    expects: Mapping[str, str] | None = None,
) -> Rung:
    return Rung(
        name=name,
        title=f"title of {name}",
        treatment=Treatment(name, tuple(levels) or tuple(added)),
        added=tuple(added),
        claim=Claim(tps),
        expects=dict(expects or {}),  # type: ignore[arg-type]
    )


def measurement(
    committed: int,
    *,
    elapsed_s: float = 60.0,
    driver: DriverCost = IDLE,
    samples: Sequence[Sample] | None = None,
) -> Measurement:
    """Make a window with its commits spread evenly over its seconds."""
    if samples is None:
        seconds = int(elapsed_s)
        so_far = [committed * i // seconds for i in range(seconds + 1)]
        samples = [Sample(i + 1.0, 1.0, so_far[i + 1] - so_far[i]) for i in range(seconds)]
    return Measurement(
        elapsed_s=elapsed_s,
        stopped_by="deadline",
        transactions={"payment": Counts(scheduled=committed, committed=committed)},
        latency={},
        samples=tuple(samples),
        driver=driver,
    )


def result(
    treatment: str,
    committed: int | None,
    *,
    outcome: Outcome = Outcome.MEASURED,
    block: int = 1,
    reason: str = "",
    applied: Sequence[Applied] = (),
    evidence: Sequence[Observation] = (),
    driver: DriverCost = IDLE,
    number: int = 1,
) -> Result:
    """Make a result; without `committed` it has no measurement."""
    return Result(
        trial=Trial(number, block, block, Treatment(treatment), WORKLOAD, LOAD, seed=1),
        outcome=outcome,
        started_unix_s=0.0,
        reason=reason,
        applied=tuple(applied),
        measurement=None if committed is None else measurement(committed, driver=driver),
        evidence=tuple(evidence),
    )


def refused(given: Result, sqlstate: str) -> Result:
    """Return a result as it is where the server refuses all transactions with the same error."""
    assert given.measurement is not None
    errors = (("script", sqlstate, 'relation "orders" does not exist', 9),)
    measured = replace(given.measurement, errors=errors)
    return replace(given, outcome=Outcome.STALLED, measurement=measured)


def run_of(
    rungs: Sequence[Rung],
    results: Sequence[Result],
    *,
    design: str = "ladder",
    status: str = "done",
) -> RunRecord:
    return RunRecord(
        run_id="r1",
        study=Study(
            "study",
            "A study",
            "How slow?",
            "demo",
            design,
            tuple(rungs),
            Source(),
            WORKLOAD,
            LOAD,
            replicates=1,
        ),
        host=Host("cpu", 2, 4 << 30, "6.1", "ext4"),
        server_version="18.6",
        pgdrag_version="0",
        seed=1,
        started_unix_s=0.0,
        finished_unix_s=None,
        status=status,  # type: ignore[arg-type]
        results=tuple(results),
        planned_trials=len(results),
    )


def three_of(treatment: str, committed: int) -> list[Result]:
    """Make three replicates in blocks 1 to 3 that differ by 2 % from block to block, as drift does."""
    return [
        result(treatment, round(committed * factor), block=block, number=block)
        for block, factor in ((1, 1.0), (2, 1.02), (3, 0.98))
    ]


def observation(
    name: str, value: float | None, unit: str = "1/s", *, resolution: float = 0.01
) -> Observation:
    return Observation(
        name=name,
        label=name.replace("_", " ").capitalize(),
        value=value,
        unit=unit,  # type: ignore[arg-type]
        resolution=resolution,
        missing="" if value is not None else "not on this server",
    )

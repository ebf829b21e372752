"""A few rounds of the campaign, always the same ones; `make campaign` plays as many as one likes."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "postgres"))

from faults import Fault, Length
from kinds import KINDS, Kind
from place import Place, place
from rounds import LENGTHS, Round, play

# With a result on disk, and others to come: as few as there can be.
ROUNDS = [
    (
        replace(KINDS["run"], words=lambda here: (*KINDS["run"].words(here), "--replicates", "1")),
        Fault("KILL", "pgdrag", 0.0, is_by_change=False, delay_s=0.0, results=1),
        ("resume",),
    ),
    *(
        (
            kind,
            Fault("KILL", "both", 0.0, is_by_change=False, delay_s=0.0, results=1),
            ("clean",),
        )
        for kind in KINDS.values()
        if kind.is_on_disk
    ),
]


@pytest.fixture(scope="module", params=[False, True], ids=["in memory", "on a disk"])
def here(request: pytest.FixtureRequest) -> Iterator[Place]:
    if request.param and os.geteuid() != 0:
        pytest.skip("only root may change the operating system")
    with place(on_disk=request.param) as made:
        yield made


@pytest.mark.parametrize(("kind", "fault", "after"), ROUNDS, ids=[x.name for x, *_ in ROUNDS])
def test_after_a_kill_nothing_is_lost_or_left(
    here: Place, kind: Kind, fault: Fault, after: tuple[str, ...]
) -> None:
    if kind.is_on_disk is (here.disk is None):
        pytest.skip("in the other place")
    # How long an undisturbed one takes is of no matter for these moments, but of tens of seconds here.
    LENGTHS.setdefault(kind.name, Length(6.0))
    one = Round(1, kind, fault, after)
    play(one, random.Random(1), here)
    assert one.found == [], "\n".join(one.found)
    assert not one.is_missed
    assert one.kept >= 1

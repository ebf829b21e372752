"""Every observation keeps its name, unit and label: experiment files, reports and journals refer to them."""

from __future__ import annotations

import os
from pathlib import Path

from pgdrag.collectors import all_observations

GOLDEN = Path(__file__).with_name("observations.txt")


def test_every_observation_keeps_its_name_unit_and_label() -> None:
    found = "".join(
        f"{collector}: {one.name} [{one.unit}{', machine' if one.is_of_machine else ''}] {one.label}\n"
        for collector, observations in all_observations().items()
        for one in observations
    )
    if os.environ.get("PGDRAG_UPDATE_GOLDENS"):
        GOLDEN.write_text(found, encoding="utf-8")
    assert found == GOLDEN.read_text(encoding="utf-8")

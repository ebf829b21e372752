"""What fuzzing begins with is read without an error, and what it found once stumbles no more; `make fuzz` makes up new cases."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "fuzz"))

from targets import TARGETS, Target

CORPUS = Path(__file__).parents[1] / "fuzz" / "corpus"
BROKEN = 30


@pytest.fixture(params=TARGETS.values(), ids=TARGETS.keys())
def target(request: pytest.FixtureRequest) -> Target:
    found: Target = request.param
    return found


def test_each_target_reads_what_it_begins_with(target: Target) -> None:
    seeds = list(target.seeds())
    assert seeds
    for content in seeds:
        assert len(content) <= target.longest or target.name in ("twin", "experiment")
        target.check(content)


def test_nothing_that_made_a_target_stumble_does_so_again(target: Target) -> None:
    for path in sorted((CORPUS / target.name).glob("*")):
        target.check(path.read_bytes())


def test_what_is_torn_or_changed_is_read_or_refused(target: Target) -> None:
    draw = random.Random(target.name)
    for content in _broken(list(target.seeds()), draw):
        target.check(content)


def _broken(seeds: list[bytes], draw: random.Random) -> Iterator[bytes]:
    for _ in range(BROKEN):
        content = bytearray(draw.choice(seeds))
        for _ in range(draw.randint(0, 4)):
            at = draw.randrange(len(content) + 1)
            content[at : at + draw.randint(0, 3)] = draw.choice((b"", b"\0", b'"', b"9" * 30, b"\xff\xfe", b"[", b"-"))  # fmt: skip
        yield bytes(content[: draw.randrange(len(content) + 1)] if draw.random() < 0.5 else content)

"""Feeds one target with what a fuzzer makes up, guided by which lines of pgdrag a case reaches.

python tests/fuzz/one_target.py TARGET CORPUS [OPTION OF LIBFUZZER …]
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from unittest.mock import patch

import atheris

ANY_BYTES = 0.2  # of the cases
TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS), str(TESTS / "pure"), str(TESTS.parent)]

with atheris.instrument_imports(include=["pgdrag"]):
    from targets import TARGETS


def main() -> None:
    """Run until libFuzzer has had enough."""
    _, name, *options = sys.argv
    target = TARGETS[name]

    def mutate(content: bytes, longest: int, seed: int) -> bytes:
        draw = random.Random(seed)
        # Now and then it is no JSON: readers meet that, too.
        if draw.random() >= ANY_BYTES and (changed := target.change(content, draw)) is not None:
            return changed if len(changed) <= longest else content
        return atheris.Mutate(content, longest)

    atheris.Setup([name, *options], target.check, custom_mutator=mutate)
    # Where a journal is says nothing of what it has, and takes a tenth of the time.
    everywhere = dict.fromkeys(("network_file_system", "who_may_swap"), lambda _: None)
    with patch.multiple("pgdrag.journal._file", **everywhere):
        atheris.Fuzz()


if __name__ == "__main__":
    main()

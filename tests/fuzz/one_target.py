"""Feeds one target with what a fuzzer makes up, guided by which lines of pgdrag a case reaches.

python tests/fuzz/one_target.py TARGET CORPUS [OPTION OF LIBFUZZER …]
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS), str(TESTS / "pure"), str(TESTS.parent)]

with atheris.instrument_imports(include=["pgdrag"]):
    from targets import TARGETS


def main() -> None:
    """Run until libFuzzer has had enough."""
    _, name, *options = sys.argv
    atheris.Setup([name, *options], TARGETS[name].check)
    atheris.Fuzz()


if __name__ == "__main__":
    main()

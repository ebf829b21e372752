"""Feeds one target with what a fuzzer makes up, guided by which lines of pgdrag a case reaches.

python tests/fuzz/one_target.py TARGET CORPUS [OPTION OF LIBFUZZER …]
"""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import patch

import atheris

TESTS = Path(__file__).parents[1]
sys.path += [str(TESTS), str(TESTS / "pure"), str(TESTS.parent)]

with atheris.instrument_imports(include=["pgdrag"]):
    from targets import TARGETS


def main() -> None:
    """Run until libFuzzer has had enough."""
    _, name, *options = sys.argv
    atheris.Setup([name, *options], TARGETS[name].check)
    # Where a journal is says nothing of what it has, and takes a tenth of the time.
    everywhere = dict.fromkeys(("network_file_system", "who_may_swap"), lambda _: None)
    with patch.multiple("pgdrag.journal._file", **everywhere):
        atheris.Fuzz()


if __name__ == "__main__":
    main()

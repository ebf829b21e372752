"""Extended statistics as the bytes that the server keeps."""

from __future__ import annotations

import struct

import pytest

from pgdrag.planning.extended_statistics import dependencies_bytes, distinct_bytes


def test_distinct_combinations_are_of_the_columns_here() -> None:
    packed = distinct_bytes('{"2, 5": 11}', {2: 1, 5: 3})
    assert struct.unpack("=IIIdi2h", packed) == (0xA352BFA4, 1, 1, 11.0, 2, 1, 3)


def test_dependencies_end_with_the_column_that_is_implied() -> None:
    packed = dependencies_bytes('{"1, 2 => 3": 0.5, "-1 => 2": 1.000000}', {1: 1, 2: 2, 3: 3})
    assert struct.unpack("=IIIdh3hdh2h", packed) == (0xB4549A2C, 1, 2, 0.5, 3, 1, 2, 3, 1.0, 2, -1, 2)  # fmt: skip


def test_a_column_that_is_not_here_is_no_statistics() -> None:
    with pytest.raises(KeyError):
        distinct_bytes('{"1, 9": 3}', {1: 1})

"""A server that does not start says why in its last line, or is said to have said nothing."""

from __future__ import annotations

import pytest

from pgdrag.servers.cluster import ending_words


@pytest.mark.parametrize(
    ("status", "said", "words"),
    [
        (1, "", "the postmaster ended with status 1 without a word"),
        (-9, " \n", "the postmaster was killed by signal 9 without a word"),
        (
            127,
            "first\npostgres: libssl.so.3: cannot open shared object file\n",
            "the postmaster ended with status 127: postgres: libssl.so.3: cannot open shared object file",
        ),
    ],
)
def test_only_who_said_nothing_ended_without_a_word(status: int, said: str, words: str) -> None:
    assert ending_words(status, said) == words

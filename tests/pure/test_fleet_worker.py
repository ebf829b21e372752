"""A fleet's worker that no agent has started says what it is."""

import io

import pytest

from pgdrag.errors import UsageError
from pgdrag.fleet.worker import work


@pytest.mark.parametrize("line", [b"", b"hello\n", b'{"kind": "nothing"}\n'])
def test_a_worker_without_an_order_says_so(line: bytes) -> None:
    with pytest.raises(UsageError, match="has no order of a fleet"):
        work(lambda _: pytest.fail("it has opened something"), io.BytesIO(line), io.BytesIO())

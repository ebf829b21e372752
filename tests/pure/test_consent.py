"""What may hurt a server is not done to it before somebody has agreed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pgdrag.cli.server_argument import require_consent
from pgdrag.cli.tpcc import _lack_of_room
from pgdrag.driver.connection_string import Server
from pgdrag.driver.process import Target
from pgdrag.errors import UsageError
from pgdrag.workloads.tpcc import Tpcc

TARGET = Target("/run/postgresql", 5432, "me", "shop")
QUIET = Server(TARGET, "18.6", is_local=True, is_encrypted=False, other_sessions=0, _conninfo="")
USED = Server(TARGET, "18.6", is_local=True, is_encrypted=False, other_sessions=2, _conninfo="")
PURPOSE = "hold its horizon for 10 min"
RISK = "while its horizon is held, vacuum removes nothing in the database"


@pytest.fixture(autouse=True)
def nobody_at_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)


def test_a_server_that_nobody_uses_is_written_to_without_a_question() -> None:
    require_consent(QUIET, "run the load there", is_given=False)


def test_what_is_a_risk_to_any_server_is_asked_for_on_any_server() -> None:
    """`horizon hold` on a quiet server of this machine asked nobody."""
    with pytest.raises(UsageError) as found:
        require_consent(QUIET, PURPOSE, is_given=False, risk=RISK)
    assert found.value.message == RISK
    assert found.value.hint == "Give --yes to hold its horizon for 10 min anyway."
    require_consent(QUIET, PURPOSE, is_given=True, risk=RISK)


def test_others_who_use_it_are_named_before_the_risk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Server, "looked_at_again", lambda server: server)
    with pytest.raises(UsageError) as found:
        require_consent(USED, PURPOSE, is_given=False, risk=RISK)
    assert "others seem to use" in found.value.message
    assert found.value.detail == f"W{RISK[1:]}."


def test_a_session_whose_client_has_just_ended_is_nobodys_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The command before had ended, and its session on the server had not."""
    looks = iter([replace(USED, other_sessions=1), QUIET])
    monkeypatch.setattr(Server, "looked_at_again", lambda server: next(looks))
    require_consent(USED, "run the load there", is_given=False)


@pytest.mark.parametrize(
    ("warehouses", "free_bytes", "words"),
    [
        (10, 50 * 10**9, ""),
        (10, 10**9, "10 warehouses take about 1.08 GB, and "),
        (10, None, ""),
        (100_000, 50 * 10**9, "has room for 46.6 GB"),
        (100_000, None, "how much room there is on"),
    ],
)
def test_tables_that_may_not_fit_are_a_risk(
    warehouses: int, free_bytes: int | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pgdrag.bench.free_bytes", lambda server: free_bytes)
    risk = _lack_of_room(QUIET, Tpcc(warehouses=warehouses))
    assert words in risk
    assert bool(words) == bool(risk)

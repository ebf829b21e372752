"""pgbench's options mean what they mean to pgbench, and those that do not go together are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pgdrag.cli import app
from pgdrag.cli.bench_options import LoadOptions, ScriptOptions, TableOptions, ramp_of
from pgdrag.cli.options import LARGEST_SEED
from pgdrag.errors import PgdragError, UsageError
from pgdrag.model.load import LoadProfile, Open, Step


def load(*, transactions: int | None = None, **given: Any) -> LoadProfile:
    return LoadOptions(**given).profile(transactions=transactions)


pytestmark = pytest.mark.usefixtures("no_libpq_environment")


def refusal(*arguments: str) -> PgdragError:
    with pytest.raises(PgdragError) as found:
        CliRunner().invoke(app, list(arguments), standalone_mode=False, catch_exceptions=False)
    return found.value


def test_without_options_one_client_asks_as_fast_as_it_can() -> None:
    expected = LoadProfile(
        connections=1, warm_up_s=5, measure_s=20, budget_s=20, min_commits=0, threads=None
    )
    assert load() == expected


def test_a_rate_is_an_open_loop_of_independent_arrivals() -> None:
    assert load(rate=100.0).pacing == Open(100.0, "poisson")
    assert load(rate=100.0, arrivals="uniform").pacing == Open(100.0, "uniform")


def test_a_latency_limit_is_in_milliseconds() -> None:
    assert load(latency_limit=1.5).latency_limit_us == 1500


def test_there_are_never_more_threads_than_clients() -> None:
    assert load(client=2, jobs=8).threads == 2


def test_a_ramp_says_how_many_clients_and_how_long() -> None:
    found = load(sessions="5..7/60s", rate=10.0)
    steps = (Step(0, 5, 10.0), Step(60, 6, 10.0), Step(120, 7, 10.0))
    assert found.steps == steps
    assert (found.connections, found.measure_s) == (7, 180)


@pytest.mark.parametrize(
    ("text", "sessions", "step_s"),
    [
        ("5..5/1min", [5], 60),
        ("10..35+10/30s", [10, 20, 30, 35], 30),
        ("3 .. 1 / 500ms", [3, 2, 1], 0.5),
        ("1..4/90", [1, 2, 3, 4], 90),
    ],
)
def test_a_ramp_goes_from_one_number_to_the_other(
    text: str, sessions: list[int], step_s: float
) -> None:
    steps, length_s = ramp_of(text)
    assert [step.sessions for step in steps] == sessions
    assert length_s == step_s
    assert [step.at_s for step in steps] == [n * step_s for n in range(len(sessions))]


@pytest.mark.parametrize(
    "text", ["5", "5..22", "5-22/60s", "0..5/1s", "1..20000/1s", "1..5000/1s", "5..9+0/1s", "5..9/0s", "5..9/1y"]
)  # fmt: skip
def test_a_malformed_ramp_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as found:
        ramp_of(text)
    assert found.value.hint


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"arrivals": "uniform"}, "requires --rate"),
        ({"transactions": 5, "time": 1.0}, "--transactions cannot be combined"),
        ({"transactions": 5, "sessions": "1..2/1s"}, "--transactions cannot be combined"),
        ({"sessions": "5..9/1s", "client": 4}, "--sessions cannot be combined"),
        ({"sessions": "5..9/1s", "time": 4.0}, "--sessions cannot be combined"),
    ],
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load(**given)


def test_scripts_come_from_names_and_files(tmp_path: Path) -> None:
    file = tmp_path / "mine.sql"
    file.write_text("SELECT 1;\n")
    given = {"file": [f"{file}@7"], "builtin": ["tpcb@2"]}
    found = ScriptOptions(**given, select_only=True, skip_some_updates=True).scripts()
    assert [(x.name, x.weight) for x in found] == [
        ("tpcb-like", 2),
        ("select-only", 1),
        ("simple-update", 1),
        ("mine.sql", 7),
    ]
    (default,) = ScriptOptions().scripts()
    assert default.name == "tpcb-like"


def test_a_variable_may_hold_anything() -> None:
    found = ScriptOptions(define=["n=1", "text=a=b", "n=2", "empty="]).variables()
    assert found == {"n": "2", "text": "a=b", "empty": ""}
    for wrong in ("n", "=1", "a b=1"):
        with pytest.raises(UsageError, match="does not define a variable"):
            ScriptOptions(define=[wrong]).variables()


def test_steps_of_initialization_are_pgbenchs() -> None:
    assert TableOptions("d t g v p").tables(has_vacuum=True).steps == "dtgvp"
    assert TableOptions().tables(has_vacuum=False).steps == "dtgp"
    for wrong in ("dtx", ""):
        with pytest.raises(UsageError, match="not an initialization step"):
            TableOptions(wrong).tables(has_vacuum=True)


def test_a_seed_is_a_number_or_drawn() -> None:
    assert LoadOptions(random_seed="42").seed() == 42
    assert LoadOptions(random_seed="time").seed() != LoadOptions(random_seed="rand").seed()
    assert 0 <= LoadOptions().seed() < LARGEST_SEED
    for wrong in ("-1", "x", str(2**63)):
        with pytest.raises(UsageError, match="is not a seed"):
            LoadOptions(random_seed=wrong).seed()


def test_a_run_without_a_server_offers_one_of_its_own() -> None:
    found = refusal("bench")
    assert "no server was named" in found.message
    assert "--throw-away" in (found.hint or "")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["-i", "-c", "4", "db"], "--client"),
        (["-i", "--json", "db"], "--json"),
        (["-F", "90", "db"], "--fillfactor"),
        (["--throw-away", "--tablespace", "fast"], "--tablespace"),
        (["--throw-away", "db"], "a server's name"),
        (["--postgres", "15", "db"], "--postgres"),
    ],
)
def test_an_option_of_another_mode_is_named(arguments: list[str], option: str) -> None:
    found = refusal("bench", *arguments)
    assert "does not apply to" in found.message
    assert option.lower() in found.message.lower()


def test_the_database_is_named_once() -> None:
    assert "named twice" in refusal("bench", "db", "-d", "other").message


def test_an_unknown_builtin_is_refused_before_connecting() -> None:
    found = refusal("bench", "-b", "slect-only", "host=/nowhere")
    assert 'Did you mean "select-only"?' in (found.hint or "")


def test_builtins_are_listed() -> None:
    found = CliRunner().invoke(app, ["bench", "-b", "list"])
    assert found.exit_code == 0
    assert "select-only" in found.stdout

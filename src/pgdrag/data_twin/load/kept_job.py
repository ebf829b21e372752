"""What does the driver get of a load that is prepared? The job, kept in the database: scripts, and which pools they draw from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from string import ascii_lowercase
from typing import TYPE_CHECKING, Any

import psycopg

from pgdrag.data_twin import clock
from pgdrag.data_twin.load.constants import OWNER, drawn_variables, home_query, homes
from pgdrag.data_twin.load.dead_ends import without_dead_ends
from pgdrag.data_twin.load.job import NOTHING, job, job_of
from pgdrag.data_twin.load.kinds import TransactionType
from pgdrag.data_twin.load.leading import with_leading_steps
from pgdrag.data_twin.load.links import columns_by_parameter
from pgdrag.data_twin.load.mix import Mix
from pgdrag.data_twin.load.outcomes import Outcomes, with_outcome
from pgdrag.data_twin.load.owned import homes_of_owned, owned_rows, with_owned
from pgdrag.data_twin.load.scripts import WHOLE_NUMBERS, Sendable, counters_of, script_of
from pgdrag.data_twin.load.statements import Analysed
from pgdrag.errors import DriverError
from pgdrag.twins.model import Twin

if TYPE_CHECKING:
    from pgdrag.driver.process import Target


def keep_job(
    connection: psycopg.Connection[Any],
    twin: Twin,
    mix: Mix,
    known: Mapping[int, Analysed],
    sendable: Mapping[int, Sendable],
    *,
    keeps_plans: bool,
    outcomes: Outcomes,
) -> None:
    """Keep the job in the database.

    Args:
        mix: transactions with all of their links.
        known: the statements that are sent; `sendable`: with their pools.
        keeps_plans: statements are prepared once in a session.
        outcomes: of statements whose pools are parted.
    """
    scripts: list[dict[str, object]] = []
    used: dict[str, object] = {}
    with_pools = (n for n, x in sendable.items() if x.pool)
    kept = homes(mix.types, with_pools, columns_by_parameter(known, twin))
    owned = [x for x in owned_rows(known, twin) if sendable[x.statement].pool]
    kept = homes_of_owned(owned, kept, known, twin)
    for x in kept.values():
        names = drawn_variables(kept, x.pool)
        pool = f"pgdrag_twin.pool_{sendable[x.statement].pool}"
        used[x.pool] = {
            "query": home_query(pool, names, is_own=x.is_own),
            "variables": [*names, OWNER] if x.is_own else names,
            "order": "random" if x.is_own else "in_turn",
        }
    for place, kind in enumerate(mix.types):
        told = {
            n: with_outcome(sendable[n], finds=x[place]) for n, x in outcomes.items() if place in x
        }
        sent = {**sendable, **told}
        kind_linked = without_dead_ends(connection, kind, known, sent)
        kind_linked = with_leading_steps(with_owned(kind_linked, owned, known), sent)
        starts = _starts(connection, kind_linked, sent)
        script = script_of(kind_linked, sent, starts, kept)
        weight = max(round(kind.weight), 1) if script.text != NOTHING else 0
        draws = [{name: x for name, x in asdict(draw).items() if x} for draw in script.draws]
        scripts.append({"name": kind.name, "text": script.text, "weight": weight, "draws": draws})
        for pool in {x.pool for x in script.draws} - used.keys():
            one = known[int(pool[1:].rstrip(ascii_lowercase))]  # s7, s7e, s7found
            names = [f"p{n}" for n in one.parameters]
            used[pool] = {
                "query": f"SELECT {', '.join(names)} FROM pgdrag_twin.pool_{pool} ORDER BY n",
                "variables": names,
                "order": "in_turn" if sent[one.number].is_in_turn else "random",
            }
    is_any = any(x["weight"] for x in scripts)
    whole = job_of(scripts, used, keeps_plans=keeps_plans) if is_any else job(twin)
    connection.execute("INSERT INTO pgdrag_twin.job VALUES (%s::jsonb)", (json.dumps(whole),))


def _starts(
    connection: psycopg.Connection[Any], kind: TransactionType, sendable: Mapping[int, Sendable]
) -> dict[tuple[int, int], int]:
    """Return where counters of a transaction's loops begin: at an end of the values, where these are hardly more than the rounds."""
    found = {}
    for (step, parameter), difference, rounds in counters_of(kind):
        one = sendable.get(kind.steps[step].statement)
        if one is None or not one.pool or one.types[parameter - 1] not in WHOLE_NUMBERS:
            continue
        query = f"SELECT min(p{parameter}::int8), max(p{parameter}::int8) FROM pgdrag_twin.pool_{one.pool} WHERE p{parameter}::int8 >= 0"  # fmt: skip
        row = connection.execute(query.encode()).fetchone()
        if row and row[0] is not None and row[1] - row[0] < 2 * rounds * abs(difference):
            found[step, parameter] = row[0] if difference > 0 else row[1]
    return found


def begin_load(target: Target, moment: str) -> dict[str, object]:
    """Return the job that a database keeps, and let its clock go on from a moment.

    Raises:
        DriverError: it has none, or cannot be reached.
    """
    try:
        with psycopg.connect(
            host=target.host, port=target.port, user=target.user, dbname=target.database,
            password=target.password, application_name="pgdrag twin", autocommit=True,
        ) as connection:  # fmt: skip
            row = connection.execute("SELECT job FROM pgdrag_twin.job").fetchone()
            clock.start_clock(connection, moment)
    except psycopg.Error as error:
        raise DriverError(f"could not read the twin's load: {error.diag.message_primary or str(error).strip()}") from error  # fmt: skip
    if row is None:
        raise DriverError("this database has no load of a twin")
    found: dict[str, object] = row[0]
    return found

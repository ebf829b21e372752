"""What is the driver told of a twin's load?"""

from __future__ import annotations

from pgdrag.data_twin.load.mix import Mix, mix_of
from pgdrag.twins.model import Twin

IDLE = "nothing"  # the transaction of a twin without statements
NOTHING = "\\set nothing 0\n"  # what a transaction does of which no statement can be sent

_mixes: dict[int, tuple[Twin, Mix]] = {}


def transactions(twin: Twin) -> tuple[str, ...]:
    """Return the types of transactions that the driver counts, in its order."""
    return tuple(x.name for x in known_mix(twin).types) or (IDLE,)


def job(twin: Twin) -> dict[str, object]:
    """Return the `workload` object of the driver's job, as far as the twin alone tells it: what it sends is not in it."""
    scripts: list[dict[str, object]] = [
        {"name": x, "text": NOTHING, "weight": 1} for x in transactions(twin)
    ]
    return job_of(scripts, {}, keeps_plans=keeps_plans(twin) is not False)


def keeps_plans(twin: Twin) -> bool | None:
    """Return whether the original's sessions prepared statements, so that plans were kept; None: nothing tells."""
    logged = twin.transactions
    if logged is not None and logged.prepared_share is not None:
        return logged.prepared_share > 0.5
    sent = [x for x in twin.workload.statements if x.is_toplevel and x.is_plannable]
    # Where the server counts plans, a statement that is planned for each call was not prepared.
    plans, calls = sum(x.plans for x in sent), sum(x.calls for x in sent)
    return plans <= calls / 2 if plans else None


def job_of(
    scripts: list[dict[str, object]], pools: dict[str, object], *, keeps_plans: bool
) -> dict[str, object]:
    """Return the `workload` object of the driver's job for these scripts.

    Args:
        keeps_plans: statements are prepared once in a session.
    """
    return {
        "kind": "pgbench",
        "scripts": scripts,
        "pools": pools,
        "even_mix": True,
        "scale": 1,
        "statements": "prepared" if keeps_plans else "extended",
        "variables": {"fresh": "-1", "clients": "1"},
        "max_tries": 1,
        "allow_shell": False,
        "time_statements": False,
        "tables": None,
    }


def known_mix(twin: Twin) -> Mix:
    """Return the mix; it is asked for often, and takes parsing."""
    known = _mixes.get(id(twin))
    if known is None or known[0] is not twin:
        _mixes.clear()
        _mixes[id(twin)] = known = twin, mix_of(twin)
    return known[1]

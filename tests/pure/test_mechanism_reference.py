"""The reference of mechanisms says what the catalogue says."""

from __future__ import annotations

import os
from pathlib import Path

from pgdrag.findings.mechanisms.catalogue import CATALOGUE, Claim, Mechanism, Sign
from pgdrag.findings.mechanisms.ledger import COMPONENTS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "mechanisms.md"
HEAD = """# Mechanisms

These are the mechanisms of slowdown that pgdrag can name; `pgdrag list --mechanisms` prints the same list. For how they are tested, see
[the method](../method.md#mechanisms). The tests generate this page from the catalogue (`src/pgdrag/findings/mechanisms/catalogue.py`): set
`PGDRAG_UPDATE_GOLDENS=1` to write it anew.

A mechanism is named if all of its signs moved significantly, ▲ up or ▼ down, and those with bounds are within them on the slower side. It accounts for the time that its claims added: a component of sessions' time,
as a whole or by one factor. A claim marked *(2)* counts only if no mechanism with a lower number has moved.

| mechanism | what happens | signs | accounts for |
|---|---|---|---|
"""


def reference() -> str:
    return HEAD + "".join(_row(one) for one in CATALOGUE)


def _row(one: Mechanism) -> str:
    signs = ", ".join(_sign(sign) for sign in one.signs)
    claims = "; ".join(_claim(claim) for claim in one.claims)
    return f"| **{one.name}** | {one.summary} | {signs} | {claims} |\n"


def _sign(sign: Sign) -> str:
    wanted = sign.wanted.replace("up", "▲", 1).replace("down", "▼", 1)
    arrow, _, bounds = wanted.partition(" ") if wanted[0] in "▲▼" else ("", "", wanted)
    return " ".join(word for word in (arrow, f"`{sign.observation}`", bounds) if word)


def _claim(claim: Claim) -> str:
    component = next(one for one in COMPONENTS if one.name == claim.component)
    each = "by the wait for each" if component.counts else ""
    by = f"by `{claim.factor}`" if claim.factor else each
    given = f"if {_sign(claim.given)}" if claim.given is not None else ""
    rank = f"*({claim.rank + 1})*" if claim.rank else ""
    return " ".join(word for word in (component.place, by, given, rank) if word)


def test_the_reference_is_the_catalogue() -> None:
    if os.environ.get("PGDRAG_UPDATE_GOLDENS"):
        PAGE.write_text(reference(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == reference()
